"""Batch renormalisation, whose running statistics are variables beside the parameters."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

STATISTICS = "running"  # collection of running statistics, which receive no gradient
EPSILON = 1e-3  # added to each variance
MOMENTUM = 0.99  # weight of the old running statistics
R_MAX, D_MAX = 3.0, 5.0  # bounds of the correction


class BatchRenorm(nn.Module):
    r"""Batch renormalisation of features `[B, F]` (Ioffe, 2017, https://arxiv.org/abs/1702.03275).

    The mode is chosen by the caller. With `mutable=[STATISTICS]`, as in `nets.apply_train`, the
    layer trains: mean m and variance v of the batch normalise, and move the running mean M and
    variance V. Otherwise the running statistics normalise.

    .. math::
        r &= \mathrm{clip}\left(\sqrt{v + \epsilon} / \sqrt{V + \epsilon}, 1/3, 3\right), \qquad
        d = \mathrm{clip}\left((m - M) / \sqrt{V + \epsilon}, -5, 5\right) \\
        y &= \mathrm{scale} \left( r (x - m) / \sqrt{v + \epsilon} + d \right) + \mathrm{bias}

    r and d are constants for the gradient. During the warm-up r = 1 and d = 0, which is batch
    normalisation. Unless r or d is clipped, later outputs are those of the running statistics.
    Without a warm-up (None) it is batch normalisation for ever.
    """

    warmup: int | None = 100_000  # batches before the first correction; none: no correction
    use_bias: bool = True

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Normalise each feature, then scale and shift it."""
        shape, x = (x.shape[-1],), x.astype(jnp.float32)
        scale = self.param("scale", nn.initializers.ones, shape)
        zeros = nn.initializers.zeros
        bias = self.param("bias", zeros, shape) if self.use_bias else jnp.zeros(shape)
        mean = self.variable(STATISTICS, "mean", jnp.zeros, shape, jnp.float32)
        var = self.variable(STATISTICS, "var", jnp.ones, shape, jnp.float32)
        batches = self.variable(STATISTICS, "batches", jnp.zeros, (), jnp.float32)
        old_mean, old_var = jax.lax.stop_gradient((mean.value, var.value))
        old_std = jnp.sqrt(old_var + EPSILON)
        if not self.is_mutable_collection(STATISTICS):
            return (x - old_mean[None]) * (scale / old_std)[None] + bias[None]
        m = x.mean(axis=0)
        centred = x - m[None]
        v = jnp.square(centred).mean(axis=0)
        std = jnp.sqrt(v + EPSILON)
        r, d = jnp.float32(1.0), jnp.float32(0.0)
        if self.warmup is not None:
            warm = batches.value < self.warmup
            r = jnp.where(warm, 1.0, jnp.clip(std / old_std, 1.0 / R_MAX, R_MAX))
            d = jnp.where(warm, 0.0, jnp.clip((m - old_mean) / old_std, -D_MAX, D_MAX))
            r, d = jax.lax.stop_gradient((r, d))
        if not self.is_initializing():
            mean.value = MOMENTUM * old_mean + (1.0 - MOMENTUM) * m
            var.value = MOMENTUM * old_var + (1.0 - MOMENTUM) * v
            batches.value = batches.value + 1.0
        return centred * (scale * r / std)[None] + (scale * d + bias)[None]


def fold_into_dense(
    dense: Any, norm: Any, running: Any, behind: bool = False
) -> dict[str, np.ndarray]:
    """Return kernel and bias of one dense layer that equals `BatchRenorm` and the layer after it.

    Args:
        dense: Kernel of the dense layer, and its bias if it has one.
        norm: Scale of the normalisation, and its bias if it has one.
        running: Its running statistics.
        behind: Whether the normalisation comes after the dense layer instead.
    """
    kernel, scale = (np.asarray(x, np.float64) for x in (dense["kernel"], norm["scale"]))
    bias = np.asarray(dense.get("bias", np.zeros(kernel.shape[1])), np.float64)
    shift = np.asarray(norm.get("bias", np.zeros(scale.shape)), np.float64)
    scale = scale / np.sqrt(np.asarray(running["var"], np.float64) + EPSILON)
    shift = shift - np.asarray(running["mean"], np.float64) * scale
    if behind:
        folded = {"kernel": kernel * scale, "bias": bias * scale + shift}
    else:
        folded = {"kernel": scale[:, None] * kernel, "bias": bias + shift @ kernel}
    return {name: x.astype(np.float32) for name, x in folded.items()}
