"""Train in a folder: log, evaluate, save, stop on request, and continue later bit for bit."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from purerl import mpi
from purerl.errors import ConfigError
from purerl.loops import devices
from purerl.loops.carry import Record
from purerl.mpi.host import run_on_root
from purerl.runs.record import checkpoint_folders, folder, machine, safe_files, status
from purerl.runs.settings import config as configs
from purerl.runs.settings.config import Config
from purerl.runs.training import reporting, requirements, restoring
from purerl.runs.training.epochs import Outcome, train_to_end
from purerl.runs.training.progress_bar import Screen
from purerl.runs.training.reporting import Output, Session, describe_config
from purerl.runs.training.requirements import EnvFn
from purerl.runs.training.sinks import Sink
from purerl.schedules import describe_rounding


def train(
    config: Config,
    env_fn: EnvFn | None = None,
    screen: Screen | None = None,
    sinks: Sequence[Sink] = (),
    eval_env_fn: EnvFn | None = None,
    on_record: Callable[[Record], Any] | None = None,
    notes: Sequence[str] = (),
    **where: Any,
) -> Outcome:
    """Train with a configuration, in a new folder.

    Args:
        config: configuration of the run; counts that do not fit are rounded up.
        env_fn: function that makes the environment; None for the id in the configuration.
        screen: screen for the lines of rank 0; None for the standard output.
        sinks: further receivers of the rows, of the form `purerl.runs.training.sinks.Sink`.
        eval_env_fn: function that makes the environment of the test episodes; None for `env_fn`.
        on_record: function that is called with the record of each epoch and its seed, on all ranks.
        notes: lines to print after the first one.
        **where: `data_dir` and `datestamp` for `folder.create_folder`.
    """
    made = [config]
    return train_together(made, env_fn, screen, sinks, eval_env_fn, on_record, notes, **where)[0]


def train_together(
    made: Sequence[Config],
    env_fn: EnvFn | None = None,
    screen: Screen | None = None,
    sinks: Sequence[Sink] = (),
    eval_env_fn: EnvFn | None = None,
    on_record: Callable[[Record], Any] | None = None,
    notes: Sequence[str] = (),
    **where: Any,
) -> list[Outcome]:
    """Train configurations that differ only in their seeds, in one program.

    Each run has a new folder of its own, and the result of training alone, up to rounding. The
    other arguments are those of `train`.
    """
    made, rounded = zip(*(configs.settle(one, mpi.num_procs()) for one in made), strict=True)
    requirements.check_runs(made, sinks, eval_env_fn, on_record)
    contents, lines, runs = [configs.to_json(config) for config in made], list[str](), list[Path]()
    if len(made) > 1:
        folder.check_earlier_runs(contents, **where)
    for content in contents:
        create = functools.partial(folder.create_folder, content, say=lines.append, **where)
        runs.append(run_on_root(create))
    sessions = _open_sessions(runs, made, env_fn, screen, sinks, eval_env_fn, on_record)
    with _lock_folders(runs):
        lines += [f"{describe_config(one.config)}: {one.run}" for one in sessions]
        also = filter(None, [configs.describe_torso(made[0].spec), rounded[0]])
        sessions[0].output.say(*lines, *notes, *also)
        return _begin(sessions)


def resume(
    run: str | Path,
    env_fn: EnvFn | None = None,
    spec: Any = None,
    steps: int | None = None,
    at: int | str = "last",
    screen: Screen | None = None,
    sinks: Sequence[Sink] = (),
    algo: Any = None,
    eval_env_fn: EnvFn | None = None,
    on_record: Callable[[Record], Any] | None = None,
) -> Outcome:
    """Continue a run from its newest good checkpoint, or from the one of a step.

    A run without a checkpoint starts again from step 0 and gives the same results bit for bit.
    Checkpoints newer than the one to continue from are deleted.

    Args:
        run: folder of the run.
        env_fn, screen, sinks, eval_env_fn, on_record: as in `train`.
        spec: the run's `Spec` if it has custom networks, which no file contains.
        steps: new total of environment steps; None for the last total of the run.
        at: `last` for the newest undamaged checkpoint, `best`, or a step.
        algo: module of the run's algorithm if it is custom, because no file may import it.
    """
    rest = (screen, sinks, algo, eval_env_fn, on_record)
    return resume_together([run], env_fn, spec, steps, at, *rest)[0]


def resume_together(
    runs: Sequence[str | Path],
    env_fn: EnvFn | None = None,
    spec: Any = None,
    steps: int | None = None,
    at: int | str = "last",
    screen: Screen | None = None,
    sinks: Sequence[Sink] = (),
    algo: Any = None,
    eval_env_fn: EnvFn | None = None,
    on_record: Callable[[Record], Any] | None = None,
) -> list[Outcome]:
    """Continue runs that differ only in their seeds, in one program.

    All of them continue from the same step: the newest one of which each has a good checkpoint, or
    the step `at`. The other arguments are those of `resume`.
    """
    devices.check_platform()
    folders = [Path(run) for run in runs]
    if len({run.resolve() for run in folders}) < len(folders):
        raise ConfigError("a run is given twice. Give each folder once.")
    with _lock_folders(folders):
        made = [requirements.read_config(run, env_fn, spec, steps, algo) for run in folders]
        requirements.check_runs(made, sinks, eval_env_fn, on_record, at)
        schedule = made[0].schedule
        sessions = _open_sessions(folders, made, env_fn, screen, sinks, eval_env_fn, on_record)
        output = sessions[0].output
        for run in filter(status.is_damaged, folders):
            total = f"The run goes on to a total of {schedule.steps:,} steps."
            output.say(f"warning: {run / status.STATUS} is damaged. {total}")
        if steps is not None:
            given = dataclasses.replace(schedule, steps=steps)
            output.say(*filter(None, [describe_rounding(given, schedule)]))
        if candidates := run_on_root(lambda: restoring.list_candidates(folders, at)):
            return _continue(sessions, candidates)
        empty = ", ".join(str(x) for x in folders if not checkpoint_folders.list_steps(x))
        which = "All runs start" if len(made) > 1 else "It starts"
        output.say(f"there is no checkpoint yet in {empty}. {which} again from step 0.")
        for run in folders:
            run_on_root(functools.partial(checkpoint_folders.delete_later, run, 0))
        return _begin(sessions)


def _open_sessions(
    runs: Sequence[Path],
    made: Sequence[Config],
    env_fn: EnvFn | None,
    screen: Screen | None,
    sinks: Sequence[Sink],
    eval_env_fn: EnvFn | None,
    on_record: Callable[[Record], Any] | None,
) -> list[Session]:
    training, test = requirements.choose_env_fns(made[0], env_fn, eval_env_fn)
    output = Output(screen or Screen(), runs)
    return [
        Session(run, config, training, output, sinks, test, on_record)
        for run, config in zip(runs, made, strict=True)
    ]


def _begin(sessions: Sequence[Session]) -> list[Outcome]:
    """Train from the start."""
    config, output = sessions[0].config, sessions[0].output
    about = {"steps": config.schedule.steps, "ranks": mpi.num_procs()}
    about |= {"settings": machine.list_settings()}
    for one in sessions:
        own = about | {"seed": one.config.seed}
        folder.update_status(one.run, status="running", step=0, reason=None, **own)
    with reporting.record_failure(output.runs) as failed:
        seeds = [one.config.seed for one in sessions]
        carry = restoring.start_carry(config, sessions[0].env_fn, output.say, seeds)
        return train_to_end(sessions, carry, [None] * len(sessions), failed)


def _continue(sessions: Sequence[Session], candidates: Sequence[int | None]) -> list[Outcome]:
    """Train from the first of these steps whose checkpoints are good in all runs."""
    config, output = sessions[0].config, sessions[0].output
    carries, loaded = zip(*restoring.restore_all(sessions, candidates), strict=True)
    for run, start in zip(output.runs, loaded, strict=True):
        known = status.read_status(run).get("settings") or machine.list_settings()
        about = {"step": start.step, "steps": config.schedule.steps, "settings": known}
        folder.update_status(run, status="running", reason=None, **about)
    with reporting.record_failure(output.runs) as failed:
        for one, start in zip(sessions, loaded, strict=True):
            delete = functools.partial(checkpoint_folders.delete_later, one.run, start.step)
            if later := run_on_root(delete):
                steps = ", ".join(f"{step:,}" for step in later)
                one.say(f"deleted the checkpoints after step {start.step:,}: {steps}")
        carry = sessions[0].loop.join(carries) if len(carries) > 1 else carries[0]
        return train_to_end(sessions, carry, loaded, failed)


@contextlib.contextmanager
def _lock_folders(runs: Sequence[Path]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for run in runs:
            lock = safe_files.lock_folder(run)
            run_on_root(functools.partial(stack.enter_context, lock), shared=False)
        yield
