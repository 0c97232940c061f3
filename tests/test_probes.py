"""Every algorithm learns the known values of the probe environments, in seconds each.

`make test` runs two probes, for the policy and for bootstrapping, with td3, dqn and ppo.
`make test-all` runs every probe with all algorithms and both kinds of action spaces.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
import pytest

from purerl.algos import (
    acer,
    crossq,
    ddpg,
    dqn,
    ppo,
    pqn,
    redq,
    reinforce,
    sac,
    sac_discrete,
    td3,
    tqc,
    trpo,
    vpg,
    xqc,
)
from purerl.loops import gym as loop
from purerl.schedules import OffPolicySchedule, OnPolicySchedule, SequenceSchedule
from purerl.spaces import EnvSpec
from tests import probes


class Learner(NamedTuple):
    """An algorithm, its settings for the probes, and its value function."""

    algo: Any
    discrete: bool
    settings: dict[str, Any]
    schedule: OffPolicySchedule | OnPolicySchedule
    value: Callable[[Any, np.ndarray], np.ndarray] | None  # none: it learns no values


def td3_value(params, obs):
    return np.asarray(td3.q_value(params, obs, td3.policy(params, obs))[0])


def ddpg_value(params, obs):
    return np.asarray(ddpg.q_value(params, obs, ddpg.policy(params, obs)))


def sac_value(params, obs):
    return np.asarray(sac.q_value(params, obs, sac.policy(params, obs))[0])


def crossq_value(params, obs):
    return np.asarray(crossq.q_value(params, obs, crossq.policy(params, obs))[0])


def tqc_value(params, obs):
    return np.asarray(tqc.q_value(params, obs, tqc.policy(params, obs)).mean(axis=0))


def sac_discrete_value(params, obs):
    return np.asarray(sac_discrete.q_value(params, obs)[0]).max(axis=1)


def xqc_value(params, obs):
    return np.asarray(xqc.q_value(params, obs, xqc.policy(params, obs))[0])


def redq_value(params, obs):
    return np.asarray(redq.q_value(params, obs, redq.policy(params, obs)).mean(axis=0))


def dqn_value(params, obs):
    return np.asarray(dqn.q_value(params, obs)).max(axis=1)


def pqn_value(params, obs):
    return np.asarray(pqn.q_value(params, obs)).max(axis=1)


SCHEDULE = OffPolicySchedule(
    steps=2_500, steps_per_epoch=2_500, start_steps=500, update_after=64, batch_size=64
)
LARGE = dataclasses.replace(SCHEDULE, batch_size=256, update_after=256)
RATES = {"hidden": (32, 32), "pi_lr": 3e-3, "q_lr": 3e-3, "polyak": 0.95}
SOFT = {"hidden": (32, 32), "lr": 3e-3, "polyak": 0.95, "alpha": 0.002}
FIXED = (("log_alpha", optax.set_to_zero()),)  # a temperature that grows would change values
NORMAL = {"hidden": (32, 32), "lr": 2e-3, "alpha_init": 0.002, "optimizer": FIXED}
NORMAL |= {"policy_delay": 1}
RANDOM = SOFT | {"alpha": 0.1, "soft_critic": False}
QUANTILES = {"hidden": (32, 32), "lr": 3e-3, "polyak": 0.95, "alpha_init": 0.002}
QUANTILES |= {"optimizer": FIXED, "num_quantiles": 5, "drop_quantiles": 0}
FITTING = NORMAL | {"polyak": 0.95, "v_max": 60.0, "atoms": 121}  # rewards are not scaled
SEVERAL = NORMAL | {"lr": 3e-3, "polyak": 0.95, "ensemble": 4}
DROPPED = {"ensemble": 2, "dropout": 0.01, "layer_norm": True}
GREEDY = {"hidden": (32, 32), "lr": 3e-3, "target_every": 20, "eps_decay": 1_000}

ROLLOUTS = OnPolicySchedule(steps=12_800, steps_per_epoch=128)
NETS = {"hidden": (32, 32), "gamma": 0.9}
STEPS = NETS | {"train_v_iters": 20, "vf_lr": 1e-2}
MANY = STEPS | {"train_pi_iters": 10, "pi_lr": 3e-3, "target_kl": 0.05}

PASSES = NETS | {"lr": 1e-2, "minibatch_size": 32, "eps_decay": 50, "lr_decay_updates": 120}

SEQUENCES = SequenceSchedule(
    steps=12_800, steps_per_epoch=128, rollout_steps=64, num_envs=4, replay_size=2_048,
    replay_start=256,
)  # fmt: skip
OFTEN = NETS | {"lr": 3e-3, "rms_init": 0.01, "ent_coef": 0.01}

LEARNERS = {
    "acer": Learner(acer, True, OFTEN, SEQUENCES, acer.value),
    "td3": Learner(td3, False, RATES, SCHEDULE, td3_value),
    "ddpg": Learner(ddpg, False, RATES, SCHEDULE, ddpg_value),
    "sac": Learner(sac, False, SOFT, SCHEDULE, sac_value),
    "crossq": Learner(crossq, False, NORMAL, LARGE, crossq_value),
    "tqc": Learner(tqc, False, QUANTILES, SCHEDULE, tqc_value),
    "sac_discrete": Learner(sac_discrete, True, RANDOM, SCHEDULE, sac_discrete_value),
    "xqc": Learner(xqc, False, FITTING, LARGE, xqc_value),
    "redq": Learner(redq, False, SEVERAL, SCHEDULE, redq_value),
    "redq-dropout": Learner(redq, False, SEVERAL | DROPPED, SCHEDULE, redq_value),
    "dqn": Learner(dqn, True, GREEDY, SCHEDULE, dqn_value),
    "pqn": Learner(pqn, True, PASSES, ROLLOUTS, pqn_value),
    "reinforce-discrete": Learner(reinforce, True, NETS, ROLLOUTS, None),
    "reinforce-box": Learner(reinforce, False, NETS | {"log_std_init": -1.0}, ROLLOUTS, None),
    "vpg-discrete": Learner(vpg, True, STEPS | {"pi_lr": 1e-2}, ROLLOUTS, vpg.value),
    "vpg-box": Learner(vpg, False, STEPS | {"pi_lr": 1e-2}, ROLLOUTS, vpg.value),
    "trpo-discrete": Learner(trpo, True, STEPS | {"delta": 0.05}, ROLLOUTS, trpo.value),
    "trpo-box": Learner(trpo, False, STEPS | {"delta": 0.05}, ROLLOUTS, trpo.value),
    "ppo-discrete": Learner(ppo, True, MANY, ROLLOUTS, ppo.value),
    "ppo-box": Learner(ppo, False, MANY, ROLLOUTS, ppo.value),
}

# Learners that share most of their code with another one; `make test-all` runs them.
COMPLETE = ("ddpg", "reinforce-discrete", "vpg-box", "vpg-discrete", "trpo-box", "trpo-discrete")
COMPLETE += ("ppo-discrete", "reinforce-box", "acer", "sac", "crossq", "xqc", "pqn", "tqc")
COMPLETE += ("sac_discrete", "redq", "redq-dropout")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each probe with every learner."""
    params = []
    for name, learner in LEARNERS.items():
        marks = [pytest.mark.complete] if name in COMPLETE else []
        params.append(pytest.param(learner, id=name, marks=marks))
    metafunc.parametrize("learner", params)


SIGNS = np.array([[-1.0, 0.0], [1.0, 0.0]], np.float32)


def train(learner: Learner, probe: Any, updates: int | None = None, **settings: Any) -> Any:
    """Return the parameters after one run. Off-policy, `updates` is the number per burst."""

    def env_fn():
        return probe(learner.discrete)

    spec = learner.algo.Spec(EnvSpec.of(env_fn()), **(learner.settings | settings))
    schedule = learner.schedule
    if isinstance(schedule, OffPolicySchedule):
        schedule = dataclasses.replace(schedule, updates_per_burst=updates)
    carry = loop.start(learner.algo, spec, env_fn, schedule, seed=0)
    while carry.steps < schedule.steps:
        carry, _ = loop.advance(carry)
    return carry.learner.params


def values_near(learner: Learner, params: Any, obs: Any, wanted: Any, within: float = 0.1) -> None:
    if learner.value:
        np.testing.assert_allclose(learner.value(params, obs), wanted, atol=within)


def needs_values(learner: Learner) -> None:
    if not learner.value:
        pytest.skip("learns no values")


@pytest.mark.complete
def test_constant_reward_is_learned(learner):
    needs_values(learner)
    params = train(learner, probes.Constant)
    values_near(learner, params, SIGNS, [1.0, 1.0])


@pytest.mark.complete
def test_reward_that_depends_on_the_observation_is_learned(learner):
    needs_values(learner)
    params = train(learner, probes.Observation)
    values_near(learner, params, SIGNS, [-1.0, 1.0])


@pytest.mark.complete
def test_reward_one_step_later_is_discounted_once(learner):
    needs_values(learner)
    params = train(learner, probes.Delayed, gamma=0.5)
    obs = np.array([[1.0, 0.0], [1.0, 1.0]], np.float32)
    values_near(learner, params, obs, [0.5, 1.0])


@pytest.mark.complete
def test_the_best_action_is_found(learner):
    params = train(learner, probes.Action)
    best = [1, 1] if learner.discrete else [[0.5], [0.5]]
    np.testing.assert_allclose(learner.algo.policy(params, SIGNS), best, atol=0.1)
    values_near(learner, params, SIGNS, [1.0, 1.0])


def test_the_best_action_for_each_observation_is_found(learner):
    params = train(learner, probes.Both)
    best = [0, 1] if learner.discrete else [[-0.5], [0.5]]
    np.testing.assert_allclose(learner.algo.policy(params, SIGNS), best, atol=0.1)
    keys = jax.random.split(jax.random.key(0), 50)
    near = np.stack([learner.algo.act(params, SIGNS, key) for key in keys]) - np.asarray(best)
    assert (np.abs(near) < 0.4).mean() >= 0.9


@pytest.mark.complete
def test_the_identity_is_learned(learner):
    params = train(learner, probes.Identity)
    act = np.ravel(learner.algo.policy(params, np.eye(10, dtype=np.float32)))
    right = np.arange(10) if learner.discrete else (np.arange(10) - 4.5) / 5
    assert (np.abs(act - right) < 0.1).sum() >= 9


def test_a_time_limit_bootstraps(learner):
    needs_values(learner)
    slow = {"polyak": 0.9} if "polyak" in learner.settings else {}
    slow = {"target_every": 20, "lr": 1e-3} if learner.algo is dqn else slow
    params = train(learner, probes.Ring, updates=250, gamma=0.98, **slow)
    values_near(learner, params, np.eye(4, dtype=np.float32), np.full(4, 50.0), within=2.0)
