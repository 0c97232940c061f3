"""Loops with every batch split over two devices: the same run except for rounding."""

import functools

import gymnasium
import jax
import numpy as np
import pytest

from purerl import algos
from purerl.algos import td3
from purerl.errors import ConfigError
from purerl.loops import acting, devices, offpolicy
from purerl.loops import gym as loop
from purerl.schedules import OffPolicySchedule, OnPolicySchedule, SequenceSchedule
from purerl.spaces import EnvSpec
from tests.loops.scan.drift import mark_complete

OFF = functools.partial(
    OffPolicySchedule,
    steps=450,
    steps_per_epoch=150,
    start_steps=100,
    update_after=100,
    update_every=50,
    updates_per_burst=4,
    batch_size=20,
    replay_size=400,
    num_test_episodes=1,
)
ON = functools.partial(OnPolicySchedule, steps=400, steps_per_epoch=200, num_test_episodes=1)
SEQUENCES = functools.partial(
    SequenceSchedule,
    steps=240,
    rollout_steps=40,
    steps_per_epoch=120,
    replay_start=80,
    num_envs=4,
    num_test_episodes=1,
)
POLE = ("acer", "dqn", "ppo", "pqn")  # algorithms that run on CartPole-v1


def records(name, schedule):
    algo, env_id = algos.load(name), "CartPole-v1" if name in POLE else "Pendulum-v1"
    env_fn = functools.partial(gymnasium.make, env_id)
    passes = {"train_pi_iters": 10, "train_v_iters": 10} if name == "ppo" else {}
    passes = {"minibatch_size": None} if name == "pqn" else passes
    spec = algo.Spec(EnvSpec.of(env_fn()), hidden=(16, 16), **passes)
    run, records = loop.run(algo, spec, env_fn, schedule, 0), []
    while True:
        try:
            records.append(next(run))
        except StopIteration as stop:
            return records, stop.value


@pytest.mark.parametrize(
    "name",
    mark_complete(
        ("dqn", "ppo", "pqn", "acer", "td3", "sac", "redq"),
        ("ppo", "pqn", "acer", "td3", "sac", "redq"),
    ),
)
def test_two_devices_train_like_one(name):
    schedule = {"ppo": ON, "pqn": ON, "acer": SEQUENCES}.get(name, OFF)
    acting._act.clear_cache()  # remove programs of earlier tests
    one, _ = records(name, schedule())
    programs = acting._act._cache_size()
    two, carry = records(name, schedule(devices=2))
    assert acting._act._cache_size() == 2 * programs  # compiled once, not after every burst
    for a, b in zip(one, two, strict=True):
        assert a.keys() == b.keys()
        for key in a:
            np.testing.assert_allclose(a[key], b[key], rtol=2e-3, atol=1e-4, err_msg=key)
    for leaf in jax.tree.leaves((carry.learner, carry.buffer)):
        assert len(leaf.devices()) == 2


def test_bursts_over_devices_compile_once_with_and_once_without_updates():
    before = offpolicy._compiled_burst()._cache_size()
    records("ddpg", OFF(devices=2))
    assert offpolicy._compiled_burst()._cache_size() - before == 2  # with and without updates


def test_devices_that_cannot_share_whole_sequences_are_refused():
    with pytest.raises(ValueError, match="^num_envs must be a multiple of devices.*got 4 .* 3 dev"):
        SEQUENCES(devices=3)


def test_more_devices_than_jax_has_are_refused():
    with pytest.raises(
        ValueError, match=r"devices is 4 but JAX sees 2.*purerl\.setup\(devices=4\)"
    ):
        records("td3", OFF(devices=4))
    with pytest.raises(ValueError, match="^devices must be an integer of at least 1, got 0"):
        ON(devices=0)


def test_options_that_need_the_whole_rollout_are_refused_at_the_start():
    algo = algos.load("ppo")
    env_fn = functools.partial(gymnasium.make, "CartPole-v1")
    spec = algo.Spec(EnvSpec.of(env_fn()), recompute_advantages=True)
    with pytest.raises(ValueError, match=r"recompute_advantages .* need .* batch\.rollout"):
        loop.start(algo, spec, env_fn, ON(devices=2), 0)


def test_a_minibatch_larger_than_the_rows_of_a_device_is_refused():
    algo = algos.load("ppo")
    env_fn = functools.partial(gymnasium.make, "CartPole-v1")
    spec = algo.Spec(EnvSpec.of(env_fn()), minibatch_size=200)
    with pytest.raises(ValueError, match="minibatch_size"):
        loop.start(algo, spec, env_fn, ON(devices=2), 0)
    loop.start(algo, spec, env_fn, ON(), 0).envs.close()


def test_unreplicate_returns_the_copy_on_the_first_device():
    tree = devices.replicate({"x": np.arange(3.0)}, 2)
    assert len(tree["x"].devices()) == 2
    own = devices.unreplicate(tree)["x"]
    assert len(own.devices()) == 1
    assert own.tolist() == [0.0, 1.0, 2.0]
    plain = {"x": np.arange(3.0)}
    assert devices.unreplicate(plain) is plain


def test_a_platform_that_jax_cannot_start_is_a_mistake_of_the_user(monkeypatch):
    def fail(error):
        def devices():
            raise error

        monkeypatch.setattr(jax, "devices", devices)

    fail(AssertionError())  # as for JAX_PLATFORMS=cuda without a GPU
    with pytest.raises(ConfigError, match=r"^JAX cannot start on the platform .*[^:]\. Set JAX"):
        devices.check_platform()
    fail(RuntimeError("Unable to initialize backend 'x'. (set JAX_PLATFORMS='' to choose one)"))
    with pytest.raises(ConfigError, match=r": Unable to initialize backend 'x'\. Set JAX_PLATF"):
        devices.check_platform()
    with pytest.raises(ConfigError, match="^JAX cannot start"):
        loop.start(td3, None, lambda: None, None, 0)
