"""Statistics for few runs: interquartile mean, bootstrap interval, probability of improvement.

After Agarwal et al., 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice",
https://arxiv.org/abs/2108.13264. The random numbers have a constant seed, so equal scores give
equal intervals.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

REPEATS = 5000  # number of resamplings of a bootstrap
PART = 250  # number of resamplings at a time, because pairs of many runs need much memory
SEED = 0

Scores = Sequence[np.ndarray]  # `[..., n]`, one array per environment
Statistic = Callable[[Scores], np.ndarray]  # reduces the last axis
Interval = tuple[float, float]


def resample(groups: Scores, repeats: int) -> list[np.ndarray]:
    """Draw n scores from each group with replacement, `repeats` times: `[n]` -> `[repeats, n]`."""
    rng = np.random.default_rng(SEED)
    return [rng.choice(group, (repeats, len(group))) for group in groups]


def iqm(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return the interquartile mean along an axis.

    A quarter of the scores, rounded down, is left out at each end, as in `scipy.stats.trim_mean`
    and rliable. With three scores, none is left out.
    """
    cut = scores.shape[axis] // 4
    middle = np.arange(cut, scores.shape[axis] - cut)
    return np.asarray(np.sort(scores, axis).take(middle, axis).mean(axis))


METRICS: dict[str, Callable[..., Any]] = {"iqm": iqm, "mean": np.mean, "median": np.median}


def pool(metric: str) -> Statistic:
    """Return a statistic that applies a metric to the scores of all groups together."""
    return lambda groups: METRICS[metric](np.concatenate(groups, axis=-1), axis=-1)


def bootstrap_interval(statistic: Statistic, groups: Scores, repeats: int = REPEATS) -> Interval:
    """Return the 95% percentile interval of a stratified bootstrap: it resamples each group."""
    drawn = resample(groups, repeats)
    parts = range(0, repeats, PART)
    values = np.concatenate([statistic([x[i : i + PART] for x in drawn]) for i in parts])
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def probability_of_improvement(groups: Scores) -> np.ndarray:
    """Return the mean over environments of P(x > y) + P(x = y) / 2 for runs x of X and y of Y.

    `groups` contains the scores `[..., n]` of X and of Y in the first environment, and so on.
    """
    pairs = zip(groups[::2], groups[1::2], strict=True)
    differences = (x[..., :, None] - y[..., None, :] for x, y in pairs)
    values = [(np.sign(difference).mean(axis=(-2, -1)) + 1) / 2 for difference in differences]
    return np.asarray(np.mean(values, axis=0))


def find_first_lasting(x: np.ndarray, y: np.ndarray, threshold: float) -> float:
    """Return the first x where this y and the next reach the threshold; infinity if none does."""
    finite = np.isfinite(y)
    x, reached = x[finite], y[finite] >= threshold
    both = np.flatnonzero(reached[:-1] & reached[1:])
    return float(x[both[0]]) if len(both) else np.inf
