"""Odd environments cause one clear error before or during training, or train correctly."""

import dataclasses
import traceback

import numpy as np
import pytest

from purerl.algos import dqn, ppo, td3
from purerl.loops import gym as loop
from purerl.schedules import OffPolicySchedule, OnPolicySchedule
from purerl.spaces import Discrete, EnvSpec
from tests.reliability import odd

OFF = OffPolicySchedule(
    steps=40, steps_per_epoch=20, start_steps=10, update_after=10, update_every=10,
    updates_per_burst=1, batch_size=4, replay_size=50, num_test_episodes=0,
)  # fmt: skip
ON = OnPolicySchedule(steps=40, steps_per_epoch=20)
USUAL = EnvSpec.of(odd.Odd())


def train(made, algo, schedule, env=USUAL):
    """Train to the end of the schedule."""
    carry = loop.start(algo, algo.Spec(env, hidden=(4,)), made, schedule, 0)
    try:
        while carry.steps < schedule.steps:
            carry, _ = loop.advance(carry)
    finally:
        carry.envs.close()
    return carry


def train_with(case, on_policy):
    """Train on an odd environment, with an algorithm for its spaces."""
    algo, schedule, env = (ppo, ON, USUAL) if on_policy else (td3, OFF, USUAL)
    if ":" in case.name:  # a case about spaces
        env = EnvSpec.of(case.made())
        algo = dqn if algo is td3 and isinstance(env.action, Discrete) else algo
    number = 1 + (case.name in ("one twice", "unequal ones"))
    return train(case.made, algo, dataclasses.replace(schedule, num_envs=number), env)


COMPILED = ("actions: float64", "actions: Discrete from 5")


def cases():
    """Yield all cases with both kinds of algorithm; mark those that compile as long."""
    for case in odd.CASES:
        for on_policy in (True, False):
            compiled = ":" in case.name and case.error is None
            short = not compiled or (not on_policy and case.name in COMPILED)
            marks = () if short else pytest.mark.reliability
            name = f"{case.name}-{'on' if on_policy else 'off'}"
            yield pytest.param(case, on_policy, id=name, marks=marks)


@pytest.mark.filterwarnings("ignore::UserWarning")  # Gymnasium's, of the spaces
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")  # of 1e300 to float32
@pytest.mark.parametrize(("case", "on_policy"), [*cases()])
def test_an_odd_environment_is_refused_by_name_or_works(case, on_policy):
    if case.error is None:
        assert train_with(case, on_policy).steps == 40
        return
    with pytest.raises(case.error, match=case.message) as caught:
        train_with(case, on_policy)
    assert "\n" not in str(caught.value)
    assert "/jax/" not in traceback.extract_tb(caught.tb)[-1].filename


def test_there_are_at_least_forty_failing_cases():
    assert sum(case.error is not None for case in odd.CASES) >= 40
    assert len({case.name for case in odd.CASES}) == len(odd.CASES)


def test_an_array_that_the_environment_reuses_is_stored_as_it_was():
    data = train(odd.Mutating, td3, OFF).buffer.data
    np.testing.assert_array_equal(np.asarray(data.next_obs)[:40, 0], np.arange(1, 41))
    assert np.abs(np.asarray(data.act)[:40]).max() <= 1


def test_a_discrete_start_is_part_of_the_spec():
    spec = EnvSpec.of(odd.Odd(act=odd.spaces.Discrete(3, start=5)))
    assert spec.action == Discrete(3, 5)
