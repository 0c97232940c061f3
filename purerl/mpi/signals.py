"""Requests to stop a rank: signals, seen by its watcher even while it waits inside MPI.

Python calls its handlers on the main thread, between two of its operations: while that thread waits
for other ranks they are not called. Whoever launched the ranks may also leave a note instead of a
signal, since not every launcher forwards one.
"""

import os
import signal
import threading
from pathlib import Path

SAME_SIGNAL_SECONDS = (
    1.0  # seconds within which two signals are one: a terminal's, and a launcher's that forwards
)
LATE_SECONDS = 10.0  # seconds in one collective after which a rank that was asked says so
AGAIN = "again"


class StopSignals:
    """What a rank was asked by signals; made on the main thread, or it sees notes alone.

    Args:
        job: folder for notes of the process that launched the ranks; empty for none.
    """

    def __init__(self, job: str) -> None:
        self.job = job
        self.number = 0  # the first signal
        self.since = 0.0
        self.is_said = False
        self.passed_on = False
        self.came = -1  # where the interpreter writes the numbers of signals that come
        if threading.current_thread() is not threading.main_thread():
            return
        self.came, other_end = os.pipe()
        os.set_blocking(self.came, False)
        os.set_blocking(other_end, False)
        before = signal.set_wakeup_fd(other_end, warn_on_full_buffer=False)
        if before != -1:  # somebody else's, as of an event loop
            signal.set_wakeup_fd(before)

    def to_leave(self, now: float) -> int:
        """Return the signal by which the job must end at once, or 0: it came a second time."""
        if number := read_note(self.job, AGAIN):
            return number
        number = read_note(self.job)
        if number and not self.passed_on:
            self.passed_on = True
            if main := threading.main_thread().ident:
                signal.pthread_kill(main, number)
        for number in self._numbers():
            if not self.number:
                self.number, self.since = number, now
            elif now - self.since > SAME_SIGNAL_SECONDS:
                return self.number
        return 0

    def is_late(self, now: float, entered: float | None) -> bool:
        """Say once that the main thread is still where it was when the signal came.

        Args:
            now: time.
            entered: when the collective in progress was entered, if one is.
        """
        if self.is_said or not self.number or entered is None or entered > self.since:
            return False
        self.is_said = now - self.since > LATE_SECONDS
        return self.is_said

    def _numbers(self) -> list[int]:
        try:
            numbers = os.read(self.came, 256) if self.came != -1 else b""
        except BlockingIOError:
            return []
        return [n for n in numbers if n in (signal.SIGINT, signal.SIGTERM)]


def write_note(job: str, number: int, again: str = "") -> None:
    """Ask all ranks of a job to stop as a signal would, or to leave at once."""
    path = Path(job, f"stop{again}")
    path.with_suffix(".tmp").write_text(str(number))
    path.with_suffix(".tmp").replace(path)


def read_note(job: str, again: str = "") -> int:
    """Return the signal of a note, or 0."""
    try:
        return int(Path(job, f"stop{again}").read_text()) if job else 0
    except FileNotFoundError:
        return 0
