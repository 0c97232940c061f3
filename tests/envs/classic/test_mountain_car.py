"""Both mountain cars in JAX against those of Gymnasium."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.envs.classic.mountain_car import MountainCar, MountainCarContinuous
from tests.envs.classic.compare import (
    check_params_under_vmap,
    check_spec,
    compare_episodes,
    compare_steps,
    sample_action,
)

BOTH = [(MountainCar(), "MountainCar-v0"), (MountainCarContinuous(), "MountainCarContinuous-v0")]


def drive(env):
    """Return a policy that accelerates in the direction of travel, most of the time."""

    def act(obs, key):
        throttle = jnp.where(obs[1] >= 0, 1, -1)
        wanted = throttle + 1 if isinstance(env, MountainCar) else 0.8 * throttle[None]
        is_random = jax.random.uniform(key) < 0.2
        return jnp.where(is_random, sample_action(env, key), wanted.astype(env.spec.action.dtype))

    return act


@pytest.mark.parametrize(("env", "name"), BOTH)
def test_the_specification_is_that_of_gymnasium(env, name):
    check_spec(env, name)


@pytest.mark.parametrize(("env", "name"), BOTH)
def test_each_step_equals_that_of_gymnasium(env, name):
    assert compare_steps(env, name, 12, 300, act=drive(env)) > 50


@pytest.mark.parametrize(("env", "name"), BOTH)
def test_whole_episodes_equal_those_of_gymnasium(env, name):
    lengths = compare_episodes(env, name, 12, drive(env), atol=1e-4)
    assert 60 < min(lengths) < max(lengths) < env.max_steps


@pytest.mark.parametrize(("env", "name"), BOTH)
def test_the_car_stops_at_the_wall_and_the_goal_needs_its_velocity(env, name):
    action = jnp.zeros(env.spec.action.shape, env.spec.action.dtype)  # to the left, or none
    state, *_ = env.step(None, jnp.float32([-1.19, -0.06]), action, env.params)
    np.testing.assert_array_equal(state, np.float32([-1.2, 0.0]))
    start = jnp.float32([0.48, 0.03])
    assert bool(env.step(None, start, action, env.params)[3])
    assert not bool(env.step(None, start, action, env.params._replace(goal_velocity=0.05))[3])


def test_rewards_by_hand():
    one, other = MountainCar(), MountainCarContinuous()
    for start, wanted in (([-0.5, 0.0], -1.0), ([0.49, 0.03], -1.0)):
        assert float(one.step(None, jnp.float32(start), jnp.int32(2), one.params)[2]) == wanted
    for start, wanted in (([-0.5, 0.0], -0.025), ([0.44, 0.03], 99.975)):
        reward = other.step(None, jnp.float32(start), jnp.float32([0.5]), other.params)[2]
        np.testing.assert_allclose(reward, wanted, rtol=1e-5)


@pytest.mark.parametrize(("env", "name"), BOTH)
def test_starts_are_uniform(env, name):
    keys = jax.random.split(jax.random.key(0), 4_000)
    state, obs = jax.vmap(env.reset, (0, None))(keys, env.params)
    np.testing.assert_array_equal(state, obs)
    position, velocity = np.asarray(state).T
    assert not velocity.any()
    assert (np.abs(position + 0.5) <= 0.1 + 1e-6).all()
    np.testing.assert_allclose(np.std(position), 0.2 / np.sqrt(12), rtol=0.05)


@pytest.mark.parametrize(("env", "name"), BOTH)
def test_constants_can_be_varied_under_vmap(env, name):
    action = np.ones(env.spec.action.shape, env.spec.action.dtype)
    check_params_under_vmap(env, "gravity", [0.0025, 0.001], jnp.float32([-0.4, 0.0]), action)
