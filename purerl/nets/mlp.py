"""Multilayer perceptrons: the default policy and value networks."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "elu": nn.elu,
    "gelu": nn.gelu,
    "leaky_relu": nn.leaky_relu,
    "relu": nn.relu,
    "silu": nn.silu,
    "tanh": nn.tanh,
}

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


class MLP(nn.Module):
    """Dense layers with an activation between them; the last layer is linear."""

    sizes: tuple[int, ...]
    activation: str = "relu"
    initializer: str = "torch_uniform"
    head_scale: float = 1.0  # scale of the last layer's initial kernel

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Map `[..., I]` to `[..., sizes[-1]]`."""
        kernel_init, half_width = INITIALIZERS[self.initializer]
        for i, size in enumerate(self.sizes):
            last = i + 1 == len(self.sizes)
            width = half_width(x.shape[-1])
            bias_init = _symmetric(width) if width else nn.initializers.zeros
            first = _scale_initializer(kernel_init, self.head_scale) if last else kernel_init
            x = nn.Dense(size, kernel_init=first, bias_init=bias_init)(x)
            if not last:
                x = ACTIVATIONS[self.activation](x)
        return x


class DeterministicActor(nn.Module):
    """Deterministic policy, from observations `[B, O]` to actions `[B, A]` in [-1, 1]."""

    act_dim: int
    hidden: tuple[int, ...]
    activation: str = "relu"
    initializer: str = "torch_uniform"

    @nn.compact
    def __call__(self, obs: jax.Array) -> jax.Array:
        """Return tanh of the last layer."""
        mlp = MLP((*self.hidden, self.act_dim), self.activation, self.initializer)
        return jnp.tanh(mlp(obs.astype(jnp.float32)))


class GaussianActor(nn.Module):
    """Gaussian before squashing, from observations `[B, O]` to mean and log std `[B, A]`."""

    act_dim: int
    hidden: tuple[int, ...]
    activation: str = "relu"
    initializer: str = "torch_uniform"

    @nn.compact
    def __call__(self, obs: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return both outputs of one last layer that has twice the width."""
        mlp = MLP((*self.hidden, 2 * self.act_dim), self.activation, self.initializer)
        mean, log_std = jnp.split(mlp(obs.astype(jnp.float32)), 2, axis=-1)
        return mean, log_std


class GaussianPolicy(nn.Module):
    """Gaussian policy, from observations `[B, O]` to mean and log standard deviation `[B, A]`.

    The log standard deviation is one trainable vector, the same for all observations.
    """

    act_dim: int
    hidden: tuple[int, ...]
    activation: str = "tanh"
    initializer: str = "torch_uniform"
    head_scale: float = 1.0  # scale of the last layer's initial kernel
    log_std_init: float = -0.5

    @nn.compact
    def __call__(self, obs: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the mean, and the log standard deviation repeated for each observation."""
        style = (self.activation, self.initializer, self.head_scale)
        mean = MLP((*self.hidden, self.act_dim), *style)(obs.astype(jnp.float32))
        first = nn.initializers.constant(self.log_std_init)
        log_std = self.param("log_std", first, (self.act_dim,))
        return mean, jnp.broadcast_to(log_std, mean.shape)


class CategoricalPolicy(nn.Module):
    """Categorical policy, from observations `[B, O]` to the logits `[B, n]` of all actions."""

    number: int
    hidden: tuple[int, ...]
    activation: str = "tanh"
    initializer: str = "torch_uniform"
    head_scale: float = 1.0  # scale of the last layer's initial kernel

    @nn.compact
    def __call__(self, obs: jax.Array) -> jax.Array:
        """Return one logit per action."""
        style = (self.activation, self.initializer, self.head_scale)
        return MLP((*self.hidden, self.number), *style)(obs.astype(jnp.float32))


class ValueFunction(nn.Module):
    """State values, from observations `[B, O]` to values `[B]`."""

    hidden: tuple[int, ...]
    activation: str = "tanh"
    initializer: str = "torch_uniform"

    @nn.compact
    def __call__(self, obs: jax.Array) -> jax.Array:
        """Return the value, without a trailing axis."""
        mlp = MLP((*self.hidden, 1), self.activation, self.initializer)
        return mlp(obs.astype(jnp.float32))[..., 0]


class DiscreteQFunction(nn.Module):
    """Action values, from observations `[B, O]` to the values `[B, n]` of all discrete actions."""

    number: int
    hidden: tuple[int, ...]
    activation: str = "relu"
    initializer: str = "torch_uniform"

    @nn.compact
    def __call__(self, obs: jax.Array) -> jax.Array:
        """Return one value per action."""
        mlp = MLP((*self.hidden, self.number), self.activation, self.initializer)
        return mlp(obs.astype(jnp.float32))


class QFunction(nn.Module):
    """Action values, from observations `[B, O]` and actions `[B, A]` in [-1, 1] to values `[B]`."""

    hidden: tuple[int, ...]
    activation: str = "relu"
    initializer: str = "torch_uniform"

    @nn.compact
    def __call__(self, obs: jax.Array, act: jax.Array) -> jax.Array:
        """Return the value without a trailing axis, so that it cannot broadcast to [B, B]."""
        mlp = MLP((*self.hidden, 1), self.activation, self.initializer)
        return mlp(jnp.concatenate([obs.astype(jnp.float32), act], axis=-1))[..., 0]


def _symmetric(width: float) -> Any:
    def init(key: jax.Array, shape: Any, dtype: Any = jnp.float32) -> jax.Array:
        return jax.random.uniform(key, shape, dtype, -width, width)

    return init


def _scale_initializer(kernel_init: Any, scale: float) -> Any:
    if scale == 1.0:
        return kernel_init
    return lambda key, shape, dtype=jnp.float32: scale * kernel_init(key, shape, dtype)
