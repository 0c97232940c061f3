"""Bursts that replay goals: the rows, their rewards, and both ways to compute them."""

import dataclasses
import functools
import types

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from purerl import errors, rng
from purerl.algos import ddpg, dqn, reinforce, td3
from purerl.buffers import goals
from purerl.loops import acting, devices, offpolicy, snapshot
from purerl.loops import gym as loop
from purerl.loops.hindsight import relabel
from purerl.schedules import OnPolicySchedule
from purerl.spaces import EnvSpec
from tests.loops.hindsight import reach
from tests.loops.hindsight.reach import JaxReach, Reach, finish, start

WAYS = {
    "singles": Reach,
    "next_step": reach.make_vector(AutoresetMode.NEXT_STEP),
    "same_step": reach.make_vector(AutoresetMode.SAME_STEP),
    "disabled": reach.make_vector(AutoresetMode.DISABLED),
}


def list_rows(carry):
    """Return the rows of the buffer in order of arrival."""
    data = jax.tree.map(np.asarray, carry.buffer.data)
    return jax.tree.map(lambda x: x[: int(carry.buffer.stored)], data)


@pytest.mark.parametrize("name", WAYS)
def test_rows_have_the_goal_that_was_achieved_and_their_place_in_the_episode(name):
    carry, _ = finish(start(WAYS[name], steps=60))  # as many as the buffer has rows
    rows = list_rows(carry)
    extra = rows.extra
    np.testing.assert_array_equal(extra["step"], rows.obs[:, 1])  # the time before the step
    np.testing.assert_array_equal(extra["achieved_goal"][:, 0], rows.next_obs[:, 2])
    np.testing.assert_array_equal(extra["achieved_goal"][:, 1], rows.obs[:, 4])
    np.testing.assert_array_equal(rows.obs[:, 3:], rows.next_obs[:, 3:])
    np.testing.assert_array_equal(rows.truncated, rows.obs[:, 1] == 6)
    if name != "singles":  # all singles are number 0 to themselves
        np.testing.assert_array_equal(extra["env"], rows.obs[:, 0])
    assert {*extra["env"].tolist()} == {0, 1}
    assert isinstance(carry.buffer, goals.GoalReplay)
    carry.envs.close()


def draw(carry, relabelling):
    ring = jax.tree.map(lambda x: x.copy(), carry.buffer)
    return relabel.sample(ring, jax.random.key(7), 48, relabelling, carry.learner.params.spec)


@pytest.mark.parametrize("terminates", [False, True])
def test_new_goals_are_of_the_same_episode_and_have_their_own_reward(terminates):
    make = functools.partial(Reach, terminates=terminates)
    carry, _ = finish(start(make), 96)
    batch = draw(carry, dataclasses.replace(carry.relabelling, k=1e6))  # all rows get a new goal
    near = np.abs(batch.next_obs[:, 2] - batch.obs[:, 3]) <= reach.NEAR
    np.testing.assert_array_equal(batch.rew, -np.float32(~near))
    np.testing.assert_array_equal(batch.terminated, near & terminates)
    np.testing.assert_array_equal(batch.obs[:, 3:], batch.next_obs[:, 3:])
    assert 0 < near.sum() < 48
    seeds = {int(x) for x in np.asarray(list_rows(carry).obs[:, 4])}
    assert {int(x) for x in np.asarray(batch.obs[:, 4])} <= seeds


@pytest.mark.parametrize(
    ("strategy", "terminates"),
    [
        ("future", False),
        pytest.param("final", True, marks=pytest.mark.complete),
        pytest.param("episode", True, marks=pytest.mark.complete),
    ],
)
def test_rewards_in_jax_and_in_numpy_give_the_same_rows(strategy, terminates):
    found = []
    for make in (Reach, JaxReach):
        carry = start(functools.partial(make, terminates=terminates), her_strategy=strategy)
        carry, _ = finish(carry, 96)
        assert carry.relabelling.in_jax is (make is JaxReach)
        drawn = draw(carry, carry.relabelling)._replace(key=None)
        found.append((carry, jax.tree.map(np.asarray, drawn)))
    (numpy, one), (in_jax, other) = found
    jax.tree.map(np.testing.assert_array_equal, one, other)
    near = functools.partial(np.testing.assert_allclose, rtol=2e-4, atol=2e-5)
    jax.tree.map(near, numpy.learner.params, in_jax.learner.params)


@pytest.mark.parametrize("make", [Reach, JaxReach])
def test_a_burst_equals_its_parts_with_the_keys_of_its_updates(make):
    carry, _ = finish(start(make), 48)
    learner = jax.tree.map(lambda x: x.copy(), carry.learner)
    ring = jax.tree.map(lambda x: x.copy(), carry.buffer)
    key = rng.stream(0, 0, "sample", carry.updates)
    burst = offpolicy.run_burst
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offpolicy, "run_burst", lambda *args: seen.append(args) or burst(*args))
        after, _ = loop.advance(carry)
    block, count, words, relabelling = seen[0][7:]
    np.testing.assert_array_equal(words, acting.pack_key_words(carry, carry.updates))
    ring = goals.add(ring, block, count)
    for one in jax.random.split(key, 3):
        batch = offpolicy.draw_batch(td3, learner, ring, 16, one, relabelling)
        learner, _ = td3.update(learner, batch)
    near = functools.partial(np.testing.assert_allclose, rtol=2e-4, atol=2e-5)
    jax.tree.map(near, after.learner.params, learner.params)
    jax.tree.map(np.testing.assert_array_equal, after.buffer, ring)


def test_without_hindsight_the_loop_uses_a_plain_buffer():
    carry, _ = finish(start(her=False), 48)
    assert carry.relabelling is None
    assert not hasattr(carry.buffer.data, "extra")


def test_replaying_no_goals_gives_the_rows_of_the_plain_buffer():
    plain, _ = finish(start(her=False), 96)
    none, _ = finish(start(her_k=0.0), 96)
    one = offpolicy.draw_batch(td3, plain.learner, plain.buffer, 16, jax.random.key(3))
    args = (none.learner, none.buffer, 16, jax.random.key(3), none.relabelling)
    other = offpolicy.draw_batch(td3, *args)
    for x, y in zip(one[:6], other[:6], strict=True):
        np.testing.assert_array_equal(x, y)


def freeze_to_bits(carry):
    frozen = snapshot.freeze(carry)
    arrays = frozen.learner | frozen.host | frozen.rows
    return {k: (v.dtype.str, v.shape, v.tobytes()) for k, v in arrays.items()} | frozen.facts


@pytest.mark.parametrize(
    ("make", "stop"),  # before and after the buffer is full, in an episode
    [
        (Reach, 36),
        (JaxReach, 96),
        pytest.param(Reach, 96, marks=pytest.mark.complete),
        pytest.param(JaxReach, 36, marks=pytest.mark.complete),
    ],
)
def test_a_thawed_run_ends_bit_for_bit_like_one_that_was_not_interrupted(make, stop):
    carry, _ = finish(start(make), stop)
    frozen = snapshot.freeze(carry)
    whole, one = finish(carry)
    assert frozen.host["ep_length"].all()
    carry, lost = snapshot.thaw(start(make), frozen)
    assert not lost
    resumed, other = finish(carry)
    assert freeze_to_bits(whole) == freeze_to_bits(resumed)
    assert one[-1:] == other[-1:]


def test_an_interrupted_advance_can_be_repeated():
    whole, _ = finish(start())
    carry, _ = finish(start(), 60)
    calls = iter([False] * 3 + [True])
    same, record = loop.advance(carry, lambda: next(calls))
    assert same is carry
    assert record is None
    assert freeze_to_bits(finish(same)[0]) == freeze_to_bits(whole)


@pytest.mark.parametrize("terminates", [False, True])
def test_success_is_logged_for_training_and_test_episodes(terminates):
    make = functools.partial(Reach, terminates=terminates)
    carry, (record, *_) = finish(start(make, num_test_episodes=2))
    tests = loop.evaluate_epoch(carry, make)
    assert carry.schedule.log_info == ("is_success",)
    assert len(record["ep_is_success"]) == len(record["ep_returns"])
    assert {*record["ep_is_success"]} <= {0.0, 1.0}
    assert len(tests["test_is_success"]) == 2
    if terminates:
        pairs = zip(record["ep_lengths"], record["ep_is_success"], strict=True)
        assert all(success for length, success in pairs if length < 7)


def test_the_name_of_success_is_found_or_chosen():
    make = functools.partial(Reach, success="success")
    assert start(make).schedule.log_info == ("success",)
    assert start(functools.partial(Reach, success="other")).schedule.log_info == ()
    assert start(make, log_info=()).schedule.log_info == ()
    vector = start(reach.make_vector(AutoresetMode.NEXT_STEP))
    assert vector.schedule.log_info == ("is_success",)
    vector.envs.close()


def test_clipped_targets_refuse_other_rewards_from_step_and_from_compute_reward():
    spec = ddpg.Spec(EnvSpec.of(Reach()), hidden=(8,), clip_targets=True)

    class Late(Reach):
        """Its rewards change after the check at the start."""

        stepped, computed = 1.0, 1.0

        def step(self, action):
            obs, rew, *rest = super().step(action)
            return obs, self.stepped * rew, *rest

        def compute_reward(self, achieved, desired, info):
            many = np.ndim(achieved) > 1
            return (self.computed if many else 1) * super().compute_reward(achieved, desired, info)

    finish(loop.start(ddpg, spec, Late, reach.schedule(), 0), 36)
    for name, which in (("stepped", "-2 at environment step 2[56]"), ("computed", "-2 from compu")):
        carry, _ = finish(loop.start(ddpg, spec, Late, reach.schedule(), 0), 24)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Late, name, 2.0)
            with pytest.raises(errors.EnvFault, match=f"^clip_targets is for .* got {which}"):
                loop.advance(carry)


def test_an_on_policy_algorithm_acts_in_an_environment_with_goals():
    spec = reinforce.Spec(EnvSpec.of(Reach()), hidden=(4,))
    schedule = OnPolicySchedule(steps=28, rollout_steps=28)
    carry, (record,) = finish(loop.start(reinforce, spec, Reach, schedule, 0))
    assert len(record["ep_is_success"]) == 4
    assert carry.learner.params.spec.env.goal_size == 2


def test_an_algorithm_that_stores_info_cannot_replay_goals():
    parts = {name: getattr(td3, name) for name in dir(td3) if not name.startswith("_")}
    algo = types.SimpleNamespace(**parts, __name__="mine", stored_info=lambda spec: {})
    with pytest.raises(ValueError, match=r"^mine stores values of info, which a goal replay"):
        start(algo=algo)


@pytest.mark.complete
@pytest.mark.parametrize("make", [Reach, JaxReach])
def test_two_devices_learn_what_one_learns(make):
    one, _ = finish(start(make), 36)
    two, _ = finish(start(make, devices=2), 36)
    near = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6)
    jax.tree.map(near, one.learner.params, devices.unreplicate(two.learner.params))


@pytest.mark.complete
def test_dqn_replays_goals_too():
    class Steps(Reach):
        def __init__(self):
            super().__init__()
            self.action_space = gymnasium.spaces.Discrete(3, start=-1)

        def step(self, action):
            return super().step([action])

    spec = dqn.Spec(EnvSpec.of(Steps()), hidden=(8,))
    carry, _ = finish(loop.start(dqn, spec, Steps, reach.schedule(), 0), 36)
    assert carry.updates == 6
