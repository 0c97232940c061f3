"""Exercise 3.5: the loss of SAC's temperature.

Fill in `alpha_loss`. Then check it:

    purerl exercise check 3.5
"""

import jax
import jax.numpy as jnp


def alpha_loss(log_alpha: jax.Array, logp: jax.Array, target_entropy: float) -> jax.Array:
    """Return the loss that drives the entropy to its target. It has no gradient in `logp`.

    Args:
        log_alpha: Logarithm `()` of the temperature.
        logp: Log-probabilities `[B]` of actions sampled from the policy.
        target_entropy: Entropy that the policy should have.

    Returns:
        The loss `()`, a mean over rows.
    """
    raise NotImplementedError("write alpha_loss, and delete this line")
