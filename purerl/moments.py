"""Running mean and variance, and standardisation, over the rows of all ranks."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl import mpi


def standardise(x: jax.Array, weight: jax.Array) -> jax.Array:
    """Shift and scale numbers to mean 0 and standard deviation 1 over the rows of all ranks.

    If all numbers are equal up to float32's rounding error, the results are 0. One number that is
    not finite makes all results NaN.

    Args:
        x: Numbers.
        weight: Weight of each number, 0 to ignore it. If all weights are 0, all results are 0.
    """
    x = jnp.where(weight > 0, x, 0.0)
    total = jnp.maximum(mpi.psum(weight.sum()), 1e-8)
    mean = mpi.psum((weight * x).sum()) / total
    std = jnp.sqrt(mpi.psum((weight * jnp.square(x - mean)).sum()) / total)
    rounding = 1e-6 * mpi.pmax(jnp.abs(x).max())
    return jnp.where(std <= rounding, 0.0, (x - mean) / (std + 1e-8))


def scale_to_mean_one(weight: jax.Array) -> jax.Array:
    """Scale weights to mean 1 over the rows of all ranks. If all weights are 0, they stay 0."""
    mean = mpi.pmean(weight.mean())
    return weight / jnp.where(mean > 0, mean, 1.0)


class Moments(NamedTuple):
    """Running mean and population variance of each element, and the number of rows so far."""

    mean: jax.Array
    var: jax.Array
    rows: jax.Array


def init_moments(shape: tuple[int, ...]) -> Moments:
    """Return initial moments: mean 0, variance 1, no rows."""
    return Moments(jnp.zeros(shape), jnp.ones(shape), jnp.zeros(()))


def merge(moments: Moments, rows: jax.Array) -> Moments:
    """Update the moments with the rows `[B, ...]` of all ranks.

    Example:
        >>> seen = merge(init_moments(()), jnp.arange(1.0, 5.0))
        >>> [float(x) for x in merge(seen, jnp.arange(5.0, 11.0))]
        [5.5, 8.25, 10.0]
    """
    added, new = mpi.psum((rows.sum(axis=0), jnp.float32(rows.shape[0])))
    mean = added / new
    var = mpi.psum(jnp.square(rows - mean[None]).sum(axis=0)) / new
    total = moments.rows + new
    part = new / total
    delta = mean - moments.mean
    spread = (1.0 - part) * moments.var + part * var + part * (1.0 - part) * jnp.square(delta)
    return Moments(moments.mean + part * delta, spread, total)


def init_obs_stats(spec: Any) -> Moments | None:
    """Return initial moments of observations, or None if the settings do not normalise them."""
    return init_moments(spec.env.obs_shape) if spec.normalise_obs else None


def merge_obs(moments: Moments | None, obs: Any) -> Moments | None:
    """Update the moments with observations `[B, ...]` of all ranks; None stays None."""
    return None if moments is None else merge(moments, jnp.asarray(obs, jnp.float32))


def normalise(obs: Any, moments: Moments | None) -> Any:
    """Scale observations by running moments; without moments, return them unchanged."""
    return obs if moments is None else scale(obs, moments)


def scale(x: Any, moments: Moments, shift: bool = True) -> jax.Array:
    """Subtract the running mean, divide by the running standard deviation, and clip to ±10.

    Before the first row, return `x` unchanged.

    Args:
        x: Numbers `[..., *shape]`.
        moments: Running moments, which receive no gradient.
        shift: Whether to subtract the mean. Use True for observations and False for rewards.
    """
    x = jnp.asarray(x, jnp.float32)
    ones = (1,) * (x.ndim - moments.mean.ndim)
    mean, var = (m.reshape(*ones, *m.shape) for m in jax.lax.stop_gradient(moments[:2]))
    scaled = ((x - mean if shift else x) / jnp.sqrt(var + 1e-8)).clip(-10.0, 10.0)
    return jnp.where(moments.rows > 0, scaled, x)
