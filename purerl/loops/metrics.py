"""Statistics of metrics, gathered on the device over an epoch and merged over ranks.

A tally is one array `[5, M]`. Its rows are the count, the mean, the sum of squared deviations, the
minimum and the maximum of each of M metrics. It is one array because every argument of a program
costs time. It has squared deviations instead of squares: in float32 the squares of Q-values near
500 have no digits left for a deviation of 0.1.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

SPREAD = ("_std", "_min", "_max")  # names of a metric's statistics over an epoch


def list_names(info: Any) -> tuple[str, ...]:
    """List the names of the metrics in the order of a tally, without their `x_count`."""
    for name in info:
        if name.endswith(SPREAD):
            raise ValueError(
                f"metric {name!r} needs another name: {', '.join(SPREAD)} are the statistics of a "
                f"metric over the updates of an epoch. For a spread, use a name such as "
                f"{name.rpartition('_')[0] + '_spread'!r}."
            )
    return tuple(sorted(name for name in info if not name.endswith("_count")))


def make_empty_tally(number: int) -> np.ndarray:
    """Make a tally without values."""
    rows = np.zeros((5, number), np.float32)
    rows[3], rows[4] = np.inf, -np.inf
    return rows


def tally_values(info: dict[str, jax.Array]) -> jax.Array:
    """Tally all values of each metric, except those whose `x_count` is 0.

    Args:
        info: Values of each metric, of any shape.
    """
    columns = []
    for name in list_names(info):
        x = info[name]
        there = info.get(f"{name}_count", jnp.ones_like(x)) > 0
        count = there.sum(dtype=jnp.float32)
        mean = jnp.where(there, x, 0.0).sum() / jnp.maximum(count, 1.0)
        square = jnp.where(there, jnp.square(x - mean), 0.0).sum()
        low, high = jnp.where(there, x, jnp.inf).min(), jnp.where(there, x, -jnp.inf).max()
        columns.append(jnp.stack([count, mean, square, low, high]))
    return jnp.stack(columns, axis=1)


def merge_tallies(first: Any, second: Any, xp: Any = jnp) -> Any:
    r"""Merge two tallies, on the device or (`xp=numpy`) on the host.

    .. math::
        n = n_1 + n_2, \quad m = m_1 + (m_2 - m_1) \frac{n_2}{n}, \quad
        S = S_1 + S_2 + (m_2 - m_1)^2 \frac{n_1 n_2}{n}

    References:
        Chan et al., 1979, Updating formulae and a pairwise algorithm for computing variances.
    """
    count = first[0] + second[0]
    share = second[0] / xp.maximum(count, 1.0)
    apart = second[1] - first[1]
    mean = first[1] + apart * share
    square = first[2] + second[2] + apart * apart * first[0] * share
    low, high = xp.minimum(first[3], second[3]), xp.maximum(first[4], second[4])
    return xp.stack([count, mean, square, low, high])


def read_tally(metrics: tuple[str, ...], tally: np.ndarray, single: int) -> dict[str, float]:
    """Return the mean of each metric that has a value, and `_std`, `_min` and `_max`.

    Args:
        metrics: Names of the metrics, from `list_names`.
        tally: The merged tally of all ranks.
        single: Number of values up to which a metric gets no `_std`, `_min` and `_max`.
    """
    found: dict[str, float] = {}
    for name, (count, mean, square, low, high) in zip(metrics, tally.T.tolist(), strict=True):
        if not count:
            continue
        found[name] = mean
        if count > single:
            found |= {f"{name}_std": (square / count) ** 0.5}
            found |= {f"{name}_min": low, f"{name}_max": high}
    return found
