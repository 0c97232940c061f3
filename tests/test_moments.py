"""Standardisation and running moments, against known numbers and over several ranks."""

import functools
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purerl import moments, mpi
from purerl.spaces import Box
from tests.cases import CASES


def near(got: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


def f32(*numbers: float) -> jax.Array:
    return jnp.array(numbers, jnp.float32)


def test_running_moments_never_forget_a_row():
    rows = np.random.default_rng(0).normal(size=(5, 30_000)) + 3 * np.arange(5)[:, None]
    merged = moments.init_moments(())
    for block in rows:
        merged = moments.merge(merged, jnp.float32(block))
    near(merged.mean, rows.mean(), 1e-4)
    near(merged.var, rows.var(), 1e-4)
    assert float(merged.rows) == rows.size


def test_standardise_counts_only_weighted_rows_and_maps_constants_to_zero():
    x, weight = f32(1, 2, 3, 100), f32(2, 2, 2, 0)
    got = moments.standardise(x, weight)
    near(got[:3], (-np.sqrt(1.5), 0, np.sqrt(1.5)))
    for many in (5, 4_000):
        for constant in (7.0, 1.1, 0.1, 1000.1, -3.3):  # not all have an exact mean
            equal = jnp.full(many, constant)
            near(moments.standardise(equal, jnp.ones(many)), np.zeros(many), 0)
            rounded = equal.at[::2].multiply(1 + 1e-7)
            near(moments.standardise(rounded, jnp.ones(many)), np.zeros(many), 0)
    near(moments.standardise(x, 0 * x), np.zeros(4), 0)
    near(moments.standardise(1e20 * x, 0 * x), np.zeros(4), 0)
    small = 100.0 + 0.01 * x[:3]  # a small difference is no rounding error
    near(moments.standardise(small, jnp.ones(3)), (-np.sqrt(1.5), 0, np.sqrt(1.5)), 1e-3)
    tiny = 1e-7 * x[:3]
    near(moments.standardise(tiny, jnp.ones(3)), (-np.sqrt(1.5), 0, np.sqrt(1.5)), 0.15)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_makes_all_results_nan(bad):
    assert np.isnan(moments.standardise(f32(1, bad, 2), jnp.ones(3))).all()
    got = moments.standardise(f32(1, bad, 2), f32(1, 0, 1))  # a row of weight 0 has no effect
    near(got[jnp.array([0, 2])], (-1, 1))


def test_standardise_uses_the_population_deviation_of_all_ranks():
    x = jnp.float32(np.random.default_rng(0).normal(size=(2, 5)))
    split = jax.vmap(moments.standardise, axis_name=mpi.AXIS)(x, jnp.ones((2, 5)))
    near(split, (np.asarray(x) - np.mean(x)) / np.std(x))
    apart = jnp.float32([[1e4, 1e4], [1.0, 1.0]]) + jnp.float32([0.0, 1e-3])[None]
    split = jax.vmap(moments.standardise, axis_name=mpi.AXIS)(apart, jnp.ones((2, 2)))
    near(split, [[1, 1], [-1, -1]], 1e-3)
    ranks = jax.vmap(moments.standardise, axis_name=mpi.AXIS)
    equal = ranks(jnp.float32([[1e4, 1e4 + 2e-3], [0.0, 0.0]]), jnp.float32([[1, 1], [0, 0]]))
    near(equal, np.zeros((2, 2)), 0)  # all ranks share one limit of rounding


def test_weights_are_scaled_to_mean_one_over_all_ranks():
    near(moments.scale_to_mean_one(f32(1, 0, 0, 1)), (2, 0, 0, 2))
    near(moments.scale_to_mean_one(jnp.zeros(3)), (0, 0, 0))
    near(moments.scale_to_mean_one(jnp.zeros(4_000).at[7].set(1.0))[7], 4_000)
    split = jax.vmap(moments.scale_to_mean_one, axis_name=mpi.AXIS)(
        jnp.array([[1.0, 1.0], [0.0, 1.0]])
    )
    near(split, [[4 / 3, 4 / 3], [0, 4 / 3]])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 10**6))
def test_moments_do_not_depend_on_how_rows_are_split(sizes, seed):
    chunks = [np.random.default_rng(seed + i).normal(3, 2, (n, 2)) for i, n in enumerate(sizes)]
    seen = moments.init_moments((2,))
    for chunk in chunks:
        seen = moments.merge(seen, jnp.float32(chunk))
    everything = np.concatenate(chunks)
    near(seen.mean, everything.mean(axis=0), 1e-4)
    near(seen.var, everything.var(axis=0), 1e-4)  # population variance
    assert float(seen.rows) == len(everything)


def test_moments_merge_the_rows_of_all_ranks():
    x = jnp.float32(np.random.default_rng(0).normal(size=(3, 4, 2)))
    merge = jax.vmap(lambda r: moments.merge(moments.init_moments((2,)), r), axis_name=mpi.AXIS)
    wanted = np.mean(x, axis=(0, 1)), np.var(x, axis=(0, 1)), np.float32(12.0)
    wanted = moments.Moments(*(np.stack([w] * 3) for w in wanted))
    chex.assert_trees_all_close(merge(x), wanted, rtol=1e-5, atol=1e-5)


def test_scale_shifts_divides_and_clips_and_gives_statistics_no_gradient():
    seen = moments.Moments(f32(1, 2), f32(4, 9), jnp.float32(10))
    x = jnp.array([[3.0, -1.0], [100.0, 2.0]])
    near(moments.scale(x, seen), [[1, -1], [10, 0]])
    near(moments.scale(x, seen, shift=False), [[1.5, -1 / 3], [10, 2 / 3]])
    constant = moments.Moments(f32(1, 2), f32(0, 9), jnp.float32(10))
    near(moments.scale(f32(1, 2), constant), [0, 0])
    far = jnp.array([[3.0, -1e6]])
    near(moments.scale(far, moments.init_moments((2,))), far)  # unchanged before the first row
    grads = jax.grad(lambda m: moments.scale(x, m).sum())(seen)
    chex.assert_trees_all_equal(grads, jax.tree.map(jnp.zeros_like, seen))


OFF_POLICY = (
    "td3",
    "sac-auto",
    *(
        pytest.param(x, marks=pytest.mark.complete)
        for x in ("ddpg", "dqn-double", "sac_discrete", "tqc", "redq")
    ),
)
SEEN = moments.Moments(
    jnp.array([1.0, -2.0, 30.0]), jnp.array([0.5, 4.0, 900.0]), jnp.float32(50.0)
)


@functools.cache
def make_pair(name):
    """Return a learner that normalises observations and one that does not, with equal networks."""
    case = CASES[name]
    init = jax.jit(case.algo.init, static_argnums=1)
    scaled = init(jax.random.key(0), case.spec(normalise_obs=True))
    plain = init(jax.random.key(0), case.spec())
    assert plain.params.obs_stats is None
    assert float(scaled.params.obs_stats.rows) == 0
    return case, scaled.replace(params=scaled.params.replace(obs_stats=SEEN)), plain


def scale_by_hand(obs):
    mean, var = (np.float64(x) for x in SEEN[:2])
    return np.float32(np.clip((obs - mean) / np.sqrt(var + 1e-8), -10, 10))


def trained(state):
    """The parts of a state that an optimizer or a target update changes."""
    params = {
        name: getattr(state.params, name)
        for name in vars(state.params)
        if name not in ("spec", "obs_stats")
    }
    return params, state.opt_state


def agree(a, b):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=2e-4, atol=1e-5), a, b)


@pytest.mark.parametrize("name", OFF_POLICY)
def test_losses_and_updates_see_scaled_observations(name):
    case, scaled, plain = make_pair(name)
    batch = case.noisy()
    by_hand = batch._replace(obs=scale_by_hand(batch.obs), next_obs=scale_by_hand(batch.next_obs))
    for part in (*case.parts, "loss"):
        loss = jax.jit(jax.value_and_grad(getattr(case.algo, part), has_aux=True))
        (value, info), grads = loss(scaled.params, batch)
        (wanted, wanted_info), wanted_grads = loss(plain.params, by_hand)
        agree((value, info), (wanted, wanted_info))
        agree(*(trained(plain.replace(params=g))[0] for g in (grads, wanted_grads)))
    (new, info), (wanted, wanted_info) = (
        case.algo.update(scaled, batch),
        case.algo.update(plain, by_hand),
    )
    agree((trained(new), info), (trained(wanted), wanted_info))


@pytest.mark.parametrize("name", OFF_POLICY)
def test_actions_and_values_use_scaled_observations(name):
    case, scaled, plain = make_pair(name)
    obs = case.noisy().obs
    key = jax.random.key(3)
    for act in (lambda p, o: case.algo.act(p, o, key), case.algo.policy):
        agree(act(scaled.params, obs), act(plain.params, scale_by_hand(obs)))
    act = (case.noisy().act,) if isinstance(case.env.action, Box) else ()
    agree(
        case.algo.q_value(scaled.params, obs, *act),
        case.algo.q_value(plain.params, scale_by_hand(obs), *act),
    )


@pytest.mark.parametrize("name", OFF_POLICY)
def test_an_update_adds_its_observations_to_the_statistics_after_its_steps(name):
    case, scaled, _ = make_pair(name)
    batch = case.noisy()
    new, _ = case.algo.update(scaled, batch)
    mean, var, rows = (np.float64(x) for x in SEEN)
    obs, total = np.float64(batch.obs), rows + len(batch.obs)
    merged = (rows * mean + obs.sum(axis=0)) / total
    second = (rows * (var + mean**2) + (obs**2).sum(axis=0)) / total
    np.testing.assert_allclose(new.params.obs_stats.mean, merged, rtol=1e-5)
    np.testing.assert_allclose(new.params.obs_stats.var, second - merged**2, rtol=1e-4)
    assert float(new.params.obs_stats.rows) == total


@pytest.mark.parametrize("name", OFF_POLICY)
def test_ranks_with_parts_of_a_batch_share_the_statistics_of_observations(name):
    case, scaled, _ = make_pair(name)
    batch = case.noisy()
    parts = jax.tree.map(lambda x: x.reshape(2, 3, *x.shape[1:]), batch)
    split = jax.vmap(case.algo.update, in_axes=(None, 0), axis_name=mpi.AXIS)
    many, _ = split(scaled, parts)
    one, _ = case.algo.update(scaled, batch)
    for rank in range(2):
        agree(jax.tree.map(lambda x, i=rank: x[i], many.params.obs_stats), one.params.obs_stats)
