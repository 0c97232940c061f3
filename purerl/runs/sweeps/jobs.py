"""Many runs, several at a time, each in a process of its own: one that fails stops no other.

A task knows how to look for what is there of it and how to start; this module starts as many as
there are cores for, watches them, asks them to stop when it is asked, and keeps `sweep.json`.
Importing this imports no JAX.
"""

import collections
import contextlib
import ctypes
import dataclasses
import multiprocessing
import multiprocessing.process
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from purerl import errors
from purerl.errors import OutputClosed, TaskRefused
from purerl.mpi import library
from purerl.runs.console import try_print_lines, write_text
from purerl.runs.interrupts import collect_requests
from purerl.runs.record import files, safe_files
from purerl.runs.record import status as places
from purerl.runs.sweeps import results
from purerl.runs.sweeps.results import Sweep, TaskResult

STOPPED = 75  # exit code of what was asked to stop and can go on
GRACE = 20.0  # seconds from a polite request to the end
POLL = 0.05  # seconds between two looks at the processes
THREADS = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Process = subprocess.Popen[bytes] | multiprocessing.process.BaseProcess
Say = Callable[[str], None]


class Task(NamedTuple):
    """One variant with one seed."""

    name: str
    seed: int
    settings: dict[str, Any]
    look: Callable[[], places.RunStatus | None]  # what there is of it on the disk
    start: Callable[[Path], Process]  # with the file for its output


def count_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_tasks(
    tasks: Sequence[Task],
    folder: Path,
    about: dict[str, Any],
    jobs: int = 1,
    timeout: float | None = None,
    say: Say = try_print_lines,
    alone: bool = True,
) -> Sweep:
    """Do what is missing of some tasks.

    Args:
        tasks: in the order in which they are started.
        folder: of the sweep, for `sweep.json` and `logs/`; one process at a time may own it.
        about: for `sweep.json`.
        jobs: how many run at a time.
        timeout: seconds that each may take; None for no limit.
        say: is given lines for the screen.
        alone: own the folder and keep `sweep.json` in it.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(
            "a grid of functions imports your script in each of its processes: put what starts it "
            "under `if __name__ == '__main__':`."
        )
    if library.find_launch():
        raise errors.ConfigError(
            "a grid starts its runs itself: start it without mpiexec; num_cpu gives each run its "
            "ranks."
        )
    files.make_folder(folder / "logs")
    board = _Board(tuple(tasks), folder, about if alone else None, timeout, say)
    waiting = collections.deque(tasks)
    with (
        safe_files.lock_folder(folder) if alone else contextlib.nullcontext(),
        collect_requests() as asked,
    ):
        try:
            while board.running or (waiting and not asked):
                while waiting and len(board.running) < jobs and not asked:
                    board.begin(waiting.popleft())
                if asked:
                    board.ask()
                board.ask_late()
                board.collect(bool(asked))
                board.draw()
                time.sleep(POLL)
        finally:
            for job in board.running:  # only after an error of our own, or a second request
                _kill(job.process, signal.SIGKILL)
            _line("")
    table = board.table()
    good = all(row.status == "done" for row in table)
    return Sweep(table, 0 if good else STOPPED if asked else 1, folder)


@dataclasses.dataclass
class _Job:
    task: Task
    process: Process
    log: Path
    said: int  # bytes that were in the log before
    began: float
    asked: float | None = None  # when it was asked to stop
    late: bool = False


@dataclasses.dataclass
class _Board:
    """What runs, and what has become of the rest."""

    tasks: tuple[Task, ...]
    folder: Path
    about: dict[str, Any] | None
    timeout: float | None
    say: Say
    running: list[_Job] = dataclasses.field(default_factory=list)
    ended: dict[tuple[str, int], TaskResult] = dataclasses.field(default_factory=dict)
    drawn: float = 0.0  # when the line was

    def table(self) -> tuple[TaskResult, ...]:
        return tuple(self.ended.get((t.name, t.seed), _row(t, "waiting")) for t in self.tasks)

    def begin(self, task: Task) -> None:
        """Start a task, unless it is done, somebody else is at it, or it is refused."""
        label = f"{task.name}_s{task.seed}"
        log = self.folder / "logs" / f"{label}.log"
        there = task.look()
        if there is not None and there.status in ("done", "running"):
            reason = "was done before" if there.status == "done" else "run by another process"
            self._settle(task, _row(task, there.status, None, reason, there))
            return
        said = log.stat().st_size if log.exists() else 0
        began = time.monotonic()
        try:
            process = task.start(log)
        except (TaskRefused, errors.StorageError) as error:
            code = 2 if isinstance(error, TaskRefused) else 5
            self._settle(task, _row(task, "failed", code, str(error), there))
            return
        on = there is not None and there.status in ("stopped", "killed")
        self.say(f"{label}: {'goes on' if on else 'starts'}")
        self.running.append(_Job(task, process, log, said, began))

    def ask(self) -> None:
        """Ask all to stop, once; end those that do not."""
        now = time.monotonic()
        for job in self.running:
            if job.asked is None:
                job.asked = now
                _kill(job.process, signal.SIGTERM, group=False)
            elif now > job.asked + GRACE:
                _kill(job.process, signal.SIGKILL)

    def ask_late(self) -> None:
        """Ask those to stop that take too long; end those that do not."""
        now = time.monotonic()
        for job in self.running:
            if self.timeout is not None and now > job.began + self.timeout and job.asked is None:
                job.asked, job.late = now, True
                _kill(job.process, signal.SIGTERM, group=False)
            elif job.late and job.asked is not None and now > job.asked + GRACE:
                _kill(job.process, signal.SIGKILL)

    def collect(self, stopping: bool) -> None:
        """Write down what has ended."""
        for job in [job for job in self.running if _code(job.process) is not None]:
            self.running.remove(job)
            code, there = _code(job.process), job.task.look()
            seconds, reason = time.monotonic() - job.began, ""
            if code == 0 and there is not None and there.status == "done":
                status = "done"  # a process may end with 0 that did nothing
            elif job.late:
                status, reason = "timeout", f"took longer than {self.timeout:g} s"
            elif code == STOPPED or (stopping and code in (-signal.SIGTERM, -signal.SIGKILL)):
                status = "stopped"
            else:
                status, reason = "failed", _reason(job, there)
            row = _row(job.task, status, code, reason, there, seconds, job.log)
            self._settle(job.task, row)

    def _settle(self, task: Task, row: TaskResult) -> None:
        self.ended[(task.name, task.seed)] = row
        words = [f"[{len(self.ended)}/{len(self.tasks)}] {task.name}_s{task.seed}: {row.status}"]
        if row.score is not None:
            words.append(f"return {row.score:.1f}")
        if row.exit is not None:
            words.append(f"{row.seconds:.0f} s")
        if row.reason:
            words.append(row.reason)
        _line("")
        self.say(", ".join(words))
        if self.about is not None:
            results.save_results(
                self.folder, self.about, [t.settings for t in self.tasks], self.table()
            )

    def draw(self) -> None:
        """Show how far it is, once a second, on a terminal."""
        if sys.stdout.isatty() and time.monotonic() - self.drawn > 1:
            self.drawn = time.monotonic()
            _line(self.progress())

    def progress(self) -> str:
        """Return how far it is, in a line; of a run, how far its last checkpoint is."""
        states = [row.status for row in self.ended.values()]
        done = states.count("done")
        line = f"{done} of {len(self.tasks)} done"
        if other := len(states) - done:
            line += f", {other} not"
        words = []
        for job in self.running:
            there = job.task.look()
            part = f" {there.step / there.steps:.0%}" if there is not None and there.steps else ""
            seconds = time.monotonic() - job.began
            words.append(f"{job.task.name}_s{job.task.seed}{part} {seconds:.0f} s")
        return f"{line}; running: {', '.join(words)}" if words else line


@contextlib.contextmanager
def limit_threads(threads: int) -> Iterator[None]:
    """Let processes that start in the block use so many threads each, where nobody said more."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update({name: str(threads) for name, value in before.items() if value is None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)


def die_with_parent() -> None:
    """Ask Linux to end this process politely if the one that started it is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _row(
    task: Task,
    status: str,
    code: int | None = None,
    reason: str = "",
    there: places.RunStatus | None = None,
    seconds: float = 0.0,
    log: Path | None = None,
) -> TaskResult:
    step, score, run = (there.step, there.score, str(there.path)) if there else (0, None, "")
    name = "" if log is None else str(log)
    reason = " ".join(reason.split())
    return TaskResult(task.name, task.seed, status, code, reason, step, score, seconds, run, name)


def _reason(job: _Job, there: places.RunStatus | None) -> str:
    """Return why a job failed: its run's own words, else the last ones it said."""
    code = _code(job.process) or 0
    if code < 0:
        names = {one.value: one.name for one in signal.Signals}
        return f"ended by {names.get(-code, f'signal {-code}')}"
    if there is not None and there.status == "failed" and there.reason:
        return there.reason
    if code == 0:
        return "ended with exit code 0, but its run is not done"
    if not job.log.exists():
        return ""
    with job.log.open("rb") as file:
        file.seek(max(job.said, job.log.stat().st_size - 4096))
        lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _code(process: Process) -> int | None:
    """Return the exit code of a process, None while it runs."""
    if isinstance(process, subprocess.Popen):
        return process.poll()
    return process.exitcode


def _kill(process: Process, number: int, group: bool = True) -> None:
    """Send a signal to a process, or to all that it started: each has a session of its own."""
    with contextlib.suppress(ProcessLookupError):
        if process.pid is not None and _code(process) is None:
            if group and os.getpgid(process.pid) != os.getpgid(0):
                os.killpg(process.pid, number)
            else:
                os.kill(process.pid, number)


def _line(text: str) -> None:
    """Show a line that the next one replaces, on a terminal."""
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns - 1
        with contextlib.suppress(OutputClosed):
            write_text(sys.stdout, "\r\x1b[K" + text[:width])
