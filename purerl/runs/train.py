"""Train in a folder: log, evaluate, save, stop on request, and go on later bit for bit."""

import contextlib
import dataclasses
import math
import re
import signal
import statistics
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from purerl import algos, mpi
from purerl.loops import gym as loop
from purerl.loops import snapshot
from purerl.runs import checkpoint, folder, storage, table
from purerl.runs import config as configs
from purerl.runs.config import Config, ConfigError
from purerl.runs.log import append

STOPPED = 75  # exit code of a run that was asked to stop and can go on
PATIENCE = 3  # checkpoints in a row that may fail before the run ends

Say = Callable[[str], None]


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
    say: Say = table.printed,
    **where: Any,
) -> Outcome:
    """Train as a configuration says, in a folder of its own.

    Args:
        config: of the run.
        env_fn: makes the environment, where the id in the configuration does not.
        say: is given the lines for the screen, on rank 0.
        **where: `data_dir` and `datestamp`, as `folder.create` takes them.
    """
    env_fn = env_fn or configs.make(config.env)
    run = _on_root(lambda: folder.create(config, **where))
    with _owned(run):
        _say(say, f"{config.algo} on {config.env}, seed {config.seed}: {run}")
        folder.set_status(run, status="running", step=0)
        with _told(run):
            carry = loop.start(
                algos.load(config.algo), config.spec, env_fn, config.schedule, config.seed
            )
            return _go_on(run, config, env_fn, carry, (), {}, say)


def resume(
    run: Path,
    env_fn: Callable[[], Any] | None = None,
    spec: Any = None,
    steps: int | None = None,
    at: int | None = None,
    say: Say = table.printed,
) -> Outcome:
    """Go on with a run from its newest good checkpoint, or from the one of a step.

    Args:
        run: its folder.
        env_fn: as in `train`.
        spec: for networks of one's own, which no file can bring back.
        steps: new total; None for the one the run was started with.
        at: step of the checkpoint.
        say: as in `train`.
    """
    with _owned(run):
        config = configs.from_json(configs.read(run / "config.json"), env_fn, spec)
        if steps is not None:
            schedule = dataclasses.replace(config.schedule, steps=steps)
            config = dataclasses.replace(config, schedule=schedule)
        env_fn = env_fn or configs.make(config.env)
        loaded = checkpoint.load(run, about(config), mpi.proc_id(), at)
        for why in loaded.skipped:
            _say(say, f"passed over: {why}")
        if loaded.step >= config.schedule.steps and folder.status(run).get("status") == "done":
            raise ConfigError(
                f"{run} is complete: {loaded.step:,} of {config.schedule.steps:,} steps. "
                f"Give more with --steps."
            )
        _compare_versions(run, say)
        algo = algos.load(config.algo)
        carry = loop.start(algo, config.spec, env_fn, config.schedule, config.seed)
        carry, lost = snapshot.thaw(carry, loaded.frozen)
        _say(say, f"{config.algo} on {config.env}, seed {config.seed}: goes on at {loaded.step:,}")
        if lost:
            _say(
                say,
                f"environments {lost} cannot be brought back to where they were: they start new "
                f"episodes, and the run is not bit for bit the one that was interrupted.",
            )
        folder.set_status(run, status="running", step=loaded.step)
        notes = loaded.manifest["notes"]
        with _told(run):
            return _go_on(run, config, env_fn, carry, loaded.segments, notes, say)


def about(config: Config) -> dict[str, Any]:
    """Return what checkpoints of a run must say: all that its bits depend on, but its length."""
    plain = configs.to_json(config)
    plain["schedule"].pop("steps")
    found = {name: plain[name] for name in ("algo", "env", "seed", "spec", "schedule", "spaces")}
    return found | {"ranks": mpi.num_procs()}


def _go_on(
    run: Path,
    config: Config,
    env_fn: Callable[[], Any],
    carry: loop.Carry,
    segments: tuple[checkpoint.Segment, ...],
    notes: dict[str, Any],
    say: Say,
) -> Outcome:
    """Advance to the end, or until somebody asks to stop."""
    logs = _on_root(lambda: table.Logs(run, notes), shared=False)
    total, freq, failures = carry.schedule.steps, config.options.save_freq, 0
    score, best = notes.get("score", float("nan")), checkpoint.best(run)
    try:
        with _requests() as asked:
            while carry.steps < total:
                before = carry.steps
                carry, record = loop.advance(carry)
                if record:
                    if carry.schedule.num_test_episodes:
                        record |= loop.evaluated(carry, env_fn)
                    score = _score(record, score)
                    if logs:
                        for line in logs.add(record, total):
                            _say(say, line)
                stop = mpi.pmax(asked[0]) if carry.ranks > 1 else asked[0]
                due = freq is not None and carry.steps // freq > before // freq
                if not (due or stop or carry.steps == total):
                    continue
                notes = (logs.notes() if logs else {}) | {"score": score}
                try:
                    segments = checkpoint.save(
                        run, carry, about(config), segments, config.options.keep, notes
                    )
                    failures = 0
                except storage.StorageError as error:
                    failures += 1
                    _say(say, f"checkpoint at {carry.steps:,} failed: {error}")
                    if failures == PATIENCE or stop or carry.steps == total:
                        raise
                    continue
                folder.set_status(run, step=carry.steps)
                if record and mpi.is_root() and score > (best[1] if best else -math.inf):
                    best = (carry.steps, score)
                    checkpoint.mark_best(run, *best)
                if stop:
                    break
    finally:
        carry.envs.close()
    if carry.steps < total:
        _say(say, f"stopped at {carry.steps:,} of {total:,}. Go on: purerl resume {run}")
        folder.set_status(run, status="stopped", step=carry.steps)
        return Outcome(run, STOPPED, carry.steps, score, carry)
    folder.set_status(run, status="done", step=carry.steps, score=score)
    _say(say, f"return {score:.1f}; everything is in {run}")
    return Outcome(run, 0, carry.steps, score, carry)


def _score(record: loop.Record, before: float) -> float:
    returns = record.get("test_returns") or record["ep_returns"]
    return statistics.fmean(returns) if returns else before


@contextlib.contextmanager
def _requests() -> Iterator[list[int]]:
    """Turn the first SIGTERM or Ctrl-C into a number; the second leaves at once."""
    asked = [0]

    def ask(number: int, _: Any) -> None:
        asked[0] = number
        for one in kept:
            signal.signal(one, kept[one])

    kept: dict[int, Any] = {}
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            if signal.getsignal(number) is signal.SIG_IGN:  # as under nohup: respected
                continue
            kept[number] = signal.signal(number, ask)
    except ValueError:  # not the main thread: signals are somebody else's
        kept.clear()
    try:
        yield asked
    finally:
        for one, handler in kept.items():
            signal.signal(one, handler)


@contextlib.contextmanager
def _told(run: Path) -> Iterator[None]:
    """Write into the manifest why a run failed."""
    try:
        yield
    except BaseException as error:
        reason = f"{type(error).__name__}: {error}"
        with contextlib.suppress(storage.StorageError):
            folder.set_status(run, status="failed", reason=reason)
            if mpi.is_root():
                append(run / "stdout.log", traceback.format_exc())
        raise


@contextlib.contextmanager
def _owned(run: Path) -> Iterator[None]:
    with storage.owned(run) if mpi.is_root() else contextlib.nullcontext():
        yield


def _on_root(make: Callable[[], Any], shared: bool = True) -> Any:
    """Do something on rank 0; its error is raised on all ranks, its result shared or kept."""
    made: Any = None
    failed: Exception | None = None
    if mpi.is_root():
        try:
            made = make()
        except (ConfigError, storage.StorageError) as error:
            failed = error
    result, failed = mpi.allgather((made if shared else None, failed))[0]
    if failed is not None:
        raise failed
    return result if shared else made


def _compare_versions(run: Path, say: Say) -> None:
    """Say so where what decides about bits is not as it was."""
    then, now = folder.status(run).get("versions", {}), folder.versions()
    changed = [name for name in now if name in then and then[name] != now[name]]
    for name in changed:
        _say(say, f"{name} was {then[name]} and is {now[name]}: bits may differ from now on.")


def _say(say: Say, line: str) -> None:
    if mpi.is_root():
        say(re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "?", line))
