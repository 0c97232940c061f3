"""Reduce the leaves of a tree over devices and ranks: mean, sum, minimum and maximum."""

import functools
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.experimental import io_callback

from purerl import errors
from purerl.mpi import world

AXIS = "device"
RANK_AXIS = "mpi_rank"  # of programs over the devices of all ranks
Tree = TypeVar("Tree")


def pmean(tree: Tree) -> Tree:
    """Average a tree over the axis `"device"` where it is bound, and over ranks.

    Example:
        >>> jax.vmap(pmean, axis_name="device")(jnp.array([1.0, 3.0])).tolist()
        [2.0, 2.0]
    """
    return reduce("pmean", tree)


def psum(tree: Tree) -> Tree:
    """Add up a tree over the axis `"device"` where it is bound, and over ranks."""
    return reduce("psum", tree)


def pmin(tree: Tree) -> Tree:
    """Take the minimum of a tree over the axis `"device"` where it is bound, and over ranks."""
    return reduce("pmin", tree)


def pmax(tree: Tree) -> Tree:
    """Take the maximum of a tree over the axis `"device"` where it is bound, and over ranks."""
    return reduce("pmax", tree)


def pmean_grads() -> optax.GradientTransformation:
    """Return the first link of an Optax chain, which averages the gradients.

    Example:
        >>> tx = optax.chain(pmean_grads(), optax.adam(1e-3))
    """
    return optax.GradientTransformation(
        lambda params: optax.EmptyState(),
        lambda grads, state, params=None: (pmean(grads), state),
    )


def reduce(op: str, tree: Tree) -> Tree:
    """Apply a collective to all leaves at once: one message instead of one per leaf."""
    bound = find_axes()
    if not bound and world.get_world().size == 1:
        return tree
    leaves, structure = jax.tree.flatten(tree)
    if any(jnp.issubdtype(jnp.result_type(x), jax.dtypes.prng_key) for x in leaves):
        raise ValueError(f"{op} takes numbers, but the tree has a PRNG key; a key has no {op[1:]}.")
    traced = any(isinstance(x, jax.core.Tracer) for x in leaves)
    if bound:
        leaves = _apply_flat(functools.partial(getattr(lax, op), axis_name=bound), leaves)
    if world.get_world().size > 1 and RANK_AXIS not in bound and not _spans_processes():
        leaves = _reduce_over_ranks(op, leaves) if traced else _reduce_on_host(op, leaves)
    return jax.tree.unflatten(structure, leaves)


def find_axes() -> tuple[str, ...]:
    """Return the axes over which this part of a program is mapped: of ranks, of devices."""
    return tuple(name for name in (RANK_AXIS, AXIS) if _is_bound(name))


def _is_bound(name: str) -> bool:
    try:
        lax.axis_index(name)
    except NameError:
        return False
    return True


def _spans_processes() -> bool:
    """Return whether the axis spans all processes; refuse one over the devices of a single rank."""
    mesh = jax.sharding.get_abstract_mesh()
    devices = mesh.size if mesh.manual_axes else 1
    if devices == 1:
        return False
    if jax.process_count() == world.get_world().size and devices == jax.device_count():
        return True
    ranks = world.get_world().size
    raise RuntimeError(
        f"a program over {devices} devices cannot average over {ranks} ranks as well: each device "
        f"would call MPI on its own. Use one device per rank, or connect the processes by "
        f"jax.distributed and shard over all of their devices."
    )


def _apply_flat(collective: Callable[[Any], Any], leaves: list[Any]) -> list[Any]:
    """Apply a collective to one vector per dtype."""
    leaves = list(leaves)
    by_dtype: dict[Any, list[int]] = {}
    for i, leaf in enumerate(leaves):
        by_dtype.setdefault(jnp.result_type(leaf), []).append(i)
    for dtype, indices in by_dtype.items():
        ends = np.cumsum([0, *(jnp.size(leaves[i]) for i in indices)]).tolist()
        # Write leaf by leaf. XLA's CPU backend would fuse a concatenation with the gradients and
        # compute it element by element, which took longer than the rest of an update.
        flat = jnp.zeros(ends[-1], dtype)
        for i, start in zip(indices, ends, strict=False):
            flat = lax.dynamic_update_slice(flat, jnp.ravel(leaves[i]), (start,))
        flat = collective(flat)
        for i, start, end in zip(indices, ends, ends[1:], strict=False):
            leaves[i] = flat[start:end].reshape(jnp.shape(leaves[i]))
    return leaves


_EXTREMES = {"pmin": np.min, "pmax": np.max}


def _reduce_over_ranks(op: str, leaves: list[Any]) -> list[Any]:
    """Reduce over ranks inside a compiled program, in the same order on all ranks."""
    leaves = [jnp.asarray(x) for x in leaves]
    site = _find_caller() if os.environ.get("PURERL_MPI_CHECK") == "1" else ""
    call = functools.partial(_allreduce, world.get_world().inside, op, site)

    @jax.custom_batching.custom_vmap
    def collective(flat: jax.Array) -> jax.Array:
        return io_callback(call, jax.ShapeDtypeStruct(flat.shape, flat.dtype), flat, ordered=True)

    @collective.def_vmap
    def refuse(size: int, batched: Any, flat: Any) -> Any:
        raise ValueError(
            f"vmap over {size} copies of a {op} over ranks is not possible: MPI would be called "
            f"once for all copies. Run the copies on one rank, or one copy per rank."
        )

    one = jax.custom_jvp(collective)

    @one.defjvp
    def refuse_derivative(primals: Any, tangents: Any) -> Any:
        raise ValueError(
            f"a {op} over ranks has no derivative. Differentiate the loss, then average gradients."
        )

    wide = [x.astype(_widen(op, x.dtype)) for x in leaves]
    wide = _apply_flat(one, wide)
    return [_narrow(op, x, leaf.dtype) for x, leaf in zip(wide, leaves, strict=True)]


def _reduce_on_host(op: str, leaves: list[Any]) -> list[Any]:
    """Reduce over ranks at once, outside of a compiled program."""
    reduced = []
    for leaf in leaves:
        x = np.asarray(leaf)
        wide = _allreduce(world.get_world().outside, op, "", x.astype(_widen(op, x.dtype)))
        reduced.append(convert_like(leaf, np.asarray(_narrow(op, wide, x.dtype))))
    return reduced


def _widen(op: str, dtype: Any) -> Any:
    """Return a dtype that MPI can add: it can add neither half precision nor booleans."""
    if jnp.issubdtype(dtype, jnp.inexact):
        return np.float32 if dtype.itemsize < 4 else dtype
    if op == "pmean":
        return np.float64 if dtype.itemsize == 8 else np.float32
    return np.int32 if dtype == np.bool_ else dtype


def _narrow(op: str, x: Any, dtype: Any) -> Any:
    """Finish a mean, and convert the result to `dtype` where that loses nothing."""
    if op == "pmean":
        x = x / world.get_world().size
    fits = jnp.issubdtype(dtype, jnp.inexact) or op in ("pmin", "pmax")
    return x.astype(dtype) if fits else x


def _allreduce(channel: world.Channel, op: str, site: str, flat: Any) -> np.ndarray:
    """Reduce one array over ranks, without JAX, because XLA calls this on a thread of its own."""
    flat = np.asarray(flat, order="C")
    if site:
        mine = f"{op} of {flat.size} {flat.dtype} at {site}"
        everyone = channel(lambda comm: comm.allgather(mine))
        if len(set(everyone)) > 1:
            shown = "; ".join(f"rank {rank}: {one}" for rank, one in enumerate(everyone))
            raise errors.RanksDisagree(
                f"ranks reached different collectives: {shown}. All ranks must make the same calls "
                f"in the same order."
            )
    # NumPy and XLA return NaN if any rank has NaN. The result of MPI would depend on the rank.
    if op in _EXTREMES:
        table = np.empty((world.get_world().size, *flat.shape), flat.dtype)
        channel(lambda comm: comm.Allgather(flat, table))
        return np.asarray(_EXTREMES[op](table, axis=0))
    out = np.empty_like(flat)
    channel(lambda comm: comm.Allreduce(flat, out))
    return out


def _find_caller() -> str:
    """Return file and line of the last caller outside of this folder."""
    here = Path(__file__).parent
    frames = [f for f in traceback.extract_stack() if Path(f.filename).parent != here]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}"


def to_host(leaf: Any) -> np.ndarray:
    """Convert a leaf to a NumPy array, and a key to the array of its data."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)


def convert_like(leaf: Any, x: np.ndarray) -> Any:
    """Convert a host array to the type of `leaf`: a JAX array, a NumPy array or a number."""
    if isinstance(leaf, jax.Array):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(jnp.asarray(x), impl=jax.random.key_impl(leaf))
        return jnp.asarray(x)
    return (
        x if isinstance(leaf, np.ndarray) else x[()] if isinstance(leaf, np.generic) else x.item()
    )
