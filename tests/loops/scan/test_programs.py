"""Compiled programs: where rows go in the replay buffer, and rows without learning."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.buffers import replay
from purerl.loops import scan
from purerl.loops.scan import programs
from purerl.types import Transition, list_arrays
from tests.loops.scan.drift import make_case, mark_complete


def make_rows(first, number):
    x = np.arange(first, first + number)
    rows = Transition(x[:, None], x, x, x[:, None] + 1, x % 2, x % 3)
    kinds = Transition(np.float32, np.int32, np.float32, np.float32, bool, bool)
    return jax.tree.map(lambda a, kind: jnp.asarray(a, kind), rows, kinds)


@pytest.mark.parametrize("capacity", [12, 13, 3])
def test_rows_are_added_as_by_the_replay_buffer(capacity):
    """A capacity that is no multiple of the environments, and one that is equal to them."""
    example = jax.tree.map(lambda x: x[0], make_rows(0, 1))
    fast = slow = replay.init(example, capacity)
    for call in range(9):
        rows = make_rows(3 * call, 3)
        fast = programs._add_rows(fast, rows, jnp.int32(3 * call))
        slow = replay.add(slow, rows)
        chex.assert_trees_all_equal(fast, slow)


@pytest.mark.parametrize("name", mark_complete(("dqn", "td3"), ("td3",)))
def test_rows_collected_without_learning_are_the_next_ones_of_the_run(name):
    args = make_case(name, start_steps=8)
    carry = scan.start(*args, seed=0)
    carry.envs.pace.target = 0.0
    rows = scan.collect(carry, 8)  # the first burst is due after 24 steps
    while carry.steps < 16:
        carry, _ = scan.advance(carry)
    for name, stored in list_arrays(carry.buffer.data).items():
        flat = list_arrays(rows)[name].reshape(-1, *stored.shape[1:])
        np.testing.assert_allclose(flat, stored[:16], rtol=1e-5, atol=1e-6)
