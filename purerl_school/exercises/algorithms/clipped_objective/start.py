"""Exercise 3.3: PPO's clipped objective.

Fill in `actor_loss`. Then check it:

    purerl exercise check 3.3
"""

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
    raise NotImplementedError("write actor_loss, and delete this line")
