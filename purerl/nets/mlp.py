"""Default policy and value networks: multilayer perceptrons, after a torso for images."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from purerl.nets.batch_renorm import BatchRenorm
from purerl.nets.cnn import TORSOS
from purerl.nets.initializers import make_initializers

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "elu": nn.elu,
    "gelu": nn.gelu,
    "leaky_relu": nn.leaky_relu,
    "relu": nn.relu,
    "silu": nn.silu,
    "tanh": nn.tanh,
}


class MLP(nn.Module):
    """Dense layers with an activation between them; the last layer is linear."""

    sizes: tuple[int, ...]
    activation: str = "relu"
    initializer: str = "torch_uniform"
    head_scale: float = 1.0  # scale of the last layer's initial kernel
    renorm_warmup: int | None = None  # of `BatchRenorm` before each dense layer; none: without it
    layer_norm: bool = False  # whether to normalise hidden layers before their activation
    dropout: float = 0.0  # share of hidden units to drop before that, if there are keys
    batch_norm: bool = False  # whether to normalise inputs and hidden layers by the batch

    @nn.compact
    def __call__(self, x: jax.Array, keys: jax.Array | None = None) -> jax.Array:
        """Map `[..., I]` to `[..., sizes[-1]]`; with `BatchRenorm` or `keys` `[B]`, `[B, I]`."""
        # The normalisation of the first layer would remove a bias of the inputs.
        x = BatchRenorm(None, use_bias=False)(x) if self.batch_norm else x
        for i, size in enumerate(self.sizes):
            last = i + 1 == len(self.sizes)
            scale = self.head_scale if last else 1.0
            kernel_init, bias_init = make_initializers(self.initializer, x.shape[-1], scale)
            if self.renorm_warmup is not None:
                x = BatchRenorm(self.renorm_warmup)(x)
            use_bias = last or not self.batch_norm  # the normalisation has a bias
            x = nn.Dense(size, use_bias, kernel_init=kernel_init, bias_init=bias_init)(x)
            if not last:
                x = x if keys is None else _drop_units(x, _fold_in(keys, i), self.dropout)
                x = BatchRenorm(None)(x) if self.batch_norm else x
                x = nn.LayerNorm()(x) if self.layer_norm else x
                x = ACTIVATIONS[self.activation](x)
        return x


class DeterministicActor(nn.Module):
    """Deterministic policy, from observations `[B, O]` to actions `[B, A]` in [-1, 1]."""

    act_dim: int
    hidden: tuple[int, ...]
    activation: str = "relu"
    initializer: str = "torch_uniform"
    torso: str | None = None  # network before the hidden layers, for images

    @nn.compact
    def __call__(self, obs: jax.Array) -> jax.Array:
        """Return tanh of the last layer."""
        mlp = MLP((*self.hidden, self.act_dim), self.activation, self.initializer)
        return jnp.tanh(mlp(_extract_features(self, obs)))


class GaussianActor(nn.Module):
    """Gaussian before squashing, from observations `[B, O]` to mean and log std `[B, A]`."""

    act_dim: int
    hidden: tuple[int, ...]
    activation: str = "relu"
    initializer: str = "torch_uniform"
    torso: str | None = None  # network before the hidden layers, for images
    renorm_warmup: int | None = None  # of `BatchRenorm` before each dense layer; none: without it
    batch_norm: bool = False  # as in `MLP`

    @nn.compact
    def __call__(self, obs: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return both outputs of one last layer that has twice the width."""
        style = (self.activation, self.initializer, 1.0, self.renorm_warmup)
        mlp = MLP((*self.hidden, 2 * self.act_dim), *style, batch_norm=self.batch_norm)
        mean, log_std = jnp.split(mlp(_extract_features(self, obs)), 2, axis=-1)
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
    torso: str | None = None  # network before the hidden layers, for images

    @nn.compact
    def __call__(self, obs: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the mean, and the log standard deviation repeated for each observation."""
        style = (self.activation, self.initializer, self.head_scale)
        mean = MLP((*self.hidden, self.act_dim), *style)(_extract_features(self, obs))
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
    torso: str | None = None  # network before the hidden layers, for images

    @nn.compact
    def __call__(self, obs: jax.Array) -> jax.Array:
        """Return one logit per action."""
        style = (self.activation, self.initializer, self.head_scale)
        return MLP((*self.hidden, self.number), *style)(_extract_features(self, obs))


class ValueFunction(nn.Module):
    """State values, from observations `[B, O]` to values `[B]`."""

    hidden: tuple[int, ...]
    activation: str = "tanh"
    initializer: str = "torch_uniform"
    torso: str | None = None  # network before the hidden layers, for images

    @nn.compact
    def __call__(self, obs: jax.Array) -> jax.Array:
        """Return the value, without a trailing axis."""
        mlp = MLP((*self.hidden, 1), self.activation, self.initializer)
        return mlp(_extract_features(self, obs))[..., 0]


class DiscreteQFunction(nn.Module):
    """Action values, from observations `[B, O]` to the values `[B, n]` of all discrete actions."""

    number: int
    hidden: tuple[int, ...]
    activation: str = "relu"
    initializer: str = "torch_uniform"
    torso: str | None = None  # network before the hidden layers, for images
    layer_norm: bool = False  # whether to normalise all layers before their activation

    @nn.compact
    def __call__(self, obs: jax.Array) -> jax.Array:
        """Return one value per action."""
        sizes, style = (*self.hidden, self.number), (self.activation, self.initializer)
        return MLP(sizes, *style, layer_norm=self.layer_norm)(_extract_features(self, obs))


class QFunction(nn.Module):
    """Action values, from observations `[B, O]` and actions `[B, A]` in [-1, 1] to values `[B]`."""

    hidden: tuple[int, ...]
    activation: str = "relu"
    initializer: str = "torch_uniform"
    torso: str | None = None  # network before the hidden layers, for images
    renorm_warmup: int | None = None  # of `BatchRenorm` before each dense layer; none: without it
    layer_norm: bool = False  # whether to normalise all layers before their activation
    dropout: float = 0.0  # share of hidden units to drop before that, if there are keys

    @nn.compact
    def __call__(self, obs: jax.Array, act: jax.Array, keys: jax.Array | None = None) -> jax.Array:
        """Return the value without a trailing axis, so that it cannot broadcast to [B, B].

        Keys `[B]`, one for each row, choose the hidden units to drop. Without keys, none is.
        """
        style = (self.activation, self.initializer, 1.0, self.renorm_warmup, self.layer_norm)
        mlp = MLP((*self.hidden, 1), *style, dropout=self.dropout)
        return mlp(jnp.concatenate([_extract_features(self, obs), act], axis=-1), keys)[..., 0]


class QuantileFunction(nn.Module):
    """Quantiles of action values, from observations `[B, O]` and actions `[B, A]` to `[B, M]`."""

    number: int
    hidden: tuple[int, ...]
    activation: str = "relu"
    initializer: str = "torch_uniform"
    torso: str | None = None  # network before the hidden layers, for images

    @nn.compact
    def __call__(self, obs: jax.Array, act: jax.Array) -> jax.Array:
        """Return M = `number` quantiles of the return after actions in [-1, 1]."""
        mlp = MLP((*self.hidden, self.number), self.activation, self.initializer)
        return mlp(jnp.concatenate([_extract_features(self, obs), act], axis=-1))


class CategoricalQFunction(nn.Module):
    """Distributions of returns, from observations `[B, O]` and actions `[B, A]` to logits `[B, K]`.

    The actions are in [-1, 1]. Each of K returns has a logit.
    """

    number: int  # K
    hidden: tuple[int, ...]
    activation: str = "relu"
    initializer: str = "torch_uniform"
    torso: str | None = None  # network before the hidden layers, for images
    batch_norm: bool = False  # as in `MLP`

    @nn.compact
    def __call__(self, obs: jax.Array, act: jax.Array) -> jax.Array:
        """Return one logit per return."""
        sizes, style = (*self.hidden, self.number), (self.activation, self.initializer)
        mlp = MLP(sizes, *style, batch_norm=self.batch_norm)
        return mlp(jnp.concatenate([_extract_features(self, obs), act], axis=-1))


def _extract_features(network: Any, obs: jax.Array) -> jax.Array:
    """Return what the hidden layers of a network read: the torso's features, or observations."""
    if network.torso is None:
        return obs.astype(jnp.float32)
    torso = TORSOS[network.torso](network.initializer, getattr(network, "layer_norm", False))
    features: jax.Array = torso(obs)
    return features


def _fold_in(keys: jax.Array, number: int) -> jax.Array:
    """Fold a number into each of several keys."""
    return jax.vmap(jax.random.fold_in, (0, None))(keys, number)


def _drop_units(x: jax.Array, keys: jax.Array, share: float) -> jax.Array:
    """Set a random share of the units `[B, H]` to 0, and scale the others to keep the mean.

    Each row has its own key, so the result does not depend on how a batch is split.
    """
    draw = jax.vmap(lambda key: jax.random.bernoulli(key, 1.0 - share, x.shape[1:]))
    return jnp.where(draw(keys), x / (1.0 - share), 0.0)
