"""`start`, `advance`, `run` and `evaluate` over environments in JAX."""

import dataclasses
import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import errors, rng
from purerl.algos import ddpg, dqn, ppo
from purerl.envs.bit_flipping import BitFlipping
from purerl.loops import choose_loop, gym, scan, snapshot
from purerl.loops.hindsight import rewards
from purerl.loops.scan import evaluation, stepping
from purerl.loops.scan import loop as scan_loop
from purerl.loops.scan.stepping import World
from purerl.spaces import Box
from purerl.types import list_arrays
from tests.loops.scan.drift import (
    CASES,
    DISCRETE,
    Drift,
    Params,
    make_case,
    make_twins,
    mark_complete,
    off,
)


def finish(carry, loop=scan):
    """Advance to the end; return the last carry and all records."""
    records = []
    while carry.steps < carry.schedule.steps:
        carry, record = loop.advance(carry)
        records += [record] if record else []
    return carry, records


def split_numbers(record):
    """Return the counts of a record, and its other numbers."""
    counts = {k: v for k, v in record.items() if k in ("epoch", "steps", "updates", "ep_lengths")}
    return counts, {k: np.asarray(v) for k, v in record.items() if k not in counts}


SLOW = ("td3", "ddpg", "sac", "sac_discrete", "crossq", "tqc", "redq", "xqc", "vpg", "trpo")
SLOW += ("acer", "pqn")


@pytest.mark.parametrize("name", mark_complete(CASES, SLOW))
def test_both_loops_make_the_same_transitions_and_parameters(name):
    algo, spec, env, schedule = make_case(name)
    scanned, records = finish(scan.start(algo, spec, env, schedule, seed=5))
    stepped, others = finish(gym.start(algo, spec, make_twins(env, 5), schedule, seed=5), gym)
    assert scanned.updates == stepped.updates > 3
    assert scanned.calls == stepped.calls
    chex.assert_trees_all_close(scanned.learner, stepped.learner, rtol=2e-3, atol=2e-4)
    np.testing.assert_allclose(scanned.obs, stepped.obs, rtol=2e-3, atol=2e-4)
    for mine, other in zip(records, others, strict=True):
        (counts, numbers), (other_counts, other_numbers) = map(split_numbers, (mine, other))
        assert counts == other_counts
        chex.assert_trees_all_close(numbers, other_numbers, rtol=5e-3, atol=5e-4)
    if scanned.buffer is not None:
        rows, others = (list_arrays(one.buffer.data) for one in (scanned, stepped))
        chex.assert_trees_all_close(rows, others, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("rows", mark_complete((50, 51), (50, 51)))
def test_both_loops_sum_and_scale_rewards_alike(rows):
    """51 rows are no multiple of 2 environments, and are added in another way."""
    changes = {"n_step": 3, "scale_rewards": True, "replay_size": rows}
    algo, spec, env, schedule = make_case("dqn", **changes)
    scanned, records = finish(scan.start(algo, spec, env, schedule, seed=5))
    stepped, others = finish(gym.start(algo, spec, make_twins(env, 5), schedule, seed=5), gym)
    for field in ("learner", "buffer"):
        pair = (getattr(carry, field) for carry in (scanned, stepped))
        chex.assert_trees_all_close(*pair, rtol=2e-3, atol=2e-4)
    scales = [[record["return_scale"] for record in several] for several in (records, others)]
    np.testing.assert_allclose(*scales, rtol=1e-3)


CHANGED = {"n_step": 3, "scale_rewards": True}
RESUMED = [("dqn", {}), ("ppo", {}), ("acer", {}), ("dqn", CHANGED), ("pqn", {})]


@pytest.mark.parametrize(("name", "changes"), mark_complete(RESUMED, RESUMED[3:]))
def test_the_length_of_programs_and_a_resume_never_change_a_bit(name, changes):
    args = make_case(name, **changes)
    whole, records = finish(scan.start(*args, seed=3))
    carry, others = scan.start(*args, seed=3), []
    carry.envs.pace.target = 0.0  # every program as short as possible
    while carry.steps < 40 or not carry.steps % args[-1].steps_per_epoch:
        carry, record = scan.advance(carry)
        others += [record] if record else []
    frozen = snapshot.freeze(carry)
    carry, lost = snapshot.thaw(scan.start(*args, seed=3), frozen)
    assert not lost
    carry, rest = finish(carry)
    assert others + rest == records
    for field in ("learner", "episodes", "buffer", "tally"):
        chex.assert_trees_all_equal(getattr(carry, field), getattr(whole, field))


class Keyed(Drift):
    """The state contains typed keys, also of another generator than JAX's default."""

    def reset(self, key, params):
        state, obs = super().reset(key, params)
        return (state, key, jax.random.key(0, impl="rbg")), obs

    def step(self, key, state, action, params):
        inner, own, other = state
        own, _ = jax.random.split(own)
        inner, *others = super().step(own, inner, action, params)
        return (inner, own, other), *others


def test_a_state_may_contain_typed_keys():
    algo, spec, _, schedule = make_case("ppo")
    whole, _ = finish(scan.start(algo, spec, Keyed(), schedule, seed=3))
    carry = scan.start(algo, spec, Keyed(), schedule, seed=3)
    carry.envs.pace.target = 0.0
    frozen = snapshot.freeze(scan.advance(carry)[0])
    carry, _ = finish(snapshot.thaw(scan.start(algo, spec, Keyed(), schedule, seed=3), frozen)[0])
    chex.assert_trees_all_equal(carry.learner, whole.learner)


def test_another_seed_makes_other_episodes_and_other_parameters():
    ends = [finish(scan.start(*make_case("ppo"), seed=seed))[0] for seed in (0, 1)]
    assert not np.allclose(ends[0].obs, ends[1].obs)
    leaves = [np.concatenate([x.ravel() for x in jax.tree.leaves(e.learner.params)]) for e in ends]
    assert not np.allclose(*leaves)


def test_an_epoch_reports_the_episodes_that_ended_in_it_with_values_of_info():
    algo, spec, env, schedule = make_case("ppo", log_info=("far", "cost"))
    _, records = finish(scan.start(algo, spec, env, schedule, seed=0))
    for record in records:
        assert len(record["ep_far"]) == len(record["ep_cost"]) == len(record["ep_returns"]) > 0
        for length, far in zip(record["ep_lengths"], record["ep_far"], strict=True):
            assert 1 <= length <= 7
            assert far or length == 7
    assert any(not far for record in records for far in record["ep_far"])


def test_max_ep_len_cuts_episodes_below_the_limit_of_the_environment():
    for given, longest in ((3, 3), (50, 7)):
        _, records = finish(scan.start(*make_case("ppo", max_ep_len=given), seed=0))
        assert max(n for record in records for n in record["ep_lengths"]) == longest


def test_run_evaluates_every_epoch_with_other_episodes_than_those_of_training():
    algo, spec, env, schedule = make_case("dqn", num_test_episodes=4)
    running = scan.run(algo, spec, env, schedule, seed=0)
    records = list(running)
    assert [record["steps"] for record in records] == [30, 60, 84]
    returns = [tuple(record["test_returns"]) for record in records]
    assert all(len(one) == 4 == len(set(one)) for one in returns)
    assert len(set(returns)) == 3
    assert not set(returns[0]) & set(records[0]["ep_returns"])


def test_evaluation_follows_the_greedy_policy_and_counts_whole_episodes():
    algo, spec, _, _ = make_case("dqn")
    params = algo.init(jax.random.key(0), spec).params
    env = Drift(DISCRETE, params=Params(noise=0.0))
    found = scan.evaluate(algo, params, env, seed=1, epoch=2, episodes=5, log_info=("far",))
    again = scan.evaluate(algo, params, env, seed=1, epoch=2, episodes=5, log_info=("far",))
    assert found == again
    assert found != scan.evaluate(algo, params, env, 1, 3, 5, log_info=("far",))
    explored = scan.evaluate(algo, params, env, 1, 2, 5, deterministic=False, log_info=("far",))
    assert explored != found
    assert scan.evaluate(algo, params, env, 1, 2, 5, max_ep_len=2)["test_lengths"] == [2] * 5
    assert scan.evaluate(algo, params, env, 1, 2, 5, should_stop=lambda: True) == {}


@dataclasses.dataclass(frozen=True)
class Echo(Drift):
    """Rewards are the actions, and `info` has the number of the step."""

    def step(self, key, state, action, params):
        after, obs, _, terminated, _ = super().step(key, state, action, params)
        return after, obs, action, terminated, {"number": after[1]}


def test_evaluation_logs_the_last_step_of_each_episode():
    algo, spec, _, _ = make_case("dqn")
    params = algo.init(jax.random.key(0), spec).params
    found = scan.evaluate(algo, params, Echo(), 1, 2, 9, log_info=("number",))
    assert found["test_number"] == found["test_lengths"]
    assert len(set(found["test_lengths"])) > 1  # some environments step on after their end


def test_exploring_evaluation_draws_other_actions_at_each_step():
    algo, spec, _, _ = make_case("dqn")
    params = algo.init(jax.random.key(0), spec).params  # every action is random
    found = scan.evaluate(algo, params, Echo(), 1, 2, 9, deterministic=False)
    pairs = zip(found["test_returns"], found["test_lengths"], strict=True)
    assert any(total % length for total, length in pairs)


def test_a_return_of_evaluation_that_is_not_finite_is_refused():
    algo, spec, env, _ = make_case("dqn")
    params = algo.init(jax.random.key(0), spec).params
    bad = dataclasses.replace(env, params=Params(noise=0.0, bad_reward_at=0))
    with pytest.raises(errors.NonFiniteError, match="the return of a test episode is nan"):
        scan.evaluate(algo, params, bad, 1, 2, 3)


def test_values_to_log_that_are_given_stay():
    env = BitFlipping(n_bits=4)
    spec = dqn.Spec(env.spec, hidden=(8,))
    for given, logged in ((None, ("is_success",)), ((), ())):
        carry = scan.start(dqn, spec, env, off(log_info=given), seed=0)
        assert carry.schedule.log_info == logged


def test_evaluation_adds_up_the_rewards_of_the_states_that_the_policy_reaches():
    """Without noise the whole episode follows from its first observation."""
    algo, spec, _, _ = make_case("dqn")
    params = algo.init(jax.random.key(0), spec).params
    env = Drift(DISCRETE, params=Params(noise=0.0))
    seen = []

    class Policy:
        __name__, SCHEDULE, Spec, NOISE_DRAWS = "mine", algo.SCHEDULE, algo.Spec, 0
        init, act, loss, update = algo.init, algo.act, algo.loss, algo.update

        @staticmethod
        def policy(params, obs):
            jax.debug.callback(lambda x: seen.append(np.array(x)), obs)
            return algo.policy(params, obs)

    found = scan.evaluate(Policy, params, env, seed=1, epoch=2, episodes=2)
    jax.effects_barrier()
    for i, (length, total) in enumerate(
        zip(found["test_lengths"], found["test_returns"], strict=True)
    ):
        place, expected = seen[0][i], 0.0
        for _ in range(length):
            act = int(algo.policy(params, place))
            place = place + np.float32(0.2 * (act - 2.0))
            expected += 1.0 - np.abs(place).sum()
        np.testing.assert_allclose(total, expected, rtol=1e-4)
        assert length == 7 or np.abs(place).max() > 1.2


def test_goals_are_replayed_in_hindsight():
    env = BitFlipping(n_bits=4)
    spec = dqn.Spec(env.spec, hidden=(16,), clip_targets=True)
    schedule = off(steps=240, steps_per_epoch=120, replay_size=240, update_every=8)
    carry, records = finish(scan.start(dqn, spec, env, schedule, seed=0))
    assert carry.relabelling is not None
    assert all(0 <= np.mean(record["ep_is_success"]) <= 1 for record in records)
    extra = carry.buffer.data.extra
    assert set(np.unique(extra["env"])) == {0, 1}
    steps = np.asarray(extra["step"])[np.asarray(extra["env"]) == 0]
    assert steps[0] == 0  # the first row of the first episode
    assert all(b in (a + 1, 0) for a, b in itertools.pairwise(steps))
    plain, _ = finish(scan.start(dqn, spec, env, dataclasses.replace(schedule, her=False), seed=0))
    assert plain.relabelling is None


@dataclasses.dataclass(frozen=True)
class Reach(Drift):
    """A goal, an action that must be at least 1, and a choice of what `info` contains."""

    action: Box = Box((1.0,), (2.0,))  # noqa: RUF009
    goals: int = 1

    @property
    def spec(self):
        return dataclasses.replace(super().spec, goal_size=1)

    def step(self, key, state, action, params):
        assert action.shape == (1,)
        state, obs, *_ = super().step(key, state, jnp.concatenate([action, action]), params)
        reward = -jnp.sqrt(action[0] - 1.0)
        return state, obs, reward, False, {"achieved_goal": obs[: self.goals]}

    def jax_compute_reward(self, achieved_goal, desired_goal, info):
        return jnp.zeros(len(achieved_goal))


def test_an_environment_with_goals_is_tried_with_an_action_inside_its_bounds():
    env, schedule = Reach(), off(steps=8, her=False)
    scan.start(ddpg, ddpg.Spec(env.spec, hidden=(8,)), env, schedule, seed=0)
    assert rewards._try_jax_step(env).reward == 0.0
    env = Reach(goals=2)
    with pytest.raises(ValueError, match=r"info\['achieved_goal'\] of step must have shape \(1,\)"):
        scan.start(ddpg, ddpg.Spec(env.spec, hidden=(8,)), env, schedule, seed=0)


def test_the_length_of_a_program_is_limited(monkeypatch):
    args = make_case("dqn", steps=120, steps_per_epoch=120)
    whole, records = finish(scan.start(*args, seed=3))
    monkeypatch.setattr(scan_loop, "MOST_ROWS", 16)  # two bursts
    carry, others = finish(scan.start(*args, seed=3))
    assert others == records
    chex.assert_trees_all_equal(carry.learner, whole.learner)


def test_the_length_of_programs_changes_no_evaluation(monkeypatch):
    algo, spec, env, _ = make_case("dqn")
    params = algo.init(jax.random.key(0), spec).params
    args = (algo, params, env, 1, 2, 5)
    expected = scan.evaluate(*args, deterministic=False)
    monkeypatch.setattr(evaluation, "TEST_STEPS", 2)
    assert scan.evaluate(*args, deterministic=False) == expected


def test_numbers_that_are_not_finite_end_the_run_and_name_the_step():
    for name, step in (("dqn", 5), ("ppo", 5)):
        algo, spec, env, schedule = make_case(name)
        env = dataclasses.replace(env, params=Params(noise=0.0, bad_reward_at=2))
        with pytest.raises(errors.NonFiniteError, match=f"rew of .* 0 .* step {step}: nan"):
            finish(scan.start(algo, spec, env, schedule, seed=0))


def test_both_loops_name_the_same_environment_and_step():
    algo, spec, env, schedule = make_case("dqn")
    env = dataclasses.replace(env, params=Params(bad_reward_at=1, bad_above=0.3))
    with pytest.raises(errors.NonFiniteError) as compiled:
        finish(scan.start(algo, spec, env, schedule, seed=1))
    with pytest.raises(errors.NonFiniteError) as stepped:
        finish(gym.start(algo, spec, make_twins(env, 1), schedule, seed=1), gym)
    assert str(compiled.value) == str(stepped.value)
    assert "environment 1" in str(compiled.value)


@dataclasses.dataclass(frozen=True)
class Lucky(Drift):
    """Each reward is the number that the start of the episode drew; some episodes are short."""

    def step(self, key, state, action, params):
        place, number = state
        ended = (place[0] > 0) | (number == 5)
        return (place, number + 1), place, place[1], ended, {}


def test_each_test_episode_counts_once():
    """Short episodes are over long before the last one ends."""
    algo, spec, _, _ = make_case("dqn")
    env, params = Lucky(), algo.init(jax.random.key(0), spec).params
    found = scan.evaluate(algo, params, env, seed=1, epoch=2, episodes=9)
    words = np.array([rng.host_seed(1, 0, "eval", 2), 0], np.uint32)
    place = np.asarray(stepping.reset(World(env, 9, 7), env.params, words).obs)
    lengths = np.where(place[:, 0] > 0, 1, 6)
    assert found["test_lengths"] == lengths.tolist()
    assert {1, 6} == {*lengths.tolist()}
    np.testing.assert_allclose(found["test_returns"], lengths * place[:, 1], rtol=1e-5)


def test_clipped_targets_need_sparse_rewards():
    _, _, env, schedule = make_case("dqn")
    spec = dqn.Spec(env.spec, hidden=(8,), clip_targets=True)
    with pytest.raises(errors.EnvFault, match="clip_targets is for rewards of -1 and 0, got .* 1"):
        finish(scan.start(dqn, spec, env, schedule, seed=0))


def test_a_carry_is_used_once_and_by_its_own_loop():
    args = make_case("ppo")
    carry = scan.start(*args, seed=0)
    scan.advance(carry)
    with pytest.raises(ValueError, match="consumed by an earlier advance"):
        scan.advance(carry)
    stepped = gym.start(*args[:2], make_twins(args[2], 0), args[3], seed=0)
    with pytest.raises(ValueError, match=r"carry is one of purerl\.loops\.gym"):
        scan.advance(stepped)
    stepped.envs.close()
    with pytest.raises(ValueError, match=r"carry is one of purerl\.loops\.scan"):
        gym.advance(scan.start(*args, seed=0))
    end, _ = finish(scan.start(*args, seed=0))
    with pytest.raises(ValueError, match="the run is complete: 96 of 96 steps"):
        scan.advance(end)


def test_start_refuses_what_is_no_environment_in_jax_or_has_other_spaces():
    algo, spec, env, schedule = make_case("ppo")
    with pytest.raises(ValueError, match="env must be an environment in JAX"):
        scan.start(algo, spec, lambda: None, schedule, seed=0)
    with pytest.raises(ValueError, match=r"spec\.env must equal the spaces"):
        scan.start(algo, spec, CASES and Drift(action=make_case("td3")[2].action), schedule, seed=0)
    with pytest.raises(ValueError, match="must be hashable"):
        scan.start(algo, spec, dataclasses.replace(env, max_steps=np.zeros(2)), schedule, seed=0)


def test_the_loop_is_chosen_by_the_environment():
    assert choose_loop(Drift()) is scan
    assert choose_loop(lambda: Drift()) is gym
    assert choose_loop(Drift) is gym
    assert ppo
