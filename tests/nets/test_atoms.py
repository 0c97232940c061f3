"""Projection onto atoms, compared with numbers by hand and with a loop in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.nets import atoms

Z = np.linspace(-2, 2, 5)
P = np.array([0.1, 0.2, 0.4, 0.2, 0.1])


def hat(values, prob, high):
    """Give each probability to its neighbours by the nearness of atoms, in float64."""
    number = prob.shape[-1]
    z, gap = np.linspace(-high, high, number), 2 * high / (number - 1)
    near = np.maximum(1 - np.abs(np.clip(values, -high, high)[..., None] - z) / gap, 0)
    return (prob[..., None] * near).sum(axis=-2)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (0.5 + 0.9 * (Z + 0.3), [0.003, 0.123, 0.266, 0.374, 0.234]),
        (np.full(5, 0.5), [0, 0, 0.5, 0.5, 0]),  # a terminal step
        (3.0 + 0.9 * (Z + 0.3), [0, 0, 0, 0.053, 0.947]),
        (Z, P),  # exact hits, also of both ends
        (Z + 1, [0, 0.1, 0.2, 0.4, 0.3]),
        (Z - 10, [1, 0, 0, 0, 0]),
        (Z + 10, [0, 0, 0, 0, 1]),
    ],
)
def test_projections_equal_numbers_by_hand(values, expected):
    found = atoms.project(jnp.float32(values), jnp.float32(P), 2.0)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_projections_of_many_rows_equal_a_loop_and_keep_the_mean():
    rng = np.random.default_rng(0)
    values = rng.normal(0, 3, (4, 7, 51)).astype(np.float32)
    prob = rng.dirichlet(np.ones(51), (4, 7)).astype(np.float32)
    found = jax.jit(atoms.project, static_argnums=2)(values, prob, 5.0)
    np.testing.assert_allclose(found, hat(np.float64(values), np.float64(prob), 5.0), atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=-1), 1.0, rtol=1e-5)
    means = (np.clip(values, -5, 5) * prob).sum(axis=-1)
    np.testing.assert_allclose(atoms.mean(found, 5.0), means, atol=1e-5)


def test_the_mean_is_the_expectation_over_the_atoms():
    assert atoms.make_atoms(5, 2.0).tolist() == Z.tolist()
    assert atoms.mean(jnp.float32([[0, 0, 0.5, 0.25, 0.25]]), 2.0).tolist() == [0.75]


def test_probabilities_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="prob must have shape"):
        atoms.project(jnp.zeros((2, 5)), jnp.zeros(5), 2.0)
