"""Weight normalisation as a projection: columns of kernels are divided by their norms."""

from typing import Any

import jax
import jax.numpy as jnp

SMALLEST = 1e-8  # smallest norm to divide by, so that a column of zeros stays one
ROUNDING = 1e-6  # difference from 1 up to which a norm stays, so that no bit changes twice


def normalise_kernels(params: Any) -> Any:
    """Divide each column of the kernels `[I, F]` of dense layers by its Euclidean norm.

    Biases, kernels of convolutions and the parameters of normalisations stay as they are.

    Example:
        >>> normalise_kernels({"kernel": jnp.array([[3.0, 0.0], [4.0, 2.0]])})["kernel"].round(6)
        Array([[0.6, 0. ],
               [0.8, 1. ]], dtype=float32)
    """

    def project(path: Any, x: jax.Array) -> jax.Array:
        if x.ndim != 2 or path[-1] != jax.tree_util.DictKey("kernel"):
            return x
        norm = jnp.sqrt(jnp.square(x).sum(axis=0, keepdims=True))
        norm = jnp.where(jnp.abs(norm - 1.0) < ROUNDING, 1.0, jnp.maximum(norm, SMALLEST))
        return x / norm

    return jax.tree_util.tree_map_with_path(project, params)
