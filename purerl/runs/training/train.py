"""Train in a folder: log, evaluate, save, stop on request, and go on later bit for bit."""

import contextlib
import dataclasses
import functools
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from purerl import algos, mpi
from purerl.errors import ConfigError, EnvFault
from purerl.loops import devices, snapshot
from purerl.loops import gym as loop
from purerl.runs.interrupts import collect_requests
from purerl.runs.record import checkpoint, folder, machine, manifest, safe_files, status
from purerl.runs.record.logger import replace_non_finite
from purerl.runs.settings import config as configs
from purerl.runs.settings.config import Config
from purerl.runs.training.failure import record_failure, summarise_end
from purerl.runs.training.progress_bar import Screen
from purerl.runs.training.reporting import Report, report_line, report_warnings, time_compilations
from purerl.runs.training.saving import Saver, describe_run, run_on_root
from purerl.runs.training.sinks import Sink
from purerl.runs.training.sinks import check_packages as check_sinks

STOPPED = 75  # exit code of a run that was asked to stop and can go on


class Outcome(NamedTuple):
    """How a run ended."""

    run: Path
    code: int  # 0 or STOPPED; everything else is an exception
    step: int
    score: float  # mean test return of the last record, else of its training episodes
    carry: loop.Carry


def train(
    config: Config,
    env_fn: Callable[[], Any] | None = None,
    screen: Screen | None = None,
    sinks: Sequence[Sink] = (),
    **where: Any,
) -> Outcome:
    """Train as a configuration says, in a folder of its own.

    Args:
        config: of the run.
        env_fn: makes the environment, where the id in the configuration does not.
        screen: for what rank 0 says; None for the standard output.
        sinks: take the rows besides, as `purerl.runs.training.sinks` says.
        **where: `data_dir` and `datestamp`, as `folder.create` takes them.
    """
    check_sinks(config)
    check_memory(config, mpi.num_procs())
    mpi.assert_in_sync(_flatten_config(config), "the configuration")
    screen = screen or Screen()
    env_fn = env_fn or configs.make_env_fn(config.env)
    others: list[str] = []
    run = run_on_root(lambda: folder.create_folder(config, say=others.append, **where))
    with _lock_folder(run):
        for line in (*others, f"{_describe(config)}: {run}"):
            report_line(run, screen, line)
        return _from_the_start(run, config, env_fn, screen, sinks)


def check_memory(config: Config, ranks: int) -> None:
    """Refuse a run that does not fit into memory, or whose counts do not divide by its ranks."""
    algo = algos.load(config.algo)
    try:
        schedule = config.schedule.resolve(ranks)
        learner = jax.eval_shape(lambda: algo.init(jax.random.key(0), config.spec))
        devices.check_memory(config.spec.env, schedule, learner, ranks)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _from_the_start(
    run: Path,
    config: Config,
    env_fn: Callable[[], Any],
    screen: Screen,
    sinks: Sequence[Sink],
) -> Outcome:
    about = {"steps": config.schedule.steps, "seed": config.seed, "ranks": mpi.num_procs()}
    folder.update_status(run, status="running", step=0, reason=None, **about)
    with record_failure(run):
        carry = start_carry(config, env_fn, functools.partial(report_line, run, screen))
        return _train_to_end(run, config, env_fn, carry, None, screen, sinks)


def resume(
    run: Path,
    env_fn: Callable[[], Any] | None = None,
    spec: Any = None,
    steps: int | None = None,
    at: int | str = "last",
    screen: Screen | None = None,
    sinks: Sequence[Sink] = (),
) -> Outcome:
    """Go on with a run from its newest good checkpoint, or from the one of a step.

    A run that was killed before its first one begins again, which gives the same bits.

    Checkpoints that are newer than the one it goes on from are deleted.

    Args:
        run: its folder.
        env_fn: as in `train`.
        spec: for networks of one's own, which no file can bring back.
        steps: new total; None for the one the run was last given.
        at: `last` for the newest checkpoint that is whole, `best`, or a step.
        screen: as in `train`.
        sinks: as in `train`.
    """
    screen = screen or Screen()
    with _lock_folder(run):
        config = read_config(run, env_fn, spec, steps)
        mpi.assert_in_sync(_flatten_config(config) | {"checkpoint": str(at)}, "the configuration")
        total = config.schedule.steps
        check_sinks(config)
        env_fn = env_fn or configs.make_env_fn(config.env)
        if not run_on_root(lambda: manifest.list_steps(run)) and at == "last":
            report_line(run, screen, f"{run} has no checkpoint yet: it begins again.")
            return _from_the_start(run, config, env_fn, screen, sinks)
        step = manifest.resolve_step(run, at)
        loaded = checkpoint.load(run, describe_run(config), mpi.proc_id(), step)
        for why in loaded.skipped:
            report_line(run, screen, f"passed over: {why}")
        for what in loaded.changed:
            report_line(run, screen, f"noticed: {what}")
        if loaded.step > total:
            raise ConfigError(
                f"{run} has done {loaded.step:,} steps, and {total:,} are asked for. Give more "
                f"with --steps."
            )
        if loaded.step == total and status.read_status(run).get("status") == "done":
            raise ConfigError(
                f"{run} is complete: {loaded.step:,} of {total:,} steps. Give more with --steps."
            )
        _compare_versions(run, screen)
        tell = functools.partial(report_line, run, screen)
        carry, lost = restore_carry(config, env_fn, loaded, tell)
        report_line(
            run,
            screen,
            f"{_describe(config)}: goes on at {loaded.step:,}{_describe_loss(run, loaded)}",
        )
        if lost:
            report_line(
                run,
                screen,
                f"environments {lost} cannot be brought back to where they were: they start new "
                f"episodes, and the run is not bit for bit the one that was interrupted.",
            )
        folder.update_status(run, status="running", step=loaded.step, steps=total, reason=None)
        with record_failure(run):
            _rewind(run, loaded.step, screen)
            return _train_to_end(run, config, env_fn, carry, loaded, screen, sinks)


def _flatten_config(config: Config) -> dict[str, str]:
    """Return a configuration as words by their names: what ranks compare."""
    plain = jax.tree.map(repr, configs.to_json(config), is_leaf=lambda x: x is None)
    pairs = jax.tree_util.tree_leaves_with_path(plain)
    return {jax.tree_util.keystr(path, simple=True, separator="."): word for path, word in pairs}


def read_config(
    run: Path, env_fn: Callable[[], Any] | None = None, spec: Any = None, steps: int | None = None
) -> Config:
    """Return the configuration of a run, with the total of steps it was last given or a new one."""
    config = configs.from_json(status.read_json(run / "config.json"), env_fn, spec)
    total = status.read_status(run).get("steps", config.schedule.steps) if steps is None else steps
    try:
        schedule = dataclasses.replace(config.schedule, steps=total)
    except (ValueError, TypeError) as error:
        raise ConfigError(str(error)) from error
    return dataclasses.replace(config, schedule=schedule)


def restore_carry(
    config: Config,
    env_fn: Callable[[], Any],
    loaded: checkpoint.Loaded,
    tell: Callable[[str], None] = lambda line: None,
) -> tuple[loop.Carry, list[int]]:
    """Return the carry of a checkpoint, and the environments whose episodes start anew."""
    carry = start_carry(config, env_fn, tell)
    try:
        carry, lost = snapshot.thaw(carry, loaded.frozen)
        mpi.assert_in_sync(snapshot.select_shared(carry), f"the checkpoint of step {loaded.step:,}")
        return carry, lost
    except BaseException:
        carry.envs.close()  # nobody else will
        raise


def start_carry(
    config: Config, env_fn: Callable[[], Any], tell: Callable[[str], None] = lambda line: None
) -> loop.Carry:
    """Return the carry that a run begins with; `tell` is given what the loop warns of."""
    algo = algos.load(config.algo)
    try:
        with report_warnings(tell):
            return loop.start(algo, config.spec, env_fn, config.schedule, config.seed)
    except ValueError as error:  # devices, memory, an environment of other spaces
        raise ConfigError(str(error)) from error


def _train_to_end(
    run: Path,
    config: Config,
    env_fn: Callable[[], Any],
    carry: loop.Carry,
    loaded: checkpoint.Loaded | None,
    screen: Screen,
    sinks: Sequence[Sink],
) -> Outcome:
    """Advance to the end, or until somebody asks to stop."""
    notes = loaded.manifest["notes"] if loaded else {}
    report = run_on_root(lambda: Report(run, config, notes, carry, screen, sinks), shared=False)
    keeper = Saver(run, config, loaded)
    if loaded:
        keeper.prune(report)
    total, known = carry.schedule.steps, notes.get("score")
    score = math.nan if known is None else known
    with (
        _closing(carry, report),
        collect_requests(carry.ranks) as asked,
        time_compilations() as compiled,
    ):
        while carry.steps < total:
            before = carry.steps
            carry, record = _advance(carry, env_fn, keeper.at_fault(carry, report, score))
            if record:
                score = _score(record, score)
            if report:
                report.tell(carry, record, compiled)
            stop = bool(mpi.pmax(len(asked)) if carry.ranks > 1 else asked)
            last = stop or carry.steps == total
            if last or keeper.due(before, carry.steps, score if record else None):
                keeper.save(carry, report, score, last)
            if stop:
                break
    done = carry.steps == total
    about = {"status": "done" if done else "stopped", "compile_seconds": round(sum(compiled), 3)}
    folder.update_status(run, step=carry.steps, **about, score=replace_non_finite(score))
    report_line(run, screen, summarise_end(run, carry.steps, total, score))
    return Outcome(run, 0 if done else STOPPED, carry.steps, score, carry)


def _advance(
    carry: loop.Carry, env_fn: Callable[[], Any], kept: contextlib.AbstractContextManager[None]
) -> tuple[loop.Carry, Any]:
    """Advance, and evaluate where an epoch ended; a fault is told the step before."""
    before = carry.steps
    try:
        with kept:
            carry, record = loop.advance(carry)
        if record and carry.schedule.num_test_episodes:
            record |= loop.evaluate_epoch(carry, env_fn)
    except EnvFault as error:
        error.add_note(f"it came after environment step {before:,} of the run.")
        raise
    return carry, record


@contextlib.contextmanager
def _closing(carry: loop.Carry, report: Report | None) -> Iterator[None]:
    """Close environments and report at the end; a fault in closing hides no error before it."""
    with contextlib.ExitStack() as stack:
        if report:
            stack.callback(report.close)
        try:
            yield
        except BaseException:
            with contextlib.suppress(EnvFault):
                carry.envs.close()
            raise
        carry.envs.close()


def _score(record: loop.Record, before: float) -> float:
    returns = record.get("test_returns") or record["ep_returns"]
    return statistics.fmean(returns) if returns else before


@contextlib.contextmanager
def _lock_folder(run: Path) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        run_on_root(lambda: stack.enter_context(safe_files.lock_folder(run)), shared=False)
        yield


def _compare_versions(run: Path, screen: Screen) -> None:
    """Say so where what decides about bits is not as it was."""
    then, now = status.read_status(run).get("versions", {}), machine.list_versions()
    changed = [name for name in now if name in then and then[name] != now[name]]
    for name in changed:
        report_line(
            run, screen, f"{name} was {then[name]} and is {now[name]}: bits may differ from now on."
        )


def _rewind(run: Path, step: int, screen: Screen) -> None:
    """Delete the checkpoints that are newer than the one gone on from, and say which."""
    later = run_on_root(lambda: manifest.delete_later(run, step))
    if later:
        steps = ", ".join(f"{one:,}" for one in later)
        report_line(run, screen, f"deleted the checkpoints that came after step {step:,}: {steps}")


def _describe_loss(run: Path, loaded: checkpoint.Loaded) -> str:
    """Say how far the newest checkpoint had come, where it is damaged."""
    if not loaded.skipped:
        return ""
    behind = manifest.list_steps(run)[-1] - loaded.step
    return f"; the {behind:,} steps up to the newest checkpoint are lost and done again"


def _describe(config: Config) -> str:
    ranks = mpi.num_procs()
    also = f", {ranks} ranks" if ranks > 1 else ""
    return f"{config.algo} on {config.env}, seed {config.seed}{also}"
