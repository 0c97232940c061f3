"""The carry to train from: a new one, or that of a checkpoint."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from purerl import loops, mpi
from purerl.errors import ConfigError, NoCheckpoint, SnapshotMismatch
from purerl.loops import snapshot
from purerl.loops.carry import Carry
from purerl.loops.snapshot import Frozen
from purerl.runs.record import checkpoint, checkpoint_folders, machine, status
from purerl.runs.record.checkpoint import Loaded
from purerl.runs.settings.config import Config
from purerl.runs.training import reporting
from purerl.runs.training.reporting import Session, describe_config
from purerl.runs.training.requirements import EnvFn
from purerl.runs.training.saving import describe_run

Tell = Callable[[str], None]  # receives a line


def start_carry(
    config: Config, env_fn: EnvFn, tell: Tell = lambda line: None, seeds: Sequence[int] = ()
) -> Any:
    """Return the first carry of a run, or of several seeds in one program.

    `tell` receives a line for each warning of the loop. Without `seeds`, it is the run's own.
    """
    which: Any = {"seeds": seeds} if len(seeds) > 1 else {"seed": config.seed}
    try:
        with reporting.report_warnings(tell):
            loop = loops.choose_loop(env_fn)
            return loop.start(config.module, config.spec, env_fn, config.schedule, **which)
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


def list_candidates(runs: Sequence[Path], at: int | str) -> list[int | None]:
    """Return the steps of checkpoints to continue from, the preferred one first.

    None is the newest undamaged one of a single run. An empty list means step 0. Several runs start
    there only if they were killed while they saved their first checkpoint.
    """
    there = [checkpoint_folders.list_steps(run) for run in runs]
    if at == "last" and not all(there) and all(map(_has_only_begun, runs, there)):
        return []
    if len(runs) == 1:
        return [checkpoint_folders.resolve_step(runs[0], at)]
    if at != "last":
        there = [[checkpoint_folders.resolve_step(run, at) or 0] for run in runs]
    if common := sorted(set.intersection(*map(set, there)), reverse=True):
        return [*common]
    lines = ["these runs have no checkpoint of the same step. Continue each of them alone."]
    for run, steps in zip(runs, there, strict=True):
        lines.append(f"{run}: {', '.join(map(str, steps)) or 'none'}")
    raise NoCheckpoint("\n  ".join(lines))


def _has_only_begun(run: Path, steps: list[int]) -> bool:
    """Return whether a run has no checkpoint, or was killed after its first one."""
    is_killed = status.read_status(run).get("status") == "running"
    return not steps or (len(steps) == 1 and is_killed)


def restore_all(
    sessions: Sequence[Session], candidates: Sequence[int | None]
) -> list[tuple[Carry, Loaded]]:
    """Restore the checkpoints of the first step that are good in all runs."""
    restored: list[tuple[Carry, Loaded]] = []
    try:
        for session in sessions:
            restored.append(_restore(session, candidates[0]))
        return restored
    except BaseException as error:
        for carry, _ in restored:
            carry.envs.close()
        if not isinstance(error, NoCheckpoint) or len(candidates) == 1:
            raise
        sessions[0].output.say(f"step {candidates[0]:,} is skipped: {error}")
    return restore_all(sessions, candidates[1:])


def _restore(session: Session, step: int | None) -> tuple[Carry, Loaded]:
    """Restore a checkpoint, and report everything that changed since it was saved."""
    run, config, total = session.run, session.config, session.config.schedule.steps
    loaded = checkpoint.load(run, describe_run(config), mpi.proc_id(), step)
    session.say(*(f"skipped a damaged checkpoint: {why}" for why in loaded.skipped))
    session.say(*(f"warning: {what} The run continues." for what in loaded.changed))
    states = [status.read_status(one) for one in session.output.runs]
    wrong = ""
    if loaded.step > total:
        wrong = f"has done {loaded.step:,} steps, more than the {total:,} of its new total"
    elif loaded.step == total and all(state.get("status") == "done" for state in states):
        wrong = f"is complete: {loaded.step:,} of {total:,} steps"
    if wrong:
        raise ConfigError(f"{run} {wrong}. Give a larger total with --steps.")
    changes = machine.list_differences(status.read_status(run))
    session.say(*(f"warning: {change} Results may differ." for change in changes))
    try:
        carry, lost = restore_carry(config, session.env_fn, loaded, session.say)
    except SnapshotMismatch as error:
        if changes:
            raise SnapshotMismatch(f"{error} Possible causes: {' '.join(changes)}") from error
        raise
    line = f"{describe_config(config)}: continues at step {loaded.step:,}"
    behind = checkpoint_folders.list_steps(run)[-1] - loaded.step
    if behind and (loaded.skipped or len(states) > 1):
        line += f". The {behind:,} steps up to the newest checkpoint are lost and repeated."
    session.output.say(line)
    if lost:
        session.say(
            f"warning: environments {lost} did not return to their saved state. They start new "
            f"episodes, so the run is not bit for bit identical to one without interruption."
        )
    return carry, loaded._replace(frozen=Frozen({}, {}, {}, None))  # frees the memory
