"""Programs on two devices: the same run as on one, except for rounding."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import errors
from purerl.algos import dqn, ppo
from purerl.envs.bit_flipping import BitFlipping
from purerl.loops import scan, snapshot
from purerl.types import list_arrays
from tests.loops.scan.drift import CASES, Drift, make_case, mark_complete, off, on
from tests.loops.scan.test_loop import finish, split_numbers


def compare(args, **changes):
    """Train on one and on two devices, and compare everything; return both last carries."""
    *args, schedule = args
    one, records = finish(scan.start(*args, schedule, seed=5))
    split = dataclasses.replace(schedule, devices=2, **changes)
    two, others = finish(scan.start(*args, split, seed=5))
    assert one.updates == two.updates > 3
    close = {"rtol": 2e-3, "atol": 5e-4}
    chex.assert_trees_all_close(one.learner, two.learner, **close)
    chex.assert_trees_all_close(one.episodes, two.episodes, **close)
    if one.buffer is not None:
        chex.assert_trees_all_close(one.buffer, two.buffer, **close)
    assert len(records) == len(others)
    for mine, other in zip(records, others, strict=True):
        (counts, numbers), (other_counts, other_numbers) = map(split_numbers, (mine, other))
        assert counts == other_counts
        chex.assert_trees_all_close(numbers, other_numbers, rtol=5e-3, atol=5e-4)
    return one, two


FOUR = {"num_envs": 4}  # environments
OFF = FOUR | {"steps_per_epoch": 28, "start_steps": 16}  # epochs end inside of bursts
OWN = {"reinforce": FOUR | {"rollout_steps": 32}} | dict.fromkeys(("ddpg", "dqn", "sac", "td3"), OFF)


@pytest.mark.parametrize("name", mark_complete(CASES, ("td3", "ddpg", "vpg", "sac", "trpo")))
def test_two_devices_train_like_one(name):
    _, two = compare(make_case(name, **OWN.get(name, FOUR)))
    for leaf in jax.tree.leaves((two.learner, two.episodes)):
        assert len(leaf.devices()) == 2
