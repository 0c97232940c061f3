"""Pack the small arrays of a tree into few: each array of a compiled call costs a microsecond."""

import dataclasses
import functools
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

SMALL = 2**14  # most numbers of a packed array; copying a larger one takes longer than passing it


@dataclasses.dataclass(frozen=True, eq=False)  # compared by identity, because that is fast
class Layout:
    """The places of a tree's leaves in its packed arrays."""

    structure: Any
    shapes: tuple[tuple[int, ...], ...]  # of each leaf
    groups: tuple[tuple[int, ...], ...]  # small leaves of one dtype, by their indices
    large: tuple[int, ...]  # the other leaves


def find_layout(tree: Any) -> Layout:
    """Return the layout of a tree; trees of the same arrays have the same object."""
    leaves, structure = jax.tree.flatten(tree)
    return _make_layout(structure, tuple((x.dtype, x.shape) for x in leaves))


@functools.lru_cache(maxsize=64)
def _make_layout(structure: Any, leaves: tuple[Any, ...]) -> Layout:
    groups: dict[Any, list[int]] = {}
    large = []
    for i, (dtype, shape) in enumerate(leaves):
        if math.prod(shape) <= SMALL:
            groups.setdefault(dtype, []).append(i)
        else:
            large.append(i)
    shapes = tuple(shape for _, shape in leaves)
    return Layout(structure, shapes, tuple(map(tuple, groups.values())), tuple(large))


class Packed:
    """A tree in few arrays: one for the small leaves of each dtype, and the large leaves.

    Args:
        layout: Where the leaves of the tree are.
        arrays: The packed arrays, from `pack`.
        added: Number of rows added to the replay buffer in the tree.
        act: Actions that the last update computed for the next step, or None.
    """

    def __init__(
        self, layout: Layout, arrays: tuple[Any, ...], added: int, act: np.ndarray | None = None
    ) -> None:
        self.layout, self.arrays, self.added, self.act = layout, arrays, added, act

    @functools.cached_property
    def tree(self) -> Any:
        """The tree. Its large leaves are the packed arrays, and are donated with them."""
        if self.is_deleted():
            deleted = self.arrays[:1] * len(self.layout.shapes)
            return jax.tree.unflatten(self.layout.structure, deleted)
        return unpack(self.layout, self.arrays)

    def is_deleted(self) -> bool:
        """Return whether the arrays, or those of a tree that was read, were donated or deleted."""
        read = jax.tree.leaves(self.__dict__.get("tree"))
        return any(x.is_deleted() for x in (*self.arrays, *read))

    def delete_tree(self) -> None:
        """Delete the leaves of a tree that was read, as donating them would do."""
        for x in jax.tree.leaves(self.__dict__.get("tree")):
            x.delete()


class PackedField:
    """Field of a dataclass that holds a value, or a `Packed` dict that is unpacked when read."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            raise AttributeError(self.name)  # the field has no default
        value = instance.__dict__[self.name]
        return value.tree[self.name] if isinstance(value, Packed) else value

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.name] = value


def pack(layout: Layout, tree: Any) -> tuple[jax.Array, ...]:
    """Return the packed arrays of a tree; its large leaves are not copied."""
    leaves = jax.tree.leaves(tree)
    groups = _join(tuple(tuple(leaves[i] for i in group) for group in layout.groups))
    return (*groups, *(leaves[i] for i in layout.large))


def unpack(layout: Layout, arrays: tuple[Any, ...]) -> Any:
    """Return the tree of packed arrays; its large leaves are not copied."""
    number = len(layout.groups)
    small = zip(itertools.chain(*layout.groups), _split(layout, arrays[:number]), strict=True)
    leaves = dict(small) | dict(zip(layout.large, arrays[number:], strict=True))
    return jax.tree.unflatten(layout.structure, [leaves[i] for i in range(len(leaves))])


@jax.jit
def _join(groups: Any) -> tuple[jax.Array, ...]:
    return tuple(jnp.concatenate([jnp.ravel(x) for x in group]) for group in groups)


@functools.partial(jax.jit, static_argnums=0)
def _split(layout: Layout, groups: tuple[jax.Array, ...]) -> list[jax.Array]:
    leaves = []
    for joined, group in zip(groups, layout.groups, strict=True):
        first = 0
        for shape in (layout.shapes[i] for i in group):
            size = math.prod(shape)
            leaves.append(joined[first : first + size].reshape(shape))
            first += size
    return leaves
