"""Several seeds on environments of Gymnasium."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from purerl import mpi
from purerl.buffers import replay
from purerl.errors import Diverged, EnvFault, EpisodesLost, NoTimeLimit
from purerl.loops import acting, devices, offpolicy, scan, snapshot
from purerl.loops import gym as loop
from purerl.spaces import EnvSpec
from tests.loops.hindsight import reach
from tests.loops.scan.drift import make_case, mark_complete
from tests.loops.scan.test_loop import split_numbers
from tests.loops.seeds.slide import finish, make_args

SEEDS = (3, 0, 7)


def assert_same(mine, alone, rtol=2e-3, atol=2e-4):
    """Compare a carry with that of its single run: counters and episodes exactly."""
    names = ("seed", "steps", "calls", "updates", "epoch", "ep_lengths")
    assert [getattr(mine, x) for x in names] == [getattr(alone, x) for x in names]
    (numbers, actions, _), (others, expected, _) = (x.envs.list_episodes() for x in (mine, alone))
    assert numbers == others
    host = ("obs", "ep_return", "ep_returns", "tally", "learner", "surplus")
    pair = [[getattr(x, name) for name in host] for x in (mine, alone)]
    pair[0].append([*actions, mine.buffer]), pair[1].append([*expected, alone.buffer])
    chex.assert_trees_all_close(*pair, rtol=rtol, atol=atol)


def assert_as_alone(args, seeds=SEEDS, **close):
    """Train seeds together and alone, and compare carries and records."""
    together, epochs = finish(loop.start(*args, seeds=seeds))
    for i, carry in enumerate(loop.split(together)):
        alone, expected = finish(loop.start(*args, seed=seeds[i]))
        assert_same(carry, alone, **close)
        for mine, other in zip([one[i] for one in epochs], expected, strict=True):
            (counts, numbers), (others, close_to) = map(split_numbers, (mine, other))
            assert counts == others
            chex.assert_trees_all_close(numbers, close_to, rtol=5e-3, atol=5e-4)
        carry.envs.close()
        alone.envs.close()


CASES = ("dqn", "acer", "ddpg", "td3", "sac", "crossq", "xqc", "tqc", "reinforce", "vpg", "trpo")
CASES += ("ppo", "pqn", "redq", "sac_discrete")


@pytest.mark.parametrize("name", mark_complete(CASES, CASES[2:]))
def test_each_seed_ends_as_if_it_had_been_trained_alone(name):
    assert_as_alone(make_args(name))


@pytest.mark.complete
def test_each_seed_sums_and_scales_its_own_rewards():
    assert_as_alone(make_args("dqn", n_step=3, scale_rewards=True))


@pytest.mark.complete
def test_a_lost_episode_ends_in_the_replay_buffer_of_its_seed_alone():
    algo, spec, make, schedule = make_args("dqn", n_step=3, scale_rewards=True)

    def make_lost():
        return SyncVectorEnv([make, make], autoreset_mode=AutoresetMode.SAME_STEP)

    makers = [make_lost if seed == 0 else make for seed in SEEDS]
    together, _ = finish(loop.start(algo, spec, makers, schedule, seeds=SEEDS), until=24)
    before = np.array(together.data.buffer.data.truncated)
    calls = iter([False, True])
    together, _ = loop.advance(together, lambda: next(calls))
    with pytest.warns(EpisodesLost):
        together, _ = loop.advance(together)
    before[1, 22:24] = True
    np.testing.assert_array_equal(together.data.buffer.data.truncated[:, :24], before[:, :24])


@pytest.mark.parametrize("name", mark_complete(("dqn", "ppo"), ("dqn", "ppo")))
def test_each_seed_with_one_environment_ends_as_if_it_had_been_trained_alone(name):
    assert_as_alone(make_args(name, num_envs=1))


@pytest.mark.parametrize("name", mark_complete(("dqn", "ppo"), ("ppo",)))
def test_seeds_whose_vector_environments_need_different_numbers_of_steps(name):
    algo, spec, make, schedule = make_args(name)

    def env_fn():
        return SyncVectorEnv([make, make], autoreset_mode=AutoresetMode.NEXT_STEP)

    args = (algo, spec, env_fn, schedule)
    together, uneven = loop.start(*args, seeds=SEEDS), 0
    while together.carries[0].steps < schedule.steps:
        together, _ = loop.advance(together)
        uneven += len({one.calls for one in together.carries}) > 1
    assert uneven
    assert_as_alone(args)


@pytest.mark.complete
@pytest.mark.parametrize("kind", [reach.Reach, reach.JaxReach])
def test_seeds_replay_goals_as_if_they_had_been_trained_alone(kind):
    algo = reach.td3
    spec = algo.Spec(EnvSpec.of(reach.Reach()), hidden=(8,))

    def env_fn():
        return kind(terminates=True)

    assert_as_alone((algo, spec, env_fn, reach.schedule()), SEEDS)


def test_rewards_of_new_goals_come_from_the_environment_of_each_seed():
    class Broken(reach.Reach):
        is_broken = False

        def compute_reward(self, achieved, desired, info):
            scale = np.nan if self.is_broken and np.ndim(achieved) > 1 else 1.0
            return super().compute_reward(achieved, desired, info) * scale

    spec = reach.td3.Spec(EnvSpec.of(reach.Reach()), hidden=(8,))
    args = (reach.td3, spec, [reach.Reach, Broken], reach.schedule())
    together, _ = finish(loop.start(*args, seeds=(5, 6)), until=12)
    Broken.is_broken = True
    with pytest.raises(EnvFault, match="compute_reward of the environment must return") as caught:
        loop.advance(together)
    assert caught.value.__notes__ == ["The seed is 6."]
    assert together.is_stale  # the block is in its replay buffer


def test_all_seeds_act_and_learn_in_one_program_per_step_and_burst(monkeypatch):
    counts = {"act": 0, "random": 0, "burst": 0}

    def count(module, name, key):
        old = getattr(module, name)

        def counted(*args):
            counts[key] += 1
            return old(*args)

        monkeypatch.setattr(module, name, counted)

    count(acting, "_act", "act")
    count(acting, "draw_random_actions", "random")
    count(offpolicy, "run_burst", "burst")
    together, _ = finish(loop.start(*make_args("dqn"), seeds=SEEDS))
    # 84 steps in two environments, the first 14 at random; borders every 8 steps and at 30 and 60
    assert counts == {"act": 35, "random": 7, "burst": 13}
    assert together.carries[0].calls == 42


def test_seeds_are_split_saved_evaluated_and_joined_again_in_the_middle_of_a_run():
    args = make_args("dqn", num_test_episodes=2)
    whole, _ = finish(loop.start(*args, seeds=SEEDS))
    whole = loop.split(whole)
    together, _ = finish(loop.start(*args, seeds=SEEDS), until=40)
    carries = loop.split(together)
    frozen = snapshot.freeze(carries[2])
    assert len(loop.evaluate_epoch(carries[1], args[2])["test_returns"]) == 2
    together, _ = finish(together, until=50)  # those that were split may go on
    again, _ = finish(loop.join(loop.split(together)))
    for a, b in zip(loop.split(again), whole, strict=True):
        assert_same(a, b, rtol=1e-6, atol=1e-6)
    resumed, lost = snapshot.thaw(loop.start(*args, seed=SEEDS[2]), frozen)
    assert lost == []
    assert_same(finish(resumed)[0], whole[2])


def test_carries_that_share_environments_are_stale_after_an_advance_of_one_of_them():
    args = make_args("dqn")
    together = loop.start(*args, seeds=(3, 0))
    first, second = loop.split(together)
    loop.advance(first)
    assert [one.is_stale for one in (together, first, second)] == [True, True, False]
    for use in (loop.advance, loop.split):
        with pytest.raises(ValueError, match="these carries were consumed by an earlier advance"):
            use(together)
    joined = loop.join([second])
    moved, _ = loop.advance(joined)
    for old in (second, joined.carries[0]):
        for use in (loop.advance, snapshot.freeze, lambda one: loop.join([one])):
            with pytest.raises(ValueError, match="this carry was consumed by an earlier advance"):
                use(old)
    assert [one.is_stale for one in (joined, moved)] == [True, False]


def test_a_stopped_advance_of_seeds_is_discarded_and_repeated():
    args = make_args("dqn")
    expected = loop.split(finish(loop.start(*args, seeds=SEEDS))[0])
    together, _ = finish(loop.start(*args, seeds=SEEDS), until=32)
    calls = []
    same, record = loop.advance(together, lambda: calls.append(1) or len(calls) == 2)
    assert same is together
    assert (record, len(calls), together.is_stale) == (None, 2, False)
    for mine, other in zip(loop.split(finish(together)[0]), expected, strict=True):
        assert_same(mine, other, rtol=1e-6, atol=1e-6)


def test_a_fault_names_its_seed_and_leaves_the_others_as_they_were():
    args = make_args("dqn")
    expected = loop.split(finish(loop.start(*args, seeds=SEEDS))[0])
    together, _ = finish(loop.start(*args, seeds=SEEDS), until=32)
    # in the last step of the block, when the first seed is done
    together.carries[1].envs.envs[1].faults = [*[None] * 3, ArithmeticError("worn out")]
    with pytest.raises(EnvFault, match="environment 1 raised ArithmeticError in step") as caught:
        loop.advance(together)
    assert caught.value.__notes__ == ["The seed is 0."]
    assert not together.is_stale
    mine, _ = finish(loop.split(together)[2])  # without the others
    assert_same(mine, expected[2])


def test_all_seeds_go_on_after_a_fault():
    args = make_args("dqn")
    expected = loop.split(finish(loop.start(*args, seeds=SEEDS))[0])
    together, _ = finish(loop.start(*args, seeds=SEEDS), until=32)
    together.carries[1].envs.envs[1].faults = [None, ArithmeticError(), OSError()]
    with pytest.raises(EnvFault, match="raised ArithmeticError"):
        loop.advance(together)
    with pytest.raises(EnvFault, match="raised OSError") as caught:  # while episodes are replayed
        loop.advance(together)
    assert caught.value.__notes__ == ["The seed is 0."]
    for mine, other in zip(loop.split(finish(together)[0]), expected, strict=True):
        assert_same(mine, other, rtol=1e-6, atol=1e-6)


def test_a_divergence_names_its_seed():
    together, _ = finish(loop.start(*make_args("dqn"), seeds=(4, 5)), until=16)
    learner = together.data.learner
    critic = jax.tree.map(lambda x: x.at[1].set(jnp.nan), learner.params.critic)
    params = dataclasses.replace(learner.params, target_critic=critic)
    data = together.data._replace(learner=dataclasses.replace(learner, params=params))
    with pytest.raises(Diverged, match="loss_q, q, target not finite") as caught:
        finish(dataclasses.replace(together, data=data))
    assert caught.value.__notes__ == ["The seed is 5."]


def test_each_seed_has_environments_of_its_own():
    algo, spec, make, schedule = make_args("dqn")
    with pytest.raises(ValueError, match=r"must be a function .* Seeds cannot share an env"):
        loop.start(algo, spec, make(), schedule, seeds=SEEDS)
    with pytest.raises(ValueError, match="for each of 3 seeds, got 2 of them"):
        loop.start(algo, spec, [make, make], schedule, seeds=SEEDS)
    with pytest.raises(ValueError, match="env_fn must be a function that makes an env"):
        loop.start(algo, spec, [make, make()], schedule, seeds=(0, 1))
    made = []
    makers = [lambda i=i: made.append(i) or make() for i in range(2)]
    together = loop.start(algo, spec, makers, schedule, seeds=(3, 0))
    assert made == [0, 0, 1, 1]
    with pytest.raises(ValueError, match="environments of their own"):
        loop.join([loop.split(together)[0]] * 2)


def test_a_refused_start_closes_the_environments_of_all_seeds():
    algo, spec, make, schedule = make_args("dqn", num_envs=1)
    closed = []

    def make_or_fail():
        env = make()
        env.close = lambda: closed.append(env)
        return env

    def fail():
        raise OSError("no room")

    with pytest.raises(EnvFault, match="no room"):
        loop.start(algo, spec, [make_or_fail, make_or_fail, fail], schedule, seeds=SEEDS)
    assert len(closed) == 2


def test_ranks_devices_and_mixed_loops_are_refused(monkeypatch):
    args = make_args("dqn")

    def unmade():
        return pytest.fail("an environment was made")

    with pytest.raises(ValueError, match="need one device, got devices=2. Set devices=1"):
        loop.start(*args[:2], unmade, dataclasses.replace(args[3], devices=2), seeds=SEEDS)
    one, other = loop.start(*args, seed=0), scan.start(*make_case("dqn"), seed=1)
    wide = dataclasses.replace(one, schedule=dataclasses.replace(one.schedule, devices=2))
    with pytest.raises(ValueError, match="need one device, got devices=2"):
        loop.join([wide])
    for pair in ([one, other], [other, one]):
        with pytest.raises(ValueError, match="must be of the same loop"):
            loop.join(pair)
    longer = loop.start(*args[:3], dataclasses.replace(args[3], steps=90), seed=1)
    with pytest.raises(ValueError, match="must have the same schedule"):
        loop.join([one, longer])
    algo, spec, env_fn, schedule = args
    narrow = loop.start(algo, algo.Spec(spec.env, hidden=(4,)), env_fn, schedule, seed=1)
    with pytest.raises(ValueError, match=r"share one spec.* purerl sweep"):
        loop.join([one, narrow])
    monkeypatch.setattr(mpi, "num_procs", lambda: 2)
    with pytest.raises(ValueError, match="need one rank, got 2. Start the seeds one after"):
        loop.start(*args[:2], unmade, args[3], seeds=SEEDS)


def test_memory_is_checked_for_all_seeds(monkeypatch):
    algo, spec, env_fn, schedule = make_args("dqn", replay_size=1_000_000)
    need = sum(devices.estimate_memory(spec.env, schedule.resolve(1), None).values())
    monkeypatch.setattr(replay, "free_memory", lambda: 9 * need)
    with pytest.raises(ValueError, match="Lower replay_size"):
        loop.start(algo, spec, env_fn, schedule, seeds=range(5))


def test_seeds_warn_once_of_the_same_environments():
    with pytest.warns(NoTimeLimit) as caught:
        loop.start(*make_args("dqn"), seeds=SEEDS)
    assert len([one for one in caught if one.category is NoTimeLimit]) == 1
