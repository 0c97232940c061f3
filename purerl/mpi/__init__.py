"""Averages over ranks and devices. On one rank and one device they return their argument.

    mpiexec -n 4 python examples/run_ppo.py      # or: python examples/run_ppo.py --num-cpu 4

What `pmean`, `psum`, `pmin` and `pmax` do inside a compiled program is decided during tracing:

- Where `jax.shard_map` or `jax.vmap` binds the axis `"device"`, they reduce over that axis, and
  also over the axis `"mpi_rank"` in programs over the devices of all ranks.
- With several ranks, they reduce by one ordered callback and one `Allreduce` for each dtype.
- With neither, they return their argument and cost nothing.

Outside of a trace, on arrays and Python numbers, they reduce on the host. All ranks must make the
same calls in the same order. If a call is in a branch, the condition must be equal on all ranks,
for example a step counter or an averaged number.

This import is light: it loads neither JAX nor MPI. The first function that needs the number of
ranks loads MPI, and only if a launcher started this process as one of several.
"""

import importlib
from typing import TYPE_CHECKING, Any

from purerl.errors import MPIUnavailable, RanksDisagree
from purerl.mpi import world
from purerl.mpi.launch import fork
from purerl.mpi.world import abort, all_raise, fail

if TYPE_CHECKING:
    from purerl.mpi.collective import (
        AXIS,
        RANK_AXIS,
        find_axes,
        pmax,
        pmean,
        pmean_grads,
        pmin,
        psum,
    )
    from purerl.mpi.distributed import connect_devices
    from purerl.mpi.host import allgather, assert_in_sync, broadcast, statistics, sync
    from purerl.mpi.sharding import all_parts, own_part, own_rows, shard_update

__all__ = [
    "AXIS",
    "RANK_AXIS",
    "MPIUnavailable",
    "RanksDisagree",
    "abort",
    "all_parts",
    "all_raise",
    "allgather",
    "assert_in_sync",
    "broadcast",
    "connect_devices",
    "fail",
    "find_axes",
    "fork",
    "init",
    "is_root",
    "num_local",
    "num_procs",
    "own_part",
    "own_rows",
    "pmax",
    "pmean",
    "pmean_grads",
    "pmin",
    "proc_id",
    "psum",
    "shard_update",
    "statistics",
    "sync",
]

_IN_MODULE = {  # these modules import JAX, so each is loaded on first use
    **dict.fromkeys(("AXIS", "RANK_AXIS", "find_axes"), "collective"),
    **dict.fromkeys(("pmax", "pmean", "pmean_grads", "pmin", "psum"), "collective"),
    **dict.fromkeys(("allgather", "assert_in_sync", "broadcast", "statistics", "sync"), "host"),
    "connect_devices": "distributed",
    **dict.fromkeys(("all_parts", "own_part", "own_rows", "shard_update"), "sharding"),
}


def __getattr__(name: str) -> Any:
    """Import a function from its module on first use."""
    if name not in _IN_MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_IN_MODULE[name]}"), name)
    globals()[name] = value
    return value


def init() -> None:
    """Connect to the other ranks, if this process was launched with others; else do nothing.

    Call it first, or call `purerl.setup()`, which calls it. Afterwards a rank that fails ends the
    job. Before it, a failure may leave the other ranks waiting.
    """
    world.get_world()


def num_procs() -> int:
    """Return the number of ranks."""
    return world.get_world().size


def num_local() -> int:
    """Return the number of ranks on this host."""
    return world.get_world().neighbours


def proc_id() -> int:
    """Return the rank of this process."""
    return world.get_world().rank


def is_root() -> bool:
    """Return whether this is rank 0, the rank that prints and writes."""
    return proc_id() == 0
