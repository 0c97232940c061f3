"""Train runs epoch by epoch to their end: advance, evaluate, report, save, stop on request.

Usually it is one run. Several runs are the seeds of one program, which advances all of them.
"""

import contextlib
import dataclasses
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from purerl import errors
from purerl.errors import EnvFault
from purerl.loops.carry import Carry, Record
from purerl.mpi.host import run_on_root
from purerl.runs.interrupts import agree_to_stop, collect_requests
from purerl.runs.record import folder
from purerl.runs.record.checkpoint import Loaded
from purerl.runs.settings.config import Config
from purerl.runs.training import reporting
from purerl.runs.training.reporting import Display, Report, Session
from purerl.runs.training.saving import Saver, read_pending


class Outcome(NamedTuple):
    """The end of a run."""

    run: Path
    code: int  # errors.DONE or errors.STOPPED; every other end is an exception
    step: int
    score: float  # mean test return of the last record, else of its training episodes
    carry: Carry
    config: Config  # with every number filled in


class Trainee:
    """Logs, checkpoints and score of a run while it is trained."""

    def __init__(self, session: Session, loaded: Loaded | None, step: int) -> None:
        notes = loaded.manifest["notes"] if loaded else {}
        self.session = session
        self.report = run_on_root(lambda: Report(session, notes, step), shared=False)
        self.saver = Saver(session, loaded, self.report)
        if loaded:
            self.saver.prune()
        known = notes.get("score")
        self.score = math.nan if known is None else known
        self.pending = read_pending(notes)  # record of an epoch that is not logged yet

    def log_epoch(self) -> None:
        """Log the pending record."""
        record, self.pending = self.pending or {}, None
        self.score = _compute_score(record, self.score)
        if self.report:
            self.report.log(record)
        if self.session.on_record:
            self.session.on_record(record | {"seed": self.session.config.seed})


class Training:
    """Runs that are trained together, or one run.

    `failed` has the folders of all runs. After an error it has only the run that failed, if that is
    known.
    """

    def __init__(
        self,
        sessions: Sequence[Session],
        carry: Any,
        loaded: Sequence[Loaded | None],
        failed: list[Path],
    ) -> None:
        self.loop, self.carry, self.failed = sessions[0].loop, carry, failed
        self.schedule = self.first.schedule
        self.runs = [
            Trainee(*pair, self.first.steps) for pair in zip(sessions, loaded, strict=True)
        ]
        for run, one in zip(self.runs, loaded, strict=True):
            run.saver.shared = (one.step,) if one and len(self.runs) > 1 else ()
        self.display = run_on_root(
            lambda: Display(sessions[0].output, list_carries(carry)), shared=False
        )

    @property
    def first(self) -> Carry:
        """Carry of the first run, which has the counters of all of them."""
        return list_carries(self.carry)[0]

    def advance_to_end(self, asked: list[int], compiled: list[float]) -> None:
        """Train until the runs are complete, or until a request to stop is in `asked`."""
        stop = False
        while not stop and (
            self.first.steps < self.schedule.steps or any(run.pending for run in self.runs)
        ):
            before = self.first.steps
            try:
                if not any(run.pending for run in self.runs):
                    self._advance(lambda: bool(asked))
                if self.display:
                    self.display.report_advance(self.first, compiled)
                ended = [run for run in self.runs if run.pending]
                if ended:
                    self._close_epoch(ended, lambda: bool(asked))
                stop = agree_to_stop(asked, self.first.ranks)
                self._save_if_due(before, ended, stop)
            except errors.PurerlError as error:
                if isinstance(error, EnvFault):
                    error.add_note(f"This happened after environment step {before:,} of the run.")
                self._save_others(error)
                raise

    def _advance(self, should_stop: Callable[[], bool]) -> None:
        """Advance all runs; at the end of an epoch, each has a pending record."""
        self.carry, made = self.loop.advance(self.carry, should_stop)
        records = made if len(self.runs) > 1 else [made]
        for run, record in zip(self.runs, records or (), strict=bool(records)):
            run.pending = record

    def _close_epoch(self, ended: list[Trainee], should_stop: Callable[[], bool]) -> None:
        """Evaluate and log an epoch; runs whose evaluation is stopped keep their pending record."""
        is_tested = bool(self.schedule.num_test_episodes)
        for run in self._take_turns(ended):
            run.saver.check_files()
        if self.display:
            self.display.begin_row([run.pending or {} for run in ended], is_tested)
        tested = []
        for run in self._take_turns(ended):
            tests: Record = {}
            if is_tested:
                carry = self._select_learner(self.runs.index(run))
                tests = self.loop.evaluate_epoch(carry, run.session.eval_env_fn, should_stop)
            if tests or not is_tested:
                run.pending = (run.pending or {}) | tests
                tested.append(run)
        if self.display:
            self.display.end_row([run.pending or {} for run in tested])
        for run in self._take_turns(tested):
            run.log_epoch()

    def _take_turns(self, runs: Sequence[Trainee]) -> Iterator[Trainee]:
        """Yield runs; after an error in the block of one, `failed` has only this run."""
        everyone = [*self.failed]
        for run in runs:
            self.failed[:] = [run.session.run]
            yield run
        self.failed[:] = everyone

    def _select_learner(self, i: int) -> Carry:
        """Return the carry of a run with its learner, but without a replay buffer."""
        if len(self.runs) == 1:
            return self.first
        learner = jax.tree.map(lambda x: x[i], self.carry.data.learner)
        return dataclasses.replace(self.carry.carries[i], learner=learner)

    def select(self, i: int) -> Carry:
        """Return the whole carry of a run."""
        if len(self.runs) == 1:
            return self.first
        carries, data = self.carry.carries[i : i + 1], self.carry.data
        part = {"carries": carries, "data": jax.tree.map(lambda x: x[i : i + 1], data)}
        return self.loop.split(dataclasses.replace(self.carry, **part))[0]

    def _save_if_due(self, before: int, ended: list[Trainee], stop: bool) -> None:
        """Save all runs at the same steps, and between these a run that has a new best score."""
        step = self.first.steps
        last = stop or step == self.schedule.steps
        was_stopped = step == before and not ended  # the advance was
        due = [
            run.saver.is_due(before, step, None if run.pending or run not in ended else run.score)
            for run in self.runs
        ]
        if last or (any(due) and not self.runs[0].saver.shared):
            due = [True] * len(self.runs)
        wrong: list[tuple[Path, errors.StorageError]] = []
        for i in (i for i, is_due in enumerate(due) if is_due):
            run = self.runs[i]
            save = run.saver.save_unsaved if was_stopped else run.saver.save
            try:
                save(self.select(i), run.score, last, run.pending)
            except errors.StorageError as error:  # the other runs are saved first
                wrong.append((run.session.run, error))
        if wrong:
            self.failed[:] = [run for run, _ in wrong]
            for _, other in wrong[1:]:
                wrong[0][1].add_note(str(other))
            raise wrong[0][1]
        if len(due) > 1 and all(due) and not any(run.saver.failures for run in self.runs):
            for run in self.runs:
                run.saver.shared = (step,)

    def _save_others(self, error: errors.PurerlError) -> None:
        """Save what an error of one run has left of all of them.

        With several ranks, nothing is saved, because the others wait for the one that failed. The
        same holds for a carry that was consumed, unless the error has carries of other seeds.
        """
        is_alone = len(self.runs) == 1
        if self.first.ranks > 1 or (is_alone and not isinstance(error, EnvFault)):
            return
        sessions = [run.session for run in self.runs]
        self.failed[:] = [x.run for x in sessions if x.config.seed == error.seed] or self.failed
        left = dict(error.survivors)
        if not left and not self.carry.is_stale:
            left = {i: (self.select(i), run.pending) for i, run in enumerate(self.runs)}
        for i, (carry, pending) in left.items():
            run = self.runs[i]
            if isinstance(error, errors.StorageError) and run.session.run in self.failed:
                continue
            with contextlib.suppress(errors.StorageError):  # already reported
                run.saver.save_unsaved(carry, run.score, False, pending)


def train_to_end(
    sessions: Sequence[Session],
    carry: Any,
    loaded: Sequence[Loaded | None],
    failed: list[Path],
) -> list[Outcome]:
    """Advance until the runs are complete or a signal asks to stop.

    Args:
        sessions: The runs.
        carry: Carry of the run, or the carries of several seeds, to continue from.
        loaded: Checkpoint of each run that it continues from, or None.
        failed: Folders of the runs; see `Training`.
    """
    training = None
    every_envs = [one.envs for one in list_carries(carry)]
    try:
        training = Training(sessions, carry, loaded, failed)
        with (
            collect_requests(training.first.ranks) as asked,
            reporting.time_compilations() as compiled,
        ):
            training.advance_to_end(asked, compiled)
        carries = [training.select(i) for i in range(len(sessions))]
    except BaseException:
        for envs in every_envs:
            with contextlib.suppress(EnvFault):  # must not hide the error
                envs.close()
        raise
    else:
        for envs in every_envs:
            envs.close()
    finally:
        if training and training.display:
            training.display.close()
            for run in training.runs:
                run.report.close()
    outcomes, seconds = [], round(sum(compiled), 3)
    step, total = training.first.steps, training.schedule.steps
    for one, session, carry in zip(training.runs, sessions, carries, strict=True):
        done = step == total and not one.pending
        ended: dict[str, Any] = {"status": "done" if done else "stopped", "score": one.score}
        folder.update_status(session.run, step=step, compile_seconds=seconds, **ended)
        code = errors.DONE if done else errors.STOPPED
        outcomes.append(Outcome(session.run, code, step, one.score, carry, session.config))
    scores, is_done = [one.score for one in outcomes], not any(one.code for one in outcomes)
    output = sessions[0].output
    output.say(reporting.summarise_end(output.runs, step, total, scores, is_done))
    return outcomes


def list_carries(carry: Any) -> Sequence[Carry]:
    """Return the carries of all seeds of a program; of one carry, itself."""
    return getattr(carry, "carries", (carry,))


def _compute_score(record: Record, before: float) -> float:
    """Return the mean return of an epoch's episodes; without any of the policy's, `before`."""
    own = [] if "random_steps" in record else record["ep_returns"]
    returns = record.get("test_returns") or own
    return statistics.fmean(returns) if returns else before
