"""`purerl list` and `purerl inspect`: what is there, without importing JAX."""

import argparse
import json
import re
from pathlib import Path
from typing import Any

from purerl import algos, errors
from purerl.cli import run_arguments
from purerl.cli.options import Parser
from purerl.runs.console import align_columns, print_lines, print_warning
from purerl.runs.record import files, manifest, safe_files, status
from purerl.runs.record.arrays import read_arrays
from purerl.runs.settings import environments, names

LIST = """examples:
  purerl list                 algorithms, environments, runs
  purerl list envs sac        environments that fit SAC
  purerl list runs ppo        runs of PPO and how they stand
"""
INSPECT = """examples:
  purerl inspect runs/cartpole-v1-ppo/cartpole-v1-ppo_s0
  purerl inspect runs/cartpole-v1-ppo/cartpole-v1-ppo_s0/checkpoints/000000010000
"""
WHAT = ("algos", "envs", "runs")


def list_all(words: list[str]) -> int:
    """Print algorithms, environments that fit them, runs and how they stand."""
    parser = Parser("list", "What there is.", LIST)
    parser.add_argument("what", nargs="?", type=_what, help="algos, envs or runs (default: all)")
    parser.add_argument("algo", nargs="?", help="of envs and runs: only those of this algorithm")
    parser.add_argument(
        "--data-dir", metavar="DIR", help="where runs are (default: the user's, else ./runs)"
    )
    args = parser.parse_args(words)
    if args.what == "algos" and args.algo:
        parser.error(f"one word too many, {args.algo!r}: purerl show {args.algo}")
    if args.what in (None, "algos"):
        print_lines("algorithms: " + ", ".join(algos.NAMES))
    if args.what in (None, "envs"):
        try:
            print_lines(align_columns(environments.list_rows(args.algo)))
        except ValueError as error:
            parser.error(str(error))
        print_lines("and every other Gymnasium environment of these kinds, as module:Id too")
    if args.what in ("algos", "envs"):
        return 0
    try:
        data_dir = Path(args.data_dir or status.read_user_defaults()["data_dir"]).expanduser()
        _runs(data_dir, args.algo)
    except (errors.ConfigError, errors.Damaged, ValueError) as error:
        parser.error(str(error))
    return 0


def _what(word: str) -> str:
    if word not in WHAT:
        near = names.suggest(word, WHAT)
        raise argparse.ArgumentTypeError(f"expected algos, envs or runs, got {word!r}.{near}")
    return word


def _runs(data_dir: Path, algo: str | None) -> None:
    """Print the runs below a folder, those of an algorithm or of a function of the user's."""
    every = [*status.list_runs(data_dir)] if data_dir.is_dir() else []
    found = [one for one in every if algo in (None, one.algo)]
    if not found:
        if algo is not None:
            algos.check(algo)
        print_lines(f"no runs{f' of {algo}' if algo else ''} in {data_dir}")
        return
    rows: list[tuple[str, ...]] = [("run", "algo", "env", "seed", "status", "step", "of", "return")]
    for one in found:
        score = "-" if one.score is None else f"{one.score:.1f}"
        name = str(one.path.relative_to(data_dir))
        row = (name, one.algo, one.env, one.seed, one.status, f"{one.step:,}", f"{one.steps:,}")
        rows.append((*map(str, row), score))
    print_lines(align_columns(rows))


def inspect(words: list[str]) -> int:
    """Print what a run and its newest checkpoint hold."""
    parser = Parser("inspect", "What a run or a checkpoint holds.", INSPECT)
    parser.add_argument("run", type=Path, help="its folder, or that of one of its checkpoints")
    path: Path = parser.parse_args(words).run
    try:
        if (path / "rank0.npz").exists():
            print_lines(_checkpoint(path))
            return 0
        if not (path / "config.json").is_file():
            raise errors.ConfigError(run_arguments.explain_no_run(path))
        print_lines("\n".join(_format_config(status.read_json(path / "config.json"))))
        state = status.read_status(path)
        for name in ("status", "step", "score", "reason", "started", "threads", "ranks"):
            if name in state:
                print_lines(f"{name}: {state[name]}")
        return _newest(path)
    except RecursionError:
        print_warning(f"purerl inspect: {path / 'config.json'} is nested too deeply to be a run's.")
        return 2
    except (errors.ConfigError, errors.StorageError) as error:
        print_warning(f"purerl inspect: {error}")
        return 2 if isinstance(error, errors.ConfigError) else 6


def _format_config(content: dict[str, Any]) -> list[str]:
    """Return a configuration as lines, `spec.gamma = 0.99`."""
    lines = []
    for key, value in content.items():
        if isinstance(value, dict):
            lines += [f"{key}.{inner} = {json.dumps(entry)}" for inner, entry in value.items()]
        else:
            lines.append(f"{key} = {json.dumps(value)}")
    return lines


def _newest(run: Path) -> int:
    """Print the newest checkpoint that is whole, and which are not; 6 if the newest is not."""
    steps, code = manifest.list_steps(run), 0
    print_lines(f"checkpoints: {', '.join(f'{step:,}' for step in steps) or 'none'}")
    for step in reversed(steps):
        try:
            print_lines(_checkpoint(run / "checkpoints" / f"{step:012d}"))
        except errors.StorageError as error:
            print_warning(f"purerl inspect: {error}")
            code = 6
        else:
            break
    return code


def _checkpoint(path: Path) -> str:
    """Return the arrays of a checkpoint, after checking what its manifest says of them."""
    content = files.read_sealed_json(
        safe_files.get_subfolder(path.parent, path.name) / "manifest.json"
    )
    rows = [("array", "dtype", "shape", "bytes")]
    for name, file in sorted(content["files"].items()):
        if not re.fullmatch(r"rank\d{1,6}\.npz", name):
            raise errors.Damaged(f"{path} names a file {name!r}, which purerl does not write.")
        arrays = read_arrays(path / name, files.File(*file))
        rows += [
            (f"{name} {k}", x.dtype.name, str(x.shape), f"{x.nbytes:,}") for k, x in arrays.items()
        ]
    stored = sum(s[2] - s[1] for part in content["segments"] for s in part)
    text = f"checkpoint of step {content['step']:,}, format {content['format']}, {stored:,} rows"
    return text + " of replay memory in segments\n" + align_columns(rows)
