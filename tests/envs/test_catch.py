"""Catch: positions and outcomes by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.envs.catch import Catch, State


def test_a_whole_episode_by_hand():
    """The ball falls in column 0, and the paddle starts in column 2 of 5."""
    env = Catch(rows=4, flat=False)
    state = State(jnp.int32(0), jnp.int32(0), jnp.int32(2))
    boards = []
    for action, wanted in ((0, (0, False)), (1, (0, False)), (0, (1, True))):
        state, obs, reward, terminated, _ = env.step(None, state, jnp.int32(action), None)
        assert (float(reward), bool(terminated)) == wanted
        boards.append(["".join(str(int(x)) for x in row) for row in obs[..., 0]])
    assert boards == [
        ["00000", "10000", "00000", "01000"],
        ["00000", "00000", "10000", "01000"],
        ["00000", "00000", "00000", "10000"],
    ]


def test_a_missed_ball_is_punished_and_the_paddle_stays_on_the_board():
    env = Catch()
    state = State(jnp.int32(0), jnp.int32(0), jnp.int32(2))
    rewards, columns, ends = [], [], []
    for _ in range(9):
        state, _, reward, terminated, _ = env.step(None, state, jnp.int32(2), None)
        rewards.append(float(reward))
        columns.append(int(state.paddle))
        ends.append(bool(terminated))
    assert columns == [3, *[4] * 8]
    assert rewards == [*[0] * 8, -1]
    assert ends == [*[False] * 8, True]
    state = State(jnp.int32(0), jnp.int32(4), jnp.int32(0))
    assert int(env.step(None, state, jnp.int32(0), None)[0].paddle) == 0


def test_the_observation_is_the_flat_board():
    flat, board = Catch(rows=3), Catch(rows=3, flat=False)
    (state, obs), (_, wanted) = (env.reset(jax.random.key(1), None) for env in (flat, board))
    assert obs.shape == flat.spec.obs_shape == (15,)
    assert wanted.shape == board.spec.obs_shape == (3, 5, 1)
    np.testing.assert_array_equal(obs, wanted.ravel())
    assert wanted[0, state.ball_column, 0] == wanted[2, 2, 0] == 1
    assert wanted.sum() == 2
    assert flat.max_steps == 3


def test_the_ball_starts_in_each_column_alike():
    env = Catch()
    state, _ = jax.vmap(env.reset, (0, None))(jax.random.split(jax.random.key(0), 5_000), None)
    counts = np.bincount(state.ball_column, minlength=5)
    # Chi-square with 4 degrees of freedom: 18.5 is exceeded once in a thousand.
    assert ((counts - 1_000) ** 2 / 1_000).sum() < 18.5
    assert set(np.asarray(state.paddle)) == {2}


def test_fields_are_checked():
    with pytest.raises(ValueError, match="rows must be an integer of at least 2, got 1"):
        Catch(rows=1)
    with pytest.raises(ValueError, match="columns must be an integer of at least 1, got 0"):
        Catch(columns=0)
    with pytest.raises(ValueError, match="flat must be True or False, got 1"):
        Catch(flat=1)
