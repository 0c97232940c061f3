"""`purerl compare`: statistics of groups of runs, and which group is better."""

import json
from pathlib import Path

from purerl.cli.options import Parser
from purerl.errors import ConfigError
from purerl.runs.console import align_columns, print_lines

EXAMPLES = """examples:
  purerl compare runs/cartpole-v1-ppo runs/cartpole-v1-dqn --threshold 475
  purerl compare runs --group algo,env              algorithms, all environments
  purerl compare mine baseline --last 10 --out table.md
  purerl compare runs --scale Hopper-v5=18.8,3226 --scale Walker2d-v5=2.8,3946
"""
ESCAPES = str.maketrans({c: f"\\{c}" for c in "\\|`*_<>[]"})  # plain text in Markdown


def main(words: list[str]) -> int:
    """Print a comparison; return the exit code."""
    parser = Parser("compare", "Compare conditions: groups of runs with different seeds.", EXAMPLES)
    add = parser.add_argument
    # fmt: off
    add("paths", nargs="+", metavar="PATH", help="run, folder of runs, or beginning of its name")
    add("--group", help="settings of a condition, for example algo,env (default: all but the seed)")
    add("--metric", default="iqm", metavar="NAME", help="iqm, mean or median (default: iqm)")
    add("-y", "--y", "--value", default="Performance", metavar="COLUMN",
        help="column of the score (default: Performance, the test return or else the return)")
    add("--threshold", type=float, help="report how many steps a run needs to reach this score")
    add("--last", type=int, default=5, metavar="ROWS",
        help="number of last rows whose mean is the score of a run (default: 5)")
    add("--scale", action="append", default=[], metavar="ENV=LOW,HIGH",
        help="scores that count as 0 and 1 in the overall score (default: lowest, highest run)")
    add("--out", metavar="FILE", help="Markdown file (.md) for the tables")
    add("--json", action="store_true", help="print all results as JSON")
    add("--data-dir", "--data_dir", help="folder of all runs (default: the user's, else ./runs)")
    # fmt: on
    args = vars(parser.parse_args(words))
    out, as_json = args.pop("out"), args.pop("json")
    # imported here because --help must not need NumPy
    from purerl.runs.analysis.comparison import compare, make_tables
    from purerl.runs.record import files

    if out and not out.endswith(".md"):
        raise ConfigError(f"--out must end in .md, got {out!r}.")
    scale = _read_scales(args.pop("scale"))
    comparison = compare(**args, scale=scale)
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


def _read_scales(words: list[str]) -> dict[str, tuple[float, float]]:
    """Return low and high of each environment; refuse one that is given twice."""
    found: dict[str, tuple[float, float]] = {}
    for env, ends in map(_read_scale, words):
        if env in found:
            raise ConfigError(f"--scale of {env} is given twice. Give it once.")
        found[env] = ends
    return found


def _read_scale(word: str) -> tuple[str, tuple[float, float]]:
    """Return environment, low and high of `ENV=LOW,HIGH`."""
    env, _, ends = word.rpartition("=")
    try:
        low, high = map(float, ends.split(","))
    except ValueError:
        raise ConfigError(
            f"--scale must be ENV=LOW,HIGH, for example Hopper-v5=18.8,3226, got {word!r}."
        ) from None
    if not env:
        raise ConfigError(f"--scale must name an environment, as in Hopper-v5={ends}.")
    return env, (low, high)
