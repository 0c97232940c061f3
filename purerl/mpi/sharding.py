"""Split the rows of a batch over devices, and join what each device has."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from purerl.mpi.collective import AXIS, Tree, pmean

Update = Callable[[Any, Any], tuple[Any, Any]]


def shard_update(update: Update, mesh: Mesh | None = None) -> Update:
    """Compile the `update` of an algorithm for a mesh, with the rows of the batch split over it.

    Each device computes the gradients of its rows, and `update` averages them. With `batch.noise`
    the result equals that of the whole batch. If the batch has a key, each device folds its number
    into it. State and metrics are equal on all devices.

    Args:
        update: The `update` of a module of `purerl.algos`.
        mesh: Mesh with the axis `"device"`. None means all devices of this process, or of all
            processes that `jax.distributed` connects.

    Example:
        >>> update = shard_update(lambda state, batch: (state, {"mean": batch["rew"].mean()}))
        >>> float(update(0, {"rew": jnp.ones(4)})[1]["mean"])
        1.0
    """
    if mesh is None:
        mesh = Mesh(np.array(jax.devices()), (AXIS,))
    if mesh.axis_names != (AXIS,):
        raise ValueError(f"mesh must have exactly one axis {AXIS!r}, got {mesh.axis_names}.")

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
    """Return this device's rows of a batch that every device has; the axis must be bound."""
    batch = _fold(_check_rows(batch, lax.axis_size(AXIS)))
    return jax.tree.map(own_part, batch._replace(key=None))._replace(key=batch.key)


def own_part(x: jax.Array) -> jax.Array:
    """Return this device's part of the leading axis of an array; the axis must be bound."""
    number = x.shape[0] // lax.axis_size(AXIS)
    return lax.dynamic_slice_in_dim(x, lax.axis_index(AXIS) * number, number)


def all_parts(tree: Tree, axis: int = 0, over: str | tuple[str, ...] = AXIS) -> Tree:
    """Join the arrays of all devices along an axis, in the order of devices.

    Args:
        tree: Arrays of this device.
        axis: Axis along which they are joined.
        over: Names of the bound axes. The default joins the devices of this rank.
    """
    return jax.tree.map(lambda x: lax.all_gather(x, over, axis=axis, tiled=True), tree)


def _fold(batch: Any) -> Any:
    """Fold the number of the device into the key of a batch, if it has one."""
    if getattr(batch, "key", None) is None:
        return batch
    return batch._replace(key=jax.random.fold_in(batch.key, lax.axis_index(AXIS)))


def _check_rows(batch: Any, number: int) -> Any:
    """Remove the rollout from a batch; refuse rows whose number does not divide by the devices."""
    if getattr(batch, "rollout", None) is not None:
        batch = batch._replace(rollout=None)
    keyless = batch._replace(key=None) if hasattr(batch, "key") else batch
    for leaf in jax.tree.leaves(keyless):
        if not jnp.ndim(leaf) or jnp.shape(leaf)[0] % number:
            raise ValueError(
                f"the rows of a batch must be a multiple of {number} devices, got an array of "
                f"shape {jnp.shape(leaf)}."
            )
    return batch
