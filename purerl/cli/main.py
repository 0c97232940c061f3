"""Main program of `purerl` and `python -m purerl`: start a command and report its errors."""

import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Callable

from purerl import __version__, algos, errors, mpi
from purerl.mpi import library, world
from purerl.runs import console, interrupts

OVERVIEW = f"""purerl {__version__}: reinforcement learning as pure functions, in JAX

  purerl train ALGO --env ID      train an algorithm on an environment
  purerl resume RUN               continue a stopped or killed run, bit for bit
  purerl eval RUN...              play episodes and print their mean return
  purerl watch RUN                show a policy in a window, or write a GIF
  purerl plot RUN...              draw learning curves with bands over seeds
  purerl compare RUN...           compare algorithms or settings over seeds
  purerl sweep ALGO --grid K=V,V  train with all combinations of settings
  purerl list [algos|envs|runs]   list algorithms, environments and runs
  purerl show ALGO                show equations, settings and source lines
  purerl inspect RUN              show the contents of a run and its checkpoints
  purerl export RUN               write a policy for NumPy, or as StableHLO
  purerl doctor [RUN]             check this machine, or find why a run diverged
  purerl exercise [list|start N]  do exercises that check themselves
  purerl lab [list|ALGO]          find the planted error in a copy of an algorithm

ALGO is one of {", ".join(algos.NAMES)}.
RUN is the folder of a run. `purerl train ALGO --help` lists its settings.

Examples:
  purerl train ppo --env CartPole-v1
  purerl train sac --env Pendulum-v1 --steps 20000 --hidden 64,64 --seed 0 1 2
  purerl watch runs/cartpole-v1-ppo/cartpole-v1-ppo_s0
  purerl sweep ppo --env CartPole-v1 --grid clip_ratio=0.1,0.2,0.3 --seed 0 1 2
"""
TRAINING = ("train", "resume")
OWN = ("eval", "watch", "plot", "compare", "sweep", "list", "show", "inspect", "export", "doctor")
SCHOOL = ("exercise", "lab")
COMMANDS = {  # name -> module and function
    **{name: ("purerl.cli.commands.train_and_resume", name) for name in TRAINING},
    **{name: (f"purerl.cli.commands.{name}", "main") for name in OWN},
    **{name: (f"purerl_school.commands.{name}", "main") for name in SCHOOL},
}


def main(argv: list[str] | None = None) -> int:
    """Run a command; return its exit code."""
    return run_and_report(_run_command, argv)


def run_and_report(
    command: Callable[[list[str]], int], argv: list[str] | None, prog: str = "purerl"
) -> int:
    """Run a command; print its errors in one line and return the exit code.

    If `argv` is None, use the arguments of this process, which must do nothing else.
    """
    words = sys.argv[1:] if argv is None else argv
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # started without this stream, for example with `>&-`
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
        if error.errno == errno.EPIPE:  # for example by `| head`
            return code
        text = f"purerl: the output could not be written: {error.strerror or error}."
    elif isinstance(error, errors.MPIUnavailable):  # ranks cannot ask each other
        if library.is_first():
            console.print_warning(text)
        return code
    elif not mpi.all_raise(error):
        mpi.fail(error, code)  # an error of only this rank ends the job with a traceback
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
        raise errors.ConfigError(f"unknown command {name!r}.{near} `purerl --help` lists all.")
    if name in TRAINING and not {"-h", "--help", "--help-all"} & set(rest):
        announce(words)
    module, function = COMMANDS[name]
    with interrupts.allow_immediate_exit():  # imported on use, because most commands need no JAX
        loaded = importlib.import_module(module)
    return int(getattr(loaded, function)(rest))


def announce(words: list[str]) -> None:
    """Print the command before slow imports start; print nothing if this is one of many ranks."""
    if not world.is_rank():
        with contextlib.suppress(errors.OutputClosed):  # the run reports it and continues
            console.print_lines(f"purerl {__version__}: {console.quote_words(words)}")
