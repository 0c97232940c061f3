"""Bit flipping: the environment in JAX against that of Gymnasium, and its goals."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from purerl.envs import bit_flipping
from purerl.envs.bit_flipping import BitFlipping, BitFlippingEnv


def start(env, bits, goal):
    """Put an environment of Gymnasium into a state."""
    env.reset(seed=0)
    env._bits, env._goal = np.array(bits, np.float32), np.array(goal, np.float32)


@pytest.mark.parametrize("ends_at_goal", [True, False])
def test_both_environments_make_the_same_steps(ends_at_goal):
    one, env = BitFlipping(4, ends_at_goal), BitFlippingEnv(4, ends_at_goal)
    step = jax.jit(one.step)
    for seed in range(8):
        state, _ = one.reset(jax.random.key(seed), one.params)
        start(env, state[:4], state[4:])
        differ = np.flatnonzero(np.asarray(state[:4] != state[4:]))
        for action in [*differ, 0, 0]:
            state, obs, reward, terminated, info = step(None, state, jnp.int32(action), None)
            wanted, *rest, other = env.step(action)
            np.testing.assert_array_equal(
                obs, [*wanted["observation"], *wanted["desired_goal"]], strict=False
            )
            np.testing.assert_array_equal(info["achieved_goal"], wanted["achieved_goal"])
            assert (float(reward), bool(terminated)) == tuple(rest[:2])
            assert bool(info["is_success"]) == other["is_success"]


def test_one_flip_changes_one_bit_and_the_goal_is_rewarded():
    env = BitFlippingEnv(3)
    start(env, [0, 0, 1], [1, 0, 0])
    obs, reward, terminated, truncated, info = env.step(0)
    assert obs["observation"].tolist() == obs["achieved_goal"].tolist() == [1, 0, 1]
    assert obs["desired_goal"].tolist() == [1, 0, 0]
    assert (reward, terminated, truncated, info) == (-1.0, False, False, {"is_success": False})
    obs, reward, terminated, truncated, info = env.step(2)
    assert obs["observation"].tolist() == [1, 0, 0]
    assert (reward, terminated, truncated, info) == (0.0, True, False, {"is_success": True})


def test_an_episode_has_as_many_steps_as_bits():
    env = BitFlippingEnv(3)
    start(env, [0, 0, 0], [1, 1, 1])
    flags = [env.step(0)[2:4] for _ in range(3)]
    assert flags == [(False, False), (False, False), (False, True)]
    start(env, [0, 0, 0], [1, 1, 1])
    flags = [env.step(i)[2:4] for i in range(3)]
    assert flags == [(False, False), (False, False), (True, False)]  # not at the limit
    env = BitFlippingEnv(3, ends_at_goal=False)
    start(env, [0, 0, 0], [1, 1, 1])
    assert [env.step(i)[2:4] for i in range(3)][-1] == (False, True)


def test_functions_of_goals_take_rows_of_numpy_and_jax():
    achieved = np.float32([[[0, 1], [1, 1]], [[0, 0], [1, 0]]])
    desired = np.float32([[[0, 1], [1, 0]], [[0, 1], [1, 0]]])
    wanted = np.array([[True, False], [False, True]])
    for convert in (np.asarray, jnp.asarray):
        goals = (convert(achieved), convert(desired), {})
        np.testing.assert_array_equal(bit_flipping.is_at_goal(*goals), wanted)
        np.testing.assert_array_equal(bit_flipping.compute_reward(*goals), wanted - 1.0)
        assert bit_flipping.compute_reward(*goals).dtype == np.float32
        assert not bit_flipping.is_never_over(*goals).any()
        assert bit_flipping.is_never_over(*goals).shape == (2, 2)


def test_the_environment_offers_its_functions_for_relabelling():
    ends, endless = BitFlippingEnv(2), BitFlippingEnv(2, ends_at_goal=False)
    assert ends.compute_reward is ends.jax_compute_reward is bit_flipping.compute_reward
    assert ends.compute_terminated is ends.jax_compute_terminated is bit_flipping.is_at_goal
    assert endless.compute_terminated is endless.jax_compute_terminated
    goal = np.ones(2, np.float32)
    assert bool(ends.compute_terminated(goal, goal, {}))
    assert not bool(endless.compute_terminated(goal, goal, {}))
    assert not bool(ends.compute_truncated(goal, goal, {}))


def test_gymnasium_makes_and_checks_the_environment():
    env = gymnasium.make("purerl/BitFlipping-v0", n_bits=5)
    assert env.action_space == gymnasium.spaces.Discrete(5)
    check_env(BitFlippingEnv(5), skip_render_check=True)
    first, again, other = (env.reset(seed=seed)[0] for seed in (1, 1, 2))
    same = [np.array_equal(first[name], again[name]) for name in first]
    assert all(same)
    assert not all(np.array_equal(first[name], other[name]) for name in first)


def test_starts_and_goals_are_uniform_and_independent():
    env = BitFlipping(2)
    state, obs = jax.vmap(env.reset, (0, None))(jax.random.split(jax.random.key(0), 8_000), None)
    np.testing.assert_array_equal(state, obs)
    gym = BitFlippingEnv(2)
    gym.reset(seed=0)
    starts = [gym.reset()[0] for _ in range(8_000)]
    other = [[*x["observation"], *x["desired_goal"]] for x in starts]
    for rows in (np.asarray(state), np.array(other)):
        counts = np.bincount(rows.astype(int) @ [8, 4, 2, 1], minlength=16)
        # Chi-square with 15 degrees of freedom: 37.7 is exceeded once in a thousand.
        assert ((counts - 500) ** 2 / 500).sum() < 37.7


def test_the_jax_environment_is_a_static_argument():
    assert hash(BitFlipping(4)) == hash(BitFlipping(4))
    assert BitFlipping(4) != BitFlipping(5)
    env = BitFlipping(4)
    assert (env.spec.obs_shape, env.spec.goal_size, env.spec.act_dim) == ((8,), 4, 4)
    assert env.max_steps == 4


def test_invalid_arguments_are_refused():
    for cls in (BitFlipping, BitFlippingEnv):
        with pytest.raises(ValueError, match="^n_bits must be an integer of at least 1, got 0"):
            cls(0)
        with pytest.raises(ValueError, match="^ends_at_goal must be True or False, got 1"):
            cls(4, 1)
    with pytest.raises(ValueError, match="^render_mode must be None, got 'human'"):
        BitFlippingEnv(render_mode="human")
