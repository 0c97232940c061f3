"""Learning curves with bands: smooth the runs of a condition and average them on a common x."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from purerl.runs.analysis.groups import Condition
from purerl.runs.analysis.tables import RunTable, find_column

ESTIMATORS: dict[str, Callable[..., Any]] = {
    "mean": np.nanmean,
    "median": np.nanmedian,
    "max": np.nanmax,
    "min": np.nanmin,
}
POINTS = 1000  # of the grid for seeds that have no common x


class Curve(NamedTuple):
    """The learning curve of a condition, with one standard deviation to each side.

    `low` and `high` are NaN where fewer than two seeds have a value. All three are NaN where the
    line is broken.
    """

    label: str
    panel: str  # the y that was asked for
    xname: str  # column of x; several names, if seeds differ
    yname: str
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray
    seeds: int  # seeds with a value somewhere on the line
    counts: np.ndarray  # seeds with a value at each x
    ends: tuple[float, ...]  # x of the last value of each seed, also of those not on the line


def read_points(run: RunTable, xname: str, yname: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a column over an increasing other one; the last row of an x that has a y counts."""
    x, y = run.columns[xname], run.columns[yname]
    order = np.lexsort((np.isfinite(y), x))  # keeps the order of rows that are equal in both
    order = order[np.isfinite(x[order])]
    last = np.append(np.diff(x[order]) > 0, True)
    return x[order][last], y[order][last]


def smooth(y: np.ndarray, width: int) -> np.ndarray:
    """Return the mean over the `width` rows around each row, without the missing ones.

    Example:
        >>> smooth(np.array([1.0, 2.0, 6.0, 10.0]), 3).tolist()
        [1.5, 3.0, 6.0, 8.0]
    """
    width = min(width, 2 * len(y))  # a window that reaches over all rows from each of them
    there = np.isfinite(y)
    window = slice((width - 1) // 2, (width - 1) // 2 + len(y))
    sums, counts = (
        np.convolve(rows, np.ones(width))[window] for rows in (np.where(there, y, 0.0), there)
    )
    return np.where(counts > 0, sums / np.maximum(counts, 1.0), np.nan)


def make_curves(
    conditions: Sequence[Condition],
    usable: Sequence[RunTable],
    xword: str,
    yword: str,
    width: int = 1,
    estimator: str = "mean",
) -> list[Curve]:
    """Return the curves of all conditions for one y.

    Args:
        conditions: runs by label.
        usable: the runs that have both columns; all others are skipped.
        xword: name or alias of the column of x.
        yword: name or alias of the column of y.
        width: number of rows to smooth over, within each seed.
        estimator: one of `ESTIMATORS`, over seeds.
    """
    paths, curves = {run.path for run in usable}, []
    for label, members in conditions:
        runs = [run for run in members if run.path in paths]
        if runs:
            xnames, ynames = ([find_column(run, word) for run in runs] for word in (xword, yword))
            parts = [read_points(*one) for one in zip(runs, xnames, ynames, strict=True)]
            x, y, std, counts, seeds = estimate_band(parts, width, estimator)
            xname, yname = (", ".join(dict.fromkeys(names)) for names in (xnames, ynames))
            sides = (y - std, y + std, seeds, counts)
            ends = tuple(float(own[np.isfinite(values)][-1]) for own, values in parts)
            curves.append(Curve(label, yword, xname, yname, x, y, *sides, ends))
    return curves


def estimate_band(
    parts: Sequence[tuple[np.ndarray, np.ndarray]], width: int = 1, estimator: str = "mean"
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    """Return a common x, the estimate, deviation and seeds at each x, and all seeds on the line.

    The line is drawn where at least half of the seeds have a value, or as many as anywhere.
    Otherwise it would continue with the one seed that was slowest, or was not killed. It is broken,
    by a NaN, where no seed has values on both sides of a gap.
    """
    x = _merge_x([own for own, _ in parts])
    rows = np.array([_interpolate(x, own, smooth(y, width)) for own, y in parts])
    counts = np.isfinite(rows).sum(axis=0)
    some = 2 * counts >= min(len(parts), 2 * counts.max())
    shown = slice(some.argmax(), len(some) - some[::-1].argmax())
    rows[:, ~some] = np.nan
    x, rows, counts = x[shown], rows[:, shown], counts[shown]

    there = np.isfinite(rows)
    alone = ~(there[:, :-1] & there[:, 1:]).any(axis=0)
    gaps = np.flatnonzero(alone & there[:, :-1].any(axis=0) & there[:, 1:].any(axis=0)) + 1
    x = np.insert(x, gaps, (x[gaps - 1] + x[gaps]) / 2)
    rows, counts = np.insert(rows, gaps, np.nan, axis=1), np.insert(counts, gaps, 0)

    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # empty columns
        y = ESTIMATORS[estimator](rows, axis=0)
        several = np.isfinite(rows).sum(axis=0) > 1
        std = np.where(several, np.nanstd(rows, axis=0), np.nan)
    return x, y, std, counts, int(there.any(axis=1).sum())


def _merge_x(xs: Sequence[np.ndarray]) -> np.ndarray:
    """Return the x of all seeds if it is the same, else all values that occur, or a grid."""
    if all(np.array_equal(x, xs[0]) for x in xs):
        return xs[0]
    every = np.unique(np.concatenate(xs))
    return every if len(every) <= POINTS else np.linspace(every[0], every[-1], POINTS)


def _interpolate(x: np.ndarray, own: np.ndarray, y: np.ndarray) -> np.ndarray:
    there = np.isfinite(y)
    return np.interp(x, own[there], y[there], left=np.nan, right=np.nan)
