"""A run that continues from a snapshot ends like one that was never interrupted."""

import functools
import json

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from purerl import algos, errors
from purerl.loops import gym as loop
from purerl.loops import snapshot
from purerl.schedules import OffPolicySchedule, OnPolicySchedule
from purerl.spaces import EnvSpec
from tests.loops import script

OFF = OffPolicySchedule(
    steps=330, steps_per_epoch=110, start_steps=40, update_after=50, update_every=10,
    updates_per_burst=2, batch_size=16, replay_size=150, num_test_episodes=0,
)  # fmt: skip
ON = OnPolicySchedule(steps=360, rollout_steps=60, steps_per_epoch=180, num_envs=2)
ENVS = {"reinforce": "CartPole-v1", "vpg": "Pendulum-v1", "trpo": "CartPole-v1"}
ENVS |= {"ppo": "Pendulum-v1", "dqn": "CartPole-v1"}


def begin(name, schedule=None, hidden=(8,), **settings):
    algo = algos.load(name)
    env_fn = functools.partial(gymnasium.make, ENVS.get(name, "Pendulum-v1"))
    spec = algo.Spec(EnvSpec.of(env_fn()), hidden=hidden, **settings)
    schedule = schedule or (ON if hasattr(algo, "prepare") else OFF)
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


@pytest.mark.parametrize(
    ("name", "cut"), [*((name, 4) for name in algos.NAMES), ("td3", 1), ("td3", 5), ("ppo", 1)]
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


class Drifting(gymnasium.Wrapper):
    """An environment that depends on its number of resets, so no episode can be replayed."""

    resets = 0

    def reset(self, **options):
        Drifting.resets += 1
        return super().reset(**options)

    def step(self, action):
        obs, *rest = super().step(action)
        return obs + np.float32(1e-3 * Drifting.resets), *rest


def test_an_environment_that_cannot_be_replayed_starts_a_new_episode():
    algo = algos.load("td3")

    def env_fn():
        return Drifting(gymnasium.make("Pendulum-v1"))

    spec = algo.Spec(EnvSpec.of(env_fn()), hidden=(8,))
    carry, _ = advance_until(loop.start(algo, spec, env_fn, OFF, 0), 60)
    frozen = snapshot.freeze(carry)
    assert frozen.host["ep_length"].tolist() == [60]
    thawed, lost = snapshot.thaw(loop.start(algo, spec, env_fn, OFF, 0), frozen)
    assert lost == [0]
    assert frozen.host["ep_return"][0] < 0
    assert (thawed.ep_return.tolist(), thawed.ep_length.tolist()) == ([0.0], [0])
    assert thawed.envs.episode == [frozen.facts["episodes"][0] + 1]
    advance_until(thawed, 330)


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
