"""Solution of exercise 3.5: the loss of SAC's temperature."""

import jax


def alpha_loss(log_alpha: jax.Array, logp: jax.Array, target_entropy: float) -> jax.Array:
    """Return the loss that drives the entropy to its target. It has no gradient in `logp`.

    Args:
        log_alpha: Logarithm `()` of the temperature.
        logp: Log-probabilities `[B]` of actions sampled from the policy.
        target_entropy: Entropy that the policy should have.

    Returns:
        The loss `()`, a mean over rows.
    """
    gap = jax.lax.stop_gradient(logp) + target_entropy  # [B], positive if the entropy is too low
    return -log_alpha * gap.mean()
