"""Exercise 2.2: find the bug in the critic's loss of DDPG, and mend it.

    target = rew + gamma (1 - terminated) target_critic(next_obs, target_actor(next_obs))
    loss   = mean((critic(obs, act) - target)^2)

The code runs without an error. Check it after each change:

    purerl exercise check 2.2
"""

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
    return jnp.tanh(pair @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]


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
