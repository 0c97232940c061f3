"""`purerl compare`: conditions side by side, and what their few runs allow to say.

compare(["runs/a", "runs/b"], threshold=475).pairs[0].verdict

What is heavy is imported when it is needed, so that `--help` is quick.
"""

import argparse
import json
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from purerl import checks, errors
from purerl.cli.options import Parser
from purerl.runs.console import align_columns, print_lines, print_warning

if TYPE_CHECKING:
    from purerl.runs.analysis.comparison import Comparison, ConditionScore

EXAMPLES = """examples:
  purerl compare runs/cartpole-v1-ppo runs/cartpole-v1-dqn --threshold 475
  purerl compare runs --group algo,env              algorithms over all environments
  purerl compare mine baseline --last 10 --out table.md
"""
Table = tuple[str, list[tuple[str, ...]]]


def compare(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    group: str | None = None,
    metric: str = "iqm",
    y: str = "Performance",
    threshold: float | None = None,
    last: int = 5,
    data_dir: str | None = None,
    say: Callable[[str], None] = print_warning,
) -> "Comparison":
    """Compare the conditions of runs.

    Args:
        paths: runs, folders above runs, or beginnings of their names.
        group: entries of the configuration that make a condition, as `algo,env` or `name`; None
            for the name and every setting. Environments are always kept apart.
        metric: `iqm`, `mean` or `median` of the runs.
        y: column that is scored; `Performance` is the test return, else the return.
        threshold: of y; the steps to it are compared.
        last: rows of a run whose mean is its score.
        data_dir: where to look for what is not there as typed; None for the user's.
        say: is told of runs that are left out, and of what to be careful with.
    """
    from purerl.runs.analysis import comparison
    from purerl.runs.analysis import statistics as estimates
    from purerl.runs.analysis import tables as curves

    checks.member("metric", metric, estimates.METRICS)
    checks.integer("last", last, 1)
    if threshold is not None:
        checks.real("threshold", threshold)
    words = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    runs, notes = curves.find_runs(words, data_dir)
    runs, more = curves.select_runs(runs, ("steps", y))
    fields = [word.strip() for word in (group or "").split(",") if word.strip()]
    found = comparison.compare_runs(runs, fields, metric, y, threshold, last)
    found = found._replace(notes=list(dict.fromkeys([*notes, *more, *found.notes])))
    for note in found.notes:
        say(note)
    return found


def main(words: list[str]) -> int:
    """Print a comparison; return the exit code."""
    args = vars(_parser().parse_args(words))
    out, as_json = args.pop("out"), args.pop("json")
    from purerl.runs.record import files

    try:
        if out and not out.endswith(".md"):
            raise ValueError(f"--out must end in .md, got {out!r}.")
        found = compare(**args)
        if out:
            files.make_folder(Path(out).parent)
            files.replace_file(Path(out), (_markdown(found) + "\n").encode())
    except (ValueError, OSError) as error:
        print_warning(f"purerl compare: {error}")
        return 5 if isinstance(error, errors.StorageError) else 2
    if as_json:
        print_lines(json.dumps(_plain(found), indent=2, allow_nan=False))
    else:
        print_lines(
            "\n\n".join(f"{title}\n{align_columns(rows)}" for title, rows in _tables(found))
        )
        if out:
            print_lines(f"table: {out}")
    return 0


def _tables(found: "Comparison") -> list[Table]:
    """Return titles and rows, as they are printed and written."""
    rows: list[tuple[str, ...]] = [
        ("environment", "condition", "seeds", found.metric, "95% interval", "seconds")
    ]
    if found.threshold is not None:
        rows[0] = (*rows[0][:-1], f"steps to {found.threshold:g}", "seconds")
    rows += [_cells(row, found.threshold is not None) for row in found.rows]
    score = f"mean of the last {found.last} rows of {', '.join(found.columns)}"
    wall = "Seconds are wall clock, and hold the compiling that the first run of a process does"
    tables: list[Table] = [(f"Score of a run: {score}. {wall}.", rows)]
    if found.overall:
        over = (
            f"Over {found.overall[0].env}; in each, 0 is the lowest and 1 the highest run of all."
        )
        body: list[tuple[str, ...]] = [("condition", "runs", found.metric, "95% interval")]
        body += [(r.condition, str(len(r.scores)), *_estimate(r)) for r in found.overall]
        tables.append((over, body))
    if found.pairs:
        title = "Probability that a run of the first scores higher than one of the second."
        lines: list[tuple[str, ...]] = [("first", "second", "probability", "95% interval", "")]
        for p in found.pairs:
            ends = f"{p.interval[0]:.2f} to {p.interval[1]:.2f}"
            lines.append((p.first, p.second, f"{p.probability:.2f}", ends, p.verdict))
        tables.append((title, lines))
    return tables


def _cells(row: "ConditionScore", crossing: bool) -> tuple[str, ...]:
    number = len(row.scores)
    seeds = str(number) if row.seeds == number else f"{row.seeds} in {number} runs"
    cells: tuple[str, ...] = (row.env, row.condition, seeds, *_estimate(row))
    if crossing and row.steps is not None:
        steps = f"{row.steps:,.0f}" if math.isfinite(row.steps) else "not reached"
        cells += (f"{steps} ({row.reached} of {number})",)
    return (*cells, "-" if row.seconds is None else f"{row.seconds:,.1f}")


def _estimate(row: "ConditionScore") -> tuple[str, str]:
    ends = "-" if row.interval is None else f"{row.interval[0]:.5g} to {row.interval[1]:.5g}"
    return f"{row.estimate:.5g}", ends


def _markdown(found: "Comparison") -> str:
    """Return the tables and notes as Markdown."""
    parts = []
    for title, rows in _tables(found):
        head, *body = ([_escape(cell) for cell in row] for row in rows)
        lines = [head, ["---"] * len(head), *body]
        table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        parts.append(f"{_escape(title)}\n\n{table}")
    parts.append("\n".join(f"- {_escape(note)}" for note in found.notes))
    return "\n\n".join(part for part in parts if part)


def _escape(text: str) -> str:
    """Return a text that stays in its cell and is no markup."""
    return "".join(f"\\{c}" if c in "\\|`*_<>[]" else c for c in text)


def _plain(value: Any) -> Any:
    """Return a comparison as JSON knows it; what is not finite becomes null."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "compare", "Compare conditions: runs that differ in their seed alone.", EXAMPLES
    )
    add = parser.add_argument
    # fmt: off
    add("paths", nargs="+", metavar="PATH", help="a run, a folder of runs, or how its name begins")
    add("--group", help="what makes a condition: algo,env or name (default: name and settings)")
    add("--metric", default="iqm", choices=("iqm", "mean", "median"), help="default: iqm")
    add("-y", "--y", "--value", default="Performance", metavar="COLUMN",
        help="what is scored; Performance is the test return, else the return (default)")
    add("--threshold", type=_number, help="of the score: how many steps it took to reach it")
    add("--last", type=_count, default=5, metavar="ROWS",
        help="the score of a run is the mean of its last rows (default: 5)")
    add("--out", metavar="FILE", help="write the tables as Markdown, .md")
    add("--json", action="store_true", help="print everything as JSON")
    add("--data-dir", "--data_dir", help="where runs are (default: the user's, else ./runs)")
    # fmt: on
    return parser


def _number(word: str) -> float:
    try:
        checks.real("it", value := float(word))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, got {word!r}") from None
    return value


def _count(word: str) -> int:
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"expected an integer of at least 1, got {word!r}")
    return int(word)
