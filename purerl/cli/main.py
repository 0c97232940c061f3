"""The command line: `purerl`, or `python -m purerl`."""

import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Callable

from purerl import __version__, algos, errors
from purerl.mpi import world
from purerl.runs import console, interrupts

OVERVIEW = f"""purerl {__version__}: reinforcement learning as pure functions, in JAX

  purerl train ALGO --env ID     train; --help after it lists every setting
  purerl resume RUN              go on with a run that was stopped or killed, bit for bit
  purerl eval RUN...             returns of whole episodes, with an interval
  purerl watch RUN               a window, or a GIF where there is no display
  purerl plot RUN...             curves with bands over seeds
  purerl compare RUN...          interquartile means, intervals, who is better and how surely
  purerl sweep ALGO --grid k=v,w grids of settings, several runs at a time
  purerl list [algos|envs|runs]  what there is, and how runs stand
  purerl show ALGO               its equations, settings, and where its functions are
  purerl inspect RUN             what a run and its checkpoints hold
  purerl export RUN              the policy for numpy alone, or as StableHLO
  purerl doctor [RUN]            what this machine has; what made a run diverge

ALGO is one of {", ".join(algos.NAMES)}. RUN is the folder of a run.

Try:
  purerl train ppo --env CartPole-v1
  purerl train sac --env Pendulum-v1 --steps 20000 --hidden 64,64 --seed 0 1 2
  purerl watch runs/cartpole-v1-ppo/cartpole-v1-ppo_s0
  purerl plot runs/pendulum-v1-sac
  purerl sweep ppo --env CartPole-v1 --grid clip_ratio=0.1,0.2,0.3 --seed 0 1 2
"""
# Each in the module that does it, imported when it is asked for: most need no JAX.
COMMANDS = {
    "train": "purerl.cli.commands.train_and_resume:train",
    "resume": "purerl.cli.commands.train_and_resume:resume",
    "sweep": "purerl.cli.commands.sweep:main",
    "list": "purerl.cli.commands.list:listing",
    "show": "purerl.cli.commands.show:show",
    "inspect": "purerl.cli.commands.list:inspect",
    "plot": "purerl.cli.commands.plot:main",
    "compare": "purerl.cli.commands.compare:main",
    "doctor": "purerl.cli.commands.doctor:doctor",
    "eval": "purerl.runs.policy.evaluation:command",
    "watch": "purerl.runs.policy.video:command",
    "export": "purerl.runs.policy.export:command",
}


INTERRUPTED, NO_READER, STORAGE = 130, 141, 5  # the first two as a shell says them


def main(argv: list[str] | None = None) -> int:
    """Run a command; return its exit code."""
    return run_guarded(_command, argv)


def run_guarded(command: Callable[[list[str]], int], argv: list[str] | None) -> int:
    """Run a command that may be interrupted, or whose output nobody may take.

    Args:
        command: from words to an exit code.
        argv: the words; None for those of this process, which then does nothing else.
    """
    code = _run_guarded(command, sys.argv[1:] if argv is None else argv, argv is None)
    if argv is None and code == INTERRUPTED:
        os._exit(code)  # JAX cannot tidy up after a compilation that was interrupted
    return code


def _run_guarded(command: Callable[[list[str]], int], words: list[str], alone: bool) -> int:
    _open_missing()
    try:
        with interrupts.catch_interrupts(alone):
            code = command(words)
        if not code:
            console.write_text(sys.stdout, "")  # what is still held back
        return code
    except KeyboardInterrupt as error:
        if world.is_rank():
            raise  # ends the other ranks as well
        console.print_warning(
            "\n  ".join(["purerl: interrupted", *getattr(error, "__notes__", ())])
        )
        return INTERRUPTED
    except errors.OutputClosed as error:
        if error.errno == errno.EPIPE:  # as of `| head`
            return NO_READER
        console.print_warning(
            f"purerl: the output could not be written: {error.strerror or error}."
        )
        return STORAGE
    finally:
        try:
            console.write_text(sys.stdout, "")
        except errors.OutputClosed:
            console.silence(sys.stdout)


def _open_missing() -> None:
    """Let what is said go nowhere in a process that was started without an output, as by `>&-`."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


def _command(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        console.write_text(sys.stdout, OVERVIEW)
        return 0
    if words[0] == "--version":
        console.print_lines(f"purerl {__version__}")
        return 0
    name, *rest = words
    if name not in COMMANDS:
        import difflib

        near = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        console.print_warning(f"purerl: unknown command {name!r}.{hint} `purerl` shows all.")
        return 2
    if name in ("train", "resume") and not {"-h", "--help", "--help-all"} & set(rest):
        announce(words)
    module, _, function = COMMANDS[name].partition(":")
    with interrupts.allow_immediate_exit():
        loaded = importlib.import_module(module)
    try:
        return int(getattr(loaded, function)(rest))
    except errors.OutputClosed:
        raise
    except (errors.PurerlError, ValueError, OSError) as error:
        console.print_warning(f"purerl {name}: {error}")
        return errors.exit_code_of(error)


def announce(words: list[str]) -> None:
    """Say what begins, seconds before imports; one of many ranks says nothing."""
    if not world.is_rank():
        with contextlib.suppress(errors.OutputClosed):  # the run notices, and goes on
            console.print_lines(f"purerl {__version__}: {' '.join(words)}")


if __name__ == "__main__":
    sys.exit(main())
