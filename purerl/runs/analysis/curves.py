"""Curves of several seeds as one curve with a band: smoothed, on a common x, estimated."""

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
POINTS = 1000  # on a common x that the seeds do not share by themselves


class Curve(NamedTuple):
    """What is drawn of a condition: the estimate, and one standard deviation to each side.

    Where fewer than two seeds have a value there is no deviation, and `low` and `high` are NaN. So
    is `y` where the line is broken.
    """

    label: str
    panel: str  # what was asked for as y
    xname: str  # columns; several names where seeds differ in them
    yname: str
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray
    seeds: int  # that have a value somewhere on the line
    counts: np.ndarray  # seeds that have a value at each x
    ends: tuple[float, ...]  # x of the last value of each seed, also of those not on the line


def read_points(run: RunTable, xname: str, yname: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a column over another, which increases; the last row of an x that has a y counts."""
    x, y = run.columns[xname], run.columns[yname]
    order = np.lexsort((np.isfinite(y), x))  # keeps the order of rows that are equal in both
    order = order[np.isfinite(x[order])]
    last = np.append(np.diff(x[order]) > 0, True)
    return x[order][last], y[order][last]


def smooth(y: np.ndarray, width: int) -> np.ndarray:
    """Return the mean over the `width` rows around each; fewer at the ends and where some miss.

    Example:
        >>> smooth(np.array([1.0, 2.0, 6.0, 10.0]), 3).tolist()
        [1.5, 3.0, 6.0, 8.0]
    """
    there = np.isfinite(y)
    edges = np.arange(len(y))
    first = np.maximum(edges - width // 2, 0)
    stop = np.minimum(edges + (width + 1) // 2, len(y))
    total, number = (
        np.concatenate([[0.0], np.cumsum(x)]) for x in (np.where(there, y, 0.0), there)
    )
    sums, counts = total[stop] - total[first], number[stop] - number[first]
    return np.where(counts > 0, sums / np.maximum(counts, 1.0), np.nan)


def merge_x(xs: Sequence[np.ndarray]) -> np.ndarray:
    """Return the x of all: their own where it is the same, else all of them, or a grid."""
    if all(np.array_equal(x, xs[0]) for x in xs):
        return xs[0]
    every = np.unique(np.concatenate(xs))
    return every if len(every) <= POINTS else np.linspace(every[0], every[-1], POINTS)


def make_curves(
    found: Sequence[Condition],
    usable: Sequence[RunTable],
    xword: str,
    yword: str,
    width: int = 1,
    estimator: str = "mean",
) -> list[Curve]:
    """Return the curves of all conditions for one y.

    Args:
        found: the conditions.
        usable: the runs that have the columns; others are passed over.
        xword: what `curves.column` finds the column of x by.
        yword: what it finds the column of y by.
        width: of the smoothing, in rows, before seeds are put together.
        estimator: one of `ESTIMATORS`, over seeds.
    """
    there, made = {run.path for run in usable}, []
    for one in found:
        runs = [run for run in one.runs if run.path in there]
        if runs:
            names = [(find_column(run, xword) or "", find_column(run, yword) or "") for run in runs]
            parts = [read_points(run, *name) for run, name in zip(runs, names, strict=True)]
            x, y, std, counts, drawn = estimate_band(parts, width, estimator)
            xname, yname = (", ".join(dict.fromkeys(kind)) for kind in zip(*names, strict=True))
            sides = (y - std, y + std, drawn, counts)
            ends = tuple(float(own[np.isfinite(values)][-1]) for own, values in parts)
            made.append(Curve(one.label, yword, xname, yname, x, y, *sides, ends))
    return made


def estimate_band(
    parts: Sequence[tuple[np.ndarray, np.ndarray]], width: int = 1, estimator: str = "mean"
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    """Return a common x, and there estimate, deviation and number of the seeds; how many are drawn.

    There is an estimate where at least half of the seeds have a value, or as many as anywhere:
    otherwise a curve would go on with the one seed that was slowest, or was not killed. Where the
    seeds on both sides are others the line is broken, by an x of its own without a value.
    """
    x = merge_x([part for part, _ in parts])
    rows = np.full((len(parts), len(x)), np.nan)
    for row, (own, y) in zip(rows, parts, strict=True):
        y = smooth(y, width)
        there = np.isfinite(y)
        if there.any():
            row[:] = np.interp(x, own[there], y[there], left=np.nan, right=np.nan)
    counts = np.isfinite(rows).sum(axis=0)
    y, std = (np.full(len(x), np.nan) for _ in range(2))
    some = 2 * counts >= min(len(parts), 2 * counts.max())
    y[some] = ESTIMATORS[estimator](rows[:, some], axis=0)
    several = some & (counts > 1)
    std[several] = np.nanstd(rows[:, several], axis=0)
    drawn = int(np.isfinite(rows[:, some]).any(axis=1).sum())
    shown = slice(some.argmax(), len(some) - some[::-1].argmax())
    x, y, std, counts, rows = x[shown], y[shown], std[shown], counts[shown], rows[:, shown]
    alone = ~np.isfinite(rows[:, :-1] + rows[:, 1:]).any(axis=0)
    gaps = np.flatnonzero(alone & np.isfinite(y[:-1] + y[1:])) + 1
    x = np.insert(x, gaps, (x[gaps - 1] + x[gaps]) / 2)
    y, std = (np.insert(one, gaps, np.nan) for one in (y, std))
    return x, y, std, np.insert(counts, gaps, 0), drawn
