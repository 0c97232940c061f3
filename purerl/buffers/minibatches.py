"""Shuffled minibatches: the rows of a batch in random order, split into equal sizes."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from purerl import checks

Carry = TypeVar("Carry")


def check(size: int | None, rows: int, key: Any) -> None:
    """Refuse a minibatch size that does not divide the rows, and a missing key.

    Args:
        size: Number of rows in a minibatch, or None for all rows at once.
        rows: Number of rows in the batch.
        key: PRNG key used for shuffling, from `batch.key`.
    """
    if size is None:
        return
    if rows % size:
        raise ValueError(
            f"minibatch_size must divide the {rows} rows of a rollout, got {size}. Change "
            f"minibatch_size or rollout_steps."
        )
    if key is None:
        raise ValueError(
            "batch.key is None but the minibatches need a key for shuffling. Set one: "
            "prepare(params, rollout)._replace(key=jax.random.key(0))."
        )
    checks.key("batch.key", key)


def scan(
    step: Callable[[Carry, Any], tuple[Carry, None]],
    carry: Carry,
    rows: Any,
    size: int | None,
    key: Any,
    number: Any = 0,
) -> Carry:
    """Do one step on each shuffled minibatch, or one step on all rows.

    Args:
        step: Function of carry and rows that returns the new carry and None.
        carry: Initial carry.
        rows: Pytree of arrays `[B, ...]`.
        size: Number of rows in a minibatch, which divides B, or None for all rows, unshuffled.
        key: PRNG key for all passes over the rows, unused without a size.
        number: Number of this pass, which is folded into the key.

    Example:
        >>> add = lambda carry, rows: (carry + rows.sum(), None)
        >>> int(scan(add, jnp.int32(0), jnp.arange(6), 2, jax.random.key(0)))
        15
    """
    if size is None:
        return step(carry, rows)[0]
    length = jax.tree.leaves(rows)[0].shape[0]
    order = jax.random.permutation(jax.random.fold_in(key, number), length).reshape(-1, size)
    return jax.lax.scan(step, carry, jax.tree.map(lambda x: jnp.asarray(x)[order], rows))[0]
