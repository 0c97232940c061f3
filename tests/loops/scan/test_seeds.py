"""Programs for several seeds: groups that fit into the cache give what one group gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.loops.scan import seeds
from purerl.loops.scan.stepping import Clock
from purerl.loops.seeds.together import Data


def run_toy(*args):
    """Return numbers that depend on everything a program gets."""
    algo, world, plan, most, data, scale, clock, times = args
    learner = data.learner * scale + algo + world + plan + most
    sums = clock.seed + 10 * clock.rank + 100 * clock.calls[0] + clock.updates[1] + times
    return data._replace(learner=learner), sums


@pytest.mark.parametrize("buffer", [None, "kept whole"])
@pytest.mark.parametrize("number", [1, 8, 10, 12, 13, 64])
def test_each_seed_has_its_own_data_and_counters(number, buffer):
    learner = jnp.arange(3.0 * number).reshape(number, 3)
    stored = None if buffer is None else jnp.arange(5 * number).reshape(number, 5)
    data = Data(learner, stored, jnp.zeros(number), None)
    words = jnp.stack([jnp.zeros(number, jnp.uint32), 1000 * jnp.arange(number).astype("uint32")])
    seed, calls = jnp.arange(number, dtype=jnp.uint32) * 7, jnp.array([2, 0], jnp.uint32)
    clock = Clock(seed, jnp.uint32(1), calls, words.T)
    program = jax.jit(seeds.map_program(run_toy), static_argnums=(0, 1, 2, 3))
    after, sums = program(1, 2, 3, 4, data, 0.5, clock, jnp.uint32(5))
    np.testing.assert_array_equal(after.learner, np.asarray(learner) / 2 + 10)
    np.testing.assert_array_equal(sums, 1007 * np.arange(number) + 215)
    assert buffer is None or (after.buffer == stored).all()


def test_groups_divide_the_seeds_and_have_about_eight():
    chosen = {n: seeds.choose_group(n) for n in (1, 5, 8, 9, 10, 12, 13, 14, 20, 22, 64)}
    whole = {1: 1, 5: 5, 8: 8, 9: 9, 13: 13, 22: 22}  # small, or without such a divisor
    assert chosen == whole | {10: 5, 12: 6, 14: 7, 20: 5, 64: 8}
