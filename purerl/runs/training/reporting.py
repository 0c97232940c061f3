"""The report of a run on rank 0: log files, the screen, sinks, and the lines at its end."""

import contextlib
import math
import statistics
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from purerl import errors, loops, mpi
from purerl.errors import EnvWarning
from purerl.loops.carry import Carry, Record
from purerl.loops.faults import format_in_a_line
from purerl.runs.record import checkpoint_folders, folder, progress
from purerl.runs.record.files import append_text
from purerl.runs.record.status import format_command
from purerl.runs.settings import config as configs
from purerl.runs.settings.config import Config
from purerl.runs.training.progress_bar import Screen
from purerl.runs.training.sinks import Sink, TensorBoard, WandB

_COMPILED = "/jax/core/compile/backend_compile_duration"


class Output(NamedTuple):
    """The screen, and the runs whose `stdout.log` has the same lines."""

    screen: Screen
    runs: Sequence[Path]

    def say(self, *lines: str) -> None:
        """Write lines, on rank 0."""
        if not mpi.is_root():
            return
        self.end_row("")
        for line in lines:
            self.screen.say(line)
        if self.screen.lost:
            lost, self.screen.lost = self.screen.lost, ""
            lines += (f"the screen is gone ({lost}); further lines are only in this file",)
        self._append("".join(f"{line}\n" for line in lines))

    def begin_row(self, text: str) -> None:
        """Write a line that `end_row` will end, like `say`."""
        self.screen.begin_row(text)
        self._append(text)

    def end_row(self, text: str) -> None:
        """Write the rest of a line if one was begun."""
        if self.screen.row_is_open:
            self.screen.end_row(text)
            self._append(f"{text}\n")

    def _append(self, text: str) -> None:
        for run in self.runs:
            with contextlib.suppress(errors.StorageError):  # the tables report a failing disk
                append_text(run / "stdout.log", text)


class Session(NamedTuple):
    """A run that this process trains, and the receivers of its output."""

    run: Path  # its folder
    config: Config
    env_fn: Any  # function that makes the environment, or an environment in JAX
    output: Output  # shared by runs that are trained together
    sinks: Sequence[Sink]  # custom ones, in addition to those of the options
    eval_env_fn: Any  # the same for test episodes
    on_record: Callable[[Record], Any] | None = None  # called on all ranks

    @property
    def loop(self) -> Any:
        """Module of the loop that trains in the environment."""
        return loops.choose_loop(self.env_fn)

    def say(self, *lines: str) -> None:
        """Write lines to the screen and to `stdout.log`, on rank 0."""
        which = f"seed {self.config.seed}: " if len(self.output.runs) > 1 else ""
        self.output.say(*(f"{which}{line}" for line in lines))


def describe_config(config: Config) -> str:
    """Return algorithm, environment and seed of a run."""
    ranks = mpi.num_procs()
    also = f", {ranks} ranks" if ranks > 1 else ""
    return f"{config.algo} on {config.env}, seed {config.seed}{also}"


class Display:
    """Progress on the screen, of a run or of several that are trained together."""

    def __init__(self, output: Output, carries: Sequence[Carry]) -> None:
        self.output, self.number = output, len(carries)
        self.total, self.table = carries[0].schedule.steps, progress.Table(carries[0].steps)
        self.is_compiled = False
        self.failed: set[str] = set()  # parts of the display that failed and are left out
        if self.number > 1:
            output.say(f"{self.number} seeds in one program, each with")
        sizes = (progress.describe_sizes, progress.describe_schedule)
        output.say(*self._format("sizes", lambda: [describe(carries[0]) for describe in sizes]))
        output.say("compiling: takes some seconds the first time, then it is cached")

    def report_advance(self, carry: Carry, compiled: list[float]) -> None:
        """Draw the progress, and report the compilation once."""
        if carry.updates and not self.is_compiled:
            self.is_compiled = True
            self.output.say(f"compiled in {sum(compiled):.1f} s")
        self.output.screen.progress(self.number * carry.steps, self.number * self.total)

    def begin_row(self, records: Sequence[Record], is_tested: bool) -> None:
        """Print the row of an epoch; its last cells follow after the evaluation."""
        lines = self._format("rows", lambda: self.table.format_row(records, self.total, is_tested))
        self.output.say(*lines[:-1])
        for row in lines[-1:]:
            self.output.begin_row(row)

    def end_row(self, records: Sequence[Record]) -> None:
        """Print the results of the evaluation, if there are any."""
        self.output.end_row(progress.format_test(records))

    def close(self) -> None:
        """Remove the bar."""
        self.output.end_row("")
        self.output.screen.end()

    def _format(self, part: str, make: Callable[[], list[str]]) -> list[str]:
        """Return the lines of a part of the display; leave it out from its first failure on."""
        if part in self.failed:
            return []
        try:
            return make()
        except Exception as error:  # whatever it is, the run is worth more than its lines
            self.failed.add(part)
            why = format_error(error)
            self.output.say(f"warning: the {part} are not shown any more: {why}")
            return []


class Report:
    """The logs and sinks of a run; `notes` are those of the checkpoint that it continues from."""

    def __init__(self, session: Session, notes: dict[str, Any], step: int) -> None:
        self.say, self.logs = session.say, progress.Logs(session.run, notes)
        options = session.config.options
        self.sinks: list[Sink] = []
        if options.tensorboard:
            self.sinks.append(TensorBoard(session.run / "tensorboard", step))
        if options.wandb:
            content = configs.to_json(session.config)
            self.sinks.append(WandB(options.wandb, session.run, content))
        self.sinks += session.sinks

    def log(self, record: Record) -> None:
        """Log an epoch."""
        row = self.logs.add(record)
        try:
            self.logs.write()
        except errors.StorageError as error:
            self.say(f"the logs were not written; trying again after the next epoch: {error}")
        numbers = {k: float(v) for k, v in row.items() if math.isfinite(v)}
        self._for_each_sink(lambda sink: sink.write(record["steps"], numbers))

    def _for_each_sink(self, call: Callable[[Sink], None]) -> None:
        """Call a function with each sink; report and drop a sink that fails."""
        for sink in [*self.sinks]:
            try:
                call(sink)
            except Exception as error:  # custom sinks may raise anything
                self.sinks = [one for one in self.sinks if one is not sink]
                name, why = type(sink).__name__, format_error(error)
                self.say(f"{name} failed, and the run continues without it: {why}")

    def notes(self) -> dict[str, Any]:
        """Write the queued epochs; return the state of the logs for a checkpoint."""
        self.logs.write()
        return self.logs.notes()

    def close(self) -> None:
        """Close the sinks."""
        self._for_each_sink(lambda sink: sink.close())


@contextlib.contextmanager
def report_warnings(tell: Callable[[str], None]) -> Iterator[None]:
    """Pass warnings of the loop to `tell` as lines; show other warnings as usual."""
    with warnings.catch_warnings(record=True, action="always", category=EnvWarning) as caught:
        yield
    for one in caught:
        if issubclass(one.category, EnvWarning):
            tell(f"warning: {one.message}")
        else:
            warnings.showwarning(one.message, one.category, one.filename, one.lineno)


@contextlib.contextmanager
def time_compilations() -> Iterator[list[float]]:
    """Collect the duration of each compilation, in seconds."""
    spent: list[float] = []

    def add(event: str, duration_secs: float, **_: str | int) -> None:
        if event == _COMPILED:
            spent.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(add)
    try:
        yield spent
    finally:
        jax.monitoring.unregister_event_duration_listener(add)


@contextlib.contextmanager
def record_failure(runs: Sequence[Path]) -> Iterator[list[Path]]:
    """If the block fails, write the reason to the runs' folders, and add advice to the error.

    The block may narrow the yielded list to the run that failed. Then the others are stopped.
    """
    places = {run: folder.identify(run) for run in runs}
    failed = [*runs]
    try:
        yield failed
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            failed[:] = runs
        rest = [run for run in runs if run not in failed]
        error.add_note(_explain_next_step(failed, error))
        if rest:
            error.add_note(f"The other seeds: {_explain_next_step(rest, None)}")
        text = f"{traceback.format_exc()}purerl: {error}"
        states = dict.fromkeys(runs, ("stopped", f"{failed[0].name} failed"))
        states |= dict.fromkeys(failed, ("failed", format_error(error)))
        if isinstance(error, KeyboardInterrupt):
            text, states = "interrupted", dict.fromkeys(runs, ("stopped", "interrupted"))
        for run, (state, reason) in states.items():
            if folder.identify(run) != places[run]:  # another run may be at this path now
                continue
            with contextlib.suppress(errors.StorageError):  # perhaps the disk itself fails
                folder.update_status(run, status=state, reason=reason)
            with contextlib.suppress(errors.StorageError):
                if mpi.is_root():
                    append_text(run / "stdout.log", "\n  ".join([text, *error.__notes__]) + "\n")
        raise


def _explain_next_step(runs: Sequence[Path], error: BaseException | None) -> str:
    """Return what is kept of runs that can continue together, and the command for it."""
    kept = sorted(set.intersection(*({*checkpoint_folders.list_steps(run)} for run in runs)))
    last = traceback.extract_tb(error.__traceback__)[-1:] if error else []
    if isinstance(error, AssertionError) and any("/jax/_src/" in x.filename for x in last):
        cache = getattr(jax.config, "jax_compilation_cache_dir", None)
        error.add_note(
            f"JAX failed an internal check. A changed file in its cache of compiled programs is a "
            f"usual cause. Delete the cache: {cache}"
        )
    if isinstance(error, errors.RunLost) and not kept:
        return "no checkpoint is left at this path."
    what = f"the checkpoint of step {kept[-1]:,} is kept" if kept else "there is no checkpoint yet"
    if not isinstance(error, errors.NonFiniteError):
        return f"{what}. {'Continue' if kept else 'Start again'}: {format_command('resume', *runs)}"
    if mpi.num_procs() > 1:
        return f"{what}."
    return f"{what}. Find the cause: {format_command('doctor', runs[0])}"


def format_error(error: BaseException) -> str:
    """Return the kind of an error and its message, in a line."""
    return f"{type(error).__name__}: {format_in_a_line(error)}"


def summarise_end(
    runs: Sequence[Path], step: int, total: int, scores: Sequence[float], done: bool
) -> str:
    """Return the last lines of runs that are complete or were stopped."""
    if not done:
        again = format_command("resume", *runs)
        return f"stopped at step {step:,} of {total:,}. Continue: {again}"
    known = [x for x in scores if math.isfinite(x)]
    result = f"return {statistics.fmean(known):.1f}" if known else "no episode has ended"
    if len(runs) > 1 and known:
        result += f" ({min(known):.1f} to {max(known):.1f})"
    place = runs[0] if len(runs) == 1 else runs[0].parent
    best = runs[scores.index(max(known))] if known else runs[0]
    more = format_command("resume", *runs, steps=2 * total)
    commands = (format_command("watch", best), format_command("plot", place), more)
    return "\n  ".join((f"{result}; everything is in {place}", *commands))
