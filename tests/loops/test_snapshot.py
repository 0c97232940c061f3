"""A run that continues from a snapshot ends like one that was never interrupted."""

import dataclasses
import functools
import json
import random
import time

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from purerl import algos, errors
from purerl.loops import gym as loop
from purerl.loops import snapshot
from purerl.loops.adapters import generators, single
from purerl.schedules import OffPolicySchedule, OnPolicySchedule, SequenceSchedule
from purerl.spaces import EnvSpec
from tests.loops import script

OFF = OffPolicySchedule(
    steps=330, steps_per_epoch=110, start_steps=40, update_after=50, update_every=10,
    updates_per_burst=2, batch_size=16, replay_size=150, num_test_episodes=0,
)  # fmt: skip
ON = OnPolicySchedule(steps=360, rollout_steps=60, steps_per_epoch=180, num_envs=2)
ENVS = {"reinforce": "CartPole-v1", "vpg": "Pendulum-v1", "trpo": "CartPole-v1"}
ENVS |= {"ppo": "Pendulum-v1"} | dict.fromkeys(
    ("acer", "dqn", "pqn", "sac_discrete"), "CartPole-v1"
)
SEQUENCES = SequenceSchedule(
    steps=360, rollout_steps=20, steps_per_epoch=180, num_envs=2, replay_size=100, replay_start=60
)


def begin(name, schedule=None, hidden=(8,), **settings):
    algo = algos.load(name)
    env_fn = functools.partial(gymnasium.make, ENVS.get(name, "Pendulum-v1"))
    if name == "pqn":
        settings = {"minibatch_size": 20} | settings
    if name == "redq":
        settings = {"ensemble": 3} | settings
    spec = algo.Spec(EnvSpec.of(env_fn()), hidden=hidden, **settings)
    kinds = {type(one): one for one in (ON, OFF, SEQUENCES)}
    schedule = schedule or kinds[type(algo.SCHEDULE)]
    return loop.start(algo, spec, env_fn, schedule, 3)


def through_json(frozen):
    """Convert the facts as a file does."""
    return frozen._replace(facts=json.loads(json.dumps(frozen.facts)))


def freeze_to_bits(carry):
    """Return the content of a carry in a form that compares bit for bit."""
    return bits(snapshot.freeze(carry))


def bits(frozen):
    arrays = frozen.learner | frozen.host | (frozen.rows or {})
    return {k: (v.dtype.str, v.shape, v.tobytes()) for k, v in arrays.items()} | frozen.facts


def advance_until(carry, until):
    records = []
    while carry.steps < until:
        carry, record = loop.advance(carry)
        records += [record] if record else []
    return carry, records


ONE_OF_EACH_LOOP = ("acer", "dqn", "ppo", "td3")


@pytest.mark.parametrize(
    ("name", "cut"),
    [
        *((name, 4) for name in ONE_OF_EACH_LOOP),
        *(
            pytest.param(name, 4, marks=pytest.mark.complete)
            for name in algos.NAMES
            if name not in ONE_OF_EACH_LOOP
        ),
        ("td3", 1),
        ("td3", 5),
        ("ppo", 1),
    ],
)
def test_a_thawed_run_ends_bit_for_bit_like_one_that_was_not_interrupted(name, cut):
    carry = begin(name)
    total = carry.schedule.steps
    stop = total * cut // 6
    carry, before = advance_until(carry, stop)
    frozen = through_json(snapshot.freeze(carry))
    carry, after = advance_until(carry, total)
    whole = freeze_to_bits(carry)
    carry.envs.close()
    at_cut = bits(frozen)
    thawed, lost = snapshot.thaw(begin(name), frozen)
    assert not lost
    assert freeze_to_bits(thawed) == at_cut
    thawed, resumed = advance_until(thawed, total)
    assert resumed == after
    assert freeze_to_bits(thawed) == whole
    assert before or cut == 1
    thawed.envs.close()


@pytest.mark.complete
def test_returns_and_their_variance_are_restored():
    schedule = dataclasses.replace(OFF, n_step=3, scale_rewards=True, num_envs=2)
    carry, _ = advance_until(begin("dqn", schedule), 130)
    frozen = through_json(snapshot.freeze(carry))
    carry, after = advance_until(carry, 330)
    thawed, lost = snapshot.thaw(begin("dqn", schedule), frozen)
    assert not lost
    thawed, resumed = advance_until(thawed, 330)
    assert resumed == after
    assert freeze_to_bits(thawed) == freeze_to_bits(carry)
    lacking = {name: x for name, x in frozen.host.items() if name != "buffer.moments"}
    with pytest.raises(errors.SnapshotMismatch, match=r"host buffer.moments is missing"):
        snapshot.thaw(begin("dqn", schedule), frozen._replace(host=lacking))


def test_running_statistics_are_restored():
    options = {"normalise_obs": True, "scale_rewards": True, "minibatch_size": 20}
    carry, _ = advance_until(begin("ppo", **options), 120)
    frozen = snapshot.freeze(carry)
    carry, after = advance_until(carry, 360)
    thawed, resumed = advance_until(snapshot.thaw(begin("ppo", **options), frozen)[0], 360)
    assert resumed == after
    assert freeze_to_bits(thawed) == freeze_to_bits(carry)


def test_new_rows_and_rows_saved_before_are_the_whole_buffer():
    carry, _ = advance_until(begin("td3"), 100)
    first = snapshot.freeze(carry)
    carry, _ = advance_until(carry, 130)
    second = snapshot.freeze(carry, since=first.stop)
    whole = snapshot.freeze(carry)
    assert (second.first, second.stop) == (100, 130)
    for name, rows in whole.rows.items():
        joined = np.concatenate([first.rows[name], second.rows[name]])
        np.testing.assert_array_equal(rows, joined)
    carry, _ = advance_until(carry, 200)  # the ring of 150 rows is full, so older rows are gone
    last = snapshot.freeze(carry, since=20)
    assert (last.first, last.stop) == (50, 200)


def test_new_sequences_and_sequences_saved_before_are_the_whole_buffer():
    carry, _ = advance_until(begin("acer"), 60)
    first = snapshot.freeze(carry)
    assert (first.first, first.stop) == (0, 6)  # sequences of 10 steps from two environments
    assert first.rows["behaviour"].shape == (6, 10, 2)
    carry, _ = advance_until(carry, 80)
    second, whole = snapshot.freeze(carry, since=6), snapshot.freeze(carry)
    assert (second.first, second.stop) == (6, 8)
    for name, rows in whole.rows.items():
        joined = np.concatenate([first.rows[name], second.rows[name]])
        np.testing.assert_array_equal(rows, joined)
    carry, _ = advance_until(carry, 140)  # the ring of 10 sequences is full
    last = snapshot.freeze(carry, since=2)
    assert (last.first, last.stop) == (4, 14)
    with pytest.raises(errors.SnapshotMismatch, match="^the replay buffer must hold rows 4 .. 14"):
        snapshot.thaw(begin("acer"), second._replace(stop=14))


class Drifting(gymnasium.Wrapper):
    """An environment that depends on its number of resets, so no episode can be replayed."""

    resets = 0

    def reset(self, **options):
        Drifting.resets += 1
        return super().reset(**options)

    def step(self, action):
        obs, *rest = super().step(action)
        return obs + np.float32(1e-3 * Drifting.resets), *rest


@pytest.mark.parametrize("has_checksums", [True, False])
def test_an_environment_that_cannot_be_replayed_starts_a_new_episode(has_checksums):
    algo = algos.load("td3")

    def env_fn():
        return Drifting(gymnasium.make("Pendulum-v1"))

    spec = algo.Spec(EnvSpec.of(env_fn()), hidden=(8,))
    carry, _ = advance_until(loop.start(algo, spec, env_fn, OFF, 0), 60)
    frozen = snapshot.freeze(carry)
    if not has_checksums:  # old snapshots have only the last observation
        del frozen.facts["digests"]
    assert frozen.host["ep_length"].tolist() == [60]
    thawed, lost = snapshot.thaw(loop.start(algo, spec, env_fn, OFF, 0), frozen)
    assert lost == [0]
    assert frozen.host["ep_return"][0] < 0
    assert (thawed.ep_return.tolist(), thawed.ep_length.tolist()) == ([0.0], [0])
    assert thawed.envs.episode == [frozen.facts["episodes"][0] + 1]
    advance_until(thawed, 330)


class Unseeded(gymnasium.Wrapper):
    """Pendulum that adds a random number to each reward or first observation."""

    def __init__(self, what, generator):
        super().__init__(gymnasium.make("Pendulum-v1"))
        self.what, self.generator = what, generator

    def reset(self, **options):
        if self.what == "seeded in reset":
            random.seed(options["seed"])
            np.random.seed(options["seed"])  # noqa: NPY002
        return super().reset(**options)

    def step(self, action):
        obs, reward, *rest = super().step(action)
        if self.what == "obs":  # only in the middle of the episode
            self.count = getattr(self, "count", 0) + 1
            return obs + np.float32(self.generator() * (self.count % 150 == 20)), reward, *rest
        return obs, reward + self.generator(), *rest


@pytest.mark.parametrize(
    ("what", "generator", "is_exact"),
    [
        ("seeded in reset", random.random, True),
        ("seeded in reset", np.random.random, True),
        ("seeded in reset", random.gauss, True),
        ("seeded in reset", np.random.standard_normal, True),
        ("rewards", random.random, False),
        ("rewards", np.random.default_rng().random, False),
        ("rewards", time.perf_counter, False),
        ("obs", np.random.default_rng().random, False),
    ],
)
def test_other_sources_of_randomness_are_restored_or_noticed(what, generator, is_exact):
    def env_fn():
        return Unseeded(what, generator)

    algo = algos.load("td3")
    spec = algo.Spec(EnvSpec.of(env_fn()), hidden=(8,))
    carry, _ = advance_until(loop.start(algo, spec, env_fn, OFF, 0), 60)
    frozen = through_json(snapshot.freeze(carry))
    carry, _ = advance_until(carry, 330)
    whole = freeze_to_bits(carry)
    random.seed(7)
    np.random.seed(8)  # noqa: NPY002
    thawed, lost = snapshot.thaw(loop.start(algo, spec, env_fn, OFF, 0), frozen)
    assert lost == ([] if is_exact else [0])
    is_global = generator in (random.random, random.gauss, np.random.random) or is_exact
    assert ("generators.python" in frozen.host) == is_global
    if is_exact:
        thawed, _ = advance_until(thawed, 330)
        assert freeze_to_bits(thawed) == whole


@pytest.mark.parametrize("draws", [1, 2])
def test_the_next_normal_number_of_a_pair_is_restored(draws):
    def draw_normals(number):
        own = [random.gauss() for _ in range(number)]
        return own, [np.random.standard_normal() for _ in range(number)]  # noqa: NPY002

    random.seed(7)
    np.random.seed(8)  # noqa: NPY002
    draw_normals(draws)  # the first draw makes two numbers, and keeps the second for the next
    states = generators.read()
    expected = draw_normals(3)
    draw_normals(draws)
    generators.restore(states)
    assert draw_normals(3) == expected


def test_damaged_states_of_generators_are_refused():
    carry, _ = advance_until(begin("td3"), 60)
    random.random()
    frozen = snapshot.freeze(carry)
    for name, wrong in (("python", np.zeros(3)), ("numpy", np.zeros(3)), ("numpy.rest", 1)):
        host = frozen.host | {f"generators.{name}": np.asarray(wrong)}
        with pytest.raises(errors.SnapshotMismatch, match="^the states of the global generators"):
            snapshot.thaw(begin("td3"), frozen._replace(host=host))


def test_old_snapshots_have_no_checksums():
    carry, _ = advance_until(begin("td3"), 60)
    frozen = snapshot.freeze(carry)
    facts = {k: v for k, v in frozen.facts.items() if k != "digests"}
    assert snapshot.thaw(begin("td3"), frozen._replace(facts=facts))[1] == []
    for wrong in ([], [1.5], None, [-1]):
        with pytest.raises(errors.SnapshotMismatch, match="^digests must be"):
            snapshot.thaw(begin("td3"), frozen._replace(facts=facts | {"digests": wrong}))


def test_an_episode_with_too_many_actions_is_not_replayed(monkeypatch):
    monkeypatch.setattr(single, "MOST_ACTIONS", 32)
    carry, _ = advance_until(begin("td3"), 30)
    frozen = snapshot.freeze(carry)
    assert snapshot.thaw(begin("td3"), frozen)[1] == []
    carry, _ = advance_until(carry, 150)
    assert len(carry.envs.actions[0].rows) == 32
    frozen = snapshot.freeze(carry)
    assert (frozen.host["ep_length"].tolist(), len(frozen.host["actions.0"])) == ([150], 0)
    thawed, lost = snapshot.thaw(begin("td3"), frozen)
    assert lost == [0]
    assert thawed.envs.episode == [1]


def test_a_vector_environment_that_resets_itself_starts_new_episodes():
    algo = algos.load("sac")
    env_fn = functools.partial(gymnasium.make_vec, "Pendulum-v1", 2)
    spec = algo.Spec(EnvSpec.of(env_fn()), hidden=(8,))
    schedule = OffPolicySchedule(
        steps=400, steps_per_epoch=100, start_steps=40, update_after=50, update_every=10,
        batch_size=16, replay_size=400, num_envs=2, num_test_episodes=0,
    )  # fmt: skip
    carry, _ = advance_until(loop.start(algo, spec, env_fn, schedule, 0), 100)
    thawed, lost = snapshot.thaw(
        loop.start(algo, spec, env_fn, schedule, 0), snapshot.freeze(carry)
    )
    assert lost == [0, 1]
    jax.tree.map(np.testing.assert_array_equal, thawed.learner, carry.learner)
    thawed, _ = advance_until(thawed, 400)
    assert thawed.steps == 400


def test_rows_that_wait_for_the_next_block_are_restored():
    """A lost row would be missing in the replay buffer, and a later one in its place."""
    env_fn, _ = script.make_vector(3, AutoresetMode.NEXT_STEP)
    carry = script.start(env_fn, num_envs=3)
    while not len(carry.surplus.rew):
        carry, _ = loop.advance(carry)
    frozen = through_json(snapshot.freeze(carry))
    thawed, _ = snapshot.thaw(script.start(env_fn, num_envs=3), frozen)
    for name, rows in carry.surplus._asdict().items():
        np.testing.assert_array_equal(getattr(thawed.surplus, name), rows)
    first, done = thawed.surplus.obs.copy(), thawed.steps
    thawed, _ = loop.advance(thawed)
    np.testing.assert_array_equal(thawed.buffer.data.obs[done : done + len(first)], first)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"hidden": (9,)},
            r"learner\.params\.actor.*must be float32 of shape \(9,\), got .* \(8,\)",
        ),
        (
            {"hidden": (8, 8)},
            r"learner\.params\.actor.*Dense_1.*must be .* of shape \(8,\), got .* \(1,\)",
        ),
    ],
)
def test_errors_name_the_array_that_does_not_fit(change, message):
    carry, _ = advance_until(begin("td3"), 60)
    frozen = snapshot.freeze(carry)
    with pytest.raises(errors.SnapshotMismatch, match=message):
        snapshot.thaw(begin("td3", **change), frozen)


def test_snapshots_of_other_algorithms_and_of_other_rows_are_refused():
    carry, _ = advance_until(begin("td3"), 60)
    frozen = snapshot.freeze(carry)
    with pytest.raises(
        errors.SnapshotMismatch, match="learner.* is (missing|not part of this run)"
    ):
        snapshot.thaw(begin("ddpg"), frozen)
    with pytest.raises(errors.SnapshotMismatch, match="the replay buffer is missing"):
        snapshot.thaw(begin("td3"), frozen._replace(rows=None))
    with pytest.raises(
        errors.SnapshotMismatch, match=r"must hold rows 0 \.\. 60, got 60 rows from row 10 on"
    ):
        snapshot.thaw(begin("td3"), frozen._replace(first=10))


def interrupt(step, after, raised):
    """Return a `step` that raises once, at its call number `after`."""
    left = iter(range(after))

    def interrupted(action):
        if next(left, None) is None and raised:
            raise raised.pop()
        return step(action)

    return interrupted


@pytest.mark.parametrize("name", ["td3", "ppo"])
@pytest.mark.parametrize("how", ["interrupt", "exception", "stop"])
def test_an_interrupted_advance_can_be_repeated(name, how):
    total = 330 if name == "td3" else 360
    whole, _ = advance_until(begin(name), total)
    carry, _ = advance_until(begin(name), 120)
    if how == "stop":
        calls = iter([False] * 3)
        stopped, record = loop.advance(carry, lambda: next(calls, True))
        assert (stopped, record) == (carry, None)
    else:
        env, error = carry.envs.envs[0], ValueError("x")
        env.step = interrupt(env.step, 3, [KeyboardInterrupt() if how == "interrupt" else error])
        with pytest.raises(KeyboardInterrupt if how == "interrupt" else errors.EnvFault):
            loop.advance(carry)
    frozen = snapshot.freeze(carry)
    thawed, lost = snapshot.thaw(begin(name), frozen)
    assert not lost
    for one in (carry, thawed):
        ended, _ = advance_until(one, total)
        assert freeze_to_bits(ended) == freeze_to_bits(whole)


@pytest.mark.complete
def test_episodes_that_cannot_be_replayed_end_in_the_replay_buffer():
    schedule = script.schedule(n_step=2, scale_rewards=True, num_envs=3)
    algo, env_fn = algos.load("td3"), script.make_vector(3, AutoresetMode.SAME_STEP)[0]
    spec = algo.Spec(EnvSpec.of(script.Script()), hidden=(8,))
    carry, _ = advance_until(loop.start(algo, spec, env_fn, schedule, 0), 30)
    flags = np.array(carry.buffer.data.truncated)[:30]
    assert carry.buffer.ret.any()
    frozen = snapshot.freeze(carry)
    calls = iter([False, True])
    carry, _ = loop.advance(carry, lambda: next(calls))
    with pytest.warns(errors.EpisodesLost):
        carry, _ = loop.advance(carry)
    flags[-3:] = True
    np.testing.assert_array_equal(carry.buffer.data.truncated[:30], flags)
    carry, lost = snapshot.thaw(loop.start(algo, spec, env_fn, schedule, 0), frozen)
    assert lost == [0, 1, 2]
    np.testing.assert_array_equal(carry.buffer.data.truncated[:30], flags)
    assert not carry.buffer.ret.any()
    assert carry.buffer.moments[2] == 30
    carry, _ = advance_until(carry, 42)
    kept = np.array(carry.buffer.data.truncated)
    frozen = snapshot.freeze(carry)
    frozen.rows["truncated"][27:30] = False  # as in the file that was written before
    with_lost, _ = snapshot.thaw(loop.start(algo, spec, env_fn, schedule, 0), frozen)
    np.testing.assert_array_equal(with_lost.buffer.data.truncated[:39], kept[:39])


def test_an_interrupted_advance_of_a_vector_environment_starts_new_episodes():
    algo = algos.load("sac")
    env_fn = functools.partial(gymnasium.make_vec, "Pendulum-v1", 1)
    spec = algo.Spec(EnvSpec.of(env_fn()), hidden=(8,))
    carry, _ = advance_until(loop.start(algo, spec, env_fn, OFF, 0), 60)
    calls = iter([False] * 3)
    carry, _ = loop.advance(carry, lambda: next(calls, True))
    with pytest.warns(errors.EpisodesLost, match=r"moved environments \[0\]"):
        carry, _ = loop.advance(carry)
    assert (carry.steps, carry.ep_length.tolist()) == (70, [10])
