"""`purerl compare`: conditions side by side, and what their few runs allow to conclude."""

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from purerl.cli.options import Parser
from purerl.errors import ConfigError
from purerl.runs.console import align_columns, print_lines

if TYPE_CHECKING:
    from purerl.runs.analysis.comparison import Comparison, ConditionScore

EXAMPLES = """examples:
  purerl compare runs/cartpole-v1-ppo runs/cartpole-v1-dqn --threshold 475
  purerl compare runs --group algo,env              algorithms over all environments
  purerl compare mine baseline --last 10 --out table.md
"""
ESCAPES = str.maketrans({c: f"\\{c}" for c in "\\|`*_<>[]"})  # so that no text is markup
Table = tuple[str, list[tuple[str, ...]]]  # title and rows


def main(words: list[str]) -> int:
    """Print a comparison; return the exit code."""
    args = vars(_make_parser().parse_args(words))
    out, as_json = args.pop("out"), args.pop("json")
    # imported here, so that --help needs no NumPy
    from purerl.runs.analysis.comparison import compare
    from purerl.runs.record import files

    if out and not out.endswith(".md"):
        raise ConfigError(f"--out must end in .md, got {out!r}.")
    comparison = compare(**args)
    if out:
        files.make_folder(Path(out).parent)
        files.replace_file(Path(out), (_format_markdown(comparison) + "\n").encode())
    if as_json:
        print_lines(json.dumps(_to_json(comparison), indent=2, allow_nan=False))
        return 0
    tables = (f"{title}\n{align_columns(rows)}" for title, rows in _make_tables(comparison))
    print_lines("\n\n".join(tables))
    if out:
        print_lines(f"table: {out}")
    return 0


def _make_tables(comparison: "Comparison") -> list[Table]:
    """Return the tables as they are printed and written."""
    metric, threshold = comparison.metric, comparison.threshold
    steps = () if threshold is None else (f"steps to {threshold:g}",)
    score = f"mean of the last {comparison.last} rows of {', '.join(comparison.columns)}"
    wall = "Seconds are wall clock and include the compiling of the first run of a process"
    head = ("environment", "condition", "seeds", metric, "95% interval", *steps, "seconds")
    rows = [head, *(_make_row(row) for row in comparison.rows)]
    tables: list[Table] = [(f"Score of a run: {score}. {wall}.", rows)]
    if comparison.overall:
        title = f"Over {comparison.overall[0].env}; in each, 0 is the lowest and 1 the highest run"
        rows = [("condition", "runs", metric, "95% interval")]
        rows += [(r.condition, str(len(r.scores)), *_estimate(r)) for r in comparison.overall]
        tables.append((f"{title} of all.", rows))
    if comparison.pairs:
        title = "Probability that a run of the first scores higher than one of the second."
        rows = [("first", "second", "probability", "95% interval", "")]
        for p in comparison.pairs:
            ends = f"{p.interval[0]:.2f} to {p.interval[1]:.2f}"
            rows.append((p.first, p.second, f"{p.probability:.2f}", ends, p.verdict))
        tables.append((title, rows))
    return tables


def _make_row(row: "ConditionScore") -> tuple[str, ...]:
    number = len(row.scores)
    seeds = str(number) if row.seeds == number else f"{row.seeds} in {number} runs"
    crossing: tuple[str, ...] = ()
    if row.steps is not None:
        steps = f"{row.steps:,.0f}" if math.isfinite(row.steps) else "not reached"
        crossing = (f"{steps} ({row.reached} of {number})",)
    seconds = "-" if row.seconds is None else f"{row.seconds:,.1f}"
    return (row.env, row.condition, seeds, *_estimate(row), *crossing, seconds)


def _estimate(row: "ConditionScore") -> tuple[str, str]:
    ends = "-" if row.interval is None else f"{row.interval[0]:.5g} to {row.interval[1]:.5g}"
    return f"{row.estimate:.5g}", ends


def _format_markdown(comparison: "Comparison") -> str:
    """Return the tables and notes as Markdown."""
    parts = []
    for title, rows in _make_tables(comparison):
        head, *body = ([cell.translate(ESCAPES) for cell in row] for row in rows)
        lines = [head, ["---"] * len(head), *body]
        table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        parts.append(f"{title.translate(ESCAPES)}\n\n{table}")
    parts.append("\n".join(f"- {note.translate(ESCAPES)}" for note in comparison.notes))
    return "\n\n".join(filter(None, parts))


def _to_json(value: Any) -> Any:
    """Return a comparison as JSON data, with null for numbers that are not finite."""
    if hasattr(value, "_asdict"):
        return {key: _to_json(entry) for key, entry in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [_to_json(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _make_parser() -> argparse.ArgumentParser:
    description = "Compare conditions: runs that differ in their seed alone."
    parser = Parser("compare", description, EXAMPLES)
    add = parser.add_argument
    # fmt: off
    add("paths", nargs="+", metavar="PATH", help="a run, a folder of runs, or how its name begins")
    add("--group", help="what makes a condition: algo,env or name (default: name and settings)")
    add("--metric", default="iqm", metavar="NAME", help="iqm, mean or median (default: iqm)")
    add("-y", "--y", "--value", default="Performance", metavar="COLUMN",
        help="what is scored; Performance is the test return, else the return (default)")
    add("--threshold", type=float, help="of the score: how many steps it took to reach it")
    add("--last", type=int, default=5, metavar="ROWS",
        help="the score of a run is the mean of its last rows (default: 5)")
    add("--out", metavar="FILE", help="write the tables as Markdown, .md")
    add("--json", action="store_true", help="print everything as JSON")
    add("--data-dir", "--data_dir", help="where runs are (default: the user's, else ./runs)")
    # fmt: on
    return parser
