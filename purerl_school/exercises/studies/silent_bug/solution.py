"""Solution of exercise 2.2: the critic's loss of DDPG."""

from typing import Any

import jax
import jax.numpy as jnp

from purerl.types import Batch

GAMMA = 0.99


def actor(params: Any, obs: jax.Array) -> jax.Array:
    """Return the actions `[B, A]` of the policy, in [-1, 1]."""
    return jnp.tanh(jnp.tanh(obs @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"])


def critic(params: Any, obs: jax.Array, act: jax.Array) -> jax.Array:
    """Return the value of each action."""
    pair = jnp.concatenate([obs, act], axis=1)
    return (jnp.tanh(pair @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"])[:, 0]


def critic_loss(params: Any, batch: Batch) -> jax.Array:
    """Return the loss of the critic.

    Args:
        params: Dictionary with `critic`, `target_critic` and `target_actor`.
        batch: obs, act, rew, next_obs, terminated and truncated, with B rows.
    """
    next_act = actor(params["target_actor"], batch.next_obs)
    next_q = critic(params["target_critic"], batch.next_obs, next_act)
    target = batch.rew + GAMMA * (1.0 - batch.terminated) * next_q
    q = critic(params["critic"], batch.obs, batch.act)
    return jnp.square(q - jax.lax.stop_gradient(target)).mean()
