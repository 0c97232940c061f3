"""The ranks that MPI launched together with this process, and the functions that end them.

A process connects only if a launcher started it together with others, or with `PURERL_MPI=1`.
`purerl.mpi` has the public functions.
"""

import dataclasses
import functools
import math
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from purerl.errors import MPIUnavailable
from purerl.mpi import library, watchdog


class Channel:
    """One communicator, and the number of collectives that this rank has begun on it."""

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self.begun = 0
        self.since: float | None = None  # time at which the collective in progress was entered

    def __call__(self, collective: Callable[[Any], Any]) -> Any:
        """Run one collective."""
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
    channels: tuple[Channel, ...] = ()  # one for compiled programs, one for the host
    messages: Any = None  # communicator of the watchers
    neighbours: int = 1  # ranks on this host
    job: str = ""  # folder for notes to the process that launched the ranks with `fork`
    limit: float = math.inf  # seconds that a rank may wait for another one
    leaving: float | None = None  # time at which this rank began to end
    # Rank that has ended -> number of collectives that it began on each channel.
    gone: dict[int, list[int]] = dataclasses.field(default_factory=dict)
    errors: dict[int, str] = dataclasses.field(default_factory=dict)  # rank -> error that ends it
    located: set[int] = dataclasses.field(default_factory=set)  # ranks that printed their stacks

    @property
    def inside(self) -> Channel:
        """Channel for averages inside compiled programs."""
        return self.channels[0]

    @property
    def outside(self) -> Channel:
        """Channel for exchanges on the host."""
        return self.channels[1]


@functools.cache
def get_world() -> World:
    """Connect to the other ranks, if there are any, and return the world of this process."""
    found = library.find_launch()
    return World() if found is None else _connect(*found)


def _connect(variable: str, size: int | None) -> World:
    """Start MPI, check that launcher and library match, and make all ranks end together."""
    MPI = library.load_mpi(
        f"this process was launched by MPI ({variable}={os.environ.get(variable)})"
    )
    everyone = MPI.COMM_WORLD
    if everyone.size == 1:
        if (size or 1) > 1:
            raise MPIUnavailable(
                f"the launcher and the MPI library do not match: the launcher started {size} ranks "
                f"({variable}={size}), but the library of this Python, "
                f"{library.describe_library(MPI)}, sees one. Use the mpiexec of that library: "
                f"`pip install {library.name_package(MPI)}` puts one next to {sys.executable}. "
                f"With Slurm, use `srun --mpi=pmi2` or `--mpi=pmix`. For independent processes, "
                f"set PURERL_MPI=0."
            )
        return World()
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise MPIUnavailable(
            f"compiled programs call MPI from several threads, so MPI must give "
            f"MPI_THREAD_MULTIPLE, but {library.describe_library(MPI)} gave level "
            f"{MPI.Query_thread()}. Do not change mpi4py.rc.thread_level, and use an MPI library "
            f"built with threads."
        )
    here = everyone.Split_type(MPI.COMM_TYPE_SHARED)
    neighbours, threads = here.size, _share_cores(everyone, here)
    here.Free()
    # Limit XLA to this rank's share of the cores, because a rank that waits keeps a core busy.
    os.environ.setdefault("NPROC", str(threads))
    job = os.environ.pop("PURERL_MPI_JOB", "")
    found = World(everyone.rank, everyone.size, MPI, neighbours=neighbours, job=job)
    os.environ["PURERL_MPI"] = "0"  # processes that this rank starts are not ranks
    found.channels = (Channel(everyone.Dup()), Channel(everyone.Dup()))
    found.messages = everyone.Dup()
    watchdog.end_together(found)
    return found


def _share_cores(everyone: Any, here: Any) -> int:
    """Return the number of cores per rank, from the host where it is smallest.

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


def abort(code: int = 1) -> NoReturn:
    """End the job on all ranks at once, with this exit code."""
    watchdog.abort(get_world(), code)


def all_raise(error: BaseException) -> bool:
    """Return whether all ranks stop at the same error; wait a moment for their messages."""
    found, mine = get_world(), f"{type(error).__name__}: {error}"
    if found.size == 1:
        return True
    watchdog.send_to_all(found, mine)
    until = time.monotonic() + watchdog.TOGETHER
    while len(found.errors) < found.size - 1 and time.monotonic() < until:
        time.sleep(watchdog.POLL / 10)
    return [*found.errors.values()] == [mine] * (found.size - 1)


def fail(error: BaseException, code: int) -> NoReturn:
    """Print the traceback of this rank's error, and end the job on all ranks with this code."""
    text = "".join(traceback.format_exception(error))
    watchdog.end_job(get_world(), f"failed:\n{text}", code)
