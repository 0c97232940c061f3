"""Counters, rows, ends of episodes and faults inside compiled programs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import rng
from purerl.loops.scan import stepping
from purerl.loops.scan.stepping import Clock, Stored, World
from purerl.types import Transition
from tests.loops.scan.drift import Drift, Params


@pytest.mark.parametrize("start", [0, 7, 2**32 - 3, 2**40 + 2**32 - 1])
def test_counters_are_added_across_the_border_of_32_bits(start):
    for number in (0, 1, 5, 2**31 - 1):
        added = jax.jit(stepping.add_words)(rng.words(start), np.int32(number))
        assert added.tolist() == rng.words(start + number).tolist()
        assert added.dtype == jnp.uint32


def test_keys_of_a_rollout_are_those_of_single_counters():
    keys = stepping.draw_keys(lambda w: rng.stream(3, 1, "act", w), rng.words(2**32 - 2), 4)
    expected = [rng.stream(3, 1, "act", 2**32 - 2 + i) for i in range(4)]
    assert [a == b for a, b in zip(keys, expected, strict=True)] == [True] * 4


WORLD = World(Drift(), 3, None)


def make_rows(rew):
    number = len(rew)
    obs, flags = np.zeros((number, 2), np.float32), np.zeros(number, bool)
    act = np.zeros(number, np.int32)
    return jax.tree.map(jnp.asarray, Transition(obs, act, np.float32(rew), obs + 1, flags, flags))


def test_the_first_row_that_is_not_finite_is_kept():
    fault = stepping.init_fault(jax.tree.map(lambda x: x[0], make_rows([0.0])))
    find = jax.jit(stepping.find_fault, static_argnums=0)
    assert int(find(WORLD, fault, make_rows([1.0, 2.0, 3.0]), 0).place) == -1
    fault = find(WORLD, fault, make_rows([1.0, np.inf, np.nan]), 30)
    assert int(fault.place) == 31
    assert np.isposinf(fault.row.rew).tolist() == [True]
    later = find(WORLD, fault, make_rows([np.nan, 0.0, 0.0]), 60)
    assert int(later.place) == 31
    assert np.isposinf(later.row.rew).tolist() == [True]


def test_rewards_that_are_not_sparse_are_faults_only_where_they_must_be():
    fault = stepping.init_fault(jax.tree.map(lambda x: x[0], make_rows([0.0])))
    for rewards, place in (([-1.0, 0.0, 0.5], 2), ([-1.0, -2.0, 0.0], 1), ([-1.0, 0.0, 0.0], -1)):
        rows = make_rows(rewards)
        assert int(stepping.find_fault(WORLD._replace(sparse=True), fault, rows, 0).place) == place
        assert int(stepping.find_fault(WORLD, fault, rows, 0).place) == -1


@pytest.mark.parametrize("field", ["obs", "next_obs"])
def test_observations_that_are_not_finite_are_found(field):
    rows = make_rows([0.0, 0.0])
    bad = getattr(rows, field).at[1, 0].set(jnp.nan)
    fault = stepping.init_fault(jax.tree.map(lambda x: x[0], rows))
    assert int(stepping.find_fault(WORLD, fault, rows._replace(**{field: bad}), 4).place) == 5


def play(world, steps, seed=0):
    """Step with the action 2; return all rows and ends `[T, N, ...]`."""
    clock = Clock(np.uint32(seed), np.uint32(0), rng.words(0), rng.words(0))
    episodes = stepping.reset(world, world.env.params, np.array([seed, 0], np.uint32))
    act, rows, ends = jnp.full(world.num_envs, 2, jnp.int32), [], []
    step = jax.jit(
        lambda episodes: stepping.take_step(world, world.env.params, clock, episodes, act)
    )
    for _ in range(steps):
        episodes, row, end = step(episodes)
        rows.append(row)
        ends.append(end)
    return (jax.tree.map(lambda *x: np.stack(x), *one) for one in (rows, ends))


def test_ends_have_the_return_and_length_of_their_episode_and_values_of_info():
    world = World(Drift(params=Params(noise=0.0)), 3, 4, log=("cost", "far"))
    rows, ends = play(world, 12)
    assert ends.ended.sum() == 9  # every fourth step of three environments
    assert (ends.lengths[ends.ended] == 4).all()
    for i in range(3):
        totals = rows.rew[:, i].reshape(3, 4).sum(axis=1)
        np.testing.assert_allclose(ends.returns[3::4, i], totals, rtol=1e-5)
    np.testing.assert_allclose(ends.infos[..., 0], rows.next_obs[..., 0])
    assert not ends.infos[ends.ended][:, 1].any()


def test_stored_values_of_info_are_part_of_the_rows():
    store = (Stored("cost", (), "float32"), Stored("far", (), "int32"))
    rows, _ = play(World(Drift(), 2, 4, store=store), 9)
    np.testing.assert_array_equal(rows.extra["cost"], rows.next_obs[..., 0])
    np.testing.assert_array_equal(rows.extra["far"], rows.terminated)
    assert rows.extra["far"].dtype == np.int32


def test_values_of_info_of_another_shape_or_dtype_are_named():
    with pytest.raises(ValueError, match=r"info\['cost'\] of step must be int32, .* got float32"):
        play(World(Drift(), 2, 4, store=(Stored("cost", (), "int32"),)), 1)
    with pytest.raises(ValueError, match=r"info\['cost'\] .* must have shape \(2, 3\), got"):
        play(World(Drift(), 2, 4, store=(Stored("cost", (3,), "float32"),)), 1)
    with pytest.raises(ValueError, match=r"info\['place'\] .* must have shape \(2,\), got"):
        play(World(Located(), 2, 4, log=("place",)), 1)
    with pytest.raises(ValueError, match=r"info\['parts'\] of step must be an array"):
        play(World(Located(), 2, 4, log=("parts",)), 1)


class Located(Drift):
    """`info` contains a vector, and a dictionary."""

    def step(self, *args):
        *others, _ = super().step(*args)
        return *others, {"place": others[1], "parts": {"x": others[1]}}


def test_values_of_info_that_are_missing_are_named():
    for wanted in (
        {"log": ("nothing",)},
        {"store": (Stored("nothing", (), "bool"),)},
        {"goals": True},
    ):
        with pytest.raises(ValueError, match=r"must return info\['(nothing|achieved_goal)'\], got"):
            play(World(Drift(), 1, 4, **wanted), 1)


def test_the_ends_of_a_step_are_stored_in_its_row():
    world = World(Drift(), 2, 4, log=("cost",))
    _, ends = play(world, 3)
    table = stepping.store_ends(stepping.allocate_ends(world, 6), jnp.int32(2), ends)
    for field in stepping.Ends._fields:
        stored = np.asarray(getattr(table, field))
        np.testing.assert_array_equal(stored[2:5], getattr(ends, field))
        assert not stored[:2].any()
        assert not stored[5:].any()
