"""Acrobot in JAX against that of Gymnasium."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.classic.acrobot import Acrobot
from tests.envs.classic.compare import (
    check_params_under_vmap,
    check_spec,
    compare_episodes,
    compare_steps,
)


def pump(obs, key):
    """Push in the direction in which the joint turns, most of the time."""
    push = jnp.where(obs[5] > 0, 2, 0)
    return jnp.where(jax.random.uniform(key) < 0.2, 1, push).astype(jnp.int32)


def test_the_specification_is_that_of_gymnasium():
    check_spec(Acrobot(), "Acrobot-v1")


def test_each_step_equals_that_of_gymnasium():
    ends = compare_steps(Acrobot(), "Acrobot-v1", 10, 300, atol=2e-4, act=pump)
    assert ends > 100


def test_the_first_hundred_steps_of_episodes_equal_those_of_gymnasium():
    """The system is chaotic, so that rounding errors grow without bound after that."""
    lengths = compare_episodes(Acrobot(), "Acrobot-v1", 8, pump, atol=2e-2, length=100)
    assert min(lengths) < 100


def test_the_last_step_is_not_punished():
    env = Acrobot()
    for state, wanted in (
        ([np.pi, 0.0, 0.0, 0.0], (0.0, True)),  # both links upright
        ([0.0, 0.0, 0.0, 0.0], (-1.0, False)),
        ([np.pi / 2, 0.0, 0.0, 0.0], (-1.0, False)),  # both links horizontal
    ):
        _, _, reward, terminated, _ = env.step(None, jnp.float32(state), jnp.int32(1), env.params)
        assert (float(reward), bool(terminated)) == wanted


def test_angles_are_wrapped_and_speeds_are_clipped():
    env = Acrobot()
    fast = jnp.float32([3.1, -3.1, 12.5, -28.2])
    state, obs, *_ = env.step(None, fast, jnp.int32(1), env.params)
    assert (np.abs(state[:2]) <= np.pi).all()
    assert np.abs(state[2]) <= np.float32(4 * np.pi)
    assert np.abs(state[3]) <= np.float32(9 * np.pi)
    cos, sin = np.cos(state), np.sin(state)
    wanted = [cos[0], sin[0], cos[1], sin[1], state[2], state[3]]
    np.testing.assert_allclose(obs, wanted, atol=1e-6)


def test_starts_are_uniform():
    env = Acrobot()
    keys = jax.random.split(jax.random.key(0), 4_000)
    state, _ = jax.vmap(env.reset, (0, None))(keys, env.params)
    assert (np.abs(state) <= 0.1).all()
    np.testing.assert_allclose(np.std(state, axis=0), 0.2 / np.sqrt(12), rtol=0.05)


def test_constants_can_be_varied_under_vmap():
    state = jnp.float32([0.5, 0.3, 0.1, 0.2])
    check_params_under_vmap(Acrobot(), "mass_2", [1.0, 0.5, 2.0], state, 2)
