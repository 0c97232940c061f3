"""The report of rank 0 during a run: log files, the screen, sinks."""

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax

from purerl import errors, mpi
from purerl.errors import EpisodesCut
from purerl.loops.carry import Carry, Record
from purerl.loops.faults import format_in_a_line
from purerl.runs.record import progress
from purerl.runs.record.files import append_text
from purerl.runs.settings.config import Config
from purerl.runs.training.progress_bar import Screen
from purerl.runs.training.sinks import Sink, make_sinks

_COMPILED = "/jax/core/compile/backend_compile_duration"


class Report:
    """The report of a run: files, sinks and the screen.

    Args:
        run: folder of the run.
        config: configuration of the run.
        notes: notes of the checkpoint that the run continues from; empty for a new run.
        carry: first carry.
        screen: screen for lines.
        sinks: custom sinks, besides those of the options.
    """

    def __init__(
        self,
        run: Path,
        config: Config,
        notes: dict[str, Any],
        carry: Carry,
        screen: Screen,
        sinks: Sequence[Sink],
    ) -> None:
        self.run, self.screen, self.total = run, screen, carry.schedule.steps
        self.logs = progress.Logs(run, notes)
        self.sinks = [*make_sinks(config, run, carry.steps), *sinks]
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

    def say(self, line: str) -> None:
        """Write a line to the screen and to `stdout.log`."""
        report_line(self.run, self.screen, line)

    def notes(self) -> dict[str, Any]:
        """Write the epochs that wait; return the state of the logs for a checkpoint."""
        self.logs.write()
        return self.logs.notes()

    def close(self) -> None:
        """End the bar and the sinks."""
        self.screen.end()
        self._for_each_sink(lambda sink: sink.close())


def report_line(run: Path, screen: Screen, line: str) -> None:
    """Write a line to the screen and to `stdout.log` of a run, on rank 0."""
    if not mpi.is_root():
        return
    screen.say(line)
    lines = [line]
    if screen.lost:
        lines.append(f"the screen is gone ({screen.lost}): what follows is said here alone")
        screen.lost = ""
    with contextlib.suppress(errors.StorageError):  # the tables report a failing disk
        append_text(run / "stdout.log", "".join(f"{one}\n" for one in lines))


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
