"""`purerl eval`: play episodes with a policy, and say how good they were and how sure that is."""

import argparse
import dataclasses
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from purerl import errors
from purerl.cli import run_arguments
from purerl.runs.console import print_lines, write_text
from purerl.runs.record import files, safe_files

if TYPE_CHECKING:
    from purerl.runs.policy.run import Run


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Episodes of a policy, and the statistics of their returns.

    Example:
        >>> found = Evaluation((1.0, 2.0, 6.0), (10, 20, 60))
        >>> found.mean, found.min, found.max, found.mean_length
        (3.0, 1.0, 6.0, 30.0)
        >>> [round(x, 3) for x in found.ci95]
        [-3.572, 9.572]
    """

    returns: tuple[float, ...]
    lengths: tuple[int, ...]

    @property
    def mean(self) -> float:
        """Mean return."""
        return statistics.fmean(self.returns)

    @property
    def std(self) -> float:
        """Standard deviation of these returns, divided by their number as in `progress.txt`."""
        return statistics.pstdev(self.returns)

    @property
    def min(self) -> float:
        """Lowest return."""
        return min(self.returns)

    @property
    def max(self) -> float:
        """Highest return."""
        return max(self.returns)

    @property
    def mean_length(self) -> float:
        """Mean length in steps."""
        return statistics.fmean(self.lengths)

    @property
    def ci95(self) -> tuple[float, float]:
        """Student's interval of 95 % for the mean; infinite for one episode."""
        number = len(self.returns)
        if number == 1:
            return -math.inf, math.inf
        from scipy.special import stdtrit

        half = float(stdtrit(number - 1, 0.975)) * statistics.stdev(self.returns)
        half /= math.sqrt(number)
        return self.mean - half, self.mean + half

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON knows it."""
        names = ("mean", "std", "min", "max", "mean_length")
        found: dict[str, Any] = {name: getattr(self, name) for name in names}
        found["ci95"] = list(self.ci95) if len(self.returns) > 1 else None
        return found | {"returns": list(self.returns), "lengths": list(self.lengths)}


def play_episodes(
    run: "Run",
    env_fn: Callable[[], Any],
    episodes: int,
    seed: int,
    deterministic: bool,
    max_ep_len: int | None,
) -> Evaluation:
    """Play episodes of a run's policy; the arguments are those of `Run.evaluate`."""
    from purerl.loops import gym as loop

    if max_ep_len is None:
        max_ep_len = run.config.schedule.max_ep_len
    try:
        record = loop.evaluate(
            run.algo, run.params, env_fn, seed, 0, episodes, max_ep_len or None, deterministic
        )
    except errors.ConfigError:
        raise
    except ValueError as error:
        raise errors.ConfigError(str(error)) from error
    return Evaluation(tuple(record["test_returns"]), tuple(record["test_lengths"]))


def command(words: list[str]) -> int:
    """Evaluate runs, one after the other; go on where one fails."""
    parser = run_arguments.make_parser("eval", "Play episodes with trained policies.", several=True)
    run_arguments.add_episode_flags(parser, default=20)
    parser.add_argument(
        *("--max-ep-len", "--max_ep_len"),
        type=int,
        metavar="STEPS",
        help="cut episodes at this length (default: as in training; 0: the environment's limit)",
    )
    parser.add_argument("--json", action="store_true", help="print an object per run, a line each")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write these lines to a file that is not there yet"
    )
    args = parser.parse_args(words)
    if args.out and args.out.exists():
        parser.error(f"{args.out} exists, and nothing is ever written over.")
    found: list[dict[str, Any]] = []
    codes = [run_arguments.run_command("eval", partial(_one, args, run, found)) for run in args.run]
    lines = "".join(json.dumps(one, allow_nan=False) + "\n" for one in found)
    if args.json:
        write_text(sys.stdout, lines)
    if args.out and found:
        codes.append(run_arguments.run_command("eval", partial(_write, args.out, lines)))
    codes += [run_arguments.run_command("eval", partial(_keep, one)) for one in found]
    return next((code for code in codes if code), 0)


def _one(args: argparse.Namespace, folder: Path, done: list[dict[str, Any]]) -> None:
    """Evaluate one run into `done`, and print a line where no JSON was asked for."""
    run = run_arguments.load_run(args, folder)
    found = run.evaluate(args.episodes, args.seed, not args.stochastic, args.max_ep_len)
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
    about = {
        "run": str(folder),
        "algo": run.config.algo,
        "env": run.config.env,
        "checkpoint": args.checkpoint,
        "step": run.step,
        "episodes": args.episodes,
        "seed": args.seed,
        "deterministic": not args.stochastic,
        "max_ep_len": args.max_ep_len,
        "time": time.strftime("%Y-%m-%d %H:%M:%S"),
    }
    done.append(about | found.plain())


def _keep(one: dict[str, Any]) -> None:
    """Write an evaluation into the folder of its run, under a name that is free."""
    folder = Path(one["run"]) / "eval"
    files.make_folder(folder)
    path = reserve_path(folder, f"{one['step']:012d}", ".json")
    files.replace_file(path, (json.dumps(one, indent=1) + "\n").encode())


def _write(path: Path, text: str) -> None:
    files.make_folder(path.parent)
    files.replace_file(path, text.encode())


def reserve_path(folder: Path, stem: str, suffix: str) -> Path:
    """Return a path that nobody else has, and take it: `stem-1.json`, `stem-2.json`."""
    for number in range(1, 1_000_000):
        path = folder / f"{stem}-{number}{suffix}"
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            continue
        except OSError as error:
            raise safe_files.explain_os_error(error, path) from error
        return path
    raise errors.StorageError(f"{folder} is full: {stem}-999999{suffix} exists.")
