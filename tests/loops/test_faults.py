"""Errors name the environment, the fault and the step."""

import functools

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from purerl import errors
from purerl.algos import td3
from purerl.errors import EnvFault
from purerl.loops import gym as loop
from purerl.spaces import EnvSpec
from tests.loops import script
from tests.loops.script import SMALL, finish, start


class Broken(script.Script):
    """The scripted environment with one fault, at step 8 of environment 0."""

    def __init__(self, fault: str) -> None:
        super().__init__(0, lengths=(1000,))
        self.fault = fault

    def step(self, action):
        obs, rew, terminated, truncated, info = super().step(action)
        if self.steps == 8:
            match self.fault:
                case "raise":
                    raise KeyError("no such joint")
                case "obs":
                    obs = obs * np.nan
                case "rew":
                    rew = float("inf")
                case "shape":
                    obs = np.zeros(1)
                case "old":
                    return obs, rew, terminated, info
                case "text":
                    rew = "much"
        return obs, rew, terminated, truncated, info


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        ("raise", EnvFault, r"^environment 0 raised KeyError in step: 'no such joint'"),
        ("old", EnvFault, r"^environment 0 raised ValueError in step: not enough values to unpack"),
        ("text", EnvFault, r"^environment 0 must return a number as its reward, got .much.\."),
        ("shape", EnvFault, r"^environment 0 must return observations of shape \(3,\).*got \(1,\)"),
        (
            "obs",
            errors.NonFiniteError,
            r"^next_obs of environment 0 is not finite at environment step 8",
        ),
        (
            "rew",
            errors.NonFiniteError,
            r"^rew of environment 0 is not finite at environment step 8: inf",
        ),
    ],
)
def test_errors_name_the_environment_and_its_fault(fault, error, message):
    with pytest.raises(error, match=message):
        finish(start(functools.partial(Broken, fault)))


def test_a_number_that_is_not_finite_names_its_environment():
    made = []

    def env_fn():
        made.append(Broken("rew") if len(made) == 1 else script.Script(lengths=(1000,)))
        return made[-1]

    carry = start(env_fn, num_envs=3, update_every=30)
    with pytest.raises(
        errors.NonFiniteError, match=r"^rew of environment 1 .* environment step 23: inf\. No row"
    ):
        loop.advance(carry)
    assert int(carry.buffer.stored) == 0


def test_a_number_that_is_not_finite_among_spare_rows_names_its_environment():
    env_fn, envs = script.make_vector(3, AutoresetMode.NEXT_STEP)
    carry = start(env_fn, num_envs=3, steps=300, steps_per_epoch=300)
    step = envs[2].step

    def late(action):
        obs, rew, *rest = step(action)
        return obs, np.nan if envs[2].steps > 20 else rew, *rest

    envs[2].step = late
    with pytest.raises(errors.NonFiniteError, match="^rew of environment 2 is not finite"):
        finish(carry)


def test_errors_name_faults_of_reset_and_of_vector_environments():
    class Stuck(script.Script):
        def reset(self, **kwargs):
            raise OSError("no display")

    with pytest.raises(EnvFault, match=r"^environment 0 raised OSError in reset: no display"):
        start(Stuck)
    env_fn, envs = script.make_vector(2, AutoresetMode.DISABLED)
    carry = start(env_fn, num_envs=2)
    envs[1].step = lambda action: 1 / 0
    with pytest.raises(EnvFault, match=r"^the vector environment raised ZeroDivisionError in step"):
        finish(carry)


def test_rewards_of_a_vector_environment_must_have_one_number_each():
    env_fn, _ = script.make_vector(3, AutoresetMode.DISABLED)

    def column():
        env = env_fn()
        step = env.step

        def broken(actions):
            obs, rew, *rest = step(actions)
            return obs, rew[:, None], *rest

        env.step = broken
        return env

    with pytest.raises(EnvFault, match=r"must return rew of shape \(3,\), got \(3, 1\)"):
        finish(start(column, num_envs=3))


def test_observations_that_the_space_would_truncate_are_refused():
    class Scaled(script.Script):
        def __init__(self):
            super().__init__()
            self.observation_space = gymnasium.spaces.Box(0, 255, (3,), np.uint8)

    spec = td3.Spec(EnvSpec.of(Scaled()), **SMALL)
    with pytest.raises(EnvFault, match=r"must return observations .* dtype uint8 .*, got float64"):
        start(Scaled, spec=spec)
