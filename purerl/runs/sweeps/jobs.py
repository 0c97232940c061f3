"""Run tasks in their own processes, several at a time; if one fails, the others continue.

Start as many tasks as the cores allow, watch them, pass on requests to stop, and write
`sweep.json`. This module does not import JAX.
"""

import contextlib
import dataclasses
import multiprocessing
import multiprocessing.process
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from purerl import checks, errors
from purerl.mpi import library, world
from purerl.mpi.launch import THREADS
from purerl.runs.console import Screen
from purerl.runs.interrupts import collect_requests
from purerl.runs.record import files, safe_files
from purerl.runs.record.status import RunStatus
from purerl.runs.sweeps.results import Sweep, TaskResult, save_results

GRACE = 20.0  # seconds from SIGTERM to SIGKILL

Process = subprocess.Popen[bytes] | multiprocessing.process.BaseProcess
Entries = dict[str, Any]
Variant = tuple[str, int, Entries]  # name, seed and settings of a run


@dataclasses.dataclass(frozen=True)
class Plan:
    """Ranks, folder and limits for the runs of a sweep."""

    num_cpu: int = 1  # number of MPI ranks of each run of an algorithm
    data_dir: str | None = None  # folder of all runs; None for the user's default
    datestamp: bool = False  # whether the names of run folders begin with date and time
    jobs: int | None = None  # number of runs at a time; None for as many as the cores allow
    timeout: float | None = None  # time limit of each run in seconds; None for no limit

    def __post_init__(self) -> None:
        """Check the numbers."""
        checks.integer("num_cpu", self.num_cpu, 1)
        checks.each(self, ("jobs",), checks.integer, 1, optional=True)
        checks.each(self, ("timeout",), checks.positive, optional=True)


@dataclasses.dataclass
class Task:
    """One variant with one seed, its process, and its result."""

    row: TaskResult
    look: Callable[[], RunStatus | None]  # finds its run on disk
    start: Callable[[Path, RunStatus | None], Process]  # takes the log, and the run to continue
    process: Process | None = None  # None when it does not run
    log: Path = Path()
    logged: int = 0  # size of the log in bytes before this start
    began: float = 0.0
    asked: float | None = None  # time at which it was asked to stop
    late: bool = False  # whether it was asked to stop because of the time limit

    def get_code(self) -> int | None:
        """Return the exit code of the process, or None while it runs."""
        if isinstance(self.process, subprocess.Popen):
            return self.process.poll()
        return None if self.process is None else self.process.exitcode

    def kill(self, number: int, group: bool = True) -> None:
        """Send a signal to the process, or to all processes of its group."""
        if self.process is None or self.process.pid is None or self.get_code() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            if group and os.getpgid(self.process.pid) != os.getpgid(0):
                os.killpg(self.process.pid, number)
            else:
                os.kill(self.process.pid, number)


def run_tasks(tasks: Sequence[Task], folder: Path, about: Entries | None, plan: Plan) -> Sweep:
    """Run the tasks that are not done, and write their logs to `folder`.

    `about` contains the first entries of `sweep.json`; None if other processes share `folder`.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(
            "each process of a grid of functions imports your script, which would start the grid "
            "again. Put the code that starts it under `if __name__ == '__main__':`."
        )
    if library.find_launch():
        raise errors.ConfigError(
            "a grid starts its own processes, but mpiexec has started this one. Start the grid "
            "without mpiexec, and set num_cpu for the MPI ranks of each run."
        )
    files.make_folder(folder / "logs")
    board, waiting = _Supervisor(tasks, folder, about, plan.timeout), [*tasks]
    cores = len(world.list_cpus())
    at_once = plan.jobs or max(1, cores // plan.num_cpu)
    with (
        contextlib.nullcontext() if about is None else safe_files.lock_folder(folder),
        _limit_threads(max(1, cores // (at_once * plan.num_cpu))),
        collect_requests() as asked,
    ):
        board.save()  # before the first run starts, because it may refuse the file
        try:
            while board.running or (waiting and not asked):
                while waiting and len(board.running) < at_once and not asked:
                    board.begin(waiting.pop(0))
                board.watch(bool(asked))
                board.draw()
                time.sleep(0.05)
        except KeyboardInterrupt:  # a second request to stop
            for task in board.running:
                task.kill(signal.SIGKILL)
            raise
        except BaseException:
            for task in board.running:  # let them save
                task.kill(signal.SIGTERM, group=False)
            raise
        finally:
            board.screen.end()
        board.save()
    rows = tuple(task.row for task in tasks)
    good = all(row.status == "done" for row in rows)
    code = errors.DONE if good else errors.STOPPED if asked else errors.INCOMPLETE
    return Sweep(rows, code, folder)


@contextlib.contextmanager
def _limit_threads(threads: int) -> Iterator[None]:
    """Limit the threads of processes started in the block, unless the user has set a limit."""
    ours = [name for name in THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(ours, str(threads)))
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


@dataclasses.dataclass
class _Supervisor:
    """State of a running sweep."""

    tasks: Sequence[Task]
    folder: Path
    about: Entries | None
    timeout: float | None
    screen: Screen = dataclasses.field(default_factory=Screen)
    has_warned: bool = False  # whether a failure to write `sweep.json` was reported

    @property
    def running(self) -> list[Task]:
        return [task for task in self.tasks if task.process is not None]

    def begin(self, task: Task) -> None:
        """Start a task, unless it is done, runs in another process, or is refused."""
        task.log = self.folder / "logs" / f"{task.row.label}.log"
        found = task.look()
        if found is not None and found.status in ("done", "running"):
            reason = "was done before" if found.status == "done" else "runs in another process"
            self._settle(task, found.status, reason, found)
            return
        task.logged = task.log.stat().st_size if task.log.exists() else 0
        task.began = time.monotonic()
        again = found is not None and found.status in ("stopped", "killed")
        try:
            task.process = task.start(task.log, found if again else None)
        except (errors.PurerlError, OSError) as error:
            self._settle(task, "failed", str(error), found, exit=errors.exit_code_of(error))
        else:
            self.screen.say(f"{task.row.label}: {'continues' if again else 'starts'}")

    def watch(self, stopping: bool) -> None:
        """Record tasks that ended; ask late tasks (or all) to stop, and kill them after `GRACE`."""
        for task in self.running:
            code, seconds = task.get_code(), time.monotonic() - task.began
            late = self.timeout is not None and seconds > self.timeout
            if code is not None:
                self._settle_finished_task(task, code, seconds, stopping)
            elif task.asked is None and (stopping or late):
                task.asked, task.late = time.monotonic(), late and not stopping
                task.kill(signal.SIGTERM, group=False)
            elif task.asked is not None and time.monotonic() > task.asked + GRACE:
                task.kill(signal.SIGKILL)

    def _settle_finished_task(self, task: Task, code: int, seconds: float, stopping: bool) -> None:
        found, reason = task.look(), ""
        if code == errors.DONE and found is not None and found.status == "done":
            status = "done"  # exit code 0 is not enough
        elif task.late:
            status, reason = "timeout", f"took longer than {self.timeout:g} s"
        elif code == errors.STOPPED or (stopping and code in (-signal.SIGTERM, -signal.SIGKILL)):
            status = "stopped"
        else:
            status, reason = "failed", _explain_failure(task, code, found)
        self._settle(task, status, reason, found, exit=code, seconds=seconds, log=str(task.log))

    def _settle(
        self, task: Task, status: str, reason: str, found: RunStatus | None, **ended: Any
    ) -> None:
        if found is not None:
            ended |= {"step": found.step, "score": found.score, "run": str(found.path)}
        reason = " ".join(reason.split())
        row = task.row = task.row._replace(status=status, reason=reason, **ended)
        task.process = None
        rows = [task.row for task in self.tasks]
        over = sum(row.status != "waiting" for row in rows)
        words = [f"[{over}/{len(rows)}] {row.label}: {status}"]
        words += [] if row.score is None else [f"return {row.score:.1f}"]
        words += [] if row.exit is None else [f"{row.seconds:.0f} s"]
        self.screen.say(", ".join([*words, *filter(None, [reason])]))
        try:
            self.save()
        except errors.StorageError as error:  # raised again at the end if it stays
            if not self.has_warned:
                self.screen.say(f"warning: {error} The runs continue.")
            self.has_warned = True

    def save(self) -> None:
        """Write `sweep.json`, unless other processes share the folder."""
        if self.about is not None:
            save_results(self.folder, self.about, [task.row for task in self.tasks])

    def draw(self) -> None:
        """On a terminal, show the progress once a second."""
        failed = "the progress line failed, the runs continue"
        self.screen.draw(self.format_progress, 1.0, failed)

    def format_progress(self, now: float) -> str:
        """Return the progress as one line; each run is as far as its newest checkpoint."""
        states = [task.row.status for task in self.tasks]
        done = states.count("done")
        line = f"{done} of {len(states)} done"
        if other := len(states) - done - states.count("waiting"):
            line += f", {other} not done"
        words = []
        for task in self.running:
            found = task.look()
            part = f" {found.step / found.steps:.0%}" if found is not None and found.steps else ""
            words.append(f"{task.row.label}{part} {now - task.began:.0f} s")
        return f"{line}; running: {', '.join(words)}" if words else line


def _explain_failure(task: Task, code: int, found: RunStatus | None) -> str:
    """Return why a task failed: the reason in the status of its run, or the end of its log."""
    if code < 0:
        known = -code in [*signal.Signals]
        return f"ended by {signal.Signals(-code).name if known else f'signal {-code}'}"
    if found is not None and found.status == "failed" and found.reason:
        return found.reason
    if code == errors.DONE:
        return "ended with exit code 0, but its run is not done"
    if not task.log.exists():
        return ""
    with task.log.open("rb") as file:
        file.seek(max(task.logged, task.log.stat().st_size - 4096))
        return file.read().decode(errors="replace").strip().split("\n")[-1].strip()
