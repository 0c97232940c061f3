"""Exchange values between ranks on the host, outside of compiled programs."""

import zlib
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np

from purerl import mpi
from purerl.errors import ConfigError, RanksDisagree, StorageError
from purerl.mpi import collective, world
from purerl.mpi.collective import pmin, psum

Tree = TypeVar("Tree")


def allgather(x: Any) -> list[Any]:
    """Return the objects of all ranks, in the order of ranks.

    Args:
        x: Object of this rank, which pickle must be able to serialise.
    """
    if world.get_world().size == 1:
        return [x]
    return world.get_world().outside(lambda comm: comm.allgather(x))


def broadcast(tree: Tree, root: int = 0) -> Tree:
    """Return the tree of rank `root` on all ranks; all trees must have the same structure."""
    if world.get_world().size == 1:
        return tree
    leaves, structure = jax.tree.flatten(tree)
    sent = [collective.to_host(leaf) for leaf in leaves] if world.get_world().rank == root else None
    received = world.get_world().outside(lambda comm: comm.bcast(sent, root))
    pairs = zip(leaves, received, strict=True)
    return jax.tree.unflatten(structure, [collective.convert_like(leaf, x) for leaf, x in pairs])


def sync(state: Tree) -> Tree:
    """Return rank 0's state on all ranks, after checking that all states have equal shapes.

    Use it at the start of a custom loop, and after loading. Do not pass buffers, environments and
    keys, because they must differ between ranks.
    """
    if world.get_world().size > 1:
        _assert_equal("the shapes of state", _digest_leaves(state, values=False))
    return broadcast(state)


def assert_in_sync(tree: Any, what: str = "state") -> None:
    """Raise `RanksDisagree` on all ranks unless a tree is bit for bit identical on all of them.

    Args:
        tree: Arrays or strings to compare.
        what: Name of the tree in the message.
    """
    if world.get_world().size > 1:
        _assert_equal(what, _digest_leaves(tree))


def statistics(x: Any, min_max: bool = False) -> tuple[float, ...]:
    """Return the mean and population standard deviation of the numbers of all ranks.

    With `min_max` the minimum and the maximum follow. A rank may have no numbers.

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


def _digest_leaves(tree: Any, values: bool = True) -> dict[str, str]:
    """Return a text for each leaf: dtype, shape and checksum of an array, or the string itself."""
    digests = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        x = collective.to_host(leaf)
        digest = f"{x.dtype}{list(x.shape)}" + values * f" {zlib.crc32(x.tobytes()):08x}"
        digests[jax.tree_util.keystr(path)] = leaf if isinstance(leaf, str) else digest
    return digests


def _assert_equal(what: str, digests: dict[str, str]) -> None:
    """Raise `RanksDisagree` with the first three entries that differ between ranks, if any do."""
    everyone = allgather(digests)
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


def run_on_all(step: Callable[[], Any]) -> list[Any]:
    """Call a function on all ranks, return all results, and raise an error of one on all."""
    done, failed = None, None
    try:
        done = step()
    except (ConfigError, StorageError) as error:
        failed = error
    everyone = mpi.allgather((done, failed))
    for _, failure in everyone:
        if failure is not None:
            raise failure
    return [one for one, _ in everyone]


def run_on_root(step: Callable[[], Any], shared: bool = True) -> Any:
    """Call a function on rank 0, and return its result on all ranks.

    Args:
        step: Function to call. Its error is raised on all ranks.
        shared: Whether the other ranks get the result. Otherwise they get None.
    """
    made: list[Any] = [None]

    def call() -> Any:
        if mpi.is_root():
            made[0] = step()
        return made[0] if shared else None

    shown = run_on_all(call)[0]
    return shown if shared else made[0]
