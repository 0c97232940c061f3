"""Arguments shared by `eval`, `watch`, `export` and `resume`. Importing this imports no JAX."""

import argparse
import contextlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from purerl import algos, errors
from purerl.cli.options import Parser
from purerl.cli.values import parse_integer
from purerl.runs import interrupts
from purerl.runs.console import print_warning
from purerl.runs.record import status

RUN = "runs/cartpole-v1-ppo/cartpole-v1-ppo_s0"


def make_parser(name: str, about: str, example: str, several: bool = False) -> Parser:
    """Return a parser with the folder of a run, or `several` runs, and flags for its checkpoint."""
    made = Parser(name, about, f"examples:\n  purerl {name} {RUN}\n  purerl {name} {example}\n")
    made.add_argument(
        "run", type=Path, nargs="+" if several else None, help="folder of a run, or its short name"
    )
    # fmt: off
    made.add_argument("--checkpoint", "--itr", "-i", type=parse_checkpoint, default="last",
                      metavar="WHICH", help="checkpoint: last, best or a step (default: last)")
    # fmt: on
    add_import_flags(made)
    return made


def add_import_flags(made: argparse.ArgumentParser) -> None:
    """Add the flags for modules, which are imported only if the user names them."""
    made.add_argument("--env", metavar="ID", help="custom environment of the run, as module:Id")
    text = "custom algorithm of the run, as an import path"
    made.add_argument("--algo", metavar="MODULE", help=text)


def add_episode_flags(made: argparse.ArgumentParser, default: int, *more: str) -> None:
    """Add the flags of episodes; `more` are further names of the flag for their length."""
    # fmt: off
    add = made.add_argument
    add("--episodes", "-n", type=parse_integer, default=default, metavar="N",
        help=f"number of episodes (default: {default})")
    add("--seed", type=parse_integer, default=10_000, metavar="S",
        help="seed of the episodes (default: 10000)")
    add("--max-ep-len", "--max_ep_len", *more, dest="max_ep_len", type=parse_integer,
        metavar="STEPS",
        help="maximum episode length (default: as in training; 0: the environment's limit)")
    # fmt: on
    add = made.add_mutually_exclusive_group().add_argument
    add("--deterministic", "-d", action="store_true", default=True, help="no exploration (default)")
    add("--stochastic", dest="deterministic", action="store_false", help="explore as in training")


def choose_episodes(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `Run.evaluate` from the command line."""
    return {k: vars(args)[k] for k in ("episodes", "seed", "deterministic", "max_ep_len")}


def parse_checkpoint(word: str) -> str | int:
    """Parse the value of `--checkpoint`."""
    if word in ("last", "best", "-1"):  # in Spinning Up, -1 means last
        return word.replace("-1", "last")
    if not re.fullmatch(r"\d{1,15}", digits := word.replace("_", "")):
        raise argparse.ArgumentTypeError(f"expected last, best or a step, got {word!r}")
    return int(digits)


def parse_env(
    env: str | None, run: Path | None = None, verb: str = "resume"
) -> Callable[[], Any] | None:
    """Return a function that makes `env`, whose module may be in the current folder.

    A `run` accepts only its own environment, or any environment if its own has no id. `verb` is
    the command that needs it.
    """
    if env is None:
        if run is None or "env_fn=..." not in status.list_custom_parts(status.read_config(run)):
            return None
        raise errors.ConfigError(
            f"the environment of {run} is a Python function, which a command cannot make. Use it "
            f"{status.format_command(verb, run)}. Or give an equal environment with --env ID."
        )
    from purerl.runs.settings import environments  # start-up time

    if run is not None:
        own = str(status.read_json(run / "config.json").get("env"))
        is_id = status.is_id(own)
        if is_id and env.rpartition(":")[2] != own.rpartition(":")[2]:
            how = f"with --env {own}" if ":" in own else "without --env"
            raise errors.ConfigError(
                f"{run} was trained in {own}, not in {env}. Run the same command {how}."
            )
    if ":" in env:
        _import_from_here()
    return environments.make_env_fn(env)


def parse_algo(name: str | None) -> Any:
    """Return the name of one of purerl's algorithms, or import a custom one by its path."""
    if name is not None and name not in algos.NAMES:
        _import_from_here()
    return None if name is None else algos.find(name)


def _import_from_here() -> None:
    """Allow imports from the current folder, as `python -m` does."""
    with contextlib.suppress(FileNotFoundError):  # the current folder is deleted
        if not {"", here := str(Path.cwd())} & {*sys.path}:
            sys.path.insert(0, here)


def load_run(args: argparse.Namespace, run: Path) -> Any:
    """Load the run of a command line; print a warning for each checkpoint that is skipped."""
    with interrupts.allow_immediate_exit():
        from purerl import mpi, setup  # start-up time
        from purerl.runs.policy import run as runs

    if mpi.num_procs() > 1:
        raise errors.ConfigError("this command runs in one process. Start it without mpiexec.")
    setup()
    env_fn, algo, run = parse_env(args.env), parse_algo(args.algo), status.find_run(run)
    return runs.load(run, args.checkpoint, env_fn, say=print_warning, algo=algo)
