r"""Tanh-squashed diagonal Gaussian distribution, as pure functions on arrays.

An action is :math:`a = \tanh(u)` with :math:`u \sim \mathcal{N}(\mu, \sigma^2)` per dimension, so
it lies in (-1, 1). Its density follows from the Gaussian's by a change of variables. All functions
use the unsquashed :math:`u`, because :math:`\tanh^{-1}` of a rounded action is wrong in the tails.
`sample` and `mode` return u, `log_prob` takes u, and `squash` turns u into an action. All functions
broadcast over leading axes. The last axis A has one entry per action dimension.
"""

import math

import jax
import jax.numpy as jnp

Dist = tuple[jax.Array, jax.Array]  # mean [..., A], log_std [..., A], before squashing


def sample(dist: Dist, noise: jax.Array) -> jax.Array:
    """Return unsquashed samples `[..., A]` from standard normals `[..., A]`."""
    mean, log_std = dist
    return mean + jnp.exp(log_std) * noise


def squash(unsquashed: jax.Array) -> jax.Array:
    """Squash samples to actions `[..., A]` in (-1, 1)."""
    return jnp.tanh(unsquashed)


def mode(dist: Dist) -> jax.Array:
    """Return the mean of the Gaussian, unsquashed. Squashed, it is the median action."""
    return dist[0]


def log_prob(dist: Dist, unsquashed: jax.Array) -> jax.Array:
    r"""Return the log-density of `squash(unsquashed)`, summed over the action axis.

    .. math::
        \log \pi(a) = \sum_i \log \mathcal{N}(u_i; \mu_i, \sigma_i) - \log(1 - \tanh^2 u_i), \qquad
        \log(1 - \tanh^2 u) = 2 (\log 2 - u - \mathrm{softplus}(-2 u))

    The form on the right stays exact when :math:`1 - \tanh^2 u` rounds to zero.

    Example:
        >>> one = jnp.ones(1)
        >>> round(float(log_prob((0.5 * one, -0.5 * one), one)), 6)
        0.108838
    """
    mean, log_std = dist
    gaussian = -0.5 * jnp.square((unsquashed - mean) / jnp.exp(log_std)) - log_std
    gaussian = gaussian - 0.5 * math.log(2 * math.pi)
    squashing = 2.0 * (math.log(2.0) - unsquashed - jax.nn.softplus(-2.0 * unsquashed))
    return (gaussian - squashing).sum(axis=-1)


def entropy(dist: Dist, noise: jax.Array) -> jax.Array:
    """Estimate the entropy `[...]` from one sample, because it has no closed form."""
    return -log_prob(dist, sample(dist, noise))
