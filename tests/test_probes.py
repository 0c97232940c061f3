"""Every algorithm learns the known values of the probe environments, in seconds each."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from purerl.algos import ddpg, dqn, sac, td3
from purerl.loops import gym as loop
from purerl.types import EnvSpec, OffPolicySchedule
from tests import probes


class Learner(NamedTuple):
    """How an algorithm takes the probes, and how its value of observations is read."""

    algo: Any
    discrete: bool
    settings: dict[str, Any]
    schedule: OffPolicySchedule
    value: Callable[[Any, np.ndarray], np.ndarray]


def td3_value(params, obs):
    _, critic = td3._networks(params.spec)
    act = params.spec.env.normalise(td3.policy(params, obs))
    return np.asarray(critic.apply(params.critic[0], obs, act))


def ddpg_value(params, obs):
    _, critic = ddpg._networks(params.spec)
    act = params.spec.env.normalise(ddpg.policy(params, obs))
    return np.asarray(critic.apply(params.critic, obs, act))


def sac_value(params, obs):
    _, critic = sac._networks(params.spec)
    act = params.spec.env.normalise(sac.policy(params, obs))
    return np.asarray(critic.apply(params.critic[0], obs, act))


def dqn_value(params, obs):
    return np.asarray(dqn._network(params.spec).apply(params.critic, obs)).max(axis=1)


SCHEDULE = OffPolicySchedule(
    steps=2_500, steps_per_epoch=2_500, start_steps=500, update_after=64, batch_size=64
)
RATES = {"hidden": (32, 32), "pi_lr": 3e-3, "q_lr": 3e-3, "polyak": 0.95}
SOFT = {"hidden": (32, 32), "lr": 3e-3, "polyak": 0.95, "alpha": 0.002}
GREEDY = {"hidden": (32, 32), "lr": 3e-3, "target_every": 20, "eps_decay": 1_000}

LEARNERS = {
    "td3": Learner(td3, False, RATES, SCHEDULE, td3_value),
    "ddpg": Learner(ddpg, False, RATES, SCHEDULE, ddpg_value),
    "sac": Learner(sac, False, SOFT, SCHEDULE, sac_value),
    "dqn": Learner(dqn, True, GREEDY, SCHEDULE, dqn_value),
}

pytestmark = pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS)
SIGNS = np.array([[-1.0, 0.0], [1.0, 0.0]], np.float32)


def train(learner: Learner, probe: Any, updates: int | None = None, **settings: Any) -> Any:
    """Return the parameters after one run; `updates` are those of a burst."""

    def env_fn():
        return probe(learner.discrete)

    spec = learner.algo.Spec(EnvSpec.of(env_fn()), **(learner.settings | settings))
    schedule = dataclasses.replace(learner.schedule, updates_per_burst=updates)
    carry = loop.start(learner.algo, spec, env_fn, schedule, seed=0)
    while carry.steps < schedule.steps:
        carry, _ = loop.advance(carry)
    return carry.learner.params


def test_constant_reward_is_learned(learner):
    params = train(learner, probes.Constant)
    np.testing.assert_allclose(learner.value(params, SIGNS), [1.0, 1.0], atol=0.1)


def test_reward_that_depends_on_the_observation_is_learned(learner):
    params = train(learner, probes.Observation)
    np.testing.assert_allclose(learner.value(params, SIGNS), [-1.0, 1.0], atol=0.1)


def test_reward_one_step_later_is_discounted_once(learner):
    params = train(learner, probes.Delayed, gamma=0.5)
    obs = np.array([[1.0, 0.0], [1.0, 1.0]], np.float32)
    np.testing.assert_allclose(learner.value(params, obs), [0.5, 1.0], atol=0.1)


def test_the_best_action_is_found(learner):
    params = train(learner, probes.Action)
    best = [1, 1] if learner.discrete else [[0.5], [0.5]]
    np.testing.assert_allclose(learner.algo.policy(params, SIGNS), best, atol=0.1)
    np.testing.assert_allclose(learner.value(params, SIGNS), [1.0, 1.0], atol=0.1)


def test_the_best_action_for_each_observation_is_found(learner):
    params = train(learner, probes.Both)
    best = [0, 1] if learner.discrete else [[-0.5], [0.5]]
    np.testing.assert_allclose(learner.algo.policy(params, SIGNS), best, atol=0.1)
    keys = jax.random.split(jax.random.key(0), 50)
    near = np.stack([learner.algo.act(params, SIGNS, key) for key in keys]) - np.asarray(best)
    assert (np.abs(near) < 0.4).mean() >= 0.9


def test_the_identity_is_learned(learner):
    params = train(learner, probes.Identity)
    act = np.ravel(learner.algo.policy(params, np.eye(10, dtype=np.float32)))
    right = np.arange(10) if learner.discrete else (np.arange(10) - 4.5) / 5
    assert (np.abs(act - right) < 0.1).sum() >= 9


def test_a_time_limit_bootstraps(learner):
    slow = {"target_every": 20, "lr": 1e-3} if learner.discrete else {"polyak": 0.9}
    params = train(learner, probes.Ring, updates=250, gamma=0.98, **slow)
    value = learner.value(params, np.eye(4, dtype=np.float32))
    np.testing.assert_allclose(value, np.full(4, 50.0), atol=1.0)
