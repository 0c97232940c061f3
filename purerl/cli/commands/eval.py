"""`purerl eval`: play episodes with trained policies, one run after the other."""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from purerl import errors
from purerl.cli import checkpoint_arguments
from purerl.runs.console import print_lines, print_warning, write_text
from purerl.runs.record import files


def main(words: list[str]) -> int:
    """Evaluate runs and continue after one that fails; return the first exit code that is not 0."""
    parser = checkpoint_arguments.make_parser(
        "eval",
        "Play episodes with trained policies.",
        checkpoint_arguments.RUN,
        "runs/cartpole-v1-ppo/* --checkpoint best --episodes 100",
        several=True,
    )
    checkpoint_arguments.add_episode_flags(parser, 20)
    add = parser.add_argument
    add("--json", action="store_true", help="print an object per run, a line each")
    add("--out", type=Path, metavar="FILE", help="write these lines to a new file")
    args = parser.parse_args(words)
    if args.out and args.out.exists():
        raise errors.ConfigError(f"{args.out} already exists; purerl never overwrites files.")
    lines, code = "", 0
    for folder in args.run:
        try:
            found = _evaluate(args, folder)
            lines += json.dumps(found, allow_nan=False) + "\n"
            _save(folder, found)
        except errors.OutputClosed:
            raise
        except errors.PurerlError as error:
            print_warning(f"purerl eval: {error}")
            code = code or errors.exit_code_of(error)
    if args.json:
        write_text(sys.stdout, lines)
    if args.out and lines:
        files.make_folder(args.out.parent)
        files.replace_file(args.out, lines.encode())
    return code


def _evaluate(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Evaluate one run; print a line unless JSON was asked for."""
    run, how = (
        checkpoint_arguments.load_run(args, folder),
        checkpoint_arguments.choose_episodes(args),
    )
    found = run.evaluate(**how)
    if not args.json:
        low, high = found.ci95
        line = f"return {found.mean:.1f}, length {found.mean_length:.0f}, 1 episode"
        if args.episodes > 1:
            line = (
                f"return {found.mean:.1f} (95 %: {low:.1f} .. {high:.1f}), std {found.std:.1f}, "
                f"{found.min:.1f} .. {found.max:.1f}, length {found.mean_length:.0f}, "
                f"{args.episodes} episodes"
            )
        print_lines(f"{folder} at step {run.step:,}: {line}")
    about = {"run": str(folder), "algo": run.config.algo, "env": run.config.env}
    about |= {"checkpoint": args.checkpoint, "step": run.step, **how}
    return about | {"time": time.strftime("%Y-%m-%d %H:%M:%S")} | found.to_json()


def _save(run: Path, found: dict[str, Any]) -> None:
    """Write an evaluation into the folder of its run, under a name that is free."""
    from purerl.runs.policy.evaluation import reserve_path  # start-up time

    files.make_folder(run / "eval")
    path = reserve_path(run / "eval", f"{found['step']:012d}", ".json")
    files.replace_file(path, (json.dumps(found, indent=1) + "\n").encode())
