"""Replay buffer: a ring of rows of any pytree, as an immutable state and pure functions.

The example given to `init` sets the structure of a row. No function here is jitted, so that all of
them work inside `jax.lax.scan`. A loop should jit `add` and donate the buffer. Without donation,
each call copies the whole buffer, which takes tens of milliseconds at a million rows.
"""

import dataclasses
import operator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from purerl import checks
from purerl.types import Batch, ExtendedBatch, ExtendedTransition, SequenceBatch, Transition


@struct.dataclass
class Replay:
    """State of a replay buffer."""

    data: Any  # rows [capacity, ...]
    position: jax.Array  # () int32, next row to write
    stored: jax.Array  # () int32, number of rows stored


def init(example: Any, capacity: int) -> Replay:
    """Allocate an empty replay buffer for rows like `example`.

    Args:
        example: One row as a pytree of arrays. Dtypes are kept, but 64-bit dtypes become 32-bit.
        capacity: Largest number of rows.

    Raises:
        ValueError: If the buffer does not fit into free memory.

    Example:
        >>> ring = init({"x": np.zeros(3, np.uint8)}, capacity=4)
        >>> ring.data["x"].shape, ring.data["x"].dtype.name
        ((4, 3), 'uint8')
    """
    checks.integer("capacity", capacity, 1)
    if capacity > 2**30:
        raise ValueError(f"capacity must be at most 2**30 rows, got {capacity}.")
    leaves, structure = jax.tree.flatten(example)
    if not leaves:
        raise ValueError(f"example must hold at least one array, got {example!r}.")
    shapes = [((capacity, *np.shape(x)), jnp.result_type(x)) for x in leaves]
    needed = sum(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize for shape, dtype in shapes)
    free = free_memory()
    if free is not None and needed > free:
        raise ValueError(
            f"a replay buffer of {capacity:,} rows needs {needed / 2**30:,.1f} GiB and "
            f"{free / 2**30:,.1f} GiB are free. Lower replay_size to "
            f"{capacity * free // (2 * needed):,} or less."
        )
    data = jax.tree.unflatten(structure, [jnp.zeros(*s) for s in shapes])
    return Replay(data, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))


def add(buffer: Replay, block: Any, count: Any = None) -> Replay:
    """Add the first `count` rows of a block. They replace the oldest rows of a full buffer.

    Args:
        buffer: Replay buffer.
        block: Rows `[n, ...]` with the structure and dtypes of the example.
        count: Number of valid rows, a Python integer or a traced one, or None for all n. Blocks of
            the same size share one compilation, whatever their counts.
    """
    given, capacity = _check_block(buffer, block), _capacity(buffer)
    if count is None:
        count = given
    count = _check_count(count, given)
    row = jnp.arange(given)
    # If there are more rows than the capacity, write only the newest, so that no row is written
    # twice. Give every other row an index beyond the end, where it is dropped.
    written = (row < count) & (row >= count - capacity)
    where = jnp.where(written, (buffer.position + row) % capacity, capacity + row)

    def put(rows: jax.Array, new: Any) -> jax.Array:
        return rows.at[where].set(jnp.asarray(new), mode="drop", unique_indices=True)

    return dataclasses.replace(
        buffer,
        data=jax.tree.map(put, buffer.data, block),
        position=(buffer.position + count) % capacity,
        stored=jnp.minimum(buffer.stored + count, capacity),
    )


def sample(buffer: Replay, key: jax.Array, batch_size: int) -> Any:
    """Sample rows uniformly with replacement.

    Args:
        buffer: Replay buffer. Outside jit it must hold at least `batch_size` rows. Inside jit the
            number of rows is unknown, and the caller must ensure that there is at least one.
        key: PRNG key, which is split into a key for the indices and `batch.key`.
        batch_size: Number of rows B, a static integer.

    Returns:
        A `Batch` if the rows are `Transition`s, and otherwise the structure of the example. A
        `SequenceBatch` gets a key too.
    """
    return take(buffer, *draw_indices(buffer, key, batch_size))


def take(buffer: Replay, index: jax.Array, key: jax.Array) -> Any:
    """Return the rows at the indices `[B]`, in the structure that `sample` returns."""
    rows = jax.tree.map(lambda x: x[index], buffer.data)
    if isinstance(rows, ExtendedTransition):
        return ExtendedBatch(*rows, key=key)
    if isinstance(rows, SequenceBatch):
        return rows._replace(key=key)
    return Batch(*rows, key=key) if isinstance(rows, Transition) else rows


def draw_indices(buffer: Replay, key: jax.Array, batch_size: int) -> tuple[jax.Array, jax.Array]:
    """Draw the indices `[B]` of the rows of a batch, and its key; the arguments are of `sample`."""
    checks.key("key", key)
    checks.integer("batch_size", batch_size, 1)
    if batch_size > _capacity(buffer):
        raise ValueError(
            f"batch_size must not exceed the capacity {_capacity(buffer)}, got {batch_size}."
        )
    if not isinstance(buffer.stored, jax.core.Tracer) and batch_size > int(buffer.stored):
        raise ValueError(
            f"batch_size is {batch_size} but the buffer holds {int(buffer.stored)} rows. Add more "
            f"rows first, or sample fewer."
        )
    key_index, key_batch = jax.random.split(key)
    index = jax.random.randint(key_index, (batch_size,), 0, buffer.stored)
    return index, key_batch


def size(buffer: Replay) -> jax.Array:
    """Return the number of rows stored."""
    return buffer.stored


def _capacity(buffer: Replay) -> int:
    return int(jax.tree.leaves(buffer.data)[0].shape[0])


def _check_count(count: Any, given: int) -> Any:
    """Refuse a count that is not an integer in 0 .. given; clip a traced count."""
    if isinstance(count, jax.core.Tracer):
        if not jnp.issubdtype(count.dtype, jnp.integer):
            raise ValueError(f"count must be an integer, got {count.dtype}.")
        return count.astype(jnp.int32).clip(0, given)
    try:
        number = operator.index(count)
    except TypeError:
        raise ValueError(f"count must be an integer, got {count!r}.") from None
    if not 0 <= number <= given:
        raise ValueError(f"count must be in 0 .. {given}, the rows of the block, got {number}.")
    return number


def _check_block(buffer: Replay, block: Any) -> int:
    """Return the number of rows. Refuse a structure, shape or dtype unlike the example's."""
    want: Any = jax.tree.structure(buffer.data)
    got: Any = jax.tree.structure(block)
    if want != got:
        raise ValueError(f"block must have the structure of the example, {want}, got {got}.")
    rows = jax.tree.leaves(block)
    number = np.shape(rows[0])[0] if np.ndim(rows[0]) else -1
    for (path, stored), new in zip(jax.tree.leaves_with_path(buffer.data), rows, strict=True):
        dtype = jnp.result_type(new)
        if np.shape(new) != (number, *stored.shape[1:]) or dtype != stored.dtype:
            raise ValueError(
                f"block{jax.tree_util.keystr(path)} must be {stored.dtype} of shape "
                f"(n, *{stored.shape[1:]}), got {dtype} of shape {np.shape(new)}."
            )
    return number


def free_memory() -> int | None:
    """Return the free memory in bytes: of the device, or the smaller of container and host."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"]) - int(stats.get("bytes_in_use", 0))
    found = []
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                found.append(int(line.split()[1]) * 1024)
    group = Path("/sys/fs/cgroup")
    limit = group / "memory.max"
    if limit.exists() and (text := limit.read_text().strip()) != "max":
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        used = int((group / "memory.current").read_text()) - int(stat["inactive_file"])
        found.append(int(text) - used)  # the kernel frees cached files on demand
    return min(found, default=None)
