"""Learning curves: smooth the runs of a condition, average them on a common x, and draw them."""

import itertools
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from purerl import checks
from purerl.errors import ConfigError
from purerl.runs.analysis import figures, groups, tables
from purerl.runs.analysis.figures import Curve, format_number
from purerl.runs.console import clean_text, print_warning

ESTIMATORS = {name: getattr(np, f"nan{name}") for name in ("mean", "median", "max", "min")}
POINTS = 1000  # number of points of the common x if the seeds have different x
EARLY = 0.95  # a seed ends early if it ends before this fraction of the longest seed
Points = tuple[np.ndarray, np.ndarray]  # x and y of a run


def plot(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    x: str = "steps",
    y: str | Sequence[str] = "Performance",
    smooth: int = 1,
    legend: Sequence[str] = (),
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    count: bool = False,
    estimator: str = "mean",
    out: str | os.PathLike[str] | None = None,
    data_dir: str | None = None,
    say: Callable[[str], None] = print_warning,
) -> list[Curve]:
    """Return a learning curve for each column, environment and condition; draw them with `out`.

    Args:
        paths: Runs, folders above runs, or beginnings of their names.
        x: `steps`, `time`, `updates`, `epoch` or a column.
        y: Columns; each one in each environment is a panel. `Performance` is the test return if
            any, else the return.
        smooth: Width of the centred moving average in rows.
        legend: Labels, one per path or one per condition.
        select: Parts of paths. Only runs whose folder has all of them in its path are used.
        exclude: Parts of paths. Runs whose folder has any of them in its path are not used.
        count: Whether every run is a curve, labelled by its folder.
        estimator: `mean`, `median`, `max` or `min` over seeds. The band is one standard deviation.
        out: Picture file to write, .png, .pdf or .svg.
        data_dir: Data folder for paths that do not exist; None for the user's data folder.
        say: Function that is called with each note, such as a note about a run that is left out.
    """
    checks.integer("smooth", smooth, 1)
    checks.member("estimator", estimator, ESTIMATORS)
    if out is not None and Path(out).suffix.lower() not in (".png", ".pdf", ".svg"):
        raise ConfigError(f"out must end in .png, .pdf or .svg, got {str(out)!r}.")
    if out is not None and (missing := figures.explain_missing()):
        raise ConfigError(missing)
    paths = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    runs, notes = tables.find_runs(paths, data_dir, select, exclude)
    conditions = groups.gather_conditions(runs, legend, len(paths), count, notes)
    every, curves = list(itertools.chain(*conditions.values())), []
    for panel in dict.fromkeys([y] if isinstance(y, str) else y):
        usable = set(map(id, tables.select_runs(every, (x, panel), notes)))
        for env in dict.fromkeys(map(_name_env, every)):
            group = [
                _make_curve(label, panel, x, those, smooth, estimator)._replace(env=env)
                for label, members in conditions.items()
                if (those := [r for r in members if id(r) in usable and _name_env(r) == env])
            ]
            notes += _note_curves(group)
            curves += group
    for note in dict.fromkeys(notes):
        say(note)
    if out is not None:
        band = [f"{estimator} over seeds, band ± 1 std"] * any(c.seeds > 1 for c in curves)
        caption = band + [f"smoothed over {smooth} rows"] * (smooth > 1)
        figures.draw_figure(curves, Path(out), caption, not count)
    return curves


def _name_env(run: tables.RunTable) -> str:
    """Return the environment of a run; empty if its table does not name it."""
    return clean_text(str(run.settings.get("env", "")))


def _note_curves(curves: Sequence[Curve]) -> list[str]:
    """Note different columns in a panel, seeds that are not on their curve, and early ends."""
    notes = []
    if len({name for curve in curves for name in curve.yname.split(", ")}) > 1:
        shown = "; ".join(f"{curve.label}: {curve.yname}" for curve in curves)
        notes.append(f"{curves[0].panel} stands for different columns: {shown}.")
    for c in curves:
        number, last = len(c.ends), max(c.ends)
        if c.seeds < number:
            why = "; the first run of a process starts by compiling" * (c.xname == "Time")
            notes.append(
                f"{c.label}: {number - c.seeds} of {number} seeds are not on the curve, because "
                f"most of the others have no values at the same x ({c.xname}{why})."
            )
        if ends := [end for end in c.ends if end < EARLY * last]:
            notes.append(
                f"{c.label}: {len(ends)} of {number} seeds end before {format_number(last)} "
                f"({c.xname}), the first at {format_number(min(ends))}."
            )
    return notes


def _make_curve(
    label: str, panel: str, xword: str, runs: Sequence[tables.RunTable], width: int, estimator: str
) -> Curve:
    """Return the curve of runs that have both columns, smoothed over `width` rows."""
    names = [[tables.find_column(run, word) for run in runs] for word in (xword, panel)]
    parts = [read_points(run, xword, panel) for run in runs]
    x, y, std, counts, seeds = estimate_band(parts, width, estimator)
    ends = tuple(float(own[np.isfinite(values)][-1]) for own, values in parts)
    xname, yname = (", ".join(dict.fromkeys(columns)) for columns in names)
    return Curve(label, panel, xname, yname, x, y, y - std, y + std, seeds, counts, ends)


def read_points(run: tables.RunTable, xword: str, yword: str) -> Points:
    """Return x and y of a run, sorted by x; if rows have equal x, the last one with a y counts."""
    x, y = (run.columns[tables.find_column(run, word)] for word in (xword, yword))
    order = np.lexsort((np.isfinite(y), x))  # keeps the order of rows that are equal in both
    order = order[np.isfinite(x[order])]
    last = np.append(np.diff(x[order]) > 0, True)
    return x[order][last], y[order][last]


def smooth_rows(y: np.ndarray, width: int) -> np.ndarray:
    """Return a centred moving average over `width` rows, without the missing values."""
    width = min(width, 2 * len(y))  # such a window covers all rows from any row
    finite = np.isfinite(y)
    window = slice((width - 1) // 2, (width - 1) // 2 + len(y))
    sums, counts = (np.convolve(z, np.ones(width))[window] for z in (np.nan_to_num(y), finite))
    return np.where(counts > 0, sums / np.maximum(counts, 1.0), np.nan)


def estimate_band(
    parts: Sequence[Points], width: int = 1, estimator: str = "mean"
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    """Return x, estimate, deviation, number of seeds at each x, and number of seeds on the line.

    The line is drawn where at least half of the seeds have a value, else where most have one.
    Otherwise its end would show a single seed: the slowest, or the only one that was not killed.
    A NaN breaks the line where no seed has values on both sides of a gap.
    """
    x = np.unique(np.concatenate([own for own, _ in parts]))
    if len(x) > POINTS and any(len(own) < len(x) for own, _ in parts):  # seeds differ in x
        x = np.linspace(x[0], x[-1], POINTS)
    rows = np.empty((len(parts), len(x)))
    for row, (own, y) in zip(rows, parts, strict=True):
        smoothed = smooth_rows(y, width)
        finite = np.isfinite(smoothed)
        row[:] = np.interp(x, own[finite], smoothed[finite], left=np.nan, right=np.nan)
    counts = np.isfinite(rows).sum(axis=0)
    enough = 2 * counts >= min(len(parts), 2 * counts.max())
    span = slice(enough.argmax(), len(enough) - enough[::-1].argmax())
    rows[:, ~enough] = np.nan
    x, rows, counts = x[span], rows[:, span], counts[span]
    finite = np.isfinite(rows)
    broken = ~(finite[:, :-1] & finite[:, 1:]).any(axis=0)
    gaps = np.flatnonzero(broken & finite[:, :-1].any(axis=0) & finite[:, 1:].any(axis=0)) + 1
    x = np.insert(x, gaps, (x[gaps - 1] + x[gaps]) / 2)
    rows, counts = np.insert(rows, gaps, np.nan, axis=1), np.insert(counts, gaps, 0)

    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # empty columns
        y = ESTIMATORS[estimator](rows, axis=0)
        several = np.isfinite(rows).sum(axis=0) > 1
        std = np.where(several, np.nanstd(rows, axis=0), np.nan)
    return x, y, std, counts, int(finite.any(axis=1).sum())
