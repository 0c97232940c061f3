"""Policies and batches with numbers that can be computed by hand, for on-policy tests."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from purerl.spaces import Box, Discrete, EnvSpec
from purerl.types import PolicyBatch, Rollout

UNIT = EnvSpec((1,), Box((-1.0,), (1.0,)))
THREE = EnvSpec((1,), Discrete(3))


class Bandit(nn.Module):
    """Logits that do not depend on the observation."""

    logits: tuple[float, ...]

    @nn.compact
    def __call__(self, obs):
        theta = self.param("theta", lambda key: jnp.float32(self.logits))
        return jnp.broadcast_to(theta, (obs.shape[0], len(self.logits)))


class Mean(nn.Module):
    """A Gaussian with a trainable mean, which starts at 0, and a fixed deviation of 0.5."""

    @nn.compact
    def __call__(self, obs):
        theta = self.param("theta", lambda key: jnp.zeros(1))
        mean = jnp.broadcast_to(theta, (obs.shape[0], 1))
        return mean, jnp.full_like(mean, np.log(0.5))


class Level(nn.Module):
    """A value that starts at 2 and does not depend on the observation."""

    @nn.compact
    def __call__(self, obs):
        theta = self.param("theta", lambda key: jnp.float32(2.0))
        return jnp.broadcast_to(theta, obs.shape[:1])


def theta(params: Any) -> Any:
    return params["params"]["theta"]


def rows(act: Any, adv: Any, logp: Any = 0.0, ret: Any = 0.0, val: Any = 0.0) -> PolicyBatch:
    """Return a batch of rows with weight 1 and observation 0."""
    adv = jnp.asarray(adv, jnp.float32)

    def full(x: Any) -> jax.Array:
        return jnp.broadcast_to(jnp.asarray(x, jnp.float32), adv.shape)

    return PolicyBatch(
        jnp.zeros((len(adv), 1)), jnp.asarray(act), adv, full(ret), full(logp), full(val),
        jnp.ones_like(adv),
    )  # fmt: skip


def rollout(rew: Any, terminated: Any, truncated: Any, act: Any = 0) -> Rollout:
    """Return a rollout of one environment with observation 0 and Discrete actions."""
    rew = jnp.asarray(rew, jnp.float32)[:, None]
    obs = jnp.zeros((*rew.shape, 1))
    flags = [jnp.asarray(x, bool)[:, None] for x in (terminated, truncated)]
    return Rollout(obs, jnp.full(rew.shape, act, jnp.int32), rew, obs, *flags)
