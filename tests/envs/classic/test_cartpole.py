"""CartPole in JAX against that of Gymnasium."""

import jax
import jax.numpy as jnp
import numpy as np

from purerl.envs.classic.cartpole import CartPole
from tests.envs.classic.compare import (
    check_params_under_vmap,
    check_spec,
    compare_episodes,
    compare_steps,
)


def test_the_specification_is_that_of_gymnasium():
    check_spec(CartPole(), "CartPole-v1")


def test_each_step_equals_that_of_gymnasium():
    ends = compare_steps(CartPole(), "CartPole-v1", 60, 40)
    assert ends > 40


def test_whole_episodes_equal_those_of_gymnasium():
    """Balanced by hand, so that episodes are long. Rounding errors grow exponentially."""

    def act(obs, key):
        lean = obs[2] + 0.5 * obs[3]
        return jnp.where(jax.random.uniform(key) < 0.2, obs[0] > 0, lean > 0).astype(jnp.int32)

    lengths = compare_episodes(CartPole(), "CartPole-v1", 12, act, atol=1e-2, length=150)
    assert max(lengths) > 60


def test_the_reward_of_the_last_step_is_one_and_each_limit_ends_an_episode():
    env = CartPole()
    for state, wanted in (
        ([2.39, 0.0, 0.0, 0.0], False),
        ([2.39, 1.0, 0.0, 0.0], True),
        ([-2.39, -1.0, 0.0, 0.0], True),
        ([0.0, 0.0, 0.209, 0.0], False),
        ([0.0, 0.0, 0.209, 0.1], True),
        ([0.0, 0.0, -0.209, -0.1], True),
    ):
        _, _, reward, terminated, _ = env.step(None, jnp.float32(state), jnp.int32(0), env.params)
        assert (float(reward), bool(terminated)) == (1.0, wanted)


def test_one_step_by_hand():
    """At rest, a force of 10 N gives q = 10 / 1.1, and both accelerations follow from it."""
    env = CartPole()
    state, obs, *_ = env.step(None, jnp.zeros(4), jnp.int32(1), env.params)
    push = 10 / 1.1
    theta_acc = -push / (0.5 * (4 / 3 - 0.1 / 1.1))
    x_acc = push - 0.1 * 0.5 * theta_acc / 1.1
    np.testing.assert_allclose(state, [0, 0.02 * x_acc, 0, 0.02 * theta_acc], rtol=1e-6)
    np.testing.assert_array_equal(obs, state)


def test_starts_are_uniform():
    env = CartPole()
    keys = jax.random.split(jax.random.key(0), 4_000)
    state, obs = jax.vmap(env.reset, (0, None))(keys, env.params)
    np.testing.assert_array_equal(state, obs)
    assert (np.abs(state) <= 0.05).all()
    np.testing.assert_allclose(np.std(state, axis=0), 0.1 / np.sqrt(12), rtol=0.05)
    np.testing.assert_allclose(np.corrcoef(state.T), np.eye(4), atol=0.06)


def test_constants_can_be_varied_under_vmap():
    check_params_under_vmap(CartPole(), "gravity", [9.8, 1.6], jnp.float32([0.0, 0.1, 0.1, 0.0]), 1)
