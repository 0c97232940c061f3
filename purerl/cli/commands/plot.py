"""`purerl plot`: learning curves with bands over seeds, as a picture or in the terminal.

plot(["runs/a", "runs/b"], y=["Performance", "KL"], smooth=5, out="curves.png")

Without matplotlib there are sparklines. What is heavy is imported when it is needed, so that
`--help` is quick.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from purerl import checks
from purerl.cli.options import Parser
from purerl.runs.console import clean_text, print_lines, print_warning

if TYPE_CHECKING:
    from purerl.runs.analysis.curves import Curve
    from purerl.runs.analysis.tables import RunTable

OUT = "purerl-plot.png"
EARLY = 0.95  # of the x at which the last seed ends: before that, a seed ends early
FORMATS = (".png", ".pdf", ".svg")
EXAMPLES = """examples:
  purerl plot runs/cartpole-v1-ppo                  a picture of its return over steps
  purerl plot ppo sac --legend PPO SAC --smooth 5   below the data folder, as beginnings of names
  purerl plot a b -y Performance KL -x time --out curves.svg
"""


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
) -> "list[Curve]":
    """Return the curves of runs, and draw them where a file is given.

    Args:
        paths: runs, folders above runs, or beginnings of their names.
        x: `steps`, `time`, `updates`, `epoch` or a column.
        y: columns, one panel for each; `Performance` is the test return, else the return.
        smooth: width of the centred moving average, in rows.
        legend: a word per path, or per condition.
        select: keep runs whose folder has all of these in its path.
        exclude: drop runs whose folder has any of these in its path.
        count: a curve for every run, under the name of its folder.
        estimator: `mean`, `median`, `max` or `min` over seeds; the band is one standard deviation.
        out: picture to write, .png, .pdf or .svg.
        data_dir: where to look for what is not there as typed; None for the user's.
        say: is told of runs that are left out, and why.

    Returns:
        A `Curve` (label, x, y, low, high, seeds, ...) per column and condition.
    """
    from purerl.runs.analysis import curves as bands
    from purerl.runs.analysis import figures, groups, tables

    checks.integer("smooth", smooth, 1)
    checks.member("estimator", estimator, bands.ESTIMATORS)
    words = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    panels = list(dict.fromkeys([y] if isinstance(y, str) else y))
    runs, notes = tables.find_runs(words, data_dir, select, exclude)
    found, more = groups.gather_conditions(runs, legend, len(words), count)
    notes += more
    curves = []
    for panel in panels:
        usable, more = tables.select_runs(runs, (x, panel))
        group = bands.make_curves(found, usable, x, panel, smooth, estimator)
        notes += [*more, *_differ(group), *_absent(group), *_short(group)]
        curves += group
    notes += _note_several_envs([run for one in found for run in one.runs])
    for note in dict.fromkeys(notes):
        say(note)
    if out is not None:
        figures.draw_figure(
            curves, panels, Path(out), _caption(curves, estimator, smooth), not count
        )
    return curves


def _differ(curves: "Sequence[Curve]") -> list[str]:
    """Say so where curves of one panel show different things."""
    if len({name for curve in curves for name in curve.yname.split(", ")}) < 2:
        return []
    said = "; ".join(f"{c.label}: {c.yname}" for c in curves)
    return [f"{curves[0].panel} is not the same column everywhere: {said}."]


def _absent(curves: "Sequence[Curve]") -> list[str]:
    """Say so where seeds of a curve are nowhere on it, since most are not there where they are."""
    why = "; the first run of a process begins with compiling"
    return [
        f"{c.label}: {len(c.ends) - c.seeds} of {len(c.ends)} seeds are nowhere on the curve: most "
        f"of the others have no values where they have theirs ({c.xname}"
        f"{why if c.xname == 'Time' else ''})."
        for c in curves
        if c.seeds < len(c.ends)
    ]


def _short(curves: "Sequence[Curve]") -> list[str]:
    """Say so where seeds of a curve end before others of it: from there on it is of the rest."""
    from purerl.runs.analysis.figures import format_number

    notes = []
    for c in curves:
        last = max(c.ends)
        early = [end for end in c.ends if end < EARLY * last]
        if early:
            notes.append(
                f"{c.label}: {len(early)} of {len(c.ends)} seeds end before {format_number(last)} "
                f"({c.xname}), the first at {format_number(min(early))}."
            )
    return notes


def _note_several_envs(runs: "Sequence[RunTable]") -> list[str]:
    """Say so where returns of several environments share an axis."""
    envs = list(
        dict.fromkeys(clean_text(run.settings["env"]) for run in runs if "env" in run.settings)
    )
    if len(envs) < 2:
        return []
    return [f"curves of several environments share an axis: {', '.join(envs)}."]


def _caption(curves: "Sequence[Curve]", estimator: str, smooth: int) -> str:
    several = any(curve.seeds > 1 for curve in curves)
    words = [f"{estimator} over seeds, band ± 1 std"] * several
    return ", ".join(words + [f"smoothed over {smooth} rows"] * (smooth > 1))


def main(words: list[str]) -> int:
    """Draw runs; return the exit code."""
    args = vars(_parser().parse_args(words))
    ascii_only, given = args.pop("ascii"), args.pop("out")
    out = Path(given or OUT)
    from purerl.errors import StorageError
    from purerl.runs.analysis import figures

    try:
        if out.suffix.lower() not in FORMATS:
            raise ValueError(f"--out must end in {', '.join(FORMATS)}, got {str(out)!r}.")
        if missing := (given or not ascii_only) and not figures.has_matplotlib():
            print_warning("a picture needs matplotlib: pip install 'purerl[plot]'")
        draws = not missing and (given or not ascii_only)
        curves = plot(**args, out=out if draws else None)
    except (ValueError, OSError) as error:
        print_warning(f"purerl plot: {error}")
        return 5 if isinstance(error, StorageError) else 2
    if ascii_only or missing:
        print_lines(figures.draw_sparklines(curves, sys.stdout.encoding))
    else:
        print_lines(figures.format_table(curves))
    if draws:
        print_lines(f"picture: {out}")
    return 2 if missing and given else 0  # a picture that was asked for by name is not there


def _parser() -> argparse.ArgumentParser:
    parser = Parser("plot", "Draw learning curves with bands over seeds.", EXAMPLES)
    add = parser.add_argument
    # fmt: off
    add("paths", nargs="+", metavar="PATH", help="a run, a folder of runs, or how its name begins")
    add("-x", "--x", "--xaxis", default="steps", metavar="COLUMN",
        help="steps, time, updates, epoch, or a column (default: steps)")
    add("-y", "--y", "--value", nargs="+", default=["Performance"], metavar="COLUMN",
        help="a panel for each; Performance is the test return, else the return (default)")
    add("-s", "--smooth", type=_rows, default=1, metavar="ROWS",
        help="moving average over so many rows (default: 1)")
    add("-l", "--legend", nargs="+", default=[], metavar="WORD", help="one per PATH, or per curve")
    add("--select", nargs="+", default=[], metavar="PART", help="folders with all of these")
    add("--exclude", nargs="+", default=[], metavar="PART", help="not folders with any of these")
    add("--count", action="store_true", help="a curve for every run, by its folder")
    add("--estimator", "--est", default="mean", choices=("mean", "median", "max", "min"),
        help="over seeds; the band is one standard deviation to each side (default: mean)")
    add("--out", metavar="FILE", help=f"picture, .png, .pdf or .svg (default: {OUT} here)")
    add("--ascii", action="store_true", help="curves in the terminal; no picture but with --out")
    add("--data-dir", "--data_dir", help="where runs are (default: the user's, else ./runs)")
    # fmt: on
    return parser


def _rows(word: str) -> int:
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"expected an integer of at least 1, got {word!r}")
    return int(word)
