"""Train in a folder: log, evaluate, save, stop on request, and continue later bit for bit."""

import contextlib
import dataclasses
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from purerl import errors, loops, mpi
from purerl.errors import ConfigError, EnvFault, SnapshotMismatch
from purerl.loops import devices, snapshot
from purerl.loops.carry import Carry, Record
from purerl.mpi.host import run_on_root
from purerl.runs.interrupts import agree_to_stop, collect_requests
from purerl.runs.record import checkpoint, checkpoint_folders, folder, machine, safe_files, status
from purerl.runs.record.checkpoint import Loaded
from purerl.runs.settings import config as configs
from purerl.runs.settings import environments
from purerl.runs.settings.config import Config
from purerl.runs.training import reporting
from purerl.runs.training.progress_bar import Screen
from purerl.runs.training.reporting import Report, Session
from purerl.runs.training.saving import Saver, describe_run, read_pending
from purerl.runs.training.sinks import Sink, check_packages
from purerl.schedules import describe_rounding

EnvFn = Callable[[], Any]
Tell = Callable[[str], None]  # receives a line


class Outcome(NamedTuple):
    """The end of a run."""

    run: Path
    code: int  # errors.DONE or errors.STOPPED; every other end is an exception
    step: int
    score: float  # mean test return of the last record, else of its training episodes
    carry: Carry
    config: Config  # with every number filled in


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
        on_record: function that is called with the record of each epoch, on all ranks.
        notes: lines to print after the first one.
        **where: `data_dir` and `datestamp` for `folder.create_folder`.
    """
    check_packages(config)
    _check_functions(config, eval_env_fn, on_record)
    config, rounded = configs.settle(config, mpi.num_procs())
    check_memory(config, mpi.num_procs())
    mpi.assert_in_sync(_flatten_config(config), "the configuration")
    content = configs.to_json(config)
    lines: list[str] = []
    run = run_on_root(lambda: folder.create_folder(content, say=lines.append, **where))
    env_fn, test_env_fn = _choose_env_fns(config, env_fn, eval_env_fn)
    screen = screen or Screen()
    session = Session(run, config, env_fn, screen, sinks, test_env_fn, on_record)
    with _lock_folder(run):
        also = filter(None, [configs.describe_torso(config.spec), rounded])
        session.say(*lines, f"{_describe(config)}: {run}", *notes, *also)
        return _begin(session)


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
    devices.check_platform()
    run = Path(run)
    with _lock_folder(run):
        config = read_config(run, env_fn, spec, steps, algo)
        mpi.assert_in_sync(_flatten_config(config) | {"checkpoint": str(at)}, "the configuration")
        check_packages(config)
        _check_functions(config, eval_env_fn, on_record)
        env_fn, test_env_fn = _choose_env_fns(config, env_fn, eval_env_fn)
        screen = screen or Screen()
        session = Session(run, config, env_fn, screen, sinks, test_env_fn, on_record)
        if status.is_damaged(run):
            total = f"The run goes on to a total of {config.schedule.steps:,} steps."
            session.say(f"warning: {run / status.STATUS} is damaged. {total}")
        if steps is not None:
            given = dataclasses.replace(config.schedule, steps=steps)
            session.say(*filter(None, [describe_rounding(given, config.schedule)]))
        if not run_on_root(lambda: checkpoint_folders.list_steps(run)) and at == "last":
            session.say(f"{run} has no checkpoint yet. It starts again from step 0.")
            return _begin(session)
        step = checkpoint_folders.resolve_step(run, at)
        loaded = checkpoint.load(run, describe_run(config), mpi.proc_id(), step)
        return _continue(session, loaded)


def _begin(session: Session) -> Outcome:
    """Train from the start."""
    run, config = session.run, session.config
    about = {"steps": config.schedule.steps, "seed": config.seed, "ranks": mpi.num_procs()}
    about |= {"settings": machine.list_settings()}
    folder.update_status(run, status="running", step=0, reason=None, **about)
    with reporting.record_failure(run):
        return _train_to_end(session, start_carry(config, session.env_fn, session.say), None)


def _continue(session: Session, loaded: Loaded) -> Outcome:
    """Train from a checkpoint, after reporting everything that changed since it was saved."""
    run, config, total = session.run, session.config, session.config.schedule.steps
    session.say(*(f"skipped a damaged checkpoint: {why}" for why in loaded.skipped))
    session.say(*(f"warning: {what} The run continues." for what in loaded.changed))
    state = status.read_status(run)
    wrong = ""
    if loaded.step > total:
        wrong = f"has done {loaded.step:,} steps, more than the {total:,} of its new total"
    elif loaded.step == total and state.get("status") == "done":
        wrong = f"is complete: {loaded.step:,} of {total:,} steps"
    if wrong:
        raise ConfigError(f"{run} {wrong}. Give a larger total with --steps.")
    changes = machine.list_differences(state)
    session.say(*(f"warning: {change} Results may differ." for change in changes))
    try:
        carry, lost = restore_carry(config, session.env_fn, loaded, session.say)
    except SnapshotMismatch as error:
        if changes:
            raise SnapshotMismatch(f"{error} Possible causes: {' '.join(changes)}") from error
        raise
    line = f"{_describe(config)}: continues at step {loaded.step:,}"
    if loaded.skipped:
        behind = checkpoint_folders.list_steps(run)[-1] - loaded.step
        line += f". The {behind:,} steps up to the newest checkpoint are lost and repeated."
    session.say(line)
    if lost:
        session.say(
            f"warning: environments {lost} did not return to their saved state. They start new "
            f"episodes, so the run is not bit for bit identical to one without interruption."
        )
    known = {"settings": state.get("settings") or machine.list_settings()}
    folder.update_status(run, status="running", step=loaded.step, steps=total, reason=None, **known)
    with reporting.record_failure(run):
        if later := run_on_root(lambda: checkpoint_folders.delete_later(run, loaded.step)):
            steps = ", ".join(f"{step:,}" for step in later)
            session.say(f"deleted the checkpoints after step {loaded.step:,}: {steps}")
        return _train_to_end(session, carry, loaded)


def check_memory(config: Config, ranks: int) -> None:
    """Refuse a run that does not fit into memory, or counts that are not divisible by the ranks."""
    devices.check_platform()
    try:
        schedule = config.schedule.resolve(ranks)
        learner = jax.eval_shape(lambda: config.module.init(jax.random.key(0), config.spec))
        devices.check_memory(config.spec.env, schedule, learner, ranks)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _choose_env_fns(
    config: Config, env_fn: EnvFn | None, eval_env_fn: EnvFn | None
) -> tuple[EnvFn, EnvFn]:
    """Return what makes the environments of training and of test episodes; in JAX, these."""
    training, test = (
        environments.choose_training_env(one, config.env, config.options.wrapper)
        for one in (env_fn, eval_env_fn or env_fn)
    )
    return training, test


def _check_functions(config: Config, eval_env_fn: Any, on_record: Any) -> None:
    """Refuse arguments that are not functions, and test environments with other spaces."""
    for name, given in (("eval_env_fn", eval_env_fn), ("on_record", on_record)):
        if given is not None and not callable(given):
            raise ConfigError(f"{name} must be a function or None, got {given!r}.")
    if eval_env_fn is not None:
        _, test_env_fn = _choose_env_fns(config, None, eval_env_fn)
        found = environments.read_env_spec("of eval_env_fn", test_env_fn)
        if found != config.spec.env:
            raise ConfigError(
                f"eval_env_fn must make environments with the spaces of training, "
                f"{config.spec.env}, got {found}."
            )


def _flatten_config(config: Config) -> dict[str, str]:
    """Return the entries of a configuration as text by their names, to compare between ranks."""
    entries = checkpoint.flatten_settings(configs.to_json(config))
    return {name: repr(entry) for name, entry in entries.items()}


def read_config(
    run: Path, env_fn: EnvFn | None, spec: Any, steps: int | None, algo: Any = None
) -> Config:
    """Return the configuration of a run, with a new total of steps (rounded up) or its last."""
    config = configs.from_json(status.read_json(run / "config.json"), env_fn, spec, custom=algo)
    total = status.read_status(run).get("steps") if steps is None else steps
    if total is None:  # the status is missing or damaged
        total = checkpoint_folders.read_total(run) or config.schedule.steps
    try:
        schedule = dataclasses.replace(config.schedule, steps=total)
        if steps is not None:
            total = schedule.settle(mpi.num_procs()).steps
            schedule = dataclasses.replace(schedule, steps=total)
    except (ValueError, TypeError) as error:
        raise ConfigError(str(error)) from error
    return dataclasses.replace(config, schedule=schedule)


def start_carry(config: Config, env_fn: EnvFn, tell: Tell = lambda line: None) -> Carry:
    """Return the first carry of a run; `tell` gets a line for each warning of the loop."""
    try:
        with reporting.report_warnings(tell):
            loop = loops.choose_loop(env_fn)
            return loop.start(config.module, config.spec, env_fn, config.schedule, config.seed)
    except ValueError as error:  # devices, memory, an environment of other spaces
        raise ConfigError(str(error)) from error


def restore_carry(
    config: Config, env_fn: EnvFn, loaded: Loaded, tell: Tell = lambda line: None
) -> tuple[Carry, list[int]]:
    """Return the carry of a checkpoint, and the environments that start new episodes."""
    carry = start_carry(config, env_fn, tell)
    try:
        carry, lost = snapshot.thaw(carry, loaded.frozen)
        mpi.assert_in_sync(snapshot.select_shared(carry), f"the checkpoint of step {loaded.step:,}")
        return carry, lost
    except BaseException:
        carry.envs.close()  # no other code does
        raise


def _train_to_end(session: Session, carry: Carry, loaded: Loaded | None) -> Outcome:
    """Advance until the run is complete or a signal asks to stop."""
    run, notes = session.run, loaded.manifest["notes"] if loaded else {}
    report = run_on_root(lambda: Report(session, notes, carry), shared=False)
    saver = Saver(session, loaded, report)
    if loaded:
        saver.prune()
    total, known = carry.schedule.steps, notes.get("score")
    score = math.nan if known is None else known
    stop = False
    try:
        pending = read_pending(notes)
        with collect_requests(carry.ranks) as asked, reporting.time_compilations() as compiled:
            while (carry.steps < total or pending) and not stop:
                before, record = carry.steps, pending
                if record is None:
                    with saver.save_on_fault(carry, score):
                        carry, record = session.loop.advance(carry, lambda: bool(asked))
                if record:
                    saver.check_files()
                is_tested = bool(carry.schedule.num_test_episodes)
                if report:
                    report.report_advance(carry, compiled)
                    if record:
                        report.begin_row(record, is_tested)
                if record and is_tested:
                    tests = session.loop.evaluate_epoch(
                        carry, session.eval_env_fn, lambda: bool(asked)
                    )
                    record, pending = (record | tests, None) if tests else (None, record)
                score = _compute_score(record, score) if record else score
                if report:
                    report.end_row(record)
                if record and session.on_record:
                    session.on_record(dict(record))
                stop = agree_to_stop(asked, carry.ranks)
                last = stop or carry.steps == total
                if carry.steps == before and record is None and pending is None:
                    saver.save_unsaved(carry, score, last)  # the advance was stopped
                elif last or saver.is_due(before, carry.steps, score if record else None):
                    saver.save(carry, score, last, pending)
    except BaseException as error:
        if isinstance(error, EnvFault):
            error.add_note(f"This happened after environment step {before:,} of the run.")
        with contextlib.suppress(EnvFault):  # must not hide the error
            carry.envs.close()
        raise
    else:
        carry.envs.close()
    finally:
        if report:
            report.close()
    step, seconds = carry.steps, round(sum(compiled), 3)
    done = step == total and not pending
    ended = "done" if done else "stopped"
    folder.update_status(run, step=step, status=ended, compile_seconds=seconds, score=score)
    session.say(reporting.summarise_end(run, step, total, score, done))
    code = errors.DONE if done else errors.STOPPED
    return Outcome(run, code, step, score, carry, session.config)


def _compute_score(record: Record, before: float) -> float:
    """Return the mean return of an epoch's episodes; without any of the policy's, `before`."""
    own = [] if "random_steps" in record else record["ep_returns"]
    returns = record.get("test_returns") or own
    return statistics.fmean(returns) if returns else before


@contextlib.contextmanager
def _lock_folder(run: Path) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        run_on_root(lambda: stack.enter_context(safe_files.lock_folder(run)), shared=False)
        yield


def _describe(config: Config) -> str:
    ranks = mpi.num_procs()
    also = f", {ranks} ranks" if ranks > 1 else ""
    return f"{config.algo} on {config.env}, seed {config.seed}{also}"
