"""Exercise 2.1: what a value function does to a policy gradient.

    grads_i            = score_i (ret_i - val_i)
    gradient           = mean of grads over the N rows
    variance           = mean over the rows of |grads_i - gradient|^2
    explained variance = 1 - Var(ret - val) / Var(ret)

The check ends with a study: VPG with values that are trained, and with values that are not.

    purerl exercise check 2.1
"""

import jax
import jax.numpy as jnp


def measure_gradient(
    score: jax.Array, ret: jax.Array, val: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the explained variance, the policy gradient `[P]` and the variance of its estimates.

    Args:
        score: Gradients of the log-probabilities `[N, P]`.
        ret: Returns `[N]`.
        val: Values `[N]`.
    """
    raise NotImplementedError("write measure_gradient, and delete this line")
