"""Arguments of commands that use the policy of a run: `eval`, `watch` and `export`; free of JAX."""

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


def make_parser(name: str, description: str, *examples: str, several: bool = False) -> Parser:
    """Return a parser for a run, or several, and the choice of its policy.

    Args:
        name: Name of the command.
        description: What it does, in a sentence.
        *examples: Arguments of example commands.
        several: Whether the command takes several runs.
    """
    lines = "".join(f"  purerl {name} {words}\n" for words in examples)
    made = Parser(name, description, f"examples:\n{lines}")
    made.add_argument("run", type=Path, nargs="+" if several else None, help="its folder")
    made.add_argument(
        *("--checkpoint", "--itr", "-i"),
        type=parse_checkpoint,
        default="last",
        metavar="WHICH",
        help="last, best or a step (default: last)",
    )
    made.add_argument("--env", metavar="ID", help="module:Id of the run's environment, to allow it")
    return made


def add_episode_flags(made: argparse.ArgumentParser, default: int, *more: str) -> None:
    """Add the flags for episodes: number, seed, exploration and length limit.

    Args:
        made: Parser.
        default: Default number of episodes.
        *more: Further flags for the length limit.
    """
    text = f"number of episodes (default: {default})"
    made.add_argument("--episodes", "-n", type=int, default=default, metavar="N", help=text)
    text = "seed of the episodes (default: 10000)"
    made.add_argument("--seed", type=int, default=10_000, metavar="S", help=text)
    made.add_argument(
        *("--max-ep-len", "--max_ep_len", *more),
        dest="max_ep_len",
        type=int,
        metavar="STEPS",
        help="cut episodes at this length (default: as in training; 0: the environment's limit)",
    )
    acting = made.add_mutually_exclusive_group()
    acting.add_argument("--stochastic", action="store_true", help="act as in training")
    acting.add_argument(
        *("--deterministic", "-d"), dest="stochastic", action="store_false", help="the default"
    )


def choose_episodes(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `Run.evaluate` that were typed."""
    return {
        "episodes": args.episodes,
        "seed": args.seed,
        "deterministic": not args.stochastic,
        "max_ep_len": args.max_ep_len,
    }


def parse_checkpoint(word: str) -> str | int:
    """Parse the choice of a checkpoint; the `type` of a flag."""
    if word in ("last", "best"):
        return word
    if word == "-1":  # Spinning Up's last checkpoint
        return "last"
    if not re.fullmatch(r"[0-9_]{1,15}", word):
        raise argparse.ArgumentTypeError(f"expected last, best or a step, got {word!r}")
    return int(word.strip("_").replace("_", "") or "0")


def parse_env(env: str | None, run: Path | None = None) -> Callable[[], Any] | None:
    """Return the function that makes a typed environment; its module may be in this folder.

    Args:
        env: Gymnasium id or module:Id; None if nothing was typed.
        run: Run that continues in the environment, which must be its own.
    """
    if env is None:
        return None
    from purerl.runs.settings import environments  # start-up time

    if run is not None:
        _check_own(env, run)
    if ":" in env and not {"", here := str(Path.cwd())} & {*sys.path}:
        sys.path.insert(0, here)  # as `python -m` does
    return environments.make_env_fn(env)


def _check_own(env: str, run: Path) -> None:
    """Refuse an id other than the run's, unless the run's environment has no id."""
    import gymnasium  # start-up time

    own = str(status.read_json(run / "config.json").get("env"))
    is_id = ":" in own or own in gymnasium.registry
    if is_id and env.rpartition(":")[2] != own.rpartition(":")[2]:
        how = f"with --env {own}" if ":" in own else "without --env"
        raise errors.ConfigError(
            f"{run} is a run in {own}, and cannot go on in {env}. Type the same line {how}."
        )


def load_run(args: argparse.Namespace, run: Path) -> Any:
    """Load the run that was typed, with a warning for each checkpoint that is passed over."""
    with interrupts.allow_immediate_exit():
        from purerl import mpi, setup  # start-up time
        from purerl.runs.policy import run as runs

    if mpi.num_procs() > 1:
        raise errors.ConfigError("one process does it alone: start it without mpiexec.")
    setup()
    return runs.load(run, args.checkpoint, env_fn=parse_env(args.env), say=print_warning)
