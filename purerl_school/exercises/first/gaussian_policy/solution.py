"""Solution of exercise 1.2: a diagonal Gaussian policy."""

from typing import Any

import jax
import jax.numpy as jnp


def network(params: Any, obs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the mean `[B, A]` and the log standard deviation `[A]` of the policy."""
    hidden = jnp.tanh(obs @ params["w1"] + params["b1"])
    return hidden @ params["w2"] + params["b2"], params["log_std"]


def sample_action(
    params: Any, obs: jax.Array, key: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Sample actions `[B, A]`; return them, their log-probabilities `[B]` and entropies `[B]`.

    Args:
        params: Parameters of the network.
        obs: Observations `[B, O]`.
        key: PRNG key used for the actions.
    """
    mean, log_std = network(params, obs)
    noise = jax.random.normal(key, mean.shape)
    act = jax.lax.stop_gradient(mean + jnp.exp(log_std) * noise)
    z = (act - mean) / jnp.exp(log_std)
    logp = -0.5 * (z**2 + 2.0 * log_std + jnp.log(2.0 * jnp.pi)).sum(axis=-1)
    entropy = (log_std + 0.5 * jnp.log(2.0 * jnp.pi * jnp.e)).sum(axis=-1)
    return act, logp, jnp.broadcast_to(entropy, logp.shape)
