"""Pendulum in JAX against that of Gymnasium."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.classic.pendulum import Pendulum
from tests.envs.classic.compare import (
    check_params_under_vmap,
    check_spec,
    compare_episodes,
    compare_steps,
    sample_action,
)


def test_the_specification_is_that_of_gymnasium():
    check_spec(Pendulum(), "Pendulum-v1")


def test_each_step_equals_that_of_gymnasium():
    # The reward is discontinuous where the angle wraps, and none of these steps is there.
    assert compare_steps(Pendulum(), "Pendulum-v1", 30, 200, atol=5e-5) == 0


def test_whole_episodes_equal_those_of_gymnasium():
    env = Pendulum()
    lengths = compare_episodes(
        env, "Pendulum-v1", 5, lambda obs, key: sample_action(env, key), atol=2e-3
    )
    assert lengths == [200] * 5


def test_one_step_by_hand():
    """Horizontal and turning at 1 rad/s: the reward does not use the new state."""
    env = Pendulum()
    state = jnp.float32([np.pi / 2, 1.0])
    state, obs, reward, terminated, _ = env.step(None, state, jnp.float32([2.0]), env.params)
    speed = 1 + (1.5 * 10 + 3 * 2) * 0.05
    angle = np.pi / 2 + speed * 0.05
    np.testing.assert_allclose(state, [angle, speed], rtol=1e-6)
    np.testing.assert_allclose(obs, [np.cos(angle), np.sin(angle), speed], rtol=1e-5)
    np.testing.assert_allclose(reward, -((np.pi / 2) ** 2 + 0.1 + 0.001 * 4), rtol=1e-6)
    assert not terminated


def test_torque_and_speed_are_clipped():
    env = Pendulum()
    state = jnp.float32([np.pi / 2, 7.9])
    strong, limit = (env.step(None, state, jnp.float32([u]), env.params) for u in (5.0, 2.0))
    jax.tree.map(np.testing.assert_array_equal, strong, limit)
    assert strong[0][1] == 8.0


def test_starts_are_uniform():
    env = Pendulum()
    keys = jax.random.split(jax.random.key(0), 4_000)
    state, obs = jax.vmap(env.reset, (0, None))(keys, env.params)
    high = np.array([np.pi, 1.0])
    assert (np.abs(state) <= high + 1e-6).all()
    np.testing.assert_allclose(np.std(state, axis=0), 2 * high / np.sqrt(12), rtol=0.05)
    theta, speed = np.asarray(state).T
    np.testing.assert_allclose(obs, np.stack([np.cos(theta), np.sin(theta), speed], 1), atol=1e-6)


def test_constants_can_be_varied_under_vmap():
    check_params_under_vmap(Pendulum(), "length", [1.0, 0.7], jnp.float32([1.0, 0.0]), [0.5])
