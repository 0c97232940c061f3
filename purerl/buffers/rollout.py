"""Rollout buffer: a block `[T, N]` of rows of any pytree, as an immutable state and functions.

It is meant for custom loops, in Python or inside `jax.lax.scan`. `add` writes one step of all N
environments. A loop that jits `add` should donate the block. Otherwise each step copies it.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from purerl import checks
from purerl.types import Rollout, Transition


@struct.dataclass
class Block:
    """State of a rollout buffer."""

    data: Any  # rows [T, N, ...]
    stored: jax.Array  # () int32, number of steps stored


def init(example: Any, length: int, num_envs: int) -> Block:
    """Allocate an empty block for `length` steps of `num_envs` environments.

    Args:
        example: One row as a pytree of arrays. Dtypes are kept, but 64-bit dtypes become 32-bit.
        length: Number of steps T.
        num_envs: Number of environments N.

    Example:
        >>> block = init({"x": np.zeros(3, np.uint8)}, length=4, num_envs=2)
        >>> block.data["x"].shape
        (4, 2, 3)
    """
    checks.integer("length", length, 1)
    checks.integer("num_envs", num_envs, 1)
    if not jax.tree.leaves(example):
        raise ValueError(f"example must hold at least one array, got {example!r}.")
    shape = (length, num_envs)
    data = jax.tree.map(lambda x: jnp.zeros((*shape, *np.shape(x)), jnp.result_type(x)), example)
    return Block(data, jnp.zeros((), jnp.int32))


def add(block: Block, rows: Any) -> Block:
    """Add the next step: rows `[N, ...]` with the structure and dtypes of the example.

    If the block is full, raise ValueError outside jit, and drop the step inside jit.
    """
    want: Any = jax.tree.structure(block.data)
    got: Any = jax.tree.structure(rows)
    if want != got:
        raise ValueError(f"rows must have the structure of the example, {want}, got {got}.")
    pairs = zip(jax.tree.leaves_with_path(block.data), jax.tree.leaves(rows), strict=True)
    for (path, stored), new in pairs:
        dtype = jnp.result_type(new)
        if np.shape(new) != stored.shape[1:] or dtype != stored.dtype:
            raise ValueError(
                f"rows{jax.tree_util.keystr(path)} must be {stored.dtype} of shape "
                f"{stored.shape[1:]}, got {dtype} of shape {np.shape(new)}."
            )
    length = _length(block)
    if not isinstance(block.stored, jax.core.Tracer) and int(block.stored) >= length:
        raise ValueError(f"the block is full: it holds all {length} steps. Start a new one.")
    data = jax.tree.map(
        lambda old, new: old.at[block.stored].set(new, mode="drop"), block.data, rows
    )
    return dataclasses.replace(block, data=data, stored=jnp.minimum(block.stored + 1, length))


def get(block: Block) -> Any:
    """Return all steps `[T, N, ...]`, as a `Rollout` if the rows are `Transition`s.

    Raises ValueError outside jit if the block is not full.
    """
    if not isinstance(block.stored, jax.core.Tracer) and int(block.stored) < _length(block):
        raise ValueError(
            f"the block holds {int(block.stored)} of {_length(block)} steps. Add the others first."
        )
    data = block.data
    return Rollout(*data) if isinstance(data, Transition) else data


def _length(block: Block) -> int:
    return int(jax.tree.leaves(block.data)[0].shape[0])
