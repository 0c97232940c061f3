"""Solution of exercise 2.1: what a value function does to a policy gradient."""

import jax


def measure_gradient(
    score: jax.Array, ret: jax.Array, val: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the explained variance, the policy gradient `[P]` and the variance of its estimates.

    Args:
        score: Gradients of the log-probabilities `[N, P]`.
        ret: Returns `[N]`.
        val: Values `[N]`.
    """
    explained = 1.0 - (ret - val).var() / ret.var()
    grads = score * (ret - val)[:, None]
    gradient = grads.mean(axis=0)
    variance = ((grads - gradient) ** 2).sum(axis=1).mean()
    return explained, gradient, variance
