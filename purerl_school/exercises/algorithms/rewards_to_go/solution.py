"""Solution of exercise 3.1: rewards-to-go of several episodes in one array."""

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
    returns = []
    later = next_val[-1]  # what follows the last row
    for t in reversed(range(len(rew))):
        later = jnp.where(truncated[t], next_val[t], later)
        later = jnp.where(terminated[t], 0.0, later)  # last, because it wins over a time limit
        later = rew[t] + gamma * later
        returns.append(later)
    return jnp.stack(returns[::-1])
