"""The command line: `purerl`, or `python -m purerl`. Starts a command and reports its errors."""

import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Callable

from purerl import __version__, algos, errors, mpi
from purerl.mpi import world
from purerl.runs import console, interrupts

OVERVIEW = f"""purerl {__version__}: reinforcement learning as pure functions, in JAX

  purerl train ALGO --env ID     train; --help after it lists every setting
  purerl resume RUN              continue a run that was stopped or killed, bit for bit
  purerl eval RUN...             returns of whole episodes, with an interval
  purerl watch RUN               a window, or a GIF if there is no display
  purerl plot RUN...             curves with bands over seeds
  purerl compare RUN...          interquartile means, intervals, probability of improvement
  purerl sweep ALGO --grid k=v,w grids of settings, several runs at a time
  purerl list [algos|envs|runs]  algorithms, environments, and the status of runs
  purerl show ALGO               its equations, settings, and where its functions are
  purerl inspect RUN             contents of a run and its checkpoints
  purerl export RUN              the policy for numpy alone, or as StableHLO
  purerl doctor [RUN]            report on this machine; find what made a run diverge

ALGO is one of {", ".join(algos.NAMES)}. RUN is the folder of a run.

Try:
  purerl train ppo --env CartPole-v1
  purerl train sac --env Pendulum-v1 --steps 20000 --hidden 64,64 --seed 0 1 2
  purerl watch runs/cartpole-v1-ppo/cartpole-v1-ppo_s0
  purerl plot runs/pendulum-v1-sac
  purerl sweep ppo --env CartPole-v1 --grid clip_ratio=0.1,0.2,0.3 --seed 0 1 2
"""
TRAINING = ("train", "resume")
COMMANDS = (
    *TRAINING, "eval", "watch", "plot", "compare", "sweep", "list", "show", "inspect", "export",
    "doctor",
)  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Run a command; return its exit code."""
    return run_and_report(_run_command, argv)


def run_and_report(
    command: Callable[[list[str]], int], argv: list[str] | None, prog: str = "purerl"
) -> int:
    """Run a command; print its errors in one line and return the exit code.

    If `argv` is None it takes the words of this process, which then does nothing else.
    """
    words = sys.argv[1:] if argv is None else argv
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the process was started without it, as by `>&-`
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    try:
        with interrupts.catch_interrupts(argv is None):
            code = command(words)
        if code == errors.DONE:
            console.write_text(sys.stdout, "")  # fails if buffered output cannot be written
    except (errors.PurerlError, ValueError, OSError, KeyboardInterrupt) as error:
        code = _report_error(error, " ".join([prog, *(w for w in words[:1] if w in COMMANDS)]))
    finally:
        try:
            console.write_text(sys.stdout, "")
        except errors.OutputClosed:
            console.silence(sys.stdout)
    if argv is None and code == errors.INTERRUPTED:
        os._exit(code)  # JAX cannot tidy up after a compilation that was interrupted
    return code


def _report_error(error: BaseException, prog: str) -> int:
    """Print an error with its notes, on one rank; return its exit code."""
    code, text = errors.exit_code_of(error), f"{prog}: {error}"
    if isinstance(error, KeyboardInterrupt):
        if world.is_rank():
            raise error  # ends the other ranks as well
        text = "purerl: interrupted"
    elif isinstance(error, errors.OutputClosed):
        if error.errno == errno.EPIPE:  # as of `| head`
            return code
        text = f"purerl: the output could not be written: {error.strerror or error}."
    elif not mpi.all_raise(error):
        mpi.fail(error, code)  # an error of this rank alone ends the job, with its traceback
    if isinstance(error, KeyboardInterrupt | errors.OutputClosed) or mpi.is_root():
        console.print_warning("\n  ".join([text, *getattr(error, "__notes__", ())]))
    return code


def _run_command(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        console.write_text(sys.stdout, OVERVIEW)
        return errors.DONE
    name, *rest = words
    if name == "--version":
        console.print_lines(f"purerl {__version__}")
        return errors.DONE
    if name not in COMMANDS:
        from purerl.runs.settings import aliases  # here for start-up time

        near = aliases.suggest(name, COMMANDS)
        raise errors.ConfigError(f"unknown command {name!r}.{near} `purerl` shows all.")
    if name in TRAINING and not {"-h", "--help", "--help-all"} & set(rest):
        announce(words)
    module, function = ("train_and_resume", name) if name in TRAINING else (name, "main")
    with interrupts.allow_immediate_exit():  # imported on use, since most need no JAX
        loaded = importlib.import_module(f"purerl.cli.commands.{module}")
    return int(getattr(loaded, function)(rest))


def announce(words: list[str]) -> None:
    """Print what begins, seconds before imports; one of many ranks prints nothing."""
    if not world.is_rank():
        with contextlib.suppress(errors.OutputClosed):  # the run reports it and continues
            console.print_lines(f"purerl {__version__}: {' '.join(words)}")
