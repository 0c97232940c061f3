"""Requests to stop a rank, which its watcher thread sees even while the rank waits inside MPI.

Python calls signal handlers on the main thread, between two of its operations. While the main
thread waits for other ranks, no handler runs. The watcher therefore reads signals from a pipe. Not
every launcher forwards signals, so the process that launched the ranks writes them into files
(notes), which the watcher reads as well.
"""

import os
import signal
import threading
from pathlib import Path

# Two signals within this time count as one, because terminal and launcher may both send it.
SAME_SIGNAL_SECONDS = 1.0
LATE_SECONDS = 10.0  # time in one collective after which a rank reports why it has not stopped
AGAIN = "again"


class StopSignals:
    """The requests to stop that a rank has received.

    Outside of the main thread, only notes are read.

    Args:
        job: Folder for notes of the process that launched the ranks, or "" without one.
    """

    def __init__(self, job: str) -> None:
        self.job = job
        self.number = 0  # the first signal
        self.since = 0.0
        self.has_warned = False
        self.has_forwarded = False
        self.pipe = -1  # the interpreter writes the numbers of received signals here
        if threading.current_thread() is not threading.main_thread():
            return
        self.pipe, other_end = os.pipe()
        os.set_blocking(self.pipe, False)
        os.set_blocking(other_end, False)
        before = signal.set_wakeup_fd(other_end, warn_on_full_buffer=False)
        if before != -1:  # keep the one that was set, for example by an event loop
            signal.set_wakeup_fd(before)

    def poll(self, now: float) -> int:
        """Read new requests; return the signal for which the job must end at once, or 0.

        The job ends at the second request. If the first request is a note, it is sent to the main
        thread as a signal.
        """
        if number := read_note(self.job, AGAIN):
            return number
        number = read_note(self.job)
        if number and not self.has_forwarded:
            self.has_forwarded = True
            if main := threading.main_thread().ident:
                signal.pthread_kill(main, number)
        for number in self._read_numbers():
            if not self.number:
                self.number, self.since = number, now
            elif now - self.since > SAME_SIGNAL_SECONDS:
                return self.number
        return 0

    def note_lateness(self, now: float, entered: float | None) -> bool:
        """Return True once, if a collective from before the first request is still in progress.

        Args:
            now: Time of this call.
            entered: Time at which the collective in progress was entered, or None without one.
        """
        if self.has_warned or not self.number or entered is None or entered > self.since:
            return False
        self.has_warned = now - self.since > LATE_SECONDS
        return self.has_warned

    def _read_numbers(self) -> list[int]:
        try:
            numbers = os.read(self.pipe, 256) if self.pipe != -1 else b""
        except BlockingIOError:
            return []
        return [n for n in numbers if n in (signal.SIGINT, signal.SIGTERM)]


def write_note(job: str, number: int, again: str = "") -> None:
    """Write the note of a signal to all ranks of a job; with `again`, that of a second signal."""
    path = Path(job, f"stop{again}")
    path.with_suffix(".tmp").write_text(str(number))
    path.with_suffix(".tmp").replace(path)


def read_note(job: str, again: str = "") -> int:
    """Return the signal of a note, or 0 without one."""
    try:
        return int(Path(job, f"stop{again}").read_text()) if job else 0
    except FileNotFoundError:
        return 0
