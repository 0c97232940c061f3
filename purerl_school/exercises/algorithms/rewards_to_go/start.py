"""Exercise 3.1: rewards-to-go of several episodes in one array.

Fill in `reward_to_go`. Then check it:

    purerl exercise check 3.1
"""

import jax
import jax.numpy as jnp


def reward_to_go(
    rew: jax.Array,
    next_val: jax.Array,
    terminated: jax.Array,
    truncated: jax.Array,
    gamma: float,
) -> jax.Array:
    """Return the discounted sum of the rewards from each step on, bootstrapped at cuts.

    A cut is a step that is truncated, and the last row. A terminated step has no future.

    Args:
        rew: Rewards `[T]`, in order of time.
        next_val: Values `[T]` of the true successor of each step.
        terminated: Booleans `[T]`, whether a step led to a terminal state.
        truncated: Booleans `[T]`, whether a time limit ended the episode after a step.
        gamma: Discount factor.

    Returns:
        Rewards-to-go `[T]`.
    """
    raise NotImplementedError("write reward_to_go, and delete this line")
