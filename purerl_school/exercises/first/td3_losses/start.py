"""Exercise 1.3: the losses of TD3.

    next_act = clip(target_actor(next_obs) + clip(0.2 * noise, -0.5, 0.5), -1, 1)
    target   = rew + gamma (1 - terminated) min of both target critics(next_obs, next_act)
    loss_q   = sum over both critics of mean((critic(obs, act) - target)^2)
    loss_pi  = -mean(first critic(obs, actor(obs)))

The targets get no gradient from loss_q, and the critics get none from loss_pi. Check it:

    purerl exercise check 1.3
"""

from typing import Any

import jax
import jax.numpy as jnp

from purerl.types import Batch

GAMMA = 0.99
TARGET_NOISE, NOISE_CLIP = 0.2, 0.5


def actor(params: Any, obs: jax.Array) -> jax.Array:
    """Return the actions `[B, A]` of the policy, in [-1, 1]."""
    return jnp.tanh(jnp.tanh(obs @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"])


def critic(params: Any, obs: jax.Array, act: jax.Array) -> jax.Array:
    """Return the values `[B]` of actions."""
    pair = jnp.concatenate([obs, act], axis=1)
    return (jnp.tanh(pair @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"])[:, 0]


def compute_losses(params: Any, batch: Batch, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the loss of the critics and the loss of the policy.

    Args:
        params: Dictionary with `actor` and `target_actor`, and the pairs `critic` and
            `target_critic`.
        batch: obs, act, rew, next_obs, terminated and truncated, with B rows.
        noise: Standard normal numbers `[B, A]`.
    """
    raise NotImplementedError("write compute_losses, and delete this line")
