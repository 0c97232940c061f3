"""What `purerl eval`, `watch` and `export` have in common, without importing JAX."""

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from purerl import errors
from purerl.cli.options import Parser
from purerl.runs import interrupts
from purerl.runs.console import print_warning
from purerl.runs.record import status

RUN = "runs/cartpole-v1-ppo/cartpole-v1-ppo_s0"
EXAMPLES = {
    "eval": f"""examples:
  purerl eval {RUN}
  purerl eval runs/cartpole-v1-ppo/* --checkpoint best --episodes 100
""",
    "watch": f"""examples:
  purerl watch {RUN}
  purerl watch {RUN} -n 3 --save film.mp4
""",
    "export": f"""examples:
  purerl export {RUN}
  purerl export {RUN} --format stablehlo --out policy
""",
}
INTERRUPTED = 130  # as a shell says it of Ctrl-C


def make_parser(name: str, description: str, several: bool = False) -> Parser:
    """Return a parser with the run, or several, and what chooses its policy."""
    made = Parser(name, description, EXAMPLES[name])
    made.add_argument("run", type=Path, nargs="+" if several else None, help="its folder")
    made.add_argument(
        *("--checkpoint", "--itr", "-i"),
        type=parse_checkpoint,
        default="last",
        metavar="WHICH",
        help="last, best or a step (default: last)",
    )
    made.add_argument(
        "--env", metavar="ID", help="where the run's environment is module:Id, to allow it"
    )
    return made


def add_episode_flags(made: argparse.ArgumentParser, *episodes: str, default: int) -> None:
    """Add what says how episodes are played."""
    text = f"how many (default: {default})"
    made.add_argument("--episodes", *episodes, type=int, default=default, metavar="N", help=text)
    text = "of the episodes (default: 10000)"
    made.add_argument("--seed", type=int, default=10_000, metavar="S", help=text)
    acting = made.add_mutually_exclusive_group()
    acting.add_argument("--stochastic", action="store_true", help="act as in training")
    acting.add_argument(
        *("--deterministic", "-d"), dest="stochastic", action="store_false", help="the default"
    )


def explain_no_run(folder: Path) -> str:
    """Return what is wrong with a path that is no run, and which runs may have been meant."""
    below = [str(one.path) for one in status.list_runs(folder)] if folder.is_dir() else []
    hint = f" Runs in it: {', '.join(below[:5])}." if below else ""
    if meant := [] if below else _guess_runs(folder.name):
        hint = f" Did you mean {' or '.join(meant[:5])}?"
    return f"{folder} is no run: it has no config.json.{hint}"


def _guess_runs(name: str) -> list[str]:
    """Return the runs of a name in the data folder."""
    try:
        data_dir = Path(status.read_user_defaults()["data_dir"]).expanduser()
    except (errors.ConfigError, errors.Damaged):
        return []
    runs = [one.path for one in status.list_runs(data_dir)] if data_dir.is_dir() else []
    return [str(run) for run in runs if name in (run.name, run.parent.name)]


def parse_checkpoint(word: str) -> str | int:
    """Read which checkpoint is meant: the `type` of an option."""
    if word in ("last", "best"):
        return word
    if word == "-1":  # Spinning Up's word for the last
        return "last"
    if not re.fullmatch(r"[0-9_]{1,15}", word):
        raise argparse.ArgumentTypeError(f"expected last, best or a step, got {word!r}")
    return int(word.strip("_").replace("_", "") or "0")


def parse_env(env: str | None, run: Path | None = None) -> Callable[[], Any] | None:
    """Return what makes the environment that was typed; its module may be in the current folder.

    Args:
        env: of Gymnasium, or module:Id; None if nothing was typed.
        run: that goes on in it, so that it must be its own.
    """
    if env is None:
        return None
    from purerl.runs.settings import config as configs

    if run is not None:
        _check_own(env, run)
    if ":" in env and not {"", here := str(Path.cwd())} & {*sys.path}:
        sys.path.insert(0, here)  # as `python -m` does
    return configs.make_env_fn(env)


def _check_own(env: str, run: Path) -> None:
    """Refuse another id than that of a run, unless that is a word that no environment has."""
    import gymnasium

    own = str(status.read_json(run / "config.json").get("env"))
    is_id = ":" in own or own in gymnasium.registry
    if is_id and env.rpartition(":")[2] != own.rpartition(":")[2]:
        how = f"with --env {own}" if ":" in own else "without --env"
        raise errors.ConfigError(
            f"{run} is a run in {own}, and cannot go on in {env}. Type the same line {how}."
        )


def load_run(args: argparse.Namespace, run: Path) -> Any:
    """Load the run that was asked for; what was passed over is said."""
    with interrupts.allow_immediate_exit():
        from purerl import mpi, setup
        from purerl.runs.policy import run as runs

    if mpi.num_procs() > 1:
        raise errors.ConfigError("one process does it alone: start it without mpiexec.")
    setup()
    return runs.load(run, args.checkpoint, env_fn=parse_env(args.env), say=print_warning)


def run_command(name: str, command: Callable[[], None]) -> int:
    """Run a command and return its exit code; an error it knows is one line."""
    try:
        command()
    except KeyboardInterrupt:
        return INTERRUPTED
    except tuple(codes()) as error:
        print_warning(f"purerl {name}: {error}")
        return next(code for kind, code in codes().items() if isinstance(error, kind))
    return 0


def codes() -> dict[type[Exception], int]:
    """Return the exit codes of errors, the same for all commands; imports JAX."""
    from purerl.errors import (
        ConfigError,
        EnvFault,
        NoCheckpoint,
        NonFiniteError,
        SnapshotMismatch,
        StorageError,
    )

    found: dict[type[Exception], int] = {
        ConfigError: 2,
        NonFiniteError: 3,
        EnvFault: 4,
        StorageError: 5,
        NoCheckpoint: 6,
    }
    return found | {SnapshotMismatch: 6}
