"""Adapters over environments: true transitions, seeds, actions, and refused environments."""

import dataclasses
import functools

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from purerl import rng
from purerl.algos import td3
from purerl.errors import EnvFault
from purerl.loops import acting, adapters
from purerl.loops import gym as loop
from purerl.loops.adapters import InfoRequest
from purerl.spaces import Discrete, EnvSpec
from tests.loops import script
from tests.loops.script import SMALL, WAYS, finish, read_buffer, start


@pytest.mark.parametrize(("number", "made"), WAYS.values(), ids=WAYS)
def test_every_way_of_resetting_gives_the_same_true_transitions(number, made):
    env_fn, envs = made
    envs.clear()
    carry, records = finish(start(env_fn, num_envs=number))
    rows = read_buffer(carry)
    assert sum(map(len, rows.values())) == 60 == carry.steps == records[-1]["steps"]
    assert sorted(rows) == list(range(number))
    for who, found in rows.items():
        assert found == script.expect_rows(who, len(found))
        assert abs(len(found) - 60 / number) <= 8  # NEXT_STEP environments wait while they reset


@pytest.mark.parametrize("mode", AutoresetMode)
def test_a_vector_environment_may_reuse_its_arrays(mode):
    class Narrow(script.Script):
        """Its observations need no conversion, which would copy them."""

        def __init__(self, who):
            super().__init__(who)
            self.observation_space = gymnasium.spaces.Box(-1e6, 1e6, (3,), np.float32)
            self.state, self.careless = np.zeros(3, np.float32), False

    def env_fn():
        makers = [functools.partial(Narrow, who) for who in range(3)]
        return gymnasium.vector.SyncVectorEnv(makers, copy=False, autoreset_mode=mode)

    spec = td3.Spec(EnvSpec((3,), EnvSpec.of(script.Script()).action), **SMALL)
    carry, _ = finish(start(env_fn, spec=spec, num_envs=3))
    for who, found in read_buffer(carry).items():
        assert found == script.expect_rows(who, len(found))


def test_max_ep_len_truncates_and_keeps_a_termination_at_the_same_step():
    env_fn, _ = script.make_singles(1, lengths=(3,))  # episodes end: terminated, truncated, both
    carry, _ = finish(start(env_fn, max_ep_len=3))
    ends = [row[3:] for row in read_buffer(carry)[0] if any(row[3:])]
    assert ends[:3] == [(True, True), (False, True), (True, True)]
    env_fn, _ = script.make_singles(1, lengths=(100,))
    carry, records = finish(start(env_fn, max_ep_len=7))
    assert set(records[0]["ep_lengths"]) == {7}
    assert {row[3:] for row in read_buffer(carry)[0]} == {(False, False), (False, True)}


def test_every_episode_is_seeded_from_its_own_stream():
    env_fn, envs = script.make_singles(2)
    finish(start(env_fn, seed=7, num_envs=2))
    assert envs[0].seeds == [rng.host_seed(7, 0, "env", 0, n) for n in range(len(envs[0].seeds))]
    assert envs[1].seeds == [rng.host_seed(7, 0, "env", 1, n) for n in range(len(envs[1].seeds))]
    assert len(set(envs[0].seeds + envs[1].seeds)) == len(envs[0].seeds + envs[1].seeds)


def test_the_carry_has_the_actions_of_the_episode_in_progress():
    env_fn, envs = script.make_singles(1, lengths=(1000,))
    carry, _ = finish(start(env_fn, steps=20))
    np.testing.assert_array_equal(carry.envs.list_episodes()[1][0], envs[0].actions)
    assert carry.envs.episode == [0]
    assert carry.envs.exact_resume
    assert not start(WAYS["disabled"][1][0], num_envs=3).envs.exact_resume


def test_marks_restore_the_episode_in_progress():
    env_fn, _ = script.make_singles(1, lengths=(3,))
    envs = adapters.make_envs(env_fn, None, lambda i, n: n)
    act, obs = np.float32([[0.5, 0.5]]), envs.reset()
    for _ in range(2):
        obs = envs.step(obs, act).obs
    marks, before = envs.mark_episodes(), envs.list_episodes()
    for _ in range(5):  # the episode ends, and two more begin
        obs = envs.step(obs, act).obs
    assert envs.list_episodes()[0] == [2]
    envs.rewind(marks)
    assert before[0] == envs.list_episodes()[0] == [0]
    np.testing.assert_array_equal(envs.list_episodes()[1], before[1])
    assert before[1][0].shape == (2, 2)


def test_new_episodes_of_a_vector_environment_begin_with_a_row():
    """A reset on demand leaves nothing to the reset of the next step."""
    env_fn, envs = script.make_vector(2, AutoresetMode.NEXT_STEP, lengths=(1,))
    adapter = adapters.make_envs(env_fn, None, lambda i, n: 0)
    act, obs = np.full((2, 2), 0.5, np.float32), adapter.reset()
    assert adapter.step(obs, act).ended == [0, 1]
    nothing = np.zeros(2)
    obs, lost = adapter.replay_episodes(adapters.Episodes([], [], obs, nothing, nothing))
    assert lost == [0, 1]
    assert adapter.step(obs, act).valid is None
    assert [len(env.actions) for env in envs] == [2, 2]


def test_recorded_actions_are_not_changed_by_the_environment():
    class Greedy(script.Script):
        def step(self, action):
            out = super().step(action)
            action *= 0
            return out

    made = []
    carry, _ = finish(start(lambda: made.append(Greedy(lengths=(99,))) or made[-1], steps=20))
    np.testing.assert_array_equal(carry.envs.list_episodes()[1][0], made[0].actions)
    assert np.abs(carry.envs.list_episodes()[1][0]).max() > 0


def test_the_environment_gets_a_clipped_copy_in_its_own_dtype():
    class Fine(script.Script):
        def __init__(self):
            super().__init__()
            self.action_space = gymnasium.spaces.Box(-0.3, 0.3, (2,), np.float64)

    made = []
    spec = td3.Spec(EnvSpec.of(Fine()), act_noise=5.0, **SMALL)
    carry = start(lambda: made.append(Fine()) or made[-1], spec=spec, start_steps=0)
    carry, _ = finish(carry)  # the script asserts that its space contains each action
    assert made[0].actions[0].dtype == np.float64
    assert carry.buffer.data.act.dtype == np.float32
    assert np.abs(made[0].actions).max() == pytest.approx(0.3, abs=1e-6)


def test_discrete_actions_are_integers_of_the_space():
    class Buttons(script.Script):
        def __init__(self):
            super().__init__()
            self.action_space = gymnasium.spaces.Discrete(3, start=5)

    spec = EnvSpec.of(Buttons())
    assert spec.action == Discrete(3, 5)
    act = np.asarray(acting.draw_random_actions(spec, 300, np.zeros(4, np.uint32)))
    assert sorted(set(act.tolist())) == [5, 6, 7]
    envs = adapters.make_envs(Buttons, None, lambda i, n: 0)
    obs = envs.reset()
    step = envs.step(obs, act[:1])  # the script asserts that its space contains the action
    assert step.rows.act.dtype == np.int32
    many = gymnasium.vector.SyncVectorEnv([Buttons] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    envs = adapters.make_envs(lambda: many, 2, lambda i, n: 0)
    envs.step(envs.reset(), act[:2])


def test_actions_with_several_parts_are_arrays_of_the_space():
    class Switches(script.Script):
        def __init__(self):
            super().__init__()
            self.action_space = gymnasium.spaces.MultiDiscrete([2, 3], start=[5, -1])

    spec = EnvSpec.of(Switches())
    act = np.asarray(acting.draw_random_actions(spec, 300, np.zeros(4, np.uint32)))
    assert sorted(set(map(tuple, act.tolist()))) == [(a, b) for a in (5, 6) for b in (-1, 0, 1)]
    made = Switches()
    envs = adapters.make_envs(lambda: made, None, lambda i, n: 0)
    step = envs.step(envs.reset(), act[:1])  # the script asserts that its space contains the action
    assert (step.rows.act.dtype, step.rows.act.shape) == (np.int32, (1, 2))
    assert made.actions[0].dtype == made.action_space.dtype
    taken = envs.list_episodes()[1]
    assert taken[0].shape == (1, 2)
    made.episode = -1
    saved = adapters.Episodes([0], taken, step.obs, np.array([1.0]), np.array([1]))
    assert envs.replay_episodes(saved)[1] == []
    many = gymnasium.vector.SyncVectorEnv([Switches] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    envs = adapters.make_envs(lambda: many, 2, lambda i, n: 0)
    envs.step(envs.reset(), act[:2])


INFO = {"time": np.float32(0), "where": np.zeros(2, np.int16)}


class Told(script.Script):
    """The script with values in `info`."""

    def __init__(self, who):
        super().__init__(who)
        self.careless = False

    def step(self, action):
        *step, info = super().step(action)
        where = np.array([self.who, self.time], np.int16)
        return *step, info | {"time": float(self.time), "where": where, "name": "told"}


def make_told(number, mode):
    """Return an `env_fn` for single environments, or for one vector environment of a mode."""
    who = iter(range(10**6))
    if mode is None:
        return lambda: Told(next(who) % number)
    envs = [lambda i=i: Told(i) for i in range(number)]
    return lambda: gymnasium.vector.SyncVectorEnv(envs, autoreset_mode=mode)


@pytest.mark.parametrize("mode", [None, *AutoresetMode])
def test_values_of_info_are_stored_and_logged_in_every_way_of_resetting(mode):
    wanted = InfoRequest(("time",), INFO)
    envs = adapters.make_envs(make_told(3, mode), 3, lambda i, n: 0, wanted=wanted)
    obs, lengths = envs.reset(), [0, 0, 0]
    for _ in range(12):
        step = envs.step(obs, np.zeros((3, 2), np.float32))
        valid = np.ones(3, bool) if step.valid is None else step.valid
        extra = step.rows.extra
        assert {name: x.dtype for name, x in extra.items()} == {"time": "f4", "where": "i2"}
        assert extra["time"][valid].tolist() == step.rows.next_obs[valid, 2].tolist()
        assert extra["where"][valid].tolist() == step.rows.next_obs[valid][:, [0, 2]].tolist()
        lengths = [n + int(one) for n, one in zip(lengths, valid, strict=True)]
        assert step.logged == [(float(lengths[i]),) for i in step.ended]
        lengths = [0 if i in step.ended else n for i, n in enumerate(lengths)]
        obs = step.obs
    envs.close()


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            InfoRequest(store={"x": np.zeros(1)}),
            r"\['x'\] at every step, .* got time, where",
        ),
        (
            InfoRequest(store={"where": np.zeros(3)}),
            r"float64 of shape \(3,\), got int16 of",
        ),
        (InfoRequest(store={"time": np.int32(0)}), "int32 of shape .*, got float64"),
        (
            InfoRequest(log=("x",)),
            "at the end of an episode, because log_info names it, got t",
        ),
        (InfoRequest(log=("name",)), r"info\['name'\] as a number, .* got 'told'"),
        (InfoRequest(log=("where",)), r"info\['where'\] as a number"),
    ],
)
@pytest.mark.parametrize("mode", [None, AutoresetMode.SAME_STEP])
def test_missing_and_wrong_values_of_info_are_refused(mode, wanted, message):
    envs = adapters.make_envs(make_told(1, mode), 1, lambda i, n: 0, wanted=wanted)
    obs = envs.reset()
    for _ in range(2):
        if not wanted.store:  # the first episode has three steps
            obs = envs.step(obs, np.zeros((1, 2), np.float32)).obs
    with pytest.raises(EnvFault, match=f"^environment 0 must return .*{message}"):
        envs.step(obs, np.zeros((1, 2), np.float32))


def test_vector_environments_must_name_their_autoreset_mode():
    env = script.make_vector(3, AutoresetMode.DISABLED)[0]()
    env.metadata = {}
    with pytest.raises(ValueError, match=r"must have a .*AutoresetMode.*got None"):
        start(lambda: env, num_envs=3)
    env = script.make_vector(3, AutoresetMode.SAME_STEP)[0]()
    step = env.step
    env.step = lambda actions: (*step(actions)[:4], {})
    with pytest.raises(EnvFault, match=r"^environment \d ended .* without info\['final_obs'\]"):
        finish(start(lambda: env, num_envs=3))


def give_final_obs(*values):
    """Return a change of a step that replaces the final observations of ended episodes."""
    return lambda step: (*step[:4], step[4] | {"final_obs": list(values)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda step: step[:4], "a tuple of obs, rewards, .* from step, got 4 values"),
        (list, "a tuple of obs, rewards, .* from step, got <class 'list'>"),
        (lambda step: (*step[:4], None), "info as a dict from step, got <class 'NoneType'>"),
        (lambda step: (*step[:4], [{}] * 3), "info as a dict from step, got <class 'list'>"),
        (lambda step: (step[0], ["1", "2", "3"], *step[2:]), "rewards of shape .3,. with numbers"),
        (lambda step: (step[0], step[1] + 1j, *step[2:]), "rewards of shape .3,. with numbers"),
        (lambda step: (step[0], step[1][:2], *step[2:]), "rewards of shape .3,. with numbers"),
        (lambda step: (*step[:2], step[2] * 1.0, *step[3:]), "terminated of .* True or False"),
        (lambda step: (*step[:3], None, step[4]), "truncated of shape .* True or False, got None"),
        (give_final_obs(), r"without info\['final_obs'\]"),
        (give_final_obs(*[np.zeros(2)] * 3), r"an observation of shape \(3,\), got shape \(2,\)"),
        (give_final_obs(*[np.array(["a"] * 3)] * 3), "fit dtype float32 .* got <U1"),
    ],
)
def test_vector_environments_that_break_their_contract_are_refused(change, message):
    env = script.make_vector(3, AutoresetMode.SAME_STEP)[0]()
    step = env.step
    env.step = lambda actions: change(step(actions))
    with pytest.raises(EnvFault, match=message):
        finish(start(lambda: env, num_envs=3))


@dataclasses.dataclass
class Comparable(script.Script):
    """An environment whose instances are equal and have no hash."""

    who: int = 0

    def __post_init__(self):
        super().__init__(self.who)


class Slotted:
    """An environment without weak references; it is no `gymnasium.Env`."""

    __slots__ = ("inner",)

    def __init__(self):
        self.inner = script.Script()

    def __getattr__(self, name):
        return getattr(self.inner, name)


@pytest.mark.parametrize("env_fn", [Comparable, Slotted])
def test_environments_need_no_hash_and_no_weak_references(env_fn):
    carry, _ = finish(start(env_fn, num_envs=2, num_test_episodes=1))
    assert carry.steps == 60
    carry.envs.close()


def test_a_vector_environment_must_match_the_schedule():
    with pytest.raises(ValueError, match=r"^num_envs is 2 but env_fn returns .* of 3\. Set"):
        start(WAYS["disabled"][1][0], num_envs=2)
    with pytest.raises(ValueError, match="^max_ep_len=9 cannot be imposed on a vector environment"):
        start(WAYS["disabled"][1][0], num_envs=3, max_ep_len=9)


def test_an_environment_in_use_is_refused():
    env = script.Script()
    with pytest.raises(ValueError, match="^env_fn must make a new environment at each call"):
        start(lambda: env, num_envs=2)
    other = script.Script()
    carry = start(lambda: other)
    params = carry.learner.params
    with pytest.raises(ValueError, match="^env_fn must make a new environment at each call"):
        loop.evaluate(td3, params, lambda: other, 0, 1, 1)
    carry.envs.close()
    assert loop.evaluate(td3, params, lambda: other, 0, 1, 1)["test_lengths"]


def test_env_fn_must_be_a_function_that_makes_equal_environments():
    with pytest.raises(ValueError, match="^env_fn must be a function that makes an environment"):
        start(script.Script())
    with pytest.raises(ValueError, match="^env_fn must return a Gymnasium environment, got None"):
        start(lambda: None)

    class Wide(script.Script):
        def __init__(self):
            super().__init__()
            self.action_space = gymnasium.spaces.Box(-9, 9, (2,))

    kinds = iter([script.Script, Wide])
    with pytest.raises(ValueError, match="^env_fn must make environments with equal spaces"):
        start(lambda: next(kinds)(), num_envs=2)
    params = td3.init(jax.random.key(0), td3.Spec(EnvSpec.of(script.Script()), **SMALL)).params
    with pytest.raises(ValueError, match=r"^spec\.env must equal the spaces of"):
        loop.evaluate(td3, params, Wide, 0, 1, 1)


def test_environments_of_a_refused_start_may_be_used_again():
    for env_fn, message in (
        (WAYS["disabled"][1][0], "num_envs is 2 but env_fn returns a vector"),
        (script.make_singles(1)[0], "env_fn must make a new environment"),
    ):
        env = env_fn()
        with pytest.raises(ValueError, match=message):
            start(lambda env=env: env, num_envs=2)
        again = start(lambda env=env: env, num_envs=getattr(env, "num_envs", 1))
        assert again.envs.num_envs == getattr(env, "num_envs", 1)
