"""Statistics of few runs: interquartile means, bootstrap intervals, who improves on whom.

After Agarwal et al., 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice",
https://arxiv.org/abs/2108.13264, on numpy alone. Everything is a function of its arguments: the
random numbers are those of a counter, so equal scores give equal intervals.
"""

from collections.abc import Callable, Sequence

import numpy as np

REPEATS = 5000  # of a bootstrap
PART = 250  # resamplings at a time: pairs of many runs take memory
LEVEL = 0.95
_GOLDEN = 0x9E3779B97F4A7C15

Statistic = Callable[[Sequence[np.ndarray]], np.ndarray]


def bits(first: int, count: int, seed: int = 0) -> np.ndarray:
    """Return numbers `first` .. `first + count - 1` of splitmix64, as uint64.

    Steele, Lea and Flood, 2014, "Fast splittable pseudorandom number generators".

    Example:
        >>> bits(0, 2, seed=1234567).tolist()
        [6457827717110365317, 3203168211198807973]
    """
    z = np.arange(first + 1, first + 1 + count, dtype=np.uint64) * np.uint64(_GOLDEN)
    z += np.uint64(seed)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def resample(groups: Sequence[np.ndarray], repeats: int = REPEATS) -> list[np.ndarray]:
    """Draw from each group as many as it has, with replacement: `[n]` -> `[repeats, n]`."""
    drawn, first = [], 0
    for group in groups:
        number = repeats * len(group)
        uniform = (bits(first, number) >> np.uint64(11)) * 2.0**-53
        first += number
        drawn.append(group[(uniform * len(group)).astype(int).reshape(repeats, len(group))])
    return drawn


def iqm(groups: Sequence[np.ndarray]) -> np.ndarray:
    """Return the mean of the middle half of all scores; groups are `[..., n]`.

    A quarter of the scores, rounded down, is left out at each end, as `scipy.stats.trim_mean`
    and rliable do; of three scores none is.

    Example:
        >>> float(iqm([np.array([0.0, 1.0, 2.0, 3.0, 1e6])]))
        2.0
    """
    every = np.sort(np.concatenate(groups, axis=-1), axis=-1)
    cut = every.shape[-1] // 4
    return np.asarray(every[..., cut : every.shape[-1] - cut].mean(axis=-1))


def mean(groups: Sequence[np.ndarray]) -> np.ndarray:
    """Return the mean of all scores."""
    return np.asarray(np.concatenate(groups, axis=-1).mean(axis=-1))


def median(groups: Sequence[np.ndarray]) -> np.ndarray:
    """Return the median of all scores."""
    return np.asarray(np.median(np.concatenate(groups, axis=-1), axis=-1))


METRICS: dict[str, Statistic] = {"iqm": iqm, "mean": mean, "median": median}


def bootstrap_interval(
    statistic: Statistic, groups: Sequence[np.ndarray], repeats: int = REPEATS
) -> tuple[float, float]:
    """Return the 95% percentile interval of a stratified bootstrap.

    Args:
        statistic: of groups `[..., n]`, over their last axis.
        groups: scores of independent runs, one array per environment.
        repeats: number of resamplings; each draws within every group.
    """
    drawn = resample(groups, repeats)
    parts = range(0, repeats, PART)
    values = np.concatenate([statistic([x[i : i + PART] for x in drawn]) for i in parts])
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def probability_of_improvement(groups: Sequence[np.ndarray]) -> np.ndarray:
    r"""Return the probability that a run of X scores higher than one of Y, over environments.

    .. math::
        P(X > Y) = \frac{1}{M} \sum_m \frac{1}{N_x N_y} \sum_{i, j} \left( [x_i > y_j]
            + \tfrac{1}{2} [x_i = y_j] \right)

    Args:
        groups: scores of X and Y in the first environment, in the second, ..., each `[..., n]`.
    """
    values = []
    for x, y in zip(groups[::2], groups[1::2], strict=True):
        difference = x[..., :, None] - y[..., None, :]
        values.append((np.sign(difference).mean(axis=(-2, -1)) + 1) / 2)
    return np.asarray(np.mean(values, axis=0))


def find_first_lasting(x: np.ndarray, y: np.ndarray, threshold: float) -> float:
    """Return the x from which y is at or above a threshold in two rows in a row; else infinity."""
    there = np.isfinite(y)
    x, reached = x[there], y[there] >= threshold
    both = np.flatnonzero(reached[:-1] & reached[1:])
    return float(x[both[0]]) if len(both) else np.inf
