"""Environments in JAX as environments of Gymnasium."""

import dataclasses

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from purerl import rng
from purerl.envs import episodes
from purerl.envs.bit_flipping import BitFlipping
from purerl.envs.breakout import Breakout
from purerl.envs.catch import Catch
from purerl.envs.classic.acrobot import Acrobot
from purerl.envs.classic.cartpole import CartPole
from purerl.envs.classic.mountain_car import MountainCar, MountainCarContinuous
from purerl.envs.classic.pendulum import Pendulum
from purerl.envs.gymnasium_env import GymnasiumEnv, make_action_space, make_obs_space
from purerl.loops.faults import get_time_limit
from purerl.spaces import Box, Discrete, EnvSpec, MultiDiscrete
from tests.envs.classic.compare import sample_action

ALL = [
    *(CartPole(), Pendulum(), Acrobot(), MountainCar(), MountainCarContinuous()),
    *(Catch(), Breakout(), Breakout(flat=False), BitFlipping()),
]


@pytest.mark.filterwarnings("ignore:.*Box (action|observation) space:UserWarning")
@pytest.mark.parametrize("env", [Pendulum(), Breakout(flat=False)])
def test_gymnasium_accepts_the_environment(env):
    check_env(GymnasiumEnv(env), skip_render_check=True)


@pytest.mark.parametrize("env", ALL, ids=lambda env: type(env).__name__)
def test_the_spaces_are_those_of_the_specification(env):
    gym = GymnasiumEnv(env)
    assert EnvSpec.of(gym) == dataclasses.replace(env.spec, goal_size=0)
    assert get_time_limit(gym) == env.max_steps
    obs, info = gym.reset(seed=1)
    assert obs in gym.observation_space
    assert info == {}
    assert isinstance(obs, np.ndarray)


@dataclasses.dataclass(frozen=True)
class Short(Breakout):
    """Breakout with a limit that some episodes reach."""

    max_steps: int = 17


@dataclasses.dataclass(frozen=True)
class ShortCar(MountainCarContinuous):
    """The mountain car with a limit. Its reward depends on the action even outside the bounds."""

    max_steps: int = 30


@pytest.mark.parametrize("env", [Short(), ShortCar(), Catch()], ids=lambda env: type(env).__name__)
def test_it_plays_exactly_the_episodes_of_the_compiled_loop(env):
    """Breakout uses the keys of steps, actions of the car are clipped, and Catch ends by itself."""
    seed, rank, steps = 7, 3, 80
    keys = jax.random.split(jax.random.key(1), steps)
    actions = jax.vmap(lambda key: jax.vmap(lambda k: sample_action(env, k))(jax.random.split(key)))
    actions = actions(keys)

    def advance(now, act):
        return episodes.step(
            env, env.params, jnp.uint32(seed), jnp.uint32(rank), env.max_steps, now, act
        )

    first = episodes.reset(env, env.params, jnp.uint32(seed), jnp.uint32(rank), 2)
    _, result = jax.jit(lambda: jax.lax.scan(advance, first, actions))()
    rows = jax.tree.map(np.asarray, result.transition)
    assert result.ended.any()

    for i in range(2):
        gym = GymnasiumEnv(env, lambda e, i=i: rng.stream(seed, rank, "env", i, e))
        obs, _ = gym.reset(seed=99)
        for t in range(steps):
            np.testing.assert_array_equal(obs, rows.obs[t, i])
            next_obs, rew, terminated, truncated, _ = gym.step(np.asarray(actions[t, i]))
            np.testing.assert_allclose(next_obs, rows.next_obs[t, i], atol=1e-5)
            np.testing.assert_allclose(rew, rows.rew[t, i], atol=1e-5)
            assert (terminated, truncated) == (rows.terminated[t, i], rows.truncated[t, i])
            obs = gym.reset()[0] if terminated or truncated else rows.next_obs[t, i]


def test_seeds_select_episodes():
    gym = GymnasiumEnv(CartPole())
    first, again, other, largest = (gym.reset(seed=seed)[0] for seed in (1, 1, 2, 2**32 - 1))
    np.testing.assert_array_equal(first, again)
    assert len(np.unique([first, other, largest], axis=0)) == 3
    _, a, b = (gym.reset(seed=seed)[0] for seed in (1, None, None))
    assert len(np.unique([first, a, b], axis=0)) == 3
    np.testing.assert_array_equal(
        [gym.reset(seed=1)[0], gym.reset()[0], gym.reset()[0]][1:], [a, b]
    )
    key_reset, _ = episodes.split_key(jax.random.key(1))
    np.testing.assert_array_equal(first, CartPole().reset(key_reset, CartPole().params)[1])
    with pytest.raises(ValueError, match="seed must be an integer in 0 .. 2"):
        gym.reset(seed=2**32)


def test_each_step_of_an_episode_has_its_own_key():
    gym = GymnasiumEnv(Breakout(sticky_action_prob=0.5))
    gym.reset(seed=0)
    places = []
    for t in range(12):
        places.append(int(gym._state.paddle))
        gym.step(1 + t % 2)
    assert len(set(np.diff(places))) == 2  # some actions are repeated, not none and not all


def test_the_limit_truncates_and_info_is_kept():
    gym = GymnasiumEnv(BitFlipping(3))
    gym.reset(seed=4)
    bits = gym._state
    wrong = int(np.argmin(bits[:3] != bits[3:]))
    steps = [gym.step(wrong) for _ in range(3)]
    assert [step[3] for step in steps] == [False, False, True]
    assert set(steps[0][4]) == {"achieved_goal", "is_success"}
    assert steps[0][4]["is_success"] == steps[0][2]


@dataclasses.dataclass(frozen=True)
class Endless(Catch):
    """Catch without a limit."""

    max_steps: None = None


def test_an_environment_without_a_limit_never_truncates():
    gym = GymnasiumEnv(Endless())
    gym.reset(seed=0)
    assert get_time_limit(gym) is None
    assert not any(gym.step(0)[3] for _ in range(12))


def test_it_can_be_drawn():
    gym = GymnasiumEnv(Catch(), render_mode="rgb_array")
    assert gym.render() is None
    gym.reset(seed=0)
    first = gym.render()
    assert first.shape == (200, 100, 3)
    gym.step(0)
    assert (gym.render() != first).any()
    assert gym.metadata == {"render_modes": ["rgb_array"], "render_fps": 10}
    assert GymnasiumEnv(Acrobot(), render_mode="rgb_array").metadata["render_fps"] == 15
    silent = GymnasiumEnv(Catch())
    silent.reset(seed=0)
    assert silent.render() is None
    with pytest.raises(ValueError, match="render_mode must be None or 'rgb_array', got 'human'"):
        GymnasiumEnv(Catch(), render_mode="human")


def test_step_needs_a_reset():
    with pytest.raises(ValueError, match="Call reset first"):
        GymnasiumEnv(Catch()).step(0)


def test_spaces_of_other_kinds():
    for dtype, low, high in (("uint8", 0, 255), ("int32", -(2**31), 2**31 - 1)):
        space = make_obs_space(EnvSpec((2, 3), Discrete(2), dtype))
        assert (space.low.min(), space.high.max(), str(space.dtype)) == (low, high, dtype)
        assert EnvSpec.of(GymnasiumEnv(Catch())).obs_shape == (50,)
    assert make_obs_space(EnvSpec((2,), Discrete(2), "bool")).dtype == bool
    box = Box((-1.0, 0.0, 2.0, 3.0), (1.0, 2.0, 5.0, 6.0), (2, 2))
    space = make_action_space(EnvSpec((1,), box))
    assert space == gymnasium.spaces.Box(
        np.float32([[-1, 0], [2, 3]]), np.float32([[1, 2], [5, 6]]), dtype=np.float32
    )
    space = make_action_space(EnvSpec((1,), MultiDiscrete((2, 3), (1, 0))))
    assert space == gymnasium.spaces.MultiDiscrete((2, 3), start=(1, 0))
    assert make_action_space(EnvSpec((1,), Discrete(3, -1))) == gymnasium.spaces.Discrete(
        3, start=-1
    )
