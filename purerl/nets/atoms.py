r"""Distributions of returns over fixed atoms, as pure functions.

A distribution is K probabilities `[..., K]` of K returns at equal distances: the atoms from `-high`
to `high`. A critic returns their logits.

Reference: Bellemare et al., 2017, https://arxiv.org/abs/1707.06887 (C51).
"""

from typing import Any

import jax
import jax.numpy as jnp

from purerl import checks


def make_atoms(number: int, high: float) -> jax.Array:
    """Return the atoms `[K]`."""
    return jnp.linspace(-high, high, number, dtype=jnp.float32)


def mean(prob: jax.Array, high: float) -> jax.Array:
    """Return the mean returns `[...]` of distributions `[..., K]`."""
    return prob @ make_atoms(prob.shape[-1], high)


def project(values: Any, prob: Any, high: float) -> jax.Array:
    r"""Move distributions over any values `[..., K]` to the K atoms.

    Each probability goes to the two atoms around its value, in proportion to their nearness. Values
    beyond the ends go to the last atom there. Otherwise the mean is kept.

    .. math::
        m_j = \sum_k p_k \left( 1 - \frac{|\mathrm{clip}(v_k) - z_j|}{\Delta z} \right)_+

    Args:
        values: Values `[..., K]`.
        prob: Their probabilities `[..., K]`.
        high: Largest atom.

    Example:
        >>> project(jnp.array([0.5, 3.0, 1.0]), jnp.array([0.5, 0.25, 0.25]), 1.0).tolist()
        [0.0, 0.25, 0.75]
    """
    checks.shape("prob", prob, jnp.shape(values))
    number = values.shape[-1]
    place = (jnp.clip(values, -high, high) + high) * ((number - 1) / (2 * high))
    below = jnp.floor(place).clip(0, number - 2)  # all of the last atom is above
    share = place - below
    row = number * jnp.arange(place.size // number)[:, None]
    index = row + below.astype(jnp.int32).reshape(-1, number)
    lower, upper = ((prob * x).reshape(-1, number) for x in (1.0 - share, share))
    found = jnp.zeros(place.size, jnp.float32).at[index].add(lower).at[index + 1].add(upper)
    return found.reshape(place.shape)
