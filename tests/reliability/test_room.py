"""A run that does not fit into memory is refused with figures, before memory is taken."""

import jax
import numpy as np
import pytest

from purerl.algos import ppo, td3
from purerl.buffers import replay
from purerl.loops import devices as devices_
from purerl.schedules import OffPolicySchedule, OnPolicySchedule
from purerl.spaces import Box, EnvSpec

ENV = EnvSpec((17,), Box((-1.0,) * 6, (1.0,) * 6))
ROW = 4 * (17 + 6 + 1 + 17) + 2  # bytes of a transition of HalfCheetah


def shapes(algo, **settings):
    spec = algo.Spec(ENV, **settings)
    return jax.eval_shape(lambda: algo.init(jax.random.key(0), spec))


def test_the_estimated_memory_is_that_of_the_arrays():
    schedule = OffPolicySchedule(replay_size=10_000, updates_per_burst=7).resolve(1)
    needs = devices_.estimate_memory(ENV, schedule, shapes(td3, hidden=(8,)))
    assert needs["replay_size"] == ROW * 10_000
    buffer = replay.init(ENV.example(), 10_000)
    assert needs["replay_size"] == sum(x.nbytes for x in jax.tree.leaves(buffer.data))
    assert needs["updates_per_burst"] == ROW * 7 * 100
    learner = td3.init(jax.random.key(0), td3.Spec(ENV, hidden=(8,)))
    assert needs["hidden"] == 3 * sum(np.asarray(x).nbytes for x in jax.tree.leaves(learner))
    assert devices_.estimate_memory(ENV, schedule, learner, 2)["replay_size"] == ROW * 5_000


@pytest.mark.parametrize(
    ("algo", "settings", "changes", "message"),
    [
        (td3, {}, {"replay_size": 2**30}, r"replay_size = 1,073,741,824 takes 166\.0 GiB"),
        (td3, {}, {"updates_per_burst": 2**31 - 1}, "updates_per_burst = 2,147,483,647 takes"),
        (td3, {}, {"update_every": 2**31 - 1, "updates_per_burst": 1}, "update_every = 2,147"),
        (td3, {"hidden": (10**5, 10**5)}, {}, "hidden takes"),
        (ppo, {}, {"steps": 2 * 10**9, "steps_per_epoch": 2 * 10**9}, "rollout_steps = 2,000"),
    ],
)
def test_a_run_that_does_not_fit_is_refused_with_its_largest_part(
    monkeypatch, algo, settings, changes, message
):
    monkeypatch.setattr(replay, "free_memory", lambda: 20 * 2**30)
    kind = OffPolicySchedule if algo is td3 else OnPolicySchedule
    schedule = kind(**changes).resolve(1)
    with pytest.raises(
        ValueError, match=rf"^this run needs about .* 20\.0 GiB are free\. {message}"
    ):
        devices_.check_memory(ENV, schedule, shapes(algo, **settings))


def test_copies_on_devices_and_ranks_of_this_machine_count(monkeypatch):
    monkeypatch.setattr(replay, "free_memory", lambda: 3 * ROW * 2**20)
    devices_.check_memory(ENV, OffPolicySchedule(replay_size=2**21).resolve(1), None)
    devices_.check_memory(ENV, OffPolicySchedule(replay_size=2**21).resolve(2), None, 2)
    for ranks, devices in ((1, 2), (2, 2)):
        schedule = OffPolicySchedule(replay_size=2**21, devices=devices).resolve(ranks)
        with pytest.raises(ValueError, match=r"replay_size = 2,097,152 takes 0\.6 GiB"):
            devices_.check_memory(ENV, schedule, None, ranks)


def test_a_run_that_fits_is_not_refused():
    devices_.check_memory(ENV, OffPolicySchedule(replay_size=1_000).resolve(1), shapes(td3))
    devices_.check_memory(ENV, OnPolicySchedule().resolve(1), shapes(ppo))
