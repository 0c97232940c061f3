"""Exercise 3.2: generalised advantage estimation.

Fill in `gae`. Then check it:

    purerl exercise check 3.2
"""

import jax
import jax.numpy as jnp


def gae(
    rew: jax.Array,
    val: jax.Array,
    next_val: jax.Array,
    terminated: jax.Array,
    truncated: jax.Array,
    gamma: float,
    lam: float,
) -> jax.Array:
    """Return generalised advantage estimates. All arrays are `[T]` or `[T, N]`, time first.

    Args:
        rew: Rewards.
        val: Values of the states.
        next_val: Values of the true successors.
        terminated: Booleans, whether a step led to a terminal state.
        truncated: Booleans, whether a time limit ended the episode after a step.
        gamma: Discount factor.
        lam: 0 for errors of one step, 1 for whole returns.

    Returns:
        Advantages in the shape of `rew`.
    """
    raise NotImplementedError("write gae, and delete this line")
