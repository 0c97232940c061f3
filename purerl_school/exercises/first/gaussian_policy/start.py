"""Exercise 1.2: a diagonal Gaussian policy.

    act = mean + std * noise
    log pi(act) = -1/2 sum_i [((act_i - mean_i) / std_i)^2 + 2 log std_i + log 2 pi]
    entropy = sum_i [log std_i + 1/2 log(2 pi e)]

The gradient of the log-probability treats the action as a constant. Check your function:

    purerl exercise check 1.2
"""

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
    raise NotImplementedError("write sample_action, and delete this line")
