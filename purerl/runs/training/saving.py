"""Checkpoints of a run when they are due, and what to do when one fails."""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from purerl import errors, mpi
from purerl.errors import ConfigError, EnvFault
from purerl.loops.carry import Carry
from purerl.runs.record import checkpoint, folder, manifest
from purerl.runs.record.logger import replace_non_finite
from purerl.runs.settings import config as configs
from purerl.runs.settings.config import Config
from purerl.runs.training.reporting import Report

PATIENCE = 3  # checkpoints in a row that may fail before the run ends


class Saver:
    """Saves a run.

    Args:
        run: its folder.
        config: of the run.
        loaded: the checkpoint it goes on from; None for a new one.
    """

    def __init__(self, run: Path, config: Config, loaded: checkpoint.Loaded | None) -> None:
        self.run, self.options, self.about = run, config.options, describe_run(config)
        self.segments = loaded.segments if loaded else ()
        self.failures = 0
        self.said: set[str] = set()

    def due(self, before: int, steps: int, score: float | None) -> bool:
        """Say whether a multiple of `save_freq` was passed, or an epoch was the best so far.

        Args:
            before: step at which this was asked last.
            steps: done now.
            score: of the epoch that ended with them; None where none did.
        """
        freq = self.options.save_freq
        if freq is None or steps // freq > before // freq:
            return freq is not None
        if score is None or self.failures:  # a disk that fails is not asked more often for it
            return False
        return bool(run_on_root(lambda: self._is_best(score)))

    def _is_best(self, score: float) -> bool:
        marked = manifest.read_best(self.run)
        return math.isfinite(score) and (marked is None or score > marked[1])

    def save(self, carry: Carry, report: Report | None, score: float, last: bool) -> None:
        """Save; a disk that fails is put up with `PATIENCE` times in a row, not at the end."""
        try:
            notes = run_on_root(lambda: report.notes() if report else {})
            notes |= {"score": replace_non_finite(score)}
            self.segments = checkpoint.save(
                *(self.run, carry, self.about, self.segments, self.options.keep, notes),
                functools.partial(self._say_once, report),
            )
            run_on_root(lambda: folder.update_status(self.run, step=carry.steps))
            self.failures = 0
        except errors.StorageError as error:
            self.failures += 1
            if self.failures == PATIENCE or last:
                which = f"the checkpoint of step {carry.steps:,} was not made"
                error.add_note(f"{which}, number {self.failures} in a row.")
                raise
            if report:
                report.say(f"checkpoint at {carry.steps:,} failed: {error}")

    @contextlib.contextmanager
    def at_fault(self, carry: Carry, report: Report | None, score: float) -> Iterator[None]:
        """Save a carry as it is now if an environment fails in the advance that the block makes.

        Ranks save together, and the others wait for the one that failed: several save nothing.
        """
        marks = carry.envs.mark_episodes()
        try:
            yield
        except EnvFault:
            if (
                carry.ranks == 1
                and carry.steps
                and carry.steps not in manifest.list_steps(self.run)
            ):
                carry.envs.rewind(marks)
                with contextlib.suppress(errors.StorageError):  # it is said; the fault is raised
                    self.save(carry, report, score, last=False)
            raise

    def prune(self, report: Report | None) -> None:
        """Mark the best and delete what is not kept: a kill may have come before that was done."""
        say = functools.partial(self._say_once, report)
        run_on_root(lambda: manifest.prune(self.run, self.options.keep, say))

    def _say_once(self, report: Report | None, line: str) -> None:
        if report and line not in self.said:
            self.said.add(line)
            report.say(line)


def describe_run(config: Config) -> dict[str, Any]:
    """Return what checkpoints of a run must say: all that its bits depend on, but its length."""
    plain = configs.to_json(config)
    plain["schedule"].pop("steps")
    found = {name: plain[name] for name in ("algo", "env", "seed", "spec", "schedule", "spaces")}
    return found | {"ranks": mpi.num_procs()}


def run_on_root(make: Callable[[], Any], shared: bool = True) -> Any:
    """Do something on rank 0; its error is raised on all ranks, its result shared or kept."""
    made: Any = None
    failed: Exception | None = None
    if mpi.is_root():
        try:
            made = make()
        except (ConfigError, errors.StorageError) as error:
            failed = error
    result, failed = mpi.allgather((made if shared else None, failed))[0]
    if failed is not None:
        raise failed
    return result if shared else made
