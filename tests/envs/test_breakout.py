"""Breakout: bounces by hand, and random episodes against slow code with NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.envs.breakout import Breakout

ENV = Breakout(sticky_action_prob=0.0, flat=False)
STEP = jax.jit(ENV.step)
UP, DOWN, LEFT, RIGHT = -1, 1, -1, 1


def place(ball, moves, paddle=4, bricks=None, passing=False):
    """Return a state with the ball at (row, column), moving by (down, right)."""
    state, _ = ENV.reset(jax.random.key(0), None)
    if bricks is not None:
        wall = np.zeros((10, 10), bool)
        for cell in bricks:
            wall[cell] = True
        state = state._replace(bricks=jnp.asarray(wall))
    fields = zip(("row", "column", "down", "right", "paddle"), (*ball, *moves, paddle), strict=True)
    return state._replace(
        passing=jnp.bool_(passing), **{name: jnp.int32(value) for name, value in fields}
    )


def advance(state, action=0):
    """Make one step; return the state, the ball's place and direction, the reward and the end."""
    state, _, reward, terminated, _ = STEP(jax.random.key(0), state, jnp.int32(action), None)
    ball = tuple(int(x) for x in (state.row, state.column, state.down, state.right))
    return state, ball, float(reward), bool(terminated)


@pytest.mark.parametrize(
    ("ball", "moves", "wanted"),
    [
        ((6, 5), (UP, LEFT), (5, 4, UP, LEFT)),  # free
        ((6, 5), (DOWN, RIGHT), (7, 6, DOWN, RIGHT)),
        ((6, 0), (DOWN, LEFT), (7, 0, DOWN, RIGHT)),  # side walls
        ((6, 9), (UP, RIGHT), (5, 9, UP, LEFT)),
        ((0, 5), (UP, LEFT), (0, 4, DOWN, LEFT)),  # ceiling
        ((0, 0), (UP, LEFT), (0, 0, DOWN, RIGHT)),  # corner
        ((8, 4), (DOWN, RIGHT), (8, 5, UP, RIGHT)),  # the paddle is below the ball
        ((8, 3), (DOWN, RIGHT), (8, 4, UP, LEFT)),  # the paddle is where the ball goes
        ((8, 5), (DOWN, LEFT), (8, 4, UP, RIGHT)),
    ],
)
def test_the_ball_is_reflected(ball, moves, wanted):
    _, after, reward, terminated = advance(place(ball, moves))
    assert (after, reward, terminated) == (wanted, 0.0, False)


def test_a_ball_beside_the_paddle_is_lost():
    _, ball, reward, terminated = advance(place((8, 6), (DOWN, RIGHT)))
    assert (ball, reward, terminated) == ((9, 7, DOWN, RIGHT), 0.0, True)


def test_the_paddle_moves_before_the_ball():
    for action, column in ((0, 4), (1, 3), (2, 5)):
        state, *_ = advance(place((5, 5), (DOWN, RIGHT)), action)
        assert int(state.paddle) == column
    assert not advance(place((8, 5), (DOWN, RIGHT), paddle=4), 2)[3]  # it arrives in time
    assert advance(place((8, 4), (DOWN, LEFT), paddle=4), 2)[3]  # it has left
    for paddle, action in ((0, 1), (9, 2)):
        assert int(advance(place((5, 5), (UP, LEFT), paddle=paddle), action)[0].paddle) == paddle


def test_a_brick_is_worth_one_and_disappears():
    state, ball, reward, terminated = advance(place((4, 5), (UP, LEFT)))
    assert (ball, reward, terminated) == ((4, 4, DOWN, LEFT), 1.0, False)
    assert int(state.bricks.sum()) == 29
    assert not bool(state.bricks[3, 4])
    assert bool(state.passing)
    state, ball, reward, _ = advance(state)
    assert (ball, reward, bool(state.passing)) == ((5, 3, DOWN, LEFT), 0.0, False)


def test_after_a_hit_the_ball_passes_through_bricks_until_it_has_left_them():
    """The ball hits a brick from between two rows, and enters the lower one."""
    cells = [(1, 5), (3, 6), (4, 7)]
    state, ball, reward, _ = advance(place((2, 4), (UP, RIGHT), bricks=cells))
    assert (ball, reward) == ((2, 5, DOWN, RIGHT), 1.0)
    for wanted in ((3, 6), (4, 7)):
        state, ball, reward, _ = advance(state)
        assert (ball, reward) == ((*wanted, DOWN, RIGHT), 0.0)
        assert bool(state.passing)
    assert int(state.bricks.sum()) == 2
    state, *_ = advance(state)
    assert not bool(state.passing)


def test_a_new_wall_stands_when_the_ball_comes_down_after_the_last_brick():
    state, _, reward, _ = advance(place((4, 5), (UP, LEFT), bricks=[(3, 4)]))
    assert (reward, int(state.bricks.sum())) == (1.0, 0)
    for paddle, is_lost in ((4, False), (8, True)):
        state = place((7, 3), (DOWN, RIGHT), paddle=paddle, bricks=[])
        state, *_ = advance(state)
        assert int(state.bricks.sum()) == 0
        state, _, _, terminated = advance(state)
        assert terminated == is_lost
        wanted = np.zeros((10, 10), bool)
        wanted[1:4] = True
        np.testing.assert_array_equal(state.bricks, wanted)
    state, *_ = advance(place((8, 4), (DOWN, RIGHT), bricks=[(2, 2)]))
    assert int(state.bricks.sum()) == 1  # not before


def test_the_observation_has_one_channel_for_each_kind():
    state = place((4, 5), (UP, LEFT), paddle=2)
    state, obs, *_ = STEP(jax.random.key(0), state, jnp.int32(1), None)
    cells = [set(map(tuple, np.argwhere(obs[..., k]))) for k in range(3)]
    assert cells == [{(9, 1)}, {(4, 4)}, {(4, 5)}]
    np.testing.assert_array_equal(obs[..., 3], state.bricks)
    flat = Breakout(sticky_action_prob=0.0)
    np.testing.assert_array_equal(flat.reset(jax.random.key(3), None)[1].shape, (400,))
    np.testing.assert_array_equal(
        flat.reset(jax.random.key(3), None)[1], ENV.reset(jax.random.key(3), None)[1].ravel()
    )
    assert flat.spec.obs_shape == (400,)
    assert ENV.spec.obs_shape == (10, 10, 4)


def test_the_ball_starts_at_either_wall():
    keys = jax.random.split(jax.random.key(0), 1_000)
    state, _ = jax.vmap(ENV.reset, (0, None))(keys, None)
    right = np.asarray(state.column) == 9
    np.testing.assert_array_equal(state.column, np.where(right, 9, 0))
    np.testing.assert_array_equal(state.right, np.where(right, -1, 1))
    assert set(np.asarray(state.row)) == {3}
    assert set(np.asarray(state.down)) == {1}
    assert 450 < right.sum() < 550


def test_sticky_actions_repeat_the_last_action():
    always, often = Breakout(sticky_action_prob=1.0), Breakout(sticky_action_prob=0.3)
    state = place((5, 5), (UP, LEFT))._replace(action=jnp.int32(2))
    assert int(always.step(jax.random.key(0), state, jnp.int32(1), None)[0].paddle) == 5
    keys = jax.random.split(jax.random.key(0), 4_000)
    after = jax.vmap(often.step, (0, None, None, None))(keys, state, jnp.int32(1), None)[0]
    repeated = np.asarray(after.paddle) == 5
    assert abs(repeated.mean() - 0.3) < 0.03
    np.testing.assert_array_equal(after.action, np.where(repeated, 2, 1))


class Slow:
    """Breakout with loops and tables: directions are up-left, up-right, down-right, down-left."""

    STEPS = ((-1, -1), (-1, 1), (1, 1), (1, -1))
    SIDE, LEVEL, BACK = (1, 0, 3, 2), (3, 2, 1, 0), (2, 3, 0, 1)

    def __init__(self, from_right):
        self.ball, self.way = ((3, 9), 3) if from_right else ((3, 0), 2)
        self.trail, self.paddle, self.struck = self.ball, 4, False
        self.bricks = {(row, column) for row in (1, 2, 3) for column in range(10)}

    def step(self, action):
        if action == 1 and self.paddle > 0:
            self.paddle -= 1
        elif action == 2 and self.paddle < 9:
            self.paddle += 1
        self.trail = self.ball
        row, column = (a + b for a, b in zip(self.ball, self.STEPS[self.way], strict=True))
        if column in (-1, 10):
            column = self.ball[1]
            self.way = self.SIDE[self.way]
        reward, over, struck = 0, False, False
        if row == -1:
            row = 0
            self.way = self.LEVEL[self.way]
        elif (row, column) in self.bricks:
            struck = True
            if not self.struck:
                reward = 1
                self.bricks.remove((row, column))
                row = self.ball[0]
                self.way = self.LEVEL[self.way]
        elif row == 9:
            if not self.bricks:
                self.bricks = Slow(False).bricks
            if self.paddle == self.ball[1]:
                row, self.way = 8, self.LEVEL[self.way]
            elif self.paddle == column:
                row, self.way = 8, self.BACK[self.way]
            else:
                over = True
        self.struck, self.ball = struck, (row, column)
        return reward, over

    def draw(self):
        board = np.zeros((10, 10, 4), np.float32)
        board[9, self.paddle, 0] = board[(*self.ball, 1)] = board[(*self.trail, 2)] = 1
        for cell in self.bricks:
            board[(*cell, 3)] = 1
        return board


def test_random_episodes_equal_those_of_slow_code():
    """A player that follows the ball most of the time breaks all bricks, even twice."""

    def follow(state, key):
        luck = jax.random.uniform(key)
        aim = state.column + jnp.where(luck < 0.2, 0, state.right) - state.paddle
        wanted = jnp.where(aim < 0, 1, jnp.where(aim > 0, 2, 0))
        return jnp.where(luck > 0.99, 0, wanted)

    def play(key):
        key_reset, key_steps = jax.random.split(key)
        first, _ = ENV.reset(key_reset, None)

        def advance(state, key):
            action = follow(state, key)
            state, obs, reward, terminated, _ = ENV.step(key, state, action, None)
            return state, (action, obs, reward, terminated)

        return first.column == 9, jax.lax.scan(advance, first, jax.random.split(key_steps, 1_500))[
            1
        ]

    keys = jax.random.split(jax.random.key(0), 8)
    sides, rows = jax.tree.map(np.asarray, jax.jit(jax.vmap(play))(keys))
    scores, ends = [], 0
    for side, actions, boards, rewards, terminated in zip(sides, *rows, strict=True):
        slow, score = Slow(side), 0
        for action, board, reward, end in zip(actions, boards, rewards, terminated, strict=True):
            wanted, over = slow.step(action)
            assert (reward, end) == (wanted, over)
            np.testing.assert_array_equal(board, slow.draw())
            score += wanted
            if over:
                break
        scores.append(score)
        ends += over
    assert max(scores) > 30  # a second wall
    assert ends >= 2


def test_fields_are_checked():
    with pytest.raises(ValueError, match=r"sticky_action_prob must be a number in \[0.0, 1.0\]"):
        Breakout(sticky_action_prob=1.5)
    with pytest.raises(ValueError, match="flat must be True or False"):
        Breakout(flat=None)
