"""Nothing is compiled after a warm-up; benchmarks/memory.py measures millions of steps."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from benchmarks.memory import Compilations, Null, make_schedules
from purerl.loops import gym as loop
from purerl.runs.record import checkpoint
from purerl.spaces import EnvSpec

count = functools.cache(Compilations)


@pytest.mark.parametrize(
    "kind", ["on-policy", pytest.param("off-policy", marks=pytest.mark.complete)]
)
def test_nothing_is_compiled_after_the_first_epochs(tmp_path, kind):
    algo, schedule = make_schedules(20_000)[kind]
    sizes = {"steps_per_epoch": 1_000, "num_test_episodes": 1}
    if kind == "off-policy":
        sizes |= {"update_every": 100, "update_after": 100, "start_steps": 300}
    schedule = dataclasses.replace(schedule, **sizes)
    carry = loop.start(algo, algo.Spec(EnvSpec.of(Null()), hidden=(7,)), Null, schedule, 0)
    segments, seen = (), []
    while carry.steps < schedule.steps:
        carry, record = loop.advance(carry)
        if record:
            loop.evaluate_epoch(carry, Null)
            segments = checkpoint.save(tmp_path, carry, {}, segments)
            seen.append(count().number)
    carry.envs.close()
    assert len(seen) == 20
    assert seen[-1] == seen[2]


def test_a_compilation_is_counted():
    before = count().number
    jax.jit(lambda x: x * 3 + np.float32(before))(1.0)
    assert count().number == before + 1
