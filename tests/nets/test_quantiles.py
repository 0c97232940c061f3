"""Quantiles compared with numbers computed by hand, and with loops in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.nets import quantiles

TARGET = np.float32([0.7376, 1.7276, 2.7176, 3.2126])


def add_up(predicted, samples):
    """Return the loss of one row, by a loop in float64."""
    number, total = len(predicted), 0.0
    for j, z in enumerate(np.float64(predicted)):
        for y in np.float64(samples):
            error = y - z
            level = (2 * j + 1) / (2 * number)
            weight = level if error >= 0 else 1 - level
            total += weight * (error**2 / 2 if abs(error) <= 1 else abs(error) - 0.5)
    return total / number / len(samples)


def test_levels_are_the_middles_of_equal_parts():
    np.testing.assert_allclose(quantiles.midpoints(3), [1 / 6, 1 / 2, 5 / 6], rtol=1e-6)
    assert quantiles.midpoints(1).tolist() == [0.5]


def test_the_largest_of_all_pooled_quantiles_are_dropped():
    """Without pooling, [1, 2] and [4, 5] would remain in the second row."""
    pooled = np.float32([[[1, 2, 3], [3, 1, 2]], [[0, 2.5, 10], [6, 5, 4]]])  # [E, B, M]
    wanted = [[0, 1, 2, 2.5], [1, 2, 3, 4]]
    assert quantiles.pool_smallest(pooled, 4).tolist() == wanted
    assert quantiles.pool_smallest(pooled[::-1], 4).tolist() == wanted
    assert quantiles.pool_smallest(pooled, 6)[0].tolist() == [0, 1, 2, 2.5, 3, 10]
    one = np.float32([[[4.0], [-1.0]], [[3.0], [2.0]]])
    assert quantiles.pool_smallest(one, 1).tolist() == [[3.0], [-1.0]]  # the minimum, as in SAC


def test_the_loss_of_an_example_by_hand():
    """With tau and 1 - tau exchanged, it would be 0.348."""
    predicted = np.float32([[1, 2, 3], [2, 2, 2]])
    found = quantiles.huber_loss(predicted, TARGET[None])
    assert found.mean() == pytest.approx(0.18951122, rel=1e-6)
    np.testing.assert_allclose(found, [add_up(row, TARGET) for row in predicted], rtol=1e-6)


def test_the_loss_equals_a_loop_inside_and_outside_of_the_quadratic_region():
    rng = np.random.default_rng(0)
    predicted = 2 * rng.normal(size=(2, 3, 5)).astype(np.float32)
    samples = 2 * rng.normal(size=(3, 4)).astype(np.float32)
    found = quantiles.huber_loss(predicted, samples[None])
    wanted = [[add_up(predicted[i, b], samples[b]) for b in range(3)] for i in range(2)]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_the_gradient_is_the_weighted_and_limited_error():
    predicted, samples = np.float32([0.3, -2.0, 1.5]), np.float32([0.0, 1.0, -4.0, 0.9])
    found = jax.grad(quantiles.huber_loss)(predicted, samples)
    error = samples[None].astype(np.float64) - predicted[:, None]
    weight = np.where(error < 0, 1 - np.array([[1], [3], [5]]) / 6, np.array([[1], [3], [5]]) / 6)
    np.testing.assert_allclose(found, -(weight * error.clip(-1, 1)).sum(axis=1) / 12, rtol=1e-5)


def test_descent_finds_the_quantiles_of_widely_spread_samples():
    """Within an error of 1 the loss has expectiles instead, so the samples spread over 100."""
    samples = jnp.arange(100) + 0.5

    def step(z, _):
        return z - 50 * jax.grad(quantiles.huber_loss)(z, samples), None

    found, _ = jax.lax.scan(step, jnp.zeros(5), length=400)
    np.testing.assert_allclose(found, [10, 30, 50, 70, 90], atol=1.0)
