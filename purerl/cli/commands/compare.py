"""`purerl compare`: conditions side by side, and what their few runs allow to conclude."""

import json
from pathlib import Path

from purerl.cli.options import Parser
from purerl.errors import ConfigError
from purerl.runs.console import align_columns, print_lines

EXAMPLES = """examples:
  purerl compare runs/cartpole-v1-ppo runs/cartpole-v1-dqn --threshold 475
  purerl compare runs --group algo,env              algorithms over all environments
  purerl compare mine baseline --last 10 --out table.md
"""
ESCAPES = str.maketrans({c: f"\\{c}" for c in "\\|`*_<>[]"})  # so that no text is markup


def main(words: list[str]) -> int:
    """Print a comparison; return the exit code."""
    about = "Compare conditions: runs that differ in their seed alone."
    parser = Parser("compare", about, EXAMPLES)
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
    args = vars(parser.parse_args(words))
    out, as_json = args.pop("out"), args.pop("json")
    # imported here, so that --help needs no NumPy
    from purerl.runs.analysis.comparison import compare, make_tables
    from purerl.runs.record import files

    if out and not out.endswith(".md"):
        raise ConfigError(f"--out must end in .md, got {out!r}.")
    comparison = compare(**args)
    tables = make_tables(comparison)
    if out:
        parts = []
        for title, rows in tables.items():
            lines = [f"| {' | '.join(cell.translate(ESCAPES) for cell in row)} |" for row in rows]
            lines.insert(1, f"|{' --- |' * len(rows[0])}")
            parts += [title.translate(ESCAPES), "\n".join(lines)]
        notes = "\n".join(f"- {note.translate(ESCAPES)}" for note in comparison.notes)
        text = "\n\n".join(filter(None, [*parts, notes]))
        files.make_folder(Path(out).parent)
        files.replace_file(Path(out), f"{text}\n".encode())
    if as_json:
        print_lines(json.dumps(files.to_json(comparison), indent=2, allow_nan=False))
    else:
        texts = [f"{title}\n{align_columns(rows)}" for title, rows in tables.items()]
        print_lines("\n\n".join(texts) + f"\ntable: {out}" * bool(out))
    return 0
