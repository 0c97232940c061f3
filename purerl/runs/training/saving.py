"""Checkpoints during a run: when they are saved, and how disk failures are tolerated."""

import functools
import math
from typing import Any

from purerl import errors, mpi
from purerl.loops.carry import Carry, Record
from purerl.mpi.host import run_on_all, run_on_root
from purerl.runs.record import checkpoint, checkpoint_folders, folder
from purerl.runs.record.checkpoint import Loaded
from purerl.runs.record.files import to_json
from purerl.runs.settings import config as configs
from purerl.runs.settings.config import Config
from purerl.runs.training.reporting import Report, Session

PATIENCE = 3  # checkpoints in a row that may fail before the run ends


class Saver:
    """Checkpoint writer of a run, new or continued from `loaded`; only rank 0 has a report."""

    def __init__(self, session: Session, loaded: Loaded | None, report: Report | None) -> None:
        self.run, self.options = session.run, session.config.options
        self.about = describe_run(session.config)
        self.segments = loaded.segments if loaded else ()
        self.say, self.report = session.say, report
        self.say_once = functools.cache(session.say)
        self.failures = 0
        self.shared: tuple[int, ...] = ()  # newest step that runs trained together all have
        self.place = run_on_root(lambda: folder.identify(self.run))

    def is_due(self, before: int, steps: int, score: float | None) -> bool:
        """Return whether a multiple of `save_freq` was passed, or an epoch was the best so far.

        The last advance went from step `before` to `steps`. If no epoch ended, `score` is None.
        """
        freq = self.options.save_freq
        if freq is None or steps // freq > before // freq:
            return freq is not None
        if score is None or self.failures:  # do not try a failing disk more often
            return False
        marked = run_on_root(lambda: checkpoint_folders.read_best(self.run))
        return math.isfinite(score) and (marked is None or score > marked[1])

    def save(self, carry: Carry, score: float, last: bool, pending: Record | None = None) -> None:
        """Save a checkpoint; tolerate fewer than `PATIENCE` failures in a row, none at the end.

        `pending` is the record of an epoch whose evaluation was stopped. If files of the replay
        buffer are missing, save all rows again, and raise `RunLost`.
        """
        self.check_files()
        lost = any(run_on_all(self._has_lost_rows))
        self.segments = () if lost else self.segments
        try:
            notes = run_on_root(lambda: self.report.notes() if self.report else {})
            notes |= {"total": carry.schedule.steps}  # `resume --steps` may have raised it
            notes |= {"score": to_json(score)} | ({"pending": to_json(pending)} if pending else {})
            args = (self.run, carry, self.about, self.segments, self.options.keep, notes)
            self.segments = checkpoint.save(*args, self.say_once, self.shared)
            run_on_root(lambda: folder.update_status(self.run, step=carry.steps))
            self.failures = 0
        except errors.StorageError as error:
            self.failures += 1
            if self.failures == PATIENCE or last:
                which = f"the checkpoint of step {carry.steps:,} was not saved"
                error.add_note(f"{which}: failure {self.failures} in a row.")
                raise
            again = "The run continues and tries again at the next checkpoint."
            self.say(f"the checkpoint of step {carry.steps:,} was not saved: {error} {again}")
            return
        if lost:
            raise errors.RunLost(
                f"files in {self.run / 'replay'} were deleted or moved while the run was training. "
                f"All rows were saved again, so nothing is lost, but older checkpoints cannot be "
                f"resumed. Find out what deletes files there, then continue the run."
            )

    def check_files(self) -> None:
        """Raise `RunLost` if the folder of the run or its configuration is gone."""
        run_on_root(lambda: folder.check_files(self.run, self.place))

    def _has_lost_rows(self) -> bool:
        return not all((self.run / "replay" / one.name).exists() for one in self.segments)

    def save_unsaved(
        self, carry: Carry, score: float, last: bool, pending: Record | None = None
    ) -> None:
        """Save a checkpoint, if there is none of this step; step 0 needs none."""
        known = run_on_root(lambda: checkpoint_folders.list_steps(self.run))
        if carry.steps and carry.steps not in known:
            self.save(carry, score, last, pending)

    def prune(self) -> None:
        """Mark the best checkpoint and delete old ones, in case a kill prevented it before."""
        run_on_root(lambda: checkpoint_folders.prune(self.run, self.options.keep, self.say_once))


def describe_run(config: Config) -> dict[str, Any]:
    """Return the settings that must be equal to resume a checkpoint: those that affect results."""
    plain = configs.to_json(config)
    plain["schedule"].pop("steps")
    found = {name: plain[name] for name in ("algo", "env", "seed", "spec", "schedule", "spaces")}
    return found | {"ranks": mpi.num_procs()}


def read_pending(notes: dict[str, Any]) -> Record | None:
    """Return the record of an epoch whose evaluation was stopped, from a checkpoint's notes."""
    record = notes.get("pending")
    if record is None:
        return None
    needed = {"epoch", "steps", "updates", "ep_returns", "ep_lengths"}
    if isinstance(record, dict) and needed <= record.keys():
        record = {name: math.nan if x is None else x for name, x in record.items()}
        numbers = [x for one in record.values() for x in (one if isinstance(one, list) else [one])]
        if all(type(x) in (int, float) for x in numbers):
            return record
    raise errors.Damaged(f"the pending record of a checkpoint is not a record: {record!r:.200}.")
