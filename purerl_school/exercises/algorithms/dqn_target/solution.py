"""Solution of exercise 3.4: the targets of DQN and of double DQN."""

import jax
import jax.numpy as jnp


def target(
    rew: jax.Array,
    terminated: jax.Array,
    truncated: jax.Array,
    target_q: jax.Array,
    online_q: jax.Array,
    gamma: float,
    double: bool,
) -> jax.Array:
    """Return what the values of the actions taken should be, without a gradient.

    Args:
        rew: Rewards `[B]`.
        terminated: Booleans `[B]`, whether a step led to a terminal state.
        truncated: Booleans `[B]`, whether a time limit ended the episode after a step.
        target_q: Values `[B, n]` of all actions in the next state, by the target network.
        online_q: Values `[B, n]` of all actions in the next state, by the online network.
        gamma: Discount factor.
        double: Whether the online network chooses the action (double Q-learning).

    Returns:
        Targets `[B]`.
    """
    chooser = online_q if double else target_q
    action = chooser.argmax(axis=1)  # [B]
    value = jnp.take_along_axis(target_q, action[:, None], axis=1)[:, 0]  # [B]
    return jax.lax.stop_gradient(rew + gamma * (1.0 - terminated) * value)
