r"""The tanh-squashed diagonal Gaussian, as pure functions on arrays.

An action is :math:`a = \tanh(u)` with :math:`u \sim \mathcal{N}(\mu, \sigma^2)` per dimension, so
it lies in (-1, 1); its density is a change of variables away from the Gaussian's. Everything is
written in terms of the unsquashed :math:`u`, since :math:`\tanh^{-1}` of a rounded action has lost
the tails. All functions broadcast over leading axes; the last axis A is that of the action.
"""

import math

import jax
import jax.numpy as jnp


def sample(mean: jax.Array, log_std: jax.Array, noise: jax.Array) -> jax.Array:
    """Return unsquashed samples `[..., A]` from standard normals of the same shape."""
    return mean + jnp.exp(log_std) * noise


def squash(unsquashed: jax.Array) -> jax.Array:
    """Return the actions `[..., A]` in (-1, 1)."""
    return jnp.tanh(unsquashed)


def mode(mean: jax.Array) -> jax.Array:
    """Return the action at the Gaussian's mean: the median of each dimension."""
    return squash(mean)


def log_prob(mean: jax.Array, log_std: jax.Array, unsquashed: jax.Array) -> jax.Array:
    r"""Return the log-density of `squash(unsquashed)`, summed over the action axis.

    .. math::
        \log \pi(a) = \sum_i \log \mathcal{N}(u_i; \mu_i, \sigma_i) - \log(1 - \tanh^2 u_i), \qquad
        \log(1 - \tanh^2 u) = 2 (\log 2 - u - \mathrm{softplus}(-2 u))

    The right-hand form stays exact where :math:`1 - \tanh^2 u` rounds to zero.

    Example:
        >>> zero, one = jnp.zeros(1), jnp.ones(1)
        >>> round(float(log_prob(0.5 * one, -0.5 * one, one)), 6)
        0.108838
    """
    gaussian = -0.5 * jnp.square((unsquashed - mean) / jnp.exp(log_std)) - log_std
    gaussian = gaussian - 0.5 * math.log(2 * math.pi)
    squashing = 2.0 * (math.log(2.0) - unsquashed - jax.nn.softplus(-2.0 * unsquashed))
    return (gaussian - squashing).sum(axis=-1)


def entropy(mean: jax.Array, log_std: jax.Array, noise: jax.Array) -> jax.Array:
    """Return the one-sample estimate of the entropy `[...]`: there is no closed form."""
    return -log_prob(mean, log_std, sample(mean, log_std, noise))
