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

import zlib
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from purerl import _collective, _world
from purerl._collective import AXIS
from purerl._launch import fork
from purerl._world import MPIUnavailable, RanksDisagree, abort, all_raise, fail

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
    "sharded",
    "statistics",
    "sync",
]

Tree = TypeVar("Tree")
Update = Callable[[Any, Any], tuple[Any, Any]]


def init() -> None:
    """Connect to the other ranks, if this process was launched with any; else do nothing.

    The first call of anything here that needs to know does the same. Do it first thing, or call
    `purerl.setup()`, which does: from then on a rank that fails ends the job; before, MPI may hang.
    """
    _world.world()


def num_procs() -> int:
    """Return the number of ranks."""
    return _world.world().size


def num_local() -> int:
    """Return the number of ranks on this host."""
    return _world.world().neighbours


def proc_id() -> int:
    """Return the rank of this process."""
    return _world.world().rank


def is_root() -> bool:
    """Say whether this rank prints and writes."""
    return proc_id() == 0


def pmean(tree: Tree) -> Tree:
    """Average over the axis `"device"` where it is bound, and over ranks.

    Example:
        >>> jax.vmap(pmean, axis_name="device")(jnp.array([1.0, 3.0])).tolist()
        [2.0, 2.0]
    """
    return _collective.reduce("pmean", tree)


def psum(tree: Tree) -> Tree:
    """Add up over the axis `"device"` where it is bound, and over ranks."""
    return _collective.reduce("psum", tree)


def pmin(tree: Tree) -> Tree:
    """Take the smallest over the axis `"device"` where it is bound, and over ranks."""
    return _collective.reduce("pmin", tree)


def pmax(tree: Tree) -> Tree:
    """Take the largest over the axis `"device"` where it is bound, and over ranks."""
    return _collective.reduce("pmax", tree)


def pmean_grads() -> optax.GradientTransformation:
    """Average gradients as the first link of an Optax chain.

    Example:
        >>> tx = optax.chain(pmean_grads(), optax.adam(1e-3))
    """
    return optax.GradientTransformation(
        lambda params: optax.EmptyState(),
        lambda grads, state, params=None: (pmean(grads), state),
    )


# --- on the host ---------------------------------------------------------------------------------


def allgather(x: Any) -> list[Any]:
    """Return what every rank gave, in the order of ranks: any Python object."""
    if num_procs() == 1:
        return [x]
    return _world.world().outside(lambda comm: comm.allgather(x))


def broadcast(tree: Tree, root: int = 0) -> Tree:
    """Return the tree of one rank; trees must be of the same structure."""
    if num_procs() == 1:
        return tree
    leaves, structure = jax.tree.flatten(tree)
    sent = [_collective.host(leaf) for leaf in leaves] if proc_id() == root else None
    received = _world.world().outside(lambda comm: comm.bcast(sent, root))
    pairs = zip(leaves, received, strict=True)
    return jax.tree.unflatten(structure, [_collective.like(leaf, x) for leaf, x in pairs])


def sync(state: Tree) -> Tree:
    """Return rank 0's state on all ranks, after checking that all have one of its shapes.

    For the start of a loop of one's own, and after loading. What differs between ranks on purpose
    (buffers, environments, keys) does not belong into it.
    """
    if num_procs() > 1:
        _assert_equal("the shapes of state", _words(state, values=False))
    return broadcast(state)


def assert_in_sync(tree: Any, what: str = "state") -> None:
    """Raise `RanksDisagree` on all ranks unless a tree is the same, bit for bit, on all of them.

    Args:
        tree: arrays, or words to compare.
        what: its name in the message.
    """
    if num_procs() > 1:
        _assert_equal(what, _words(tree))


def statistics(x: Any, min_max: bool = False) -> tuple[float, ...]:
    """Return mean and population standard deviation (then min and max) of numbers on all ranks.

    A rank may have none of them.

    Example:
        >>> statistics([1.0, 2.0, 3.0, 4.0], min_max=True)
        (2.5, 1.118033988749895, 1.0, 4.0)
    """
    x = np.asarray(x, np.float64).ravel()
    count, total = psum(np.array([x.size, x.sum()]))
    if not count:
        raise ValueError("statistics needs at least one number over all ranks, got none.")
    mean = total / count
    std = np.sqrt(psum(np.square(x - mean).sum()) / count)
    if not min_max:
        return float(mean), float(std)
    low, high = pmin(np.array([x.min(initial=np.inf), -x.max(initial=-np.inf)]))
    return float(mean), float(std), float(low), float(-high)


def _words(tree: Any, values: bool = True) -> dict[str, str]:
    """Return a word for each leaf: dtype, shape and checksum of an array, or the word it is."""
    words = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        x = _collective.host(leaf)
        word = f"{x.dtype}{list(x.shape)}" + values * f" {zlib.crc32(x.tobytes()):08x}"
        words[jax.tree_util.keystr(path)] = leaf if isinstance(leaf, str) else word
    return words


def _assert_equal(what: str, words: dict[str, str]) -> None:
    everyone = allgather(words)
    names = dict.fromkeys(name for one in everyone for name in one)
    bad = [n for n in names if len({one.get(n) for one in everyone}) > 1]
    if bad:
        rows = [[f"rank {i} {one.get(name)}" for i, one in enumerate(everyone)] for name in bad]
        shown = "".join(
            f"\n  {n}: {'; '.join(row)}" for n, row in zip(bad[:3], rows[:3], strict=True)
        )
        raise RanksDisagree(
            f"ranks differ in {len(bad)} of {len(names)} entries of {what}, which must be equal on "
            f"all of them:{shown}"
        )


# --- a batch over devices ------------------------------------------------------------------------


def sharded(update: Update, mesh: Mesh | None = None) -> Update:
    """Split the rows of a batch over devices: `update` of an algorithm, compiled for a mesh.

    Each device computes the gradients of its rows; `update` averages them. With `batch.noise`
    given the result is that of the whole batch; a `batch.key` is folded with the number of the
    device. State and metrics come back equal on all devices.

    Args:
        update: of a module of `purerl.algos`.
        mesh: with the axis `"device"`; None for all devices of this process, or of all processes
            that `jax.distributed` connects.

    Example:
        >>> update = sharded(lambda state, batch: (state, {"mean": batch["rew"].mean()}))
        >>> float(update(0, {"rew": jnp.ones(4)})[1]["mean"])
        1.0
    """
    if mesh is None:
        mesh = Mesh(np.array(jax.devices()), (AXIS,))
    if mesh.axis_names != (AXIS,):
        raise ValueError(f"mesh must have the one axis {AXIS!r}, got {mesh.axis_names}.")

    def one(state: Any, batch: Any) -> tuple[Any, Any]:
        state, info = update(state, _fold(batch))
        return state, pmean(info)

    def split(state: Any, batch: Any) -> tuple[Any, Any]:
        batch = _check_rows(batch, mesh.size)
        rows = jax.tree.map(lambda _: P(AXIS), batch)
        if getattr(batch, "key", None) is not None:
            rows = rows._replace(key=P())

        part = jax.shard_map(one, mesh=mesh, in_specs=(P(), rows), out_specs=P(), check_vma=False)
        return part(state, batch)

    return jax.jit(split)


def own_rows(batch: Any) -> Any:
    """Return this device's rows of a batch that all devices hold, where the axis is bound."""
    number, index = lax.axis_size(AXIS), lax.axis_index(AXIS)
    batch = _fold(_check_rows(batch, number))

    def part(x: Any) -> Any:
        return lax.dynamic_slice_in_dim(x, index * (x.shape[0] // number), x.shape[0] // number)

    return jax.tree.map(part, batch._replace(key=None))._replace(key=batch.key)


def _fold(batch: Any) -> Any:
    """Give each device a key of its own, if the batch has one."""
    if getattr(batch, "key", None) is None:
        return batch
    return batch._replace(key=jax.random.fold_in(batch.key, lax.axis_index(AXIS)))


def _check_rows(batch: Any, number: int) -> Any:
    """Drop the rollout, which has no rows, and refuse rows that do not divide."""
    if getattr(batch, "rollout", None) is not None:
        batch = batch._replace(rollout=None)
    keyless = batch._replace(key=None) if hasattr(batch, "key") else batch
    for leaf in jax.tree.leaves(keyless):
        if not jnp.ndim(leaf) or jnp.shape(leaf)[0] % number:
            raise ValueError(
                f"the rows of a batch must divide over {number} devices, got an array of shape "
                f"{jnp.shape(leaf)}."
            )
    return batch
