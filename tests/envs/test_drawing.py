"""Pictures of states."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.envs import drawing
from purerl.envs.bit_flipping import BitFlipping
from purerl.envs.breakout import Breakout
from purerl.envs.catch import Catch, State
from purerl.envs.classic.acrobot import Acrobot
from purerl.envs.classic.cartpole import CartPole
from purerl.envs.classic.mountain_car import MountainCar, MountainCarContinuous
from purerl.envs.classic.pendulum import Pendulum

CLASSIC = [CartPole(), Pendulum(), Acrobot(), MountainCar(), MountainCarContinuous()]


@pytest.mark.parametrize("env", CLASSIC, ids=lambda env: type(env).__name__)
def test_gymnasium_draws_its_own_environments(env):
    """The picture of a state is the one that Gymnasium draws in this state."""
    pytest.importorskip("pygame")
    states = [env.reset(jax.random.key(seed), env.params)[0] for seed in (0, 1)]
    states[1] = states[1] + 0.3
    gym = gymnasium.make(drawing.GYMNASIUM[type(env)], render_mode="rgb_array").unwrapped
    gym.reset(seed=3)
    pictures = []
    for state in states:
        gym.state = np.asarray(state, np.float64)
        pictures.append(drawing.draw(env, state))
        np.testing.assert_array_equal(pictures[-1], gym.render())
        assert pictures[-1].dtype == np.uint8
    assert (pictures[0] != pictures[1]).any()


def test_pendulum_shows_its_torque():
    pytest.importorskip("pygame")
    env, state = Pendulum(), jnp.float32([1.0, 0.0])
    with_arrow = drawing.draw(env, state, np.float32([2.0]))
    assert (with_arrow != drawing.draw(env, state)).any()


def test_a_grid_has_one_colour_per_channel_and_the_first_is_in_front():
    grid = np.zeros((2, 3, 2))
    grid[0, 1] = 1
    grid[1, 2, 1] = 1
    picture = drawing.draw_grid(grid)
    assert picture.shape == (40, 60, 3)
    middle = picture[10::20, 10::20]
    wanted = np.full((2, 3, 3), drawing.BACKGROUND)
    wanted[0, 1], wanted[1, 2] = drawing.COLOURS[:2]
    np.testing.assert_array_equal(middle, wanted)


def test_games_on_a_grid_are_drawn():
    env = Catch(rows=3)
    picture = drawing.draw(env, State(jnp.int32(0), jnp.int32(4), jnp.int32(1)))
    cells = (picture[10::20, 10::20] == drawing.COLOURS[0]).all(axis=-1)
    np.testing.assert_array_equal(np.argwhere(cells), [[0, 4], [2, 1]])
    env = Breakout()
    picture = drawing.draw(env, env.reset(jax.random.key(0), None)[0])
    assert picture.shape == (200, 200, 3)
    assert (picture[30, 10::20] == drawing.COLOURS[3]).all()


def test_other_environments_are_refused():
    with pytest.raises(ValueError, match=r"BitFlipping cannot be drawn. purerl draws Acrobot, Car"):
        drawing.draw(BitFlipping(), None)
