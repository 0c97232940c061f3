"""Solution of exercise 1.1: the log-probability of a diagonal Gaussian."""

import jax
import jax.numpy as jnp


def log_prob(x: jax.Array, mean: jax.Array, log_std: jax.Array) -> jax.Array:
    """Return the log-probability `[B]` of each action.

    Args:
        x: Actions `[B, A]`.
        mean: Means `[B, A]`.
        log_std: Log standard deviations `[B, A]`, or `[A]` for all rows.
    """
    z = (x - mean) / jnp.exp(log_std)
    return -0.5 * (z**2 + 2.0 * log_std + jnp.log(2.0 * jnp.pi)).sum(axis=-1)
