"""Initialisers of the layers of all default networks."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

# Name -> (initialiser of the kernel, half-width of the uniform bias for a fan-in).
INITIALIZERS: dict[str, tuple[Any, Callable[[int], float]]] = {
    # As in PyTorch's Linear, which Spinning Up and most published results used. It is the default,
    # so that published hyper-parameters remain valid.
    "torch_uniform": (
        nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform"),
        lambda fan_in: 1 / math.sqrt(fan_in),
    ),
    "glorot_uniform": (nn.initializers.glorot_uniform(), lambda fan_in: 0.0),
    "he_normal": (nn.initializers.he_normal(), lambda fan_in: 0.0),
    "lecun_normal": (nn.initializers.lecun_normal(), lambda fan_in: 0.0),
    "orthogonal": (nn.initializers.orthogonal(math.sqrt(2)), lambda fan_in: 0.0),
}


def make_initializers(name: str, fan_in: int, scale: float = 1.0) -> tuple[Any, Any]:
    """Return the initialisers of a layer's kernel and bias.

    Args:
        name: Name of the initialiser, a key of `INITIALIZERS`.
        fan_in: Number of inputs of each unit.
        scale: Factor on the kernel.
    """
    kernel_init, half_width = INITIALIZERS[name]
    width = half_width(fan_in)
    bias_init = _symmetric(width) if width else nn.initializers.zeros
    return _scale_initializer(kernel_init, scale), bias_init


def _symmetric(width: float) -> Any:
    def init(key: jax.Array, shape: Any, dtype: Any = jnp.float32) -> jax.Array:
        return jax.random.uniform(key, shape, dtype, -width, width)

    return init


def _scale_initializer(kernel_init: Any, scale: float) -> Any:
    if scale == 1.0:
        return kernel_init
    return lambda key, shape, dtype=jnp.float32: scale * kernel_init(key, shape, dtype)
