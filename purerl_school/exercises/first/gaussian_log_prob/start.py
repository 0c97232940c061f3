"""Exercise 1.1: the log-probability of a diagonal Gaussian.

    log pi(x) = -1/2 sum_i [((x_i - mean_i) / std_i)^2 + 2 log std_i + log 2 pi]

The sum is over the A dimensions of an action. Check your function:

    purerl exercise check 1.1
"""

import jax
import jax.numpy as jnp


def log_prob(x: jax.Array, mean: jax.Array, log_std: jax.Array) -> jax.Array:
    """Return the log-probability `[B]` of each action.

    Args:
        x: Actions `[B, A]`.
        mean: Means `[B, A]`.
        log_std: Log standard deviations `[B, A]`, or `[A]` for all rows.
    """
    raise NotImplementedError("write log_prob, and delete this line")
