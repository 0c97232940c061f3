"""Solution of exercise 1.3: the losses of TD3."""

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
    smoothing = jnp.clip(TARGET_NOISE * noise, -NOISE_CLIP, NOISE_CLIP)
    next_act = jnp.clip(actor(params["target_actor"], batch.next_obs) + smoothing, -1.0, 1.0)
    first, second = (critic(one, batch.next_obs, next_act) for one in params["target_critic"])
    target = batch.rew + GAMMA * (1.0 - batch.terminated) * jnp.minimum(first, second)
    target = jax.lax.stop_gradient(target)
    q1, q2 = (critic(one, batch.obs, batch.act) for one in params["critic"])
    loss_q = jnp.square(q1 - target).mean() + jnp.square(q2 - target).mean()
    frozen = jax.lax.stop_gradient(params["critic"][0])
    loss_pi = -critic(frozen, batch.obs, actor(params["actor"], batch.obs)).mean()
    return loss_q, loss_pi
