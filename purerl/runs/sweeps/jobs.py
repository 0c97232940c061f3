"""Run tasks in processes of their own, several at a time; one that fails stops no other.

A task finds what is on the disk of it and starts its process. This module starts as many as there
are cores for, watches them, passes on a request to stop, and keeps `sweep.json`. Importing this
imports no JAX.
"""

import collections
import contextlib
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

from purerl import checks, errors
from purerl.errors import OutputClosed
from purerl.mpi import library, world
from purerl.mpi.launch import THREADS
from purerl.runs.console import try_print_lines, write_text
from purerl.runs.interrupts import collect_requests
from purerl.runs.record import files, safe_files
from purerl.runs.record.status import RunStatus
from purerl.runs.sweeps import results
from purerl.runs.sweeps.results import Sweep, TaskResult

GRACE = 20.0  # seconds from a polite request to the end
POLL = 0.05  # seconds between two looks at the processes

Process = subprocess.Popen[bytes] | multiprocessing.process.BaseProcess
Say = Callable[[str], None]
Variant = tuple[str, int, dict[str, Any]]  # name, seed and settings of a run


class Task(NamedTuple):
    """One variant with one seed."""

    name: str
    seed: int
    settings: dict[str, Any]
    look: Callable[[], RunStatus | None]  # finds its run on the disk
    start: Callable[[Path], Process]  # takes the file for its output

    @property
    def label(self) -> str:
        """Name and seed."""
        return f"{self.name}_s{self.seed}"


@dataclasses.dataclass(frozen=True)
class Plan:
    """Ranks, folder and limits of the runs of a sweep.

    Args:
        num_cpu: MPI ranks of each run of an algorithm.
        data_dir: folder of all runs; None for the user's default.
        datestamp: put date and time into the names of the runs' folders.
        jobs: runs at a time; None for as many as there are cores for.
        timeout: seconds that each run may take; None for no limit.
    """

    num_cpu: int = 1
    data_dir: str | None = None
    datestamp: bool = False
    jobs: int | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        """Check every number."""
        checks.integer("num_cpu", self.num_cpu, 1)
        if self.jobs is not None:
            checks.integer("jobs", self.jobs, 1)
        if self.timeout is not None:
            checks.positive("timeout", self.timeout)

    @property
    def at_once(self) -> int:
        """Runs at a time."""
        return self.jobs or max(1, len(world.list_cpus()) // self.num_cpu)

    @property
    def threads(self) -> int:
        """Threads of numerical libraries in each process."""
        return max(1, len(world.list_cpus()) // (self.at_once * self.num_cpu))


def run_tasks(
    tasks: Sequence[Task],
    folder: Path,
    about: dict[str, Any],
    plan: Plan,
    say: Say = try_print_lines,
    alone: bool = True,
) -> Sweep:
    """Run the tasks that are not done.

    Args:
        tasks: tasks in the order in which they start.
        folder: folder of the sweep, with `sweep.json` and `logs/`; one process may own it.
        about: first entries of `sweep.json`.
        plan: number of runs at a time, and the seconds that each may take.
        say: function that prints a line.
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
    board = _Board(tuple(tasks), folder, about if alone else None, plan.timeout, say)
    waiting = collections.deque(tasks)
    with (
        safe_files.lock_folder(folder) if alone else contextlib.nullcontext(),
        collect_requests() as asked,
    ):
        try:
            while board.running or (waiting and not asked):
                while waiting and len(board.running) < plan.at_once and not asked:
                    board.begin(waiting.popleft())
                board.ask_to_stop(bool(asked))
                board.collect(bool(asked))
                board.draw()
                time.sleep(POLL)
        finally:
            for job in board.running:  # only after an error of our own, or a second request
                _kill(job.process, signal.SIGKILL)
            _show_line("")
    table = board.table()
    good = all(row.status == "done" for row in table)
    code = errors.DONE if good else errors.STOPPED if asked else errors.INCOMPLETE
    return Sweep(table, code, folder)


@dataclasses.dataclass
class _Job:
    task: Task
    process: Process
    log: Path
    logged: int  # bytes that were in the log before
    began: float
    asked: float | None = None  # when it was asked to stop
    late: bool = False  # whether that was for its time


@dataclasses.dataclass
class _Board:
    """Running jobs and the results of the others."""

    tasks: tuple[Task, ...]
    folder: Path
    about: dict[str, Any] | None
    timeout: float | None
    say: Say
    running: list[_Job] = dataclasses.field(default_factory=list)
    ended: dict[tuple[str, int], TaskResult] = dataclasses.field(default_factory=dict)
    drawn: float = 0.0  # when the line on the terminal was

    def table(self) -> tuple[TaskResult, ...]:
        """Return a row for each task."""
        return tuple(self.ended.get((t.name, t.seed), _row(t, "waiting")) for t in self.tasks)

    def begin(self, task: Task) -> None:
        """Start a task, unless it is done, another process runs it, or it is refused."""
        log = self.folder / "logs" / f"{task.label}.log"
        found = task.look()
        if found is not None and found.status in ("done", "running"):
            reason = "was done before" if found.status == "done" else "run by another process"
            self._settle(task, _row(task, found.status, None, reason, found))
            return
        logged = log.stat().st_size if log.exists() else 0
        began = time.monotonic()
        try:
            process = task.start(log)
        except errors.PurerlError as error:
            code = errors.exit_code_of(error)
            self._settle(task, _row(task, "failed", code, str(error), found))
            return
        again = found is not None and found.status in ("stopped", "killed")
        self.say(f"{task.label}: {'goes on' if again else 'starts'}")
        self.running.append(_Job(task, process, log, logged, began))

    def ask_to_stop(self, stopping: bool) -> None:
        """Ask jobs to stop that take too long, or all; kill those that do not within `GRACE`."""
        now = time.monotonic()
        for job in self.running:
            late = self.timeout is not None and now > job.began + self.timeout
            if job.asked is None and (stopping or late):
                job.asked, job.late = now, late and not stopping
                _kill(job.process, signal.SIGTERM, group=False)
            elif job.asked is not None and now > job.asked + GRACE:
                _kill(job.process, signal.SIGKILL)

    def collect(self, stopping: bool) -> None:
        """Write down what has ended."""
        for job in [job for job in self.running if _get_code(job.process) is not None]:
            self.running.remove(job)
            code, found = _get_code(job.process), job.task.look()
            seconds, reason = time.monotonic() - job.began, ""
            if code == errors.DONE and found is not None and found.status == "done":
                status = "done"  # the exit code alone does not show it
            elif job.late:
                status, reason = "timeout", f"took longer than {self.timeout:g} s"
            elif code == errors.STOPPED or (
                stopping and code in (-signal.SIGTERM, -signal.SIGKILL)
            ):
                status = "stopped"
            else:
                status, reason = "failed", _explain_failure(job, found)
            self._settle(job.task, _row(job.task, status, code, reason, found, seconds, job.log))

    def _settle(self, task: Task, row: TaskResult) -> None:
        self.ended[(task.name, task.seed)] = row
        words = [f"[{len(self.ended)}/{len(self.tasks)}] {task.label}: {row.status}"]
        words += [] if row.score is None else [f"return {row.score:.1f}"]
        words += [] if row.exit is None else [f"{row.seconds:.0f} s"]
        _show_line("")
        self.say(", ".join([*words, *filter(None, [row.reason])]))
        if self.about is not None:
            settings = [task.settings for task in self.tasks]
            results.save_results(self.folder, self.about, settings, self.table())

    def draw(self) -> None:
        """Show the progress once a second, on a terminal."""
        if sys.stdout.isatty() and time.monotonic() - self.drawn > 1:
            self.drawn = time.monotonic()
            _show_line(self.progress())

    def progress(self) -> str:
        """Return the progress in a line; that of a run is the step of its last checkpoint."""
        states = [row.status for row in self.ended.values()]
        done = states.count("done")
        line = f"{done} of {len(self.tasks)} done"
        if other := len(states) - done:
            line += f", {other} not"
        words = []
        for job in self.running:
            found = job.task.look()
            part = f" {found.step / found.steps:.0%}" if found is not None and found.steps else ""
            words.append(f"{job.task.label}{part} {time.monotonic() - job.began:.0f} s")
        return f"{line}; running: {', '.join(words)}" if words else line


@contextlib.contextmanager
def limit_threads(threads: int) -> Iterator[None]:
    """Limit the threads of processes that start in the block, unless the user has set a limit."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update({name: str(threads) for name, value in before.items() if value is None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)


def _row(
    task: Task,
    status: str,
    code: int | None = None,
    reason: str = "",
    found: RunStatus | None = None,
    seconds: float = 0.0,
    log: Path | None = None,
) -> TaskResult:
    step, score, run = (found.step, found.score, str(found.path)) if found else (0, None, "")
    name, reason = "" if log is None else str(log), " ".join(reason.split())
    return TaskResult(task.name, task.seed, status, code, reason, step, score, seconds, run, name)


def _explain_failure(job: _Job, found: RunStatus | None) -> str:
    """Return why a job failed: the reason that its run recorded, else the last line of its log."""
    code = _get_code(job.process) or 0
    if code < 0:
        names = {one.value: one.name for one in signal.Signals}
        return f"ended by {names.get(-code, f'signal {-code}')}"
    if found is not None and found.status == "failed" and found.reason:
        return found.reason
    if code == errors.DONE:
        return "ended with exit code 0, but its run is not done"
    if not job.log.exists():
        return ""
    with job.log.open("rb") as file:
        file.seek(max(job.logged, job.log.stat().st_size - 4096))
        lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _get_code(process: Process) -> int | None:
    """Return the exit code of a process, None while it runs."""
    if isinstance(process, subprocess.Popen):
        return process.poll()
    return process.exitcode


def _kill(process: Process, number: int, group: bool = True) -> None:
    """Send a signal to a process, or to all that it started: each has a session of its own."""
    with contextlib.suppress(ProcessLookupError):
        if process.pid is not None and _get_code(process) is None:
            if group and os.getpgid(process.pid) != os.getpgid(0):
                os.killpg(process.pid, number)
            else:
                os.kill(process.pid, number)


def _show_line(text: str) -> None:
    """Show a line that the next one replaces, on a terminal."""
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns - 1
        with contextlib.suppress(OutputClosed):
            write_text(sys.stdout, "\r\x1b[K" + text[:width])
