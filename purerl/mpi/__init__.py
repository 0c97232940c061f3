"""Averages over ranks and devices: one interface, the identity where there is one of each.

    mpiexec -n 4 python examples/run_ppo.py      # or: python examples/run_ppo.py --num-cpu 4

Inside a compiled program `pmean` and its sisters are decided when it is traced: over the axis
`"device"` where `jax.shard_map` or `jax.vmap` binds it; over the ranks MPI launched, by one ordered
callback around one `Allreduce` of all leaves; and where there is neither they return their argument
and cost nothing. On NumPy arrays, Python numbers and arrays outside of a trace they work on the
host. All ranks must make the same sequence of these calls: a branch around one needs a condition
that is equal on all ranks, as counters are and averages make it.

Importing this imports no MPI; the first question about ranks does, if a launcher asked for several.
"""

import importlib
from typing import TYPE_CHECKING, Any

from purerl.errors import MPIUnavailable, RanksDisagree
from purerl.mpi import world
from purerl.mpi.launch import fork
from purerl.mpi.world import abort, all_raise, fail

if TYPE_CHECKING:
    from purerl.mpi.collective import AXIS, pmax, pmean, pmean_grads, pmin, psum
    from purerl.mpi.host import allgather, assert_in_sync, broadcast, statistics, sync
    from purerl.mpi.sharding import own_rows, shard_update

__all__ = [
    "AXIS",
    "MPIUnavailable",
    "RanksDisagree",
    "abort",
    "all_raise",
    "allgather",
    "assert_in_sync",
    "broadcast",
    "fail",
    "fork",
    "init",
    "is_root",
    "num_local",
    "num_procs",
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
    **dict.fromkeys(("AXIS", "pmax", "pmean", "pmean_grads", "pmin", "psum"), "collective"),
    **dict.fromkeys(("allgather", "assert_in_sync", "broadcast", "statistics", "sync"), "host"),
    **dict.fromkeys(("own_rows", "sharded"), "sharding"),
}


def __getattr__(name: str) -> Any:
    if name not in _IN_MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_IN_MODULE[name]}"), name)
    globals()[name] = value
    return value


def init() -> None:
    """Connect to the other ranks, if this process was launched with any; else do nothing.

    The first call of anything here that needs to know does the same. Do it first thing, or call
    `purerl.setup()`, which does: from then on a rank that fails ends the job; before, MPI may hang.
    """
    world.world()


def num_procs() -> int:
    """Return the number of ranks."""
    return world.world().size


def num_local() -> int:
    """Return the number of ranks on this host."""
    return world.world().neighbours


def proc_id() -> int:
    """Return the rank of this process."""
    return world.world().rank


def is_root() -> bool:
    """Say whether this rank prints and writes."""
    return proc_id() == 0
