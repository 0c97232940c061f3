"""Solution of exercise 3.2: generalised advantage estimation."""

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
    delta = rew + gamma * (1.0 - terminated) * next_val - val
    continues = 1.0 - jnp.logical_or(terminated, truncated)  # 0 where an episode ends
    advantages = []
    later = jnp.zeros_like(delta[0])  # the advantage of the next row
    for t in reversed(range(len(rew))):
        later = delta[t] + gamma * lam * continues[t] * later
        advantages.append(later)
    return jnp.stack(advantages[::-1])
