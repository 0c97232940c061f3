"""`purerl eval`: play episodes with trained policies, one run after the other."""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from purerl import errors
from purerl.cli import checkpoint_arguments as arguments
from purerl.runs.console import print_lines, print_warning, write_text
from purerl.runs.policy.evaluation import reserve_path
from purerl.runs.record import files, safe_files, status


def main(words: list[str]) -> int:
    """Evaluate runs and continue after one that fails; return the first exit code that is not 0."""
    text = "Play episodes of trained policies and print their returns."
    example = "runs/cartpole-v1-ppo/* --checkpoint best --episodes 100"
    parser = arguments.make_parser("eval", text, example, several=True)
    arguments.add_episode_flags(parser, 20)
    parser.add_argument("--json", action="store_true", help="print one line of JSON per run")
    parser.add_argument("--out", type=Path, metavar="FILE", help="new file for these JSON lines")
    args = parser.parse_args(words)
    if args.out and args.out.exists():
        raise errors.ConfigError(f"{args.out} already exists; purerl never overwrites files.")
    lines, code = "", 0
    for given in args.run:
        try:
            folder = status.find_run(given)
            place = safe_files.get_subfolder(folder, "eval")
            found = _evaluate(args, folder)
            lines += json.dumps(found, allow_nan=False) + "\n"
            files.make_folder(place)
            path = reserve_path(place, f"{found['step']:012d}", ".json")
            files.replace_file(path, (json.dumps(found, indent=1) + "\n").encode())
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
    """Evaluate one run; print a line unless `--json` was given."""
    run, how = arguments.load_run(args, folder), arguments.choose_episodes(args)
    found = run.evaluate(**how)
    text = f"{folder} at step {run.step:,}: return {found.mean:.1f}"
    if args.episodes > 1:
        text += " (95 %: {:.1f} .. {:.1f})".format(*found.ci95)
        text += f", std {found.std:.1f}, {found.min:.1f} .. {found.max:.1f}"
    text += found.describe_success()
    text += f", length {found.mean_length:.0f}, {args.episodes} episode"
    if not args.json:
        print_lines(text + "s" * (args.episodes > 1))
    about = {"run": str(folder), "algo": run.config.algo, "env": run.config.env}
    about |= {"checkpoint": args.checkpoint, "step": run.step, **how}
    return about | {"time": time.strftime("%Y-%m-%d %H:%M:%S")} | found.to_json()
