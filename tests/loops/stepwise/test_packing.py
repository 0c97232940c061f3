"""Packed trees are the same trees, in fewer arrays."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.loops.stepwise import packing

SHAPES = {"a": (3,), "b": (), "c": (2, 2), "d": (packing.SMALL + 1,), "e": (1, packing.SMALL)}
DTYPES = {"a": "float32", "b": "int32", "c": "float32", "d": "float32", "e": "uint8"}


def make_tree():
    """Return a tree whose elements all differ, as far as their dtypes allow."""
    return {
        name: (10 * i + jnp.arange(np.prod(shape, dtype=int)).reshape(shape)).astype(DTYPES[name])
        for i, (name, shape) in enumerate(SHAPES.items())
    } | {"f": (None, jnp.bool_(True))}


def pack(tree, **fields):
    layout = packing.find_layout(tree)
    return packing.Packed(layout, packing.pack(layout, tree), added=0, **fields)


def test_a_packed_tree_has_one_array_for_each_dtype_and_the_large_ones():
    tree = make_tree()
    packed = pack(tree)
    found = [(str(x.dtype), x.shape) for x in packed.arrays]
    groups = [("float32", (7,)), ("int32", (1,)), ("uint8", (packing.SMALL,)), ("bool", (1,))]
    assert found == [*groups, ("float32", (packing.SMALL + 1,))]
    np.testing.assert_array_equal(packed.arrays[0], [0, 1, 2, 20, 21, 22, 23])
    assert packed.arrays[-1] is tree["d"]  # not copied


def test_unpacking_returns_the_tree():
    tree = make_tree()
    unpacked = pack(tree).tree
    assert jax.tree.structure(unpacked) == jax.tree.structure(tree)
    for a, b in zip(jax.tree.leaves(unpacked), jax.tree.leaves(tree), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_array_equal(a, b)
    assert unpacked["d"] is tree["d"]


def test_keys_are_packed_too():
    tree = {"key": jax.random.key(3), "x": jnp.ones(2)}
    assert pack(tree).tree["key"] == tree["key"]


def test_trees_of_the_same_arrays_have_the_same_layout():
    assert packing.find_layout(make_tree()) is packing.find_layout(make_tree())
    assert packing.find_layout({"a": jnp.ones(2)}) is not packing.find_layout({"a": jnp.ones(3)})
    assert packing.find_layout({"a": jnp.ones(2)}) is not packing.find_layout({"b": jnp.ones(2)})


def test_a_tree_whose_arrays_were_donated_has_deleted_leaves():
    packed, read = pack(make_tree()), pack(make_tree())
    large = read.tree["d"]
    for one in (packed, read):
        jax.jit(lambda x: x, donate_argnums=0)(one.arrays)
        assert one.is_deleted()
    assert all(x.is_deleted() for x in jax.tree.leaves(packed.tree))
    assert jax.tree.structure(packed.tree) == jax.tree.structure(make_tree())
    assert large.is_deleted()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Holder:
    """Two fields that may be packed."""

    a: Any = packing.PackedField()
    b: Any = packing.PackedField()


def test_a_field_is_unpacked_when_it_is_read():
    packed = pack({"a": jnp.arange(3), "b": jnp.ones(2)})
    holder = Holder(a=packed, b="plain")
    np.testing.assert_array_equal(holder.a, [0, 1, 2])
    assert holder.b == "plain"
    changed = dataclasses.replace(holder, b=2)
    assert (changed.b, changed.a is holder.a) == (2, True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        holder.a = 1
    with pytest.raises(TypeError, match="'b'"):
        Holder(a=1)
