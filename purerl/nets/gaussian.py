r"""Diagonal Gaussian distribution, as pure functions of its mean and log standard deviation.

All functions broadcast over leading axes. Densities, entropies and divergences are for the whole
action, so they sum over its dimensions, the last axis A.
"""

import math

import jax
import jax.numpy as jnp

Dist = tuple[jax.Array, jax.Array]  # mean [..., A], log_std [..., A]


def sample(dist: Dist, key: jax.Array) -> jax.Array:
    """Sample actions `[..., A]`, which are unbounded."""
    mean, log_std = dist
    return mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape, jnp.float32)


def mode(dist: Dist) -> jax.Array:
    """Return the means `[..., A]`."""
    return dist[0]


def log_prob(dist: Dist, act: jax.Array) -> jax.Array:
    r"""Return the log-density of actions `[..., A]`.

    .. math::
        \log \pi(a) = -\tfrac12 \sum_i [((a_i - \mu_i) / \sigma_i)^2 + 2 \log \sigma_i + \log 2\pi]
    """
    mean, log_std = dist
    score = jnp.square((act - mean) / jnp.exp(log_std))
    return -0.5 * (score + 2.0 * log_std + math.log(2.0 * math.pi)).sum(axis=-1)


def entropy(dist: Dist) -> jax.Array:
    r"""Return the joint entropy :math:`\sum_i \log \sigma_i + \tfrac12 \log 2 \pi e`."""
    return (dist[1] + 0.5 * math.log(2.0 * math.pi * math.e)).sum(axis=-1)


def kl(old: Dist, new: Dist) -> jax.Array:
    r"""Return the divergence :math:`KL(old \| new)`.

    .. math::
        \sum_i \log \frac{\sigma'_i}{\sigma_i}
            + \frac{\sigma_i^2 + (\mu_i - \mu'_i)^2}{2 \sigma'^2_i} - \frac12
    """
    (mean, log_std), (new_mean, new_log_std) = old, new
    # expm1 keeps the sum exact and non-negative if the two are nearly equal.
    ratio = 2.0 * (log_std - new_log_std)
    moved = jnp.square((mean - new_mean) / jnp.exp(new_log_std))
    return 0.5 * (jnp.expm1(ratio) - ratio + moved).sum(axis=-1)
