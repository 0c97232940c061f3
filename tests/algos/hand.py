"""Networks and batches with numbers that can be computed by hand, for off-policy tests."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from purerl.spaces import Box, EnvSpec
from purerl.types import Batch

ONE = EnvSpec(obs_shape=(1,), action=Box((-2.0,), (2.0,)))  # one action dimension, bound 2
both = pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])


class Line(nn.Module):
    """A linear network: `w * obs + b` as an actor, `w * act + b` as a critic."""

    critic: bool = False

    @nn.compact
    def __call__(self, obs, act=None):
        w = self.param("w", lambda key: jnp.zeros(()))
        b = self.param("b", lambda key: jnp.zeros(()))
        return w * act[:, 0] + b if self.critic else w * obs + b


def line(w, b=0.0):
    return {"params": {"w": jnp.float32(w), "b": jnp.float32(b)}}


def batch(act=0.0, rew=0.0, next_obs=0.0, terminated=False, noise=0.0, obs=0.0, rows=1):
    column = lambda x: jnp.full((rows, 1), x, jnp.float32)
    return Batch(
        column(obs),
        column(act),
        column(rew)[:, 0],
        column(next_obs),
        jnp.full(rows, terminated),
        jnp.full(rows, False),
        noise=column(noise)[:, None],
    )


def mlp(tree, *inputs):
    """Evaluate a default network with a NumPy loop in float64."""
    x = np.concatenate([np.asarray(i, np.float64) for i in inputs], axis=-1)
    layers = tree["params"]["MLP_0"]
    for i in range(len(layers)):
        layer = layers[f"Dense_{i}"]
        x = x @ np.asarray(layer["kernel"], np.float64) + np.asarray(layer["bias"], np.float64)
        x = np.maximum(x, 0) if i + 1 < len(layers) else x
    return x
