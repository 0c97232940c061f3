"""The report of rank 0 during a run: log files, the screen, sinks."""

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from purerl import errors, mpi
from purerl.errors import EpisodesCut
from purerl.loops.carry import Carry, Record
from purerl.loops.faults import format_in_a_line
from purerl.runs.record import progress
from purerl.runs.record.files import append_text
from purerl.runs.record.status import format_command
from purerl.runs.settings.config import Config
from purerl.runs.training.progress_bar import Screen
from purerl.runs.training.sinks import Sink, make_sinks

_COMPILED = "/jax/core/compile/backend_compile_duration"


class Session(NamedTuple):
    """A run that this process trains, and the receivers of its output."""

    run: Path  # its folder
    config: Config
    env_fn: Callable[[], Any]
    screen: Screen
    sinks: Sequence[Sink]  # custom ones, besides those of the options

    def say(self, line: str) -> None:
        """Write a line to the screen and to `stdout.log`, on rank 0."""
        if not mpi.is_root():
            return
        self.screen.say(line)
        lines = [line]
        if self.screen.lost:
            lost, self.screen.lost = self.screen.lost, ""
            lines.append(f"the screen is gone ({lost}): what follows is said here alone")
        with contextlib.suppress(errors.StorageError):  # the tables report a failing disk
            append_text(self.run / "stdout.log", "".join(f"{one}\n" for one in lines))


class Report:
    """The report of a run: files, sinks and the screen.

    Args:
        session: the run.
        notes: notes of the checkpoint that the run continues from; empty for a new run.
        carry: first carry.
    """

    def __init__(self, session: Session, notes: dict[str, Any], carry: Carry) -> None:
        self.say, self.screen = session.say, session.screen
        self.total = carry.schedule.steps
        self.logs = progress.Logs(session.run, notes)
        self.sinks = [*make_sinks(session.config, session.run, carry.steps), *session.sinks]
        self.is_compiled = False
        self.say(progress.describe_sizes(carry))
        self.say("compiling: seconds the first time, kept for the next")

    def tell(self, carry: Carry, record: Record | None, compiled: list[float]) -> None:
        """Report an advance, and the epoch that ended with it."""
        if carry.updates and not self.is_compiled:
            self.is_compiled = True
            self.say(f"compiled in {sum(compiled):.1f} s")
        self.screen.progress(carry.steps, self.total)
        if not record:
            return
        row, lines = self.logs.add(record, self.total)
        for line in lines:
            self.say(line)
        try:
            self.logs.write()
        except errors.StorageError as error:
            self.say(f"the logs wait for the disk: {error}")
        numbers = {k: float(v) for k, v in row.items() if math.isfinite(v)}
        self._for_each_sink(lambda sink: sink.write(record["steps"], numbers))

    def _for_each_sink(self, call: Callable[[Sink], None]) -> None:
        """Call a function with each sink; name one that fails, and drop it."""
        for sink in [*self.sinks]:
            try:
                call(sink)
            except Exception as error:  # custom sinks may raise anything
                self.sinks = [one for one in self.sinks if one is not sink]
                what = f"{type(error).__name__}: {format_in_a_line(error)}"
                self.say(f"{type(sink).__name__} failed, and the run goes on without it: {what}")

    def notes(self) -> dict[str, Any]:
        """Write the epochs that wait; return the state of the logs for a checkpoint."""
        self.logs.write()
        return self.logs.notes()

    def close(self) -> None:
        """End the bar and the sinks."""
        self.screen.end()
        self._for_each_sink(lambda sink: sink.close())


@contextlib.contextmanager
def report_warnings(tell: Callable[[str], None]) -> Iterator[None]:
    """Give `tell` a line for each warning of the loop; show other warnings as usual."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EpisodesCut)
        yield
    for one in caught:
        if issubclass(one.category, EpisodesCut):
            tell(f"warning: {one.message}")
        else:
            warnings.showwarning(one.message, one.category, one.filename, one.lineno)


@contextlib.contextmanager
def time_compilations() -> Iterator[list[float]]:
    """Collect the seconds of each compilation."""
    spent: list[float] = []

    def add(event: str, duration_secs: float, **_: str | int) -> None:
        if event == _COMPILED:
            spent.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(add)
    try:
        yield spent
    finally:
        jax.monitoring.unregister_event_duration_listener(add)


def summarise_end(run: Path, step: int, total: int, score: float) -> str:
    """Return the last lines of a run that is done, or was asked to stop."""
    if step < total:
        return f"stopped at {step:,} of {total:,}. Go on: {format_command('resume', run)}"
    result = f"return {score:.1f}" if math.isfinite(score) else "no episode has ended"
    more = format_command("resume", run, "--steps", str(2 * total))
    commands = (format_command("watch", run), format_command("plot", run), more)
    return "\n  ".join((f"{result}; everything is in {run}", *commands))
