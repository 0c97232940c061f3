"""Averages over processes and devices: one interface, the identity where there is one of each.

Today this knows one process, and the axis `"device"` that `jax.shard_map` or `jax.vmap` binds.
A process that MPI launched together with others is refused, since it could only run a copy of
what the others run.
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.flatten_util import ravel_pytree

AXIS = "device"
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")  # what launchers tell a process
Tree = TypeVar("Tree")


def num_procs() -> int:
    """Return the number of ranks: 1."""
    for name in _SIZES:
        if os.environ.get(name, "1") not in ("", "1"):
            raise RuntimeError(
                f"this process is one of {os.environ[name]} that MPI launched ({name}), and this "
                f"version of purerl runs on one rank only. Start it without mpiexec."
            )
    return 1


def proc_id() -> int:
    """Return the rank of this process: 0."""
    return num_procs() - 1


def is_root() -> bool:
    """Say whether this rank prints and writes."""
    return proc_id() == 0


def pmean(tree: Tree) -> Tree:
    """Average over the axis `"device"` where it is bound; otherwise return the argument itself.

    Example:
        >>> jax.vmap(pmean, axis_name="device")(jnp.array([1.0, 3.0])).tolist()
        [2.0, 2.0]
    """
    return _reduce(lax.pmean, tree)


def psum(tree: Tree) -> Tree:
    """Add up over the axis `"device"` where it is bound."""
    return _reduce(lax.psum, tree)


def pmin(tree: Tree) -> Tree:
    """Take the smallest over the axis `"device"` where it is bound."""
    return _reduce(lax.pmin, tree)


def pmax(tree: Tree) -> Tree:
    """Take the largest over the axis `"device"` where it is bound."""
    return _reduce(lax.pmax, tree)


def broadcast(tree: Tree) -> Tree:
    """Return rank 0's tree: on one process the argument itself."""
    num_procs()
    return tree


def statistics(x: Any, min_max: bool = False) -> tuple[float, ...]:
    """Return mean and population standard deviation (then min and max) of numbers on all ranks.

    Example:
        >>> statistics([1.0, 2.0, 3.0, 4.0], min_max=True)
        (2.5, 1.118033988749895, 1.0, 4.0)
    """
    num_procs()
    x = np.asarray(x, np.float64)
    if x.size == 0:
        raise ValueError("statistics needs at least one number over all ranks, got none.")
    mean_std = (float(x.mean()), float(x.std()))
    return (*mean_std, float(x.min()), float(x.max())) if min_max else mean_std


def pmean_grads() -> optax.GradientTransformation:
    """Average gradients as the first link of an Optax chain.

    Example:
        >>> tx = optax.chain(pmean_grads(), optax.adam(1e-3))
    """
    return optax.GradientTransformation(
        lambda params: optax.EmptyState(),
        lambda grads, state, params=None: (pmean(grads), state),
    )


def _reduce(collective: Callable[..., Any], tree: Tree) -> Tree:
    """Apply one collective to all leaves at once: one message instead of one per leaf."""
    try:
        lax.axis_index(AXIS)
    except NameError:  # the axis is not bound
        num_procs()
        return tree
    leaves, structure = jax.tree.flatten(tree)
    by_dtype: dict[Any, list[int]] = {}
    for i, leaf in enumerate(leaves):
        by_dtype.setdefault(jnp.result_type(leaf), []).append(i)
    for indices in by_dtype.values():
        flat, unravel = ravel_pytree([leaves[i] for i in indices])
        for i, leaf in zip(indices, unravel(collective(flat, AXIS)), strict=True):
            leaves[i] = leaf
    return jax.tree.unflatten(structure, leaves)
