"""The ranks that MPI launched together with this process, and how they end together.

A process connects only if a launcher started it together with others, or with `PURERL_MPI=1`.
`purerl.mpi` has the public functions.
"""

import atexit
import contextlib
import dataclasses
import faulthandler
import functools
import math
import os
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from purerl import errors
from purerl.errors import MPIUnavailable, RanksDisagree
from purerl.mpi import library
from purerl.mpi.signals import StopSignals


class Channel:
    """One communicator, and the number of collectives that this rank has begun on it."""

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self.begun = 0
        self.since: float | None = None  # time at which the one in progress was entered

    def __call__(self, collective: Callable[[Any], Any]) -> Any:
        """Do one collective."""
        self.begun += 1
        self.since = time.monotonic()
        try:
            return collective(self.comm)
        finally:
            self.since = None


@dataclasses.dataclass
class World:
    """The ranks of a job; a process that runs alone is one rank without MPI."""

    rank: int = 0
    size: int = 1
    mpi: Any = None  # the module mpi4py.MPI
    channels: tuple[Channel, ...] = ()  # for averages inside compiled programs, and for the host
    letters: Any = None  # communicator of the watchers
    neighbours: int = 1  # ranks on this host
    job: str = ""  # folder for notes to the process that launched the ranks with `fork`
    limit: float = math.inf  # seconds that a rank may wait for another one
    leaving: float | None = None  # time at which this rank began to end
    gone: dict[int, list[int]] = dataclasses.field(
        default_factory=dict
    )  # rank -> counts at its end
    errors: dict[int, str] = dataclasses.field(default_factory=dict)  # rank -> error that ends it
    located: set[int] = dataclasses.field(default_factory=set)  # ranks that have reported a place

    @property
    def inside(self) -> Channel:
        """Channel of averages inside compiled programs."""
        return self.channels[0]

    @property
    def outside(self) -> Channel:
        """Channel of exchanges on the host."""
        return self.channels[1]


@functools.cache
def get_world() -> World:
    """Return the world of this process, after connecting to the other ranks if there are any."""
    found = library.find_launch()
    return World() if found is None else _connect(*found)


def _connect(variable: str, size: int | None) -> World:
    """Start MPI, check that launcher and library fit, and make all ranks end together."""
    MPI = library.load_mpi(
        f"this process was launched by MPI ({variable}={os.environ.get(variable)})"
    )
    everyone = MPI.COMM_WORLD
    if everyone.size == 1:
        if (size or 1) > 1:
            raise MPIUnavailable(
                f"launcher and MPI library do not fit: the launcher says {size} ranks "
                f"({variable}={size}), the library of this Python, "
                f"{library.describe_library(MPI)}, sees one. Use the mpiexec of that library "
                f"(`pip install {library.name_package(MPI)}` puts one next to "
                f"{sys.executable}); with Slurm, `srun --mpi=pmi2` or `--mpi=pmix`. For "
                f"independent runs that shall not know of each other, set PURERL_MPI=0."
            )
        return World()
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise MPIUnavailable(
            f"compiled programs average from threads of their own, so MPI must give "
            f"MPI_THREAD_MULTIPLE, and {library.describe_library(MPI)} gave level "
            f"{MPI.Query_thread()}. Leave mpi4py.rc.thread_level as it is, and use an MPI built "
            f"with threads."
        )
    here = everyone.Split_type(MPI.COMM_TYPE_SHARED)
    neighbours, threads = here.size, _share_cores(everyone, here)
    here.Free()
    # Threads of XLA: a rank that waits keeps a core busy.
    os.environ.setdefault("NPROC", str(threads))
    job = os.environ.pop("PURERL_MPI_JOB", "")
    found = World(everyone.rank, everyone.size, MPI, neighbours=neighbours, job=job)
    os.environ["PURERL_MPI"] = "0"  # processes that this rank starts are no ranks
    found.channels = (Channel(everyone.Dup()), Channel(everyone.Dup()))
    found.letters = everyone.Dup()
    _end_together(found)
    return found


def _share_cores(everyone: Any, here: Any) -> int:
    """Return the number of cores per rank on the host where it is smallest.

    All ranks use the same number, because results depend on the number of threads.
    """
    share = max(1, len(set().union(*here.allgather(list_cpus()))) // here.size)
    return int(min(everyone.allgather(share)))


def is_rank() -> bool:
    """Return whether this process is one of several ranks, without connecting to the others."""
    return (
        get_world().size > 1
        if get_world.cache_info().currsize
        else library.find_launch() is not None
    )


def list_cpus() -> set[int]:
    """List the cores that this process may use, by their numbers."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


# --- all ranks or none ---------------------------------------------------------------------------

_POLL = 0.1  # seconds between two looks of the watcher
_TOGETHER = 2.0  # seconds for which a rank that stops at an error waits for the errors of others
_STACKS = (1.0, 10.0)  # least and most seconds for which a rank waits for the stacks of others
_WHERE, _HERE = 0, 1  # letters: print where you are; it is printed


def abort(code: int = 1) -> NoReturn:
    """End the job on all ranks at once, with this exit code."""
    sys.stdout.flush()
    sys.stderr.flush()
    found = get_world()
    if found.mpi is not None:
        _leave_note(found, "failed")
        found.mpi.COMM_WORLD.Abort(code)
    os._exit(code)


def all_raise(error: BaseException) -> bool:
    """Return whether all ranks stop at the same error, after waiting a moment for the others."""
    found, mine = get_world(), f"{type(error).__name__}: {error}"
    if found.size == 1:
        return True
    _send_to_all(found, mine)
    until = time.monotonic() + _TOGETHER
    while len(found.errors) < found.size - 1 and time.monotonic() < until:
        time.sleep(_POLL / 10)
    return [*found.errors.values()] == [mine] * (found.size - 1)


def fail(error: BaseException, code: int) -> NoReturn:
    """Print the traceback of this rank's error, and end the job on all ranks with a code."""
    _end_job(get_world(), f"failed:\n{''.join(traceback.format_exception(error))}", code)


def _end_together(found: World) -> None:
    """Make a rank that raises, leaves too early or is stuck end the whole job."""
    found.limit = _read_timeout()
    sys.excepthook = functools.partial(_handle_error, found)
    threading.excepthook = functools.partial(_handle_thread_error, found)
    stop, stopping = threading.Event(), StopSignals(found.job)
    watcher = threading.Thread(target=_watch, args=(found, stop, stopping), daemon=True)
    watcher.start()
    atexit.register(_leave, found, stop, watcher)
    _leave_note(found, "pid")


def _read_timeout() -> float:
    """Return the number of seconds that a rank may wait, from PURERL_MPI_TIMEOUT."""
    text = os.environ.get("PURERL_MPI_TIMEOUT", "")
    try:
        limit = float(text or "inf")
    except ValueError:
        limit = 0.0
    if not limit > 0:
        raise ValueError(f"PURERL_MPI_TIMEOUT must be seconds, more than 0, got {text!r}.")
    return limit


def _handle_error(
    found: World,
    kind: type[BaseException],
    error: BaseException | None,
    where: TracebackType | None,
) -> None:
    """Print the traceback with its rank, and end the job."""
    text = "".join(traceback.format_exception(kind, error, where))
    code = errors.INCOMPLETE
    if issubclass(kind, RanksDisagree | KeyboardInterrupt):
        code = errors.exit_code_of(kind())
    _end_job(found, f"failed:\n{text}", code)


def _handle_thread_error(found: World, args: threading.ExceptHookArgs) -> None:
    if args.exc_type is not SystemExit:  # SystemExit ends only its thread
        _handle_error(found, args.exc_type, args.exc_value, args.exc_traceback)


def _end_job(found: World, why: str, code: int = errors.INCOMPLETE) -> NoReturn:
    """Print why, and end the job on all ranks."""
    sys.stderr.write(f"rank {found.rank} of {found.size} {why.rstrip()}\n")
    sys.stderr.flush()
    time.sleep(2 * _POLL)  # the launcher drops output that it has not forwarded yet
    abort(code)


def _watch(found: World, stop: threading.Event, stopping: StopSignals) -> None:
    """Watch for signals, and for ranks that have ended or do not come, while this rank works."""
    asked = 0.0  # time at which the others were asked where they are
    while not stop.wait(_POLL):
        _check_signals(found, stopping)
        _read_letters(found)
        for i, channel in enumerate(found.channels):
            since, begun = channel.since, channel.begun
            for rank, counts in found.gone.items():
                if since is not None and begun > counts[i]:
                    _end_job(found, f"waits for rank {rank}, which has ended. The job is stopped.")
        asked = _check_limit(found, asked)


def _read_letters(found: World) -> None:
    """Read the letters of other watchers."""
    MPI = found.mpi
    while found.letters.iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG):
        status = MPI.Status()
        letter = found.letters.recv(status=status)
        rank = status.Get_source()
        if letter == _WHERE:
            _print_stacks(found)
            found.letters.send(_HERE, rank)
        elif letter == _HERE:
            found.located.add(rank)
        elif isinstance(letter, str):
            found.errors[rank] = letter
        else:
            found.gone[rank] = letter


def _check_limit(found: World, asked: float) -> float:
    """End the job if this rank has waited too long, after the others printed their stacks.

    Args:
        found: The world.
        asked: Time at which the others were asked for their stacks, or 0.

    Returns:
        The new value of `asked`.
    """
    waits = [t for t in (found.leaving, *(c.since for c in found.channels)) if t is not None]
    now = time.monotonic()
    if not waits or now - min(waits) <= found.limit:
        return 0.0
    if not asked:
        found.located.clear()
        _send_to_all(found, _WHERE)
        return now
    least, most = _STACKS
    if now - asked > (least if len(found.located) == found.size - 1 else most):
        where = "at its end" if found.leaving else "in a collective"
        _end_job(
            found,
            f"has waited {found.limit:g} s (PURERL_MPI_TIMEOUT) {where} for ranks that do not "
            f"come. The job is stopped.",
        )
    return asked


def _check_signals(found: World, stopping: StopSignals) -> None:
    """End the job at the second signal; report if the first one waits for other ranks."""
    now = time.monotonic()
    if number := stopping.poll(now):
        _end_job(found, "was asked to stop once more. The job is stopped at once.", 128 + number)
    entered = [c.since for c in found.channels if c.since is not None]
    if stopping.note_lateness(now, min(entered, default=None)):
        text = "was asked to stop and waits for other ranks; a second signal ends the job at once"
        sys.stderr.write(f"rank {found.rank} of {found.size} {text}.\n")
        sys.stderr.flush()


def _print_stacks(found: World) -> None:
    """Print the stacks of this rank's threads, unless it waits as well."""
    if found.leaving or any(channel.since is not None for channel in found.channels):
        return
    sys.stderr.write(f"rank {found.rank} of {found.size} is not waiting; it is here:\n")
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        sys.stderr.write(file.read())
    sys.stderr.flush()


def _send_to_all(found: World, letter: Any) -> None:
    """Send a letter to the watchers of all other ranks."""
    for rank in range(found.size):
        if rank != found.rank:
            found.letters.send(letter, rank)  # a few bytes, so it does not wait for the receiver


def _leave(found: World, stop: threading.Event, watcher: threading.Thread) -> None:
    """Tell the others that this rank ends, and wait until all ranks end.

    A rank that still waits for this one then notices.
    """
    sys.stdout.flush()
    found.leaving = time.monotonic()
    _send_to_all(found, [channel.begun for channel in found.channels])
    while len(found.gone) < found.size - 1:
        time.sleep(0.005)
    stop.set()
    watcher.join()
    _leave_note(found, "done")


def _leave_note(found: World, what: str) -> None:
    """Leave a note for the process that launched the ranks with `fork`, if one did."""
    if found.job:
        with contextlib.suppress(FileNotFoundError):  # that process has ended
            Path(found.job, f"{what}-{found.rank}").write_text(str(os.getpid()))
