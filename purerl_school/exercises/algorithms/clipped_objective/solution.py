"""Solution of exercise 3.3: PPO's clipped objective."""

import jax
import jax.numpy as jnp


def actor_loss(
    logp: jax.Array, old_logp: jax.Array, adv: jax.Array, clip_ratio: float
) -> jax.Array:
    """Return the clipped surrogate loss, a mean over rows. Its gradient flows into `logp` only.

    Args:
        logp: Log-probabilities `[B]` under the policy that learns.
        old_logp: Log-probabilities `[B]` under the policy that acted.
        adv: Advantages `[B]`.
        clip_ratio: Clip range of the probability ratio.

    Returns:
        The loss `()`, which an optimizer minimises.
    """
    old_logp, adv = jax.lax.stop_gradient((old_logp, adv))
    ratio = jnp.exp(logp - old_logp)  # [B]
    clipped = jnp.clip(ratio, 1.0 - clip_ratio, 1.0 + clip_ratio)
    return -jnp.minimum(ratio * adv, clipped * adv).mean()
