"""`purerl list`: algorithms, environments and runs, without importing JAX."""

import argparse
from pathlib import Path

from purerl import algos
from purerl.cli.options import Parser
from purerl.runs.console import align_columns, print_lines
from purerl.runs.record import status
from purerl.runs.settings import aliases, environments

EXAMPLES = """examples:
  purerl list                 algorithms, environments and runs
  purerl list envs sac        environments for SAC
  purerl list runs ppo        runs of PPO, with their status
"""
WHAT = ("algos", "envs", "runs")


def main(words: list[str]) -> int:
    """Print algorithms, environments that fit them, and runs with their status."""
    parser = Parser("list", "List algorithms, environments and runs.", EXAMPLES)
    add, text = parser.add_argument, "folder of all runs (default: the user's, else ./runs)"
    add("what", nargs="?", type=_parse_what, help="algos, envs or runs (default: all three)")
    add("algo", nargs="?", help="list only environments or runs of this algorithm")
    add("--data-dir", metavar="DIR", help=text)
    args = parser.parse_args(words)
    if args.what == "algos" and args.algo:
        parser.error(f"unexpected argument {args.algo!r}. Try `purerl show {args.algo}`.")
    if args.what in (None, "algos"):
        print_lines("algorithms: " + ", ".join(algos.NAMES))
    if args.what in (None, "envs"):
        print_lines(align_columns(environments.list_rows(args.algo)))
        print_lines("Other Gymnasium environments of these kinds also work, as Id or module:Id.")
    if args.what in (None, "runs"):
        data_dir = status.expand_home(args.data_dir or status.read_user_defaults()["data_dir"])
        print_lines(_list_runs(data_dir, args.algo))
    return 0


def _parse_what(word: str) -> str:
    if word not in WHAT:
        near = aliases.suggest(word, WHAT)
        raise argparse.ArgumentTypeError(f"expected algos, envs or runs, got {word!r}.{near}")
    return word


def _list_runs(data_dir: Path, algo: str | None) -> str:
    """Return a table of the runs in a folder; `algo` may also name a user's function."""
    every = status.list_runs(data_dir) if data_dir.is_dir() else ()
    rows = [("run", "algo", "env", "seed", "status", "step", "of", "return")]
    for one in (one for one in every if algo in (None, one.algo)):
        score = "-" if one.score is None else f"{one.score:.1f}"
        row = (str(one.path.relative_to(data_dir)), one.algo, one.env, str(one.seed))
        rows.append((*row, one.status, f"{one.step:,}", f"{one.steps:,}", score))
    if len(rows) == 1 and algo is not None:
        algos.check(algo)
    none = f"no runs{f' of {algo}' if algo else ''} in {data_dir}"
    return align_columns(rows) if len(rows) > 1 else none
