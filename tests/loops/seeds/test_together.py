"""Several seeds in one program."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import mpi
from purerl.buffers import replay
from purerl.errors import Diverged, NonFiniteError
from purerl.loops import devices, scan, snapshot
from tests.loops.scan.drift import BOX, Drift, Params, make_case, mark_complete
from tests.loops.scan.test_loop import finish, split_numbers


def finish_together(together):
    epochs = []
    while together.carries[0].steps < together.carries[0].schedule.steps:
        together, records = scan.advance(together)
        epochs += [records] if records else []
    return together, epochs


@pytest.mark.parametrize(
    "name", mark_complete(("dqn", "acer", "td3", "ppo", "pqn"), ("acer", "td3", "ppo", "pqn"))
)
def test_each_seed_ends_as_if_it_had_been_trained_alone(name):
    args, seeds = make_case(name), (3, 0, 7)
    together, epochs = finish_together(scan.start(*args, seeds=seeds))
    for i, (seed, carry) in enumerate(zip(seeds, scan.split(together), strict=True)):
        alone, records = finish(scan.start(*args, seed=seed))
        assert (carry.seed, carry.updates, carry.calls) == (seed, alone.updates, alone.calls)
        chex.assert_trees_all_close(carry.learner, alone.learner, rtol=2e-3, atol=2e-4)
        chex.assert_trees_all_close(carry.episodes, alone.episodes, rtol=2e-3, atol=2e-4)
        if carry.buffer is not None:
            chex.assert_trees_all_close(carry.buffer, alone.buffer, rtol=2e-3, atol=2e-4)
        for mine, other in zip([one[i] for one in epochs], records, strict=True):
            (counts, numbers), (others, expected) = map(split_numbers, (mine, other))
            assert counts == others
            chex.assert_trees_all_close(numbers, expected, rtol=5e-3, atol=5e-4)


@pytest.mark.parametrize("name", mark_complete(("dqn", "ppo"), ("ppo",)))
def test_seeds_are_split_and_joined_again_in_the_middle_of_a_run(name):
    args = make_case(name)
    whole, _ = finish_together(scan.start(*args, seeds=(0, 1)))
    together = scan.start(*args, seeds=(0, 1))
    together.carries[0].envs.pace.target = 0.0
    together, _ = scan.advance(together)
    together, _ = scan.advance(together)
    first, second = scan.split(together)
    again, _ = finish_together(scan.join([first, second]))
    for a, b in zip(scan.split(again), scan.split(whole), strict=True):
        chex.assert_trees_all_equal(a.learner, b.learner)
    alone, _ = finish(second)
    expected = scan.split(whole)[1]
    chex.assert_trees_all_close(alone.learner, expected.learner, rtol=2e-3, atol=2e-4)


def test_seeds_that_do_not_go_together_are_refused(monkeypatch):
    args = make_case("ppo")
    for seeds, message in (((), "at least one seed"), ((1, 1), "seeds must be different")):
        with pytest.raises(ValueError, match=message):
            scan.start(*args, seeds=seeds)
    with pytest.raises(ValueError, match="seed must be an integer"):
        scan.start(*args, seeds=(0, 2**40))
    with pytest.raises(ValueError, match="at least one carry"):
        scan.join([])
    with pytest.raises(ValueError, match="give either seed or seeds"):
        scan.start(*args)
    with pytest.raises(ValueError, match="give either seed or seeds"):
        scan.start(*args, seed=1, seeds=(2,))
    first, second = (scan.start(*args, seed=seed) for seed in (0, 1))
    later, _ = scan.advance(second)
    with pytest.raises(ValueError, match="must have the same steps, got 0 and 16"):
        scan.join([first, later])
    algo, _, env, schedule = args
    other = algo.Spec(env.spec, hidden=(4,))
    with pytest.raises(ValueError, match="share one spec"):
        scan.join([first, scan.start(algo, other, env, schedule, seed=1)])
    shorter = dataclasses.replace(env, max_steps=5)
    with pytest.raises(ValueError, match=r"must have the same envs, got .*max_steps=5"):
        scan.join([first, scan.start(*args[:2], shorter, schedule, seed=1)])
    monkeypatch.setattr(mpi, "num_procs", lambda: 2)
    with pytest.raises(ValueError, match="need one rank, got 2"):
        scan.join([first])


def test_seeds_are_consumed_like_a_carry_and_accept_integers_of_numpy():
    together = scan.start(*make_case("dqn"), seeds=np.arange(2))
    scan.advance(together)
    with pytest.raises(ValueError, match="consumed by an earlier advance"):
        scan.advance(together)


def test_carries_of_several_seeds_are_used_after_split_only():
    args = make_case("dqn")
    together = scan.start(*args, seeds=(0, 1))
    for use in (scan.advance, snapshot.freeze, lambda one: scan.join([one])):
        with pytest.raises(ValueError, match=r"part of several seeds.*with one of split"):
            use(together.carries[0])
    together, _ = scan.advance(old := together)
    for use in (scan.advance, scan.split):
        with pytest.raises(ValueError, match="these carries were consumed by an earlier advance"):
            use(old)
    with pytest.raises(ValueError, match="carries must be a list of carries, got Together in it"):
        scan.join([together])


def test_a_consumed_carry_is_neither_saved_nor_joined():
    carry = scan.start(*make_case("ppo"), seed=0)
    scan.advance(carry)
    for use in (snapshot.freeze, lambda one: scan.join([one])):
        with pytest.raises(ValueError, match="consumed by an earlier advance"):
            use(carry)


def test_seeds_are_any_integers_in_a_row():
    args = make_case("ppo")
    for seeds in (range(2), np.arange(2), jnp.arange(2), iter([0, 1])):
        assert [carry.seed for carry in scan.start(*args, seeds=seeds).carries] == [0, 1]
    assert scan.start(*args, seed=np.uint32(3)).seed == 3
    for seeds in (5, [[0]]):
        with pytest.raises(ValueError, match=r"seeds must be integers such as range\(8\)"):
            scan.start(*args, seeds=seeds)
    with pytest.raises(ValueError, match="seed must be an integer in"):
        scan.start(*args, seeds=(0, 1.5))


@dataclasses.dataclass(frozen=True)
class Spike(Drift):
    """One reward of each long episode has a square that overflows."""

    def step(self, key, state, action, params):
        state, obs, reward, terminated, info = super().step(key, state, action, params)
        return state, obs, reward + np.float32(1e30) * (state[1] == 5), terminated, info


def test_an_error_names_the_seed_whose_learning_diverged():
    algo, _, _, schedule = make_case("ddpg")
    env = Spike(BOX)
    with pytest.raises(Diverged, match=r"\w+ not finite") as caught:
        finish_together(
            scan.start(algo, algo.Spec(env.spec, hidden=(8,)), env, schedule, seeds=(3, 4))
        )
    assert caught.value.__notes__ == ["The seed is 3."]


def test_a_fault_names_its_seed():
    algo, spec, env, schedule = make_case("dqn")
    env = dataclasses.replace(env, params=Params(bad_reward_at=1, bad_above=0.3))
    with pytest.raises(NonFiniteError, match="environment 1") as caught:
        finish_together(scan.start(algo, spec, env, schedule, seeds=(1, 1000)))
    assert caught.value.__notes__ == ["The seed is 1."]


def test_a_divergence_names_its_seed_and_the_arrays():
    together = scan.start(*make_case("dqn"), seeds=(4, 5))
    learner = together.data.learner
    critic = jax.tree.map(lambda x: x.at[1].set(jnp.nan), learner.params.critic)
    params = dataclasses.replace(learner.params, target_critic=critic)
    data = together.data._replace(learner=dataclasses.replace(learner, params=params))
    with pytest.raises(Diverged, match="not finite") as caught:
        finish_together(dataclasses.replace(together, data=data))
    assert caught.value.__notes__ == ["The seed is 5."]
    assert caught.value.seed == 5
    ((carry, record),) = caught.value.survivors.values()
    assert (carry.seed, carry.steps, record) == (4, 8, None)
    assert np.isfinite(jax.tree.leaves(carry.learner.params)[0]).all()
    scan.advance(carry)


def test_memory_is_checked_for_all_seeds(monkeypatch):
    algo, spec, env, schedule = make_case("dqn", replay_size=1_000_000)
    need = devices.estimate_memory(spec.env, schedule.resolve(1), None)
    monkeypatch.setattr(replay, "free_memory", lambda: 9 * sum(need.values()))
    scan.start(algo, spec, env, schedule, seeds=(0,))
    with pytest.raises(ValueError, match="Lower replay_size"):
        scan.start(algo, spec, env, schedule, seeds=range(5))
