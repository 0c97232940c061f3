"""The watchdog of a rank: a rank that fails, leaves too early or is stuck ends the whole job."""

import atexit
import contextlib
import faulthandler
import functools
import os
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from purerl import errors
from purerl.errors import RanksDisagree
from purerl.mpi.signals import StopSignals

if TYPE_CHECKING:
    from purerl.mpi.world import World

POLL = 0.1  # seconds between two checks of the watcher
TOGETHER = 2.0  # seconds for which a rank that stops at an error waits for the errors of others
# Minimum and maximum of seconds for which a rank waits until the others have printed their stacks.
_STACK_SECONDS = (1.0, 10.0)
_PRINT_STACKS, _STACKS_PRINTED = 0, 1  # messages between watchers: a request and its answer


def abort(found: "World", code: int) -> NoReturn:
    """End the job on all ranks at once, with this exit code."""
    sys.stdout.flush()
    sys.stderr.flush()
    if found.mpi is not None:
        leave_note(found, "failed")
        found.mpi.COMM_WORLD.Abort(code)
    os._exit(code)


def end_together(found: "World") -> None:
    """Make a rank that raises, leaves too early or is stuck end the whole job."""
    found.limit = _read_timeout()
    sys.excepthook = functools.partial(_handle_error, found)
    threading.excepthook = functools.partial(_handle_thread_error, found)
    stop, stopping = threading.Event(), StopSignals(found.job)
    watcher = threading.Thread(target=_watch, args=(found, stop, stopping), daemon=True)
    watcher.start()
    atexit.register(_leave, found, stop, watcher)
    leave_note(found, "pid")


def _read_timeout() -> float:
    """Return the number of seconds that a rank may wait, from PURERL_MPI_TIMEOUT."""
    text = os.environ.get("PURERL_MPI_TIMEOUT", "")
    try:
        limit = float(text or "inf")
    except ValueError:
        limit = 0.0
    if not limit > 0:
        raise ValueError(f"PURERL_MPI_TIMEOUT must be a number of seconds above 0, got {text!r}.")
    return limit


def _handle_error(
    found: "World",
    kind: type[BaseException],
    error: BaseException | None,
    where: TracebackType | None,
) -> None:
    """Print the rank and the traceback of its error, and end the job."""
    text = "".join(traceback.format_exception(kind, error, where))
    code = errors.INCOMPLETE
    if issubclass(kind, RanksDisagree | KeyboardInterrupt):
        code = errors.exit_code_of(kind())
    end_job(found, f"failed:\n{text}", code)


def _handle_thread_error(found: "World", args: threading.ExceptHookArgs) -> None:
    if args.exc_type is not SystemExit:  # SystemExit ends only its thread
        _handle_error(found, args.exc_type, args.exc_value, args.exc_traceback)


def end_job(found: "World", why: str, code: int = errors.INCOMPLETE) -> NoReturn:
    """Print the reason, and end the job on all ranks."""
    sys.stderr.write(f"rank {found.rank} of {found.size} {why.rstrip()}\n")
    sys.stderr.flush()
    time.sleep(2 * POLL)  # the launcher drops output that it has not forwarded yet
    abort(found, code)


def _watch(found: "World", stop: threading.Event, stopping: StopSignals) -> None:
    """Watch for signals, and for ranks that have ended or do not arrive, while this rank works."""
    asked = 0.0  # time at which the others were asked for their stacks
    while not stop.wait(POLL):
        _check_signals(found, stopping)
        _read_messages(found)
        for i, channel in enumerate(found.channels):
            since, begun = channel.since, channel.begun
            for rank, counts in found.gone.items():
                if since is not None and begun > counts[i]:
                    end_job(found, f"waits for rank {rank}, which has ended. The job is stopped.")
        asked = _check_limit(found, asked)


def _read_messages(found: "World") -> None:
    """Read the messages of other watchers."""
    MPI = found.mpi
    while found.messages.iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG):
        status = MPI.Status()
        message = found.messages.recv(status=status)
        rank = status.Get_source()
        if message == _PRINT_STACKS:
            _print_stacks(found)
            found.messages.send(_STACKS_PRINTED, rank)
        elif message == _STACKS_PRINTED:
            found.located.add(rank)
        elif isinstance(message, str):
            found.errors[rank] = message
        else:
            found.gone[rank] = message


def _check_limit(found: "World", asked: float) -> float:
    """End the job if this rank has waited too long, after the others printed their stacks.

    Args:
        found: The world.
        asked: Time at which the other ranks were asked for their stacks, or 0.

    Returns:
        The new value of `asked`.
    """
    waits = [t for t in (found.leaving, *(c.since for c in found.channels)) if t is not None]
    now = time.monotonic()
    if not waits or now - min(waits) <= found.limit:
        return 0.0
    if not asked:
        found.located.clear()
        send_to_all(found, _PRINT_STACKS)
        return now
    least, most = _STACK_SECONDS
    if now - asked > (least if len(found.located) == found.size - 1 else most):
        where = "at its end" if found.leaving else "in a collective"
        end_job(
            found,
            f"has waited {found.limit:g} s (PURERL_MPI_TIMEOUT) {where} for ranks that did "
            f"not arrive. The job is stopped.",
        )
    return asked


def _check_signals(found: "World", stopping: StopSignals) -> None:
    """End the job at the second signal; report a rank that must wait before it can stop."""
    now = time.monotonic()
    if number := stopping.poll(now):
        end_job(found, "received a second signal. The job is stopped at once.", 128 + number)
    entered = [c.since for c in found.channels if c.since is not None]
    if stopping.note_lateness(now, min(entered, default=None)):
        text = "will stop, but waits for other ranks. A second signal ends the job at once"
        sys.stderr.write(f"rank {found.rank} of {found.size} {text}.\n")
        sys.stderr.flush()


def _print_stacks(found: "World") -> None:
    """Print the stacks of this rank's threads, unless this rank waits as well."""
    if found.leaving or any(channel.since is not None for channel in found.channels):
        return
    sys.stderr.write(f"rank {found.rank} of {found.size} is not waiting. Its threads are here:\n")
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        sys.stderr.write(file.read())
    sys.stderr.flush()


def send_to_all(found: "World", message: Any) -> None:
    """Send a message to the watchers of all other ranks."""
    for rank in range(found.size):
        if rank != found.rank:
            found.messages.send(message, rank)  # short, so it does not wait for the receiver


def _leave(found: "World", stop: threading.Event, watcher: threading.Thread) -> None:
    """Report to the others that this rank ends, and wait until all ranks end.

    If a rank still waits for this one in a collective, its watcher then ends the job.
    """
    sys.stdout.flush()
    found.leaving = time.monotonic()
    send_to_all(found, [channel.begun for channel in found.channels])
    while len(found.gone) < found.size - 1:
        time.sleep(0.005)
    stop.set()
    watcher.join()
    leave_note(found, "done")


def leave_note(found: "World", what: str) -> None:
    """Write a note for the process that launched the ranks with `fork`, if one did."""
    if found.job:
        with contextlib.suppress(FileNotFoundError):  # that process has ended
            Path(found.job, f"{what}-{found.rank}").write_text(str(os.getpid()))
