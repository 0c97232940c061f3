"""Learning curves of runs, from paths to a picture."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from purerl import checks
from purerl.runs.analysis import figures, groups, search, tables
from purerl.runs.analysis.curves import ESTIMATORS, Curve, make_curves
from purerl.runs.analysis.labels import format_number
from purerl.runs.analysis.tables import RunTable
from purerl.runs.console import clean_text, print_warning

EARLY = 0.95  # a seed that ends before this part of the longest one ends early


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
    """Return the learning curves of runs, and draw them if `out` is given.

    Args:
        paths: runs, folders above runs, or beginnings of their names.
        x: `steps`, `time`, `updates`, `epoch` or a column.
        y: columns, one panel for each; `Performance` is the test return, else the return.
        smooth: width of the centred moving average, in rows.
        legend: labels, one per path or one per condition.
        select: keep runs whose folder has all of these in its path.
        exclude: drop runs whose folder has any of these in its path.
        count: make a curve for every run, labelled by its folder.
        estimator: `mean`, `median`, `max` or `min` over seeds; the band is one standard deviation.
        out: picture to write, .png, .pdf or .svg.
        data_dir: data folder for paths that do not exist; None for the user's.
        say: function called with each note, such as about runs that are left out.

    Returns:
        A `Curve` (label, x, y, low, high, seeds, ...) per column and condition.
    """
    checks.integer("smooth", smooth, 1)
    checks.member("estimator", estimator, ESTIMATORS)
    if out is not None:
        figures.check_picture(Path(out))
    paths = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    panels = list(dict.fromkeys([y] if isinstance(y, str) else y))
    runs, notes = search.find_runs(paths, data_dir, select, exclude)
    conditions, more = groups.gather_conditions(runs, legend, len(paths), count)
    notes += more
    curves = []
    for panel in panels:
        usable, more = tables.select_runs(runs, (x, panel))
        group = make_curves(conditions, usable, x, panel, smooth, estimator)
        notes += [*more, *_note_columns(group), *_note_seeds(group)]
        curves += group
    notes += _note_environments([run for condition in conditions for run in condition.runs])
    for note in dict.fromkeys(notes):
        say(note)
    if out is not None:
        band = [f"{estimator} over seeds, band ± 1 std"] * any(c.seeds > 1 for c in curves)
        caption = ", ".join(band + [f"smoothed over {smooth} rows"] * (smooth > 1))
        figures.draw_figure(curves, panels, Path(out), caption, not count)
    return curves


def _note_columns(curves: Sequence[Curve]) -> list[str]:
    """Note curves of one panel that show different columns."""
    if len({name for curve in curves for name in curve.yname.split(", ")}) < 2:
        return []
    columns = "; ".join(f"{curve.label}: {curve.yname}" for curve in curves)
    return [f"{curves[0].panel} is not the same column everywhere: {columns}."]


def _note_seeds(curves: Sequence[Curve]) -> list[str]:
    """Note seeds that are nowhere on their curve, and seeds that end before others of it."""
    absent, early = [], []
    for c in curves:
        number, last = len(c.ends), max(c.ends)
        if c.seeds < number:
            why = "; the first run of a process begins with compiling" * (c.xname == "Time")
            absent.append(
                f"{c.label}: {number - c.seeds} of {number} seeds are nowhere on the curve: most "
                f"of the others have no values where they have theirs ({c.xname}{why})."
            )
        if ends := [end for end in c.ends if end < EARLY * last]:
            early.append(
                f"{c.label}: {len(ends)} of {number} seeds end before {format_number(last)} "
                f"({c.xname}), the first at {format_number(min(ends))}."
            )
    return absent + early


def _note_environments(runs: Sequence[RunTable]) -> list[str]:
    """Note that returns of several environments share an axis."""
    envs = dict.fromkeys(clean_text(run.settings["env"]) for run in runs if "env" in run.settings)
    if len(envs) < 2:
        return []
    return [f"curves of several environments share an axis: {', '.join(envs)}."]
