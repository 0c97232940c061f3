"""Minibatches use every row once in each pass, in an order that depends on key and pass."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.buffers import minibatches

ROWS = {"x": np.arange(12.0, dtype=np.float32), "y": -np.arange(12.0, dtype=np.float32)}


def scan(size, seed=0, number=0):
    """Return the minibatches `[number of steps, size]` of one pass."""

    def step(carry, rows):
        count, seen = carry
        return (count + 1, seen.at[count].set(jnp.stack([rows["x"], rows["y"]]))), None

    first = jnp.int32(0), jnp.full((12 // (size or 12), 2, size or 12), jnp.nan)
    count, seen = minibatches.scan(step, first, ROWS, size, jax.random.key(seed), number)
    assert int(count) == len(seen)
    np.testing.assert_array_equal(seen[:, 0], -seen[:, 1])  # rows stay together
    return np.asarray(seen[:, 0])


def test_every_row_is_used_once_in_a_new_order_each_pass():
    passes = [scan(4, number=i) for i in range(6)]
    assert all(sorted(p.ravel()) == list(range(12)) for p in passes)
    assert len({p.tobytes() for p in passes}) == 6
    assert all(p.ravel().tolist() != list(range(12)) for p in passes)


def test_the_order_depends_only_on_key_and_pass():
    np.testing.assert_array_equal(scan(3, seed=1, number=2), scan(3, seed=1, number=2))
    assert scan(3, seed=1).tobytes() != scan(3, seed=2).tobytes()


def test_without_a_size_one_step_uses_all_rows_unshuffled():
    np.testing.assert_array_equal(scan(None), ROWS["x"][None])


def test_sizes_that_do_not_divide_the_rows_and_missing_keys_are_refused():
    minibatches.check(None, 3, None)
    minibatches.check(4, 12, jax.random.key(0))
    with pytest.raises(ValueError, match="^minibatch_size must divide the 12 rows .*, got 5"):
        minibatches.check(5, 12, jax.random.key(0))
    with pytest.raises(ValueError, match=r"^batch\.key is None but the minibatches need a key"):
        minibatches.check(4, 12, None)
    with pytest.raises(ValueError, match=r"^batch\.key must be one typed key"):
        minibatches.check(4, 12, jnp.zeros(2, jnp.uint32))
