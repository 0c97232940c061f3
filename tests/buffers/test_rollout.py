"""Rollout buffer: rows keep their order and values, and errors are clear."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.buffers import rollout
from purerl.types import Rollout, Transition


def filled(length=4, number=2):
    block = rollout.init({"x": np.zeros(3, np.uint8)}, length, number)
    for t in range(length):
        block = rollout.add(block, {"x": np.full((number, 3), t, np.uint8)})
    return block


def test_steps_come_back_in_order_with_their_dtypes():
    data = rollout.get(filled())
    assert data["x"].dtype == np.uint8
    np.testing.assert_array_equal(data["x"][:, 0, 0], range(4))
    assert data["x"].shape == (4, 2, 3)


def test_adding_does_not_change_the_old_block():
    block = rollout.init(np.float32(0), 2, 1)
    one = rollout.add(block, np.float32([5]))
    two = rollout.add(one, np.float32([6]))
    assert (int(block.stored), int(one.stored), int(two.stored)) == (0, 1, 2)
    assert one.data.tolist() == [[5.0], [0.0]]
    assert two.data.tolist() == [[5.0], [6.0]]


def test_transitions_come_back_as_a_rollout(env):
    block = rollout.init(env.example(), 1, 3)
    rows = Transition(*(np.stack([x] * 3) for x in env.example()))
    assert isinstance(rollout.get(rollout.add(block, rows)), Rollout)


def test_a_block_works_inside_scan():
    def step(block, x):
        return rollout.add(block, x), None

    block = rollout.init(np.float32(0), 5, 2)
    rows = jnp.arange(10.0).reshape(5, 2)
    block, _ = jax.lax.scan(step, block, rows)
    np.testing.assert_array_equal(jax.jit(rollout.get)(block), rows)
    more, _ = jax.lax.scan(step, block, -rows[:1])  # full: dropped
    np.testing.assert_array_equal(more.data, rows)
    assert int(more.stored) == 5


def test_errors_name_the_wrong_argument():
    block = filled()
    with pytest.raises(ValueError, match="^the block is full: it holds all 4 steps"):
        rollout.add(block, {"x": np.zeros((2, 3), np.uint8)})
    with pytest.raises(ValueError, match="^the block holds 0 of 4 steps"):
        rollout.get(rollout.init(np.zeros(1), 4, 1))
    fresh = rollout.init({"x": np.zeros(3, np.uint8)}, 4, 2)
    with pytest.raises(ValueError, match=r"^rows\['x'\] must be uint8 of shape \(2, 3\), got f"):
        rollout.add(fresh, {"x": np.zeros((2, 3), np.float32)})
    with pytest.raises(ValueError, match=r"got uint8 of shape \(3,\)"):
        rollout.add(fresh, {"x": np.zeros(3, np.uint8)})
    with pytest.raises(ValueError, match="^rows must have the structure of the example"):
        rollout.add(fresh, np.zeros((2, 3), np.uint8))
    for length, number, name in ((0, 1, "length"), (1, 0, "num_envs"), (1.5, 1, "length")):
        with pytest.raises(ValueError, match=f"^{name} must be an integer of at least 1"):
            rollout.init(np.zeros(1), length, number)
    with pytest.raises(ValueError, match="^example must hold at least one array"):
        rollout.init({}, 1, 1)
