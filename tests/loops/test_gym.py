"""The carry loop: exact transitions, exact counts, exact updates, and what it refuses."""

import dataclasses
import functools
import subprocess
import sys
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from purerl import errors, rng
from purerl.algos import ddpg, td3
from purerl.buffers import replay
from purerl.errors import EnvFault
from purerl.loops import acting, devices, offpolicy
from purerl.loops import gym as loop
from purerl.schedules import OffPolicySchedule, OnPolicySchedule
from purerl.spaces import EnvSpec
from purerl.types import Transition
from tests.loops import script

SMALL = {"hidden": (8,)}
WAYS = {
    "one": (1, script.own(1)),
    "three": (3, script.own(3)),
    "next_step": (3, script.vector(3, AutoresetMode.NEXT_STEP)),
    "same_step": (3, script.vector(3, AutoresetMode.SAME_STEP)),
    "disabled": (3, script.vector(3, AutoresetMode.DISABLED)),
}


def schedule(**changes: Any) -> OffPolicySchedule:
    fields = {
        "steps": 60,
        "steps_per_epoch": 30,
        "start_steps": 12,
        "update_after": 18,
        "update_every": 6,
        "batch_size": 4,
        "replay_size": 1_000,
        "num_test_episodes": 0,
    }
    return OffPolicySchedule(**(fields | changes))


def start(env_fn: Any, seed: int = 0, spec: Any = None, **changes: Any) -> loop.Carry:
    spec = spec or td3.Spec(EnvSpec.of(script.Script()), **SMALL)
    return loop.start(td3, spec, env_fn, schedule(**changes), seed)


def finish(carry: loop.Carry) -> tuple[loop.Carry, list[Any]]:
    records = []
    while carry.steps < carry.schedule.steps:
        carry, record = loop.advance(carry)
        records += [record] if record else []
    return carry, records


def stored(carry: loop.Carry) -> dict[int, list[tuple[Any, ...]]]:
    """Rows of the replay memory in order, by environment."""
    data, rows = jax.tree.map(np.asarray, carry.buffer.data), {}
    for i in range(int(carry.buffer.stored)):
        row = Transition(*(leaf[i] for leaf in data))
        ints = lambda x: tuple(int(v) for v in x)  # noqa: E731
        flags = (bool(row.terminated), bool(row.truncated))
        entry = (ints(row.obs), float(row.rew), ints(row.next_obs), *flags)
        rows.setdefault(int(row.obs[0]), []).append(entry)
    return rows


# --- transitions --------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "made"), WAYS.values(), ids=WAYS)
def test_every_way_of_resetting_gives_the_same_true_transitions(number, made):
    env_fn, envs = made
    envs.clear()
    carry, records = finish(start(env_fn, num_envs=number))
    rows = stored(carry)
    assert sum(map(len, rows.values())) == 60 == carry.steps == records[-1]["steps"]
    assert sorted(rows) == list(range(number))
    for who, found in rows.items():
        assert found == script.expected(who, len(found))
        assert abs(len(found) - 60 / number) <= 8  # NEXT_STEP environments wait while they reset


@pytest.mark.parametrize("name", ["one", "three", "same_step", "disabled"])
def test_a_run_makes_exactly_the_steps_asked_for(name):
    number, (env_fn, envs) = WAYS[name]
    envs.clear()
    finish(start(env_fn, num_envs=number))
    assert sum(env.steps for env in envs) == 60


def test_rows_beyond_a_border_wait_for_the_next_block():
    env_fn, envs = WAYS["next_step"][1]
    carry = start(env_fn, num_envs=3)
    waited = 0
    while carry.steps < 60:
        carry, _ = loop.advance(carry)
        assert int(carry.buffer.stored) == carry.steps
        assert carry.steps + len(carry.surplus.rew) == sum(len(e.actions) for e in envs)
        waited = max(waited, len(carry.surplus.rew))
    assert 0 < waited < 3


@pytest.mark.parametrize(("number", "made"), WAYS.values(), ids=WAYS)
def test_finished_episodes_are_reported_with_return_and_length(number, made):
    env_fn, envs = made
    envs.clear()
    carry, records = finish(start(env_fn, num_envs=number, steps=24, steps_per_epoch=24))
    ended = [row for rows in stored(carry).values() for row in rows if any(row[3:])]
    assert len(records[0]["ep_lengths"]) == len(ended) + sum(carry.surplus[4] | carry.surplus[5])
    for total, length in zip(records[0]["ep_returns"], records[0]["ep_lengths"], strict=True):
        episode = (total - length * (length + 1) / 2) / (100 * length)
        assert episode == int(episode)
        assert any((3, 1, 4)[(int(episode) + who) % 3] == length for who in range(number))


def test_an_episode_goes_on_across_epochs_and_its_return_is_whole():
    env_fn, _ = script.own(1, lengths=(10_000, 45))
    _, records = finish(start(env_fn, steps=30, steps_per_epoch=12))
    assert [r["ep_returns"] for r in records] == [[], [], []]  # and nothing crashes
    env_fn, _ = script.own(1, lengths=(45, 10_000))
    _, records = finish(start(env_fn))
    assert [r["ep_lengths"] for r in records] == [[], [45]]
    assert records[1]["ep_returns"] == [45 * 46 / 2]


def test_max_ep_len_truncates_and_keeps_a_terminal_on_the_same_step():
    env_fn, _ = script.own(1, lengths=(3,))  # episodes end: terminated, truncated, both
    carry, _ = finish(start(env_fn, max_ep_len=3))
    ends = [row[3:] for row in stored(carry)[0] if any(row[3:])]
    assert ends[:3] == [(True, True), (False, True), (True, True)]
    env_fn, _ = script.own(1, lengths=(100,))
    carry, records = finish(start(env_fn, max_ep_len=7))
    assert set(records[0]["ep_lengths"]) == {7}
    assert {row[3:] for row in stored(carry)[0]} == {(False, False), (False, True)}


def test_every_episode_is_seeded_from_its_own_stream():
    env_fn, envs = script.own(2)
    finish(start(env_fn, seed=7, num_envs=2))
    assert envs[0].seeds == [rng.host_seed(7, 0, "env", 0, n) for n in range(len(envs[0].seeds))]
    assert envs[1].seeds == [rng.host_seed(7, 0, "env", 1, n) for n in range(len(envs[1].seeds))]
    assert len(set(envs[0].seeds + envs[1].seeds)) == len(envs[0].seeds + envs[1].seeds)


def test_the_carry_knows_the_episode_in_progress():
    env_fn, envs = script.own(1, lengths=(1000,))
    carry, _ = finish(start(env_fn, steps=20))
    np.testing.assert_array_equal(carry.envs.actions[0], envs[0].actions)
    assert carry.envs.episode == [0]
    assert carry.envs.exact_resume
    assert not start(WAYS["disabled"][1][0], num_envs=3).envs.exact_resume


# --- acting -------------------------------------------------------------------------------------


def test_exactly_start_steps_actions_are_uniform_and_the_rest_the_policys():
    env_fn, envs = script.own(1)
    spec = td3.Spec(EnvSpec.of(script.Script()), act_noise=0.0, **SMALL)
    carry = start(env_fn, spec=spec, start_steps=12, update_after=60)
    params = jax.tree.map(jnp.copy, carry.learner.params)
    carry, _ = finish(carry)
    rows = [np.float32(r[0]) for r in stored(carry)[0]]
    same = [
        np.allclose(a, td3.policy(params, o)) for a, o in zip(envs[0].actions, rows, strict=True)
    ]
    assert same[:12] == [False] * 12
    assert same[12:58] == [True] * 46


def test_random_actions_fill_the_box():
    env_fn, envs = script.own(1)
    finish(start(env_fn, steps=600, start_steps=600))
    actions = np.array(envs[0].actions)
    np.testing.assert_allclose(actions.min(axis=0), [-2, 0], atol=0.05)
    np.testing.assert_allclose(actions.max(axis=0), [2, 1], atol=0.05)
    np.testing.assert_allclose(actions.mean(axis=0), [0, 0.5], atol=0.15)
    assert len(np.unique(actions)) == actions.size


def test_acting_keys_are_new_at_every_call_and_the_documented_stream():
    env_fn, envs = script.own(1)
    carry = start(env_fn, start_steps=0, update_after=60)
    params = jax.tree.map(jnp.copy, carry.learner.params)
    carry, _ = finish(carry)
    for t in (0, 1, 17):
        obs = np.asarray(carry.buffer.data.obs)[t][None]
        wanted = td3.act(params, obs, rng.stream(0, 0, "act", t))[0]
        np.testing.assert_allclose(envs[0].actions[t], wanted, atol=1e-6)


def test_acting_keys_derived_in_parts_are_those_of_the_stream():
    carry = start(script.own(1)[0])
    obs = np.ones((1, 3), np.float32)
    for call in (0, 255, 256, 5_000, 2**32 - 1, 2**32 + 5):
        wanted = td3.act(carry.learner.params, obs, rng.stream(0, 0, "act", call))
        found = acting.act(carry, carry.learner.params, obs, call)
        np.testing.assert_allclose(found, wanted, atol=1e-6)


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


# --- learning -----------------------------------------------------------------------------------


def test_updates_start_and_follow_as_the_schedule_says():
    carry, seen = start(script.own(1)[0]), []
    while carry.steps < 60:
        carry, _ = loop.advance(carry)
        seen.append((carry.steps, carry.updates))
        assert int(carry.learner.step) == carry.updates
    # Bursts of 6 at 18, 24, ...; a border at the end of an epoch (30, 60) falls on them.
    assert seen == [(s, max(0, s - 12)) for s in range(6, 61, 6)]


def test_blocks_end_at_burst_and_epoch_borders_without_recompiling():
    sizes = {"steps": 47, "steps_per_epoch": 20, "update_every": 6, "updates_per_burst": 2}
    sizes["replay_size"] = 999  # shared with no other test, as the program without updates is
    before = offpolicy._compiled_burst()._cache_size()
    spec = td3.Spec(EnvSpec.of(script.Script()), hidden=(9,))
    carry, seen = start(script.own(1)[0], spec=spec, **sizes), []
    while carry.steps < 47:
        carry, record = loop.advance(carry)
        seen.append((carry.steps, carry.updates, bool(record)))
    assert [s for s, _, _ in seen] == [6, 12, 18, 20, 24, 30, 36, 40, 42, 47]
    assert [u for _, u, _ in seen] == [0, 0, 2, 2, 4, 6, 8, 8, 10, 10]
    assert [s for s, _, r in seen if r] == [20, 40, 47]
    assert offpolicy._compiled_burst()._cache_size() - before == 2  # with and without updates


def test_a_burst_is_add_then_sample_and_update_in_a_loop():
    carry = start(script.own(1)[0])
    for _ in range(4):
        carry, _ = loop.advance(carry)
    learner, buffer = jax.tree.map(jnp.copy, (carry.learner, carry.buffer))
    following, _ = loop.advance(carry)
    new = jax.tree.map(lambda x: x[24:30], following.buffer.data)
    buffer = replay.add(buffer, new)
    metrics = []
    for key in jax.random.split(rng.stream(0, 0, "sample", 12), 6):
        learner, info = td3.update(learner, replay.sample(buffer, key, 4))
        metrics.append(info)
    for a, b in zip(jax.tree.leaves(learner), jax.tree.leaves(following.learner), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_a_record_holds_means_over_the_updates_that_computed_a_metric():
    carry = start(script.own(1)[0], steps_per_epoch=6, updates_per_burst=1)
    infos = []
    for _ in range(6):
        learner, buffer = jax.tree.map(jnp.copy, (carry.learner, carry.buffer))
        updates = carry.updates
        carry, record = loop.advance(carry)
        if carry.updates > updates:
            block = slice(carry.steps - 6, carry.steps)
            new = Transition(*(leaf[block] for leaf in carry.buffer.data))
            buffer = replay.add(buffer, new)
            (key,) = jax.random.split(rng.stream(0, 0, "sample", updates), 1)
            _, info = td3.update(learner, replay.sample(buffer, key, 4))
            infos.append(info)
            assert record["loss_q"] == pytest.approx(float(info["loss_q"]), rel=1e-4)
            assert ("loss_pi" in record) == bool(info["loss_pi_count"])
        else:
            assert "loss_q" not in record
    assert [float(i["loss_pi_count"]) for i in infos] == [1, 0, 1, 0]
    assert not any(name.endswith("_count") for name in record)


def test_metrics_of_an_epoch_are_averaged_over_its_updates_alone():
    carry, records = finish(start(script.own(1)[0]))
    assert [r["updates"] for r in records] == [18, 48]
    assert [r["epoch"] for r in records] == [1, 2]
    assert all(np.isfinite(r["loss_pi"]) for r in records)
    assert not np.asarray(carry.tally)[0].any()


def test_updates_longer_than_an_epoch_away_and_no_episode_do_not_break_a_record():
    env_fn, _ = script.own(1, lengths=(1000,))
    _, records = finish(start(env_fn, steps_per_epoch=10, update_after=50))
    assert [sorted(r) for r in records[:2]] == [
        ["ep_lengths", "ep_returns", "epoch", "steps", "updates"]
    ] * 2


# --- run and evaluate ---------------------------------------------------------------------------


def test_run_yields_a_record_per_epoch_and_returns_the_carry():
    env_fn, _ = script.own(1)
    spec = td3.Spec(EnvSpec.of(script.Script()), **SMALL)
    closed = []
    made = []

    def counted():
        env = env_fn()
        env.close = lambda: closed.append(env)
        made.append(env)
        return env

    running = loop.run(td3, spec, counted, schedule(num_test_episodes=3), seed=0)
    records = []
    while True:
        try:
            records.append(next(running))
        except StopIteration as stop:
            carry = stop.value
            break
    assert [r["steps"] for r in records] == [30, 60]
    assert [len(r["test_returns"]) for r in records] == [3, 3]
    assert records[0]["test_lengths"] == [3, 1, 4]
    assert carry.updates == 48
    assert len(closed) == len(made) == 3  # one to train in, one per evaluation


@pytest.mark.parametrize("name", ["one", "next_step", "same_step", "disabled"])
def test_evaluation_is_deterministic_seeded_apart_and_does_not_favour_short_episodes(name):
    number, (env_fn, envs) = WAYS[name]
    params = td3.init(jax.random.key(0), td3.Spec(EnvSpec.of(script.Script()), **SMALL)).params
    envs.clear()
    first = loop.evaluate(td3, params, env_fn, seed=3, epoch=1, episodes=5)
    seeds = [s for env in envs for s in env.seeds]
    actions = np.array(envs[0].actions)
    envs.clear()
    again = loop.evaluate(td3, params, env_fn, seed=3, epoch=1, episodes=5)
    assert first == again
    np.testing.assert_array_equal(actions, envs[0].actions)
    assert len(first["test_returns"]) == 5
    # Five episodes of one environment; of three: two, two and one.
    assert sorted(first["test_lengths"]) == ([1, 1, 3, 3, 4] if number == 1 else [1, 1, 3, 4, 4])
    training = {rng.host_seed(3, 0, "env", i, n) for i in range(3) for n in range(9)}
    assert not training & set(seeds)
    if number == 1:
        assert len(set(seeds)) == len(seeds)
        np.testing.assert_allclose(actions[0], td3.policy(params, np.float32([0, 0, 0])), rtol=1e-6)


def test_evaluation_cuts_episodes_at_max_ep_len():
    params = td3.init(jax.random.key(0), td3.Spec(EnvSpec.of(script.Script()), **SMALL)).params
    env_fn, _ = script.own(1, lengths=(10**9,))
    result = loop.evaluate(td3, params, env_fn, 0, 1, episodes=2, max_ep_len=5)
    assert result["test_lengths"] == [5, 5]


# --- determinism --------------------------------------------------------------------------------

DIGEST = """
import hashlib, sys, gymnasium, jax, numpy as np
import purerl; purerl.setup(threads=1, cache=False)
from purerl.algos import td3
from purerl.loops import gym as loop
from purerl.schedules import OffPolicySchedule
from purerl.spaces import EnvSpec
env_fn = lambda: gymnasium.make("Pendulum-v1")
spec = td3.Spec(EnvSpec.of(env_fn()), hidden=(64, 64))
schedule = OffPolicySchedule(steps=600, steps_per_epoch=250, start_steps=100, update_after=100)
carry = loop.start(td3, spec, env_fn, schedule, int(sys.argv[1]))
digest = hashlib.sha256()
while carry.steps < 600:
    carry, record = loop.advance(carry)
    digest.update(repr(record).encode())
for leaf in jax.tree.leaves((carry.learner, carry.buffer, carry.tally, carry.obs, carry.ep_return)):
    digest.update(np.asarray(leaf).tobytes())
digest.update(repr((carry.steps, carry.calls, carry.updates, carry.envs.actions)).encode())
print(digest.hexdigest())
"""


def test_two_processes_with_one_config_end_with_the_same_bits():
    def digest(seed: str) -> str:
        run = subprocess.run(
            [sys.executable, "-c", DIGEST, seed], capture_output=True, text=True, check=True
        )
        return run.stdout

    first, again, other = digest("5"), digest("5"), digest("6")
    assert first == again != other


# --- errors -------------------------------------------------------------------------------------


class Broken(script.Script):
    """The script with one fault, at step 8 of environment 0."""

    def __init__(self, fault: str) -> None:
        super().__init__(0, lengths=(1000,))
        self.fault = fault

    def step(self, action):
        obs, rew, terminated, truncated, info = super().step(action)
        if self.steps == 8:
            match self.fault:
                case "raise":
                    raise KeyError("no such joint")
                case "obs":
                    obs = obs * np.nan
                case "rew":
                    rew = float("inf")
                case "shape":
                    obs = np.zeros(1)
                case "old":
                    return obs, rew, terminated, info
                case "text":
                    rew = "much"
        return obs, rew, terminated, truncated, info


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        ("raise", EnvFault, r"^environment 0 raised KeyError in step: 'no such joint'"),
        ("old", EnvFault, r"^environment 0 raised ValueError in step: not enough values to unpack"),
        ("text", EnvFault, r"^environment 0 must return a number as its reward, got .much.\."),
        ("shape", EnvFault, r"^environment 0 must return observations of shape \(3,\).*got \(1,\)"),
        (
            "obs",
            errors.NonFiniteError,
            r"^next_obs of environment 0 is not finite at environment step 8",
        ),
        (
            "rew",
            errors.NonFiniteError,
            r"^rew of environment 0 is not finite at environment step 8: inf",
        ),
    ],
)
def test_faults_of_an_environment_are_named(fault, error, message):
    with pytest.raises(error, match=message):
        finish(start(functools.partial(Broken, fault)))


def test_the_culprit_among_many_environments_is_named():
    made = []

    def env_fn():
        made.append(Broken("rew") if len(made) == 1 else script.Script(lengths=(1000,)))
        return made[-1]

    carry = start(env_fn, num_envs=3, update_every=30)
    with pytest.raises(
        errors.NonFiniteError, match=r"^rew of environment 1 .* environment step 23: inf. Nothing"
    ):
        loop.advance(carry)
    assert int(carry.buffer.stored) == 0


def test_faults_of_reset_and_of_vector_environments_are_named():
    class Stuck(script.Script):
        def reset(self, **kwargs):
            raise OSError("no display")

    with pytest.raises(EnvFault, match=r"^environment 0 raised OSError in reset: no display"):
        start(Stuck)
    env_fn, envs = script.vector(2, AutoresetMode.DISABLED)
    carry = start(env_fn, num_envs=2)
    envs[1].step = lambda action: 1 / 0
    with pytest.raises(EnvFault, match=r"^the vector environment raised ZeroDivisionError in step"):
        finish(carry)


def test_divergence_is_named():
    spec = td3.Spec(EnvSpec.of(script.Script()), q_lr=1e38, pi_lr=1e38, **SMALL)
    with pytest.raises(
        errors.NonFiniteError,
        match=r"^learning diverged between updates \d+ and \d+ \(environment step \d+\): .*loss_q",
    ):
        finish(start(script.own(1)[0], spec=spec))


def test_start_refuses_what_does_not_fit():
    env_fn = script.own(1)[0]
    spec = td3.Spec(EnvSpec.of(script.Script()), **SMALL)
    for seed in (-1, 2**32, 1.0, "0", np.int64(3), True):
        with pytest.raises(ValueError, match=r"^seed must be an integer in 0 \.\. 2\*\*32 - 1"):
            loop.start(td3, spec, env_fn, schedule(), seed)
    with pytest.raises(
        ValueError, match=r"^schedule of purerl\.algos\.td3 must be an OffPolicySchedule"
    ):
        loop.start(td3, spec, env_fn, OnPolicySchedule(), 0)
    with pytest.raises(ValueError, match=r"^algo must be a module such as .*, got 'td3'"):
        loop.start("td3", spec, env_fn, schedule(), 0)
    with pytest.raises(ValueError, match=r"^spec must be a td3\.Spec, got a ddpg\.Spec"):
        loop.start(td3, ddpg.Spec(spec.env), env_fn, schedule(), 0)
    other = td3.Spec(dataclasses.replace(spec.env, obs_shape=(4,)))
    with pytest.raises(ValueError, match=r"^spec\.env must be that of env_fn, EnvSpec"):
        loop.start(td3, other, env_fn, schedule(), 0)
    with pytest.raises(ValueError, match="^num_envs is 2 but env_fn returns a vector .* of 3; set"):
        start(WAYS["disabled"][1][0], num_envs=2)
    with pytest.raises(ValueError, match="^max_ep_len=9 cannot be imposed on a vector environment"):
        start(WAYS["disabled"][1][0], num_envs=3, max_ep_len=9)
    with pytest.raises(ValueError, match="GiB are free"):
        start(env_fn, replay_size=2**30)


def test_vector_environments_must_say_how_they_reset():
    env = script.vector(3, AutoresetMode.DISABLED)[0]()
    env.metadata = {}
    with pytest.raises(ValueError, match="must name its autoreset mode.*got None"):
        start(lambda: env, num_envs=3)
    env = script.vector(3, AutoresetMode.SAME_STEP)[0]()
    step = env.step
    env.step = lambda actions: (*step(actions)[:4], {})
    with pytest.raises(EnvFault, match=r"^environment \d ended .* without info\['final_obs'\]"):
        finish(start(lambda: env, num_envs=3))


def test_a_complete_run_does_not_go_on():
    carry, _ = finish(start(script.own(1)[0]))
    with pytest.raises(ValueError, match="^the run is complete: 60 of 60 steps are done"):
        loop.advance(carry)


def test_discrete_actions_are_whole_numbers_of_the_space():
    """No algorithm for them yet, but the adapter and the random start know them."""
    from purerl.loops import vector
    from purerl.spaces import Discrete

    class Buttons(script.Script):
        def __init__(self):
            super().__init__()
            self.action_space = gymnasium.spaces.Discrete(3, start=5)

    spec = EnvSpec.of(Buttons())
    assert spec.action == Discrete(3, 5)
    act = np.asarray(offpolicy.draw_random_actions(spec, 300, np.zeros(4, np.uint32)))
    assert sorted(set(act.tolist())) == [5, 6, 7]
    envs = vector.make_envs(Buttons, None, lambda i, n: 0)
    obs = envs.reset()
    step = envs.step(obs, act[:1])  # the script asserts that its space contains the action
    assert step.rows.act.dtype == np.int32
    many = gymnasium.vector.SyncVectorEnv([Buttons] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    envs = vector.make_envs(lambda: many, 2, lambda i, n: 0)
    envs.step(envs.reset(), act[:2])


def test_options_that_xla_does_not_know_are_left_out(monkeypatch):
    asked = []
    jit = jax.jit
    monkeypatch.setattr(devices, "_FAST_OPTIONS", {"xla_no_such_option": 1} | devices._FAST_OPTIONS)
    monkeypatch.setattr(jax, "jit", lambda *a, **kw: asked.append(kw) or jit(*a, **kw))
    offpolicy._compiled_burst.cache_clear()
    offpolicy._compiled_burst()
    assert "xla_no_such_option" not in asked[-1]["compiler_options"]
    offpolicy._compiled_burst.cache_clear()


def test_one_environment_cannot_serve_twice():
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
    with pytest.raises(ValueError, match="^env_fn must make environments of equal spaces"):
        start(lambda: next(kinds)(), num_envs=2)
    params = td3.init(jax.random.key(0), td3.Spec(EnvSpec.of(script.Script()), **SMALL)).params
    with pytest.raises(ValueError, match=r"^spec\.env must be that of env_fn"):
        loop.evaluate(td3, params, Wide, 0, 1, 1)


def test_evaluation_refuses_bad_seeds_and_numbers_that_are_not_finite():
    params = td3.init(jax.random.key(0), td3.Spec(EnvSpec.of(script.Script()), **SMALL)).params
    for seed, epoch in ((2**40, 1), (0, 1.5), (0, -1)):
        with pytest.raises(ValueError, match="^(seed|epoch) must be an integer"):
            loop.evaluate(td3, params, script.Script, seed, epoch, 1)

    class Endless(script.Script):
        def step(self, action):
            obs, _, *rest = super().step(action)
            return obs, float("nan"), *rest

    with pytest.raises(errors.NonFiniteError, match="^the return of environment 0 is nan"):
        loop.evaluate(td3, params, Endless, 0, 1, 1)


def test_observations_that_the_space_would_truncate_are_refused():
    class Scaled(script.Script):
        def __init__(self):
            super().__init__()
            self.observation_space = gymnasium.spaces.Box(0, 255, (3,), np.uint8)

    spec = td3.Spec(EnvSpec.of(Scaled()), **SMALL)
    with pytest.raises(EnvFault, match=r"must return observations of .* dtype, uint8, got float64"):
        start(Scaled, spec=spec)


def test_actions_so_far_are_what_the_environment_was_given():
    class Greedy(script.Script):
        def step(self, action):
            out = super().step(action)
            action *= 0
            return out

    made = []
    carry, _ = finish(start(lambda: made.append(Greedy(lengths=(99,))) or made[-1], steps=20))
    np.testing.assert_array_equal(carry.envs.actions[0], made[0].actions)
    assert np.abs(carry.envs.actions[0]).max() > 0


def test_rewards_and_flags_of_vector_environments_have_one_number_each():
    env_fn, _ = script.vector(3, AutoresetMode.DISABLED)

    def column():
        env = env_fn()
        step = env.step

        def broken(actions):
            obs, rew, *rest = step(actions)
            return obs, rew[:, None], *rest

        env.step = broken
        return env

    with pytest.raises(EnvFault, match=r"must return rew of shape \(3,\), got \(3, 1\)"):
        finish(start(column, num_envs=3))


def test_a_consumed_carry_is_refused_before_the_environments_move():
    env_fn, envs = script.own(1)
    carry = start(env_fn)
    loop.advance(carry)
    steps = envs[0].steps
    with pytest.raises(ValueError, match="^this carry was consumed by an earlier advance"):
        loop.advance(carry)
    assert envs[0].steps == steps


def test_the_culprit_among_rows_that_waited_is_named():
    env_fn, envs = script.vector(3, AutoresetMode.NEXT_STEP)
    carry = start(env_fn, num_envs=3, steps=300, steps_per_epoch=300)
    step = envs[2].step

    def late(action):
        obs, rew, *rest = step(action)
        return obs, np.nan if envs[2].steps > 20 else rew, *rest

    envs[2].step = late
    with pytest.raises(errors.NonFiniteError, match="^rew of environment 2 is not finite"):
        finish(carry)


def test_a_refused_start_closes_its_environments():
    env = script.Script()
    closed = []
    env.close = lambda: closed.append(1)
    with pytest.raises(ValueError, match="GiB are free"):
        start(lambda: env, replay_size=2**30)
    other = dataclasses.replace(EnvSpec.of(env), obs_shape=(4,))
    with pytest.raises(ValueError, match=r"^spec\.env must be that of env_fn"):
        start(lambda: env, spec=td3.Spec(other))
    assert closed == [1]  # what has no room is refused before an environment is made
    assert start(lambda: env).envs.envs == [env]  # and it may be used again


def test_environments_of_a_refused_start_may_be_used_again():
    for env_fn, message in (
        (WAYS["disabled"][1][0], "num_envs is 2 but env_fn returns a vector"),
        (script.own(1)[0], "env_fn must make a new environment"),
    ):
        env = env_fn()
        with pytest.raises(ValueError, match=message):
            start(lambda env=env: env, num_envs=2)
        again = start(lambda env=env: env, num_envs=getattr(env, "num_envs", 1))
        assert again.envs.num_envs == getattr(env, "num_envs", 1)


def test_the_replay_memory_holds_replay_size_rows_and_forgets_the_oldest():
    """TorchingUp read its `capacity` and kept 1000."""
    env_fn, _ = script.own(1, lengths=(1000,))
    whole, _ = finish(start(env_fn))
    carry, _ = finish(start(env_fn, replay_size=20))
    assert carry.buffer.data.rew.shape == (20,)
    assert int(carry.buffer.stored) == 20
    newest = np.asarray(whole.buffer.data.rew)[40:60]
    np.testing.assert_array_equal(np.sort(carry.buffer.data.rew), np.sort(newest))


def test_the_delay_of_td3_holds_at_one_update_per_step():
    """Spinning Up's count restarted in each burst, so that at `update_every=1` nothing waited."""
    every = {"update_every": 1, "updates_per_burst": 1, "steps": 30}
    carry, counts = start(script.own(1)[0], **every), []
    while carry.steps < 30:
        actor, updates = jax.tree.map(jnp.copy, carry.learner.params.actor), carry.updates
        carry, _ = loop.advance(carry)
        if carry.updates > updates:
            pairs = zip(*map(jax.tree.leaves, (actor, carry.learner.params.actor)), strict=True)
            counts.append(any(bool((a != b).any()) for a, b in pairs))
    assert counts == [True, False] * 6 + [True]


def test_records_count_the_steps_taken_not_one_less():
    carry = start(script.own(1)[0], steps_per_epoch=20)
    while carry.steps < 60:
        carry, record = loop.advance(carry)
        if record:
            assert record["steps"] == carry.steps == carry.calls == int(carry.buffer.stored)
