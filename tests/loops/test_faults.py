"""Errors name the environment, the fault and the step."""

import functools

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from purerl import errors, rng
from purerl.algos import td3, vpg
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


def test_rows_that_waited_do_not_shift_the_environment_and_step_of_an_error():
    env_fn, envs = script.make_vector(3, AutoresetMode.NEXT_STEP)
    carry = start(env_fn, num_envs=3)
    while not len(carry.surplus.rew):
        carry, _ = loop.advance(carry)
    stepped = np.flatnonzero(~carry.envs._fresh)  # the others start an episode
    last = envs[stepped[-1]]
    last.step = lambda action, step=last.step: (lambda x: (x[0], np.nan, *x[2:]))(step(action))
    number = carry.steps + len(carry.surplus.rew) + len(stepped)
    message = f"^rew of environment {stepped[-1]} is not finite at environment step {number}: nan"
    with pytest.raises(errors.NonFiniteError, match=message):
        loop.advance(carry)


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

    with pytest.raises(EnvFault, match=r"must return rewards of shape \(3,\) with numbers"):
        finish(start(column, num_envs=3))


def test_observations_that_the_space_would_truncate_are_refused():
    class Scaled(script.Script):
        def __init__(self):
            super().__init__()
            self.observation_space = gymnasium.spaces.Box(0, 255, (3,), np.uint8)

    spec = td3.Spec(EnvSpec.of(Scaled()), **SMALL)
    with pytest.raises(EnvFault, match=r"must return observations .* dtype uint8 .*, got float64"):
        start(Scaled, spec=spec)


def run_in(wrap, **changes):
    """Start TD3 in a wrapped Pendulum-v1 and close it."""

    def make():
        return wrap(gymnasium.make("Pendulum-v1", **changes))

    spec = td3.Spec(EnvSpec.of(make()), hidden=(4,))
    loop.start(td3, spec, make, td3.OffPolicySchedule(), 0).envs.close()


def freeze(env):
    env.update_running_mean = False
    return env


def test_running_statistics_of_a_wrapper_are_refused_unless_they_are_frozen():
    wrappers = gymnasium.wrappers
    with pytest.raises(ValueError, match="NormalizeObservation, which .* set normalise_obs=True"):
        run_in(wrappers.NormalizeObservation)
    with pytest.raises(ValueError, match="NormalizeObservation"):
        run_in(lambda env: wrappers.TimeAwareObservation(wrappers.NormalizeObservation(env)))
    run_in(lambda env: freeze(wrappers.NormalizeObservation(env)))
    with pytest.warns(errors.ScaledReturns, match="NormalizeReward, so all returns are in scaled"):
        run_in(wrappers.NormalizeReward)
    run_in(lambda env: freeze(wrappers.NormalizeReward(env)))


@pytest.mark.parametrize("inside", [True, False])
def test_running_statistics_of_vector_environments_are_refused(inside):
    def make():
        if inside:
            single = gymnasium.wrappers.NormalizeObservation
            return gymnasium.make_vec("Pendulum-v1", num_envs=2, wrappers=(single,))
        return gymnasium.wrappers.vector.NormalizeObservation(
            gymnasium.make_vec("Pendulum-v1", num_envs=2)
        )

    env = make()
    spec = td3.Spec(EnvSpec.of(env), hidden=(4,))
    env.close()
    with pytest.raises(ValueError, match="NormalizeObservation"):
        loop.start(td3, spec, make, td3.OffPolicySchedule(num_envs=2), 0)


@pytest.mark.parametrize("attribute", [4, np.zeros(3), "self", [], None])
def test_attributes_of_an_environment_are_not_taken_for_wrapped_environments(attribute):
    def make():
        env = gymnasium.make("Pendulum-v1").unwrapped
        env.env = env.envs = env if isinstance(attribute, str) else attribute
        env._max_episode_steps = "many"
        return env

    spec = td3.Spec(EnvSpec.of(make()), hidden=(4,))
    loop.start(td3, spec, make, td3.OffPolicySchedule(), 0).envs.close()


def test_the_remedy_for_running_statistics_fits_the_algorithm():
    class Mine(gymnasium.wrappers.NormalizeObservation):
        """A subclass is found, too."""

    def make():
        return Mine(gymnasium.make("Pendulum-v1"))

    spec = vpg.Spec(EnvSpec.of(make()), hidden=(4,))
    with pytest.raises(ValueError, match=r"freeze it .* or use ppo with normalise_obs"):
        loop.start(vpg, spec, make, vpg.SCHEDULE, 0)


def test_an_environment_without_a_time_limit_gives_a_warning_with_the_remedy():
    from gymnasium.envs.classic_control import PendulumEnv

    spec = td3.Spec(EnvSpec.of(PendulumEnv()), hidden=(4,))
    with pytest.warns(errors.NoTimeLimit, match=r"declares no time limit.*--max-ep-len 1000"):
        loop.start(td3, spec, PendulumEnv, td3.OffPolicySchedule(), 0).envs.close()


def test_a_time_limit_of_any_kind_silences_the_warning(recwarn):
    from gymnasium.envs.classic_control import PendulumEnv

    spec = td3.Spec(EnvSpec.of(PendulumEnv()), hidden=(4,))
    schedule = td3.OffPolicySchedule(max_ep_len=50)
    loop.start(td3, spec, PendulumEnv, schedule, 0).envs.close()
    run_in(lambda env: env)
    limited = functools.partial(gymnasium.wrappers.TimeLimit, max_episode_steps=9)
    loop.start(td3, spec, lambda: limited(PendulumEnv()), td3.OffPolicySchedule(), 0).envs.close()
    assert not recwarn.list


class Careful(script.Script):
    """Environment whose observations get large, and that may refuse actions that are not finite."""

    refuses = False

    def step(self, action):
        if self.refuses:
            assert np.isfinite(action).all(), "joint angles"
        self.steps, number = self.steps + 1, 1e36 if self.steps > 6 else 1.0
        return np.full(3, number), 1.0, self.steps == 20, False, {}


class Overflowing(nn.Module):
    """Policy that returns NaN for large observations."""

    @nn.compact
    def __call__(self, obs):
        scale = self.param("scale", nn.initializers.ones, (obs.shape[-1], 2))
        large = 1e4 * (obs @ scale)
        return jnp.where(jnp.isinf(large), jnp.nan, jnp.tanh(large))


@pytest.mark.parametrize("refuses", [False, True])
@pytest.mark.parametrize("number", [1, 2])
def test_an_action_that_is_not_finite_is_blamed_on_the_policy(refuses, number, monkeypatch):
    monkeypatch.setattr(Careful, "refuses", refuses)
    spec = td3.Spec(EnvSpec.of(script.Script()), actor=Overflowing(), **SMALL)
    message = (
        r"^the policy returned an action that is not finite, .*environment 0.*nan.* 1e\+36\. Ch"
    )
    with pytest.raises(errors.NonFiniteError, match=message):
        finish(start(Careful, spec=spec, start_steps=0, num_envs=number, max_ep_len=20))
    params = td3.init(rng.stream(0, 0, "init"), spec).params
    message = "^the policy returned an action that is not finite, in a test episode"
    with pytest.raises(errors.NonFiniteError, match=message):
        loop.evaluate(td3, params, Careful, 0, 0, 1)


class Blind(Careful):
    """Environment whose observations become NaN, and that refuses the actions for them."""

    refuses = True

    def step(self, action):
        _, *rest = super().step(action)
        return np.full(3, np.nan), *rest


def test_an_observation_that_is_not_finite_is_blamed_on_the_environment():
    message = (
        r"^environment 0 raised AssertionError in step: joint angles.* "
        r"The observation before this call was not finite: \[nan"
    )
    with pytest.raises(EnvFault, match=message):
        finish(start(Blind, start_steps=0))


def test_a_vector_environment_that_refuses_an_action_is_not_blamed(monkeypatch):
    monkeypatch.setattr(Careful, "refuses", True)
    spec = td3.Spec(EnvSpec.of(script.Script()), actor=Overflowing(), **SMALL)
    mode = AutoresetMode.DISABLED

    def env_fn():
        return SyncVectorEnv([Careful], autoreset_mode=mode)

    with pytest.raises(errors.NonFiniteError, match="^the policy .* raised AssertionError in step"):
        finish(start(env_fn, spec=spec, start_steps=0))
