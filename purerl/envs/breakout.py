"""Breakout on a grid of 10 x 10 cells, with the rules of MinAtar.

The ball moves diagonally, by one cell per step. Side walls, the ceiling, bricks and the paddle
reflect it. A brick disappears when the ball hits it, with a reward of 1. After a hit the ball
passes through bricks until it has left them. When all bricks are gone, the wall is built again as
soon as the ball reaches the last row. An episode ends when the ball gets there beside the paddle.

With probability `sticky_action_prob` the previous action is repeated instead of the new one.

Reference: Young and Tian, 2019, https://arxiv.org/abs/1903.03176.

Difference from MinAtar: actions are those three that have an effect.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl import checks
from purerl.spaces import Discrete, EnvSpec

SIZE = 10  # rows and columns
LAST = SIZE - 1
WALL = (1, 2, 3)  # rows of bricks
MOVES = (0, -1, 1)  # of the paddle, for each action


class State(NamedTuple):
    """The board. Rows are counted from the top, columns from the left."""

    row: jax.Array  # int32 (), of the ball, as the next four
    column: jax.Array
    down: jax.Array  # 1 if the ball moves down, -1 if up
    right: jax.Array  # 1 if the ball moves to the right, -1 if to the left
    trail: jax.Array  # int32 [2], row and column before the last step
    paddle: jax.Array  # int32 (), its column
    bricks: jax.Array  # bool [10, 10]
    passing: jax.Array  # bool (), whether the ball passes through bricks
    action: jax.Array  # int32 (), the last action


@dataclasses.dataclass(frozen=True)
class Breakout:
    """Breakout in JAX: pure functions, without a time limit and without automatic reset.

    An observation has one channel of zeros and ones for each of paddle, ball, trail and bricks:
    float32 `[400]`, or `[10, 10, 4]` with `flat=False`.

    Example:
        >>> env = Breakout(flat=False)
        >>> state, obs = env.reset(jax.random.key(0), env.params)
        >>> state, obs, reward, terminated, info = env.step(
        ...     jax.random.key(1), state, jnp.int32(2), env.params
        ... )
        >>> obs.shape, obs.sum(axis=(0, 1)).tolist(), float(reward)
        ((10, 10, 4), [1.0, 1.0, 1.0, 30.0], 0.0)
    """

    sticky_action_prob: float = 0.1
    flat: bool = True
    params: None = None  # no parameters of the protocol

    def __post_init__(self) -> None:
        """Check the fields."""
        checks.real("sticky_action_prob", self.sticky_action_prob, 0.0, 1.0)
        checks.boolean("flat", self.flat)

    @property
    def spec(self) -> EnvSpec:
        """Spaces: actions 0, 1, 2 move the paddle not at all, to the left, and to the right."""
        return EnvSpec((SIZE * SIZE * 4,) if self.flat else (SIZE, SIZE, 4), Discrete(3))

    @property
    def max_steps(self) -> int:
        """Number of steps after which an episode is cut. MinAtar has no limit of its own."""
        return 1_000

    def reset(self, key: jax.Array, params: None) -> tuple[State, jax.Array]:
        """Return a state and its observation: the ball comes from the left or the right wall.

        Args:
            key: PRNG key used for the side of the ball.
            params: None.
        """
        from_right = jax.random.bernoulli(key)
        row, column = jnp.int32(3), jnp.where(from_right, jnp.int32(LAST), jnp.int32(0))
        state = State(
            row=row,
            column=column,
            down=jnp.int32(1),
            right=jnp.where(from_right, jnp.int32(-1), jnp.int32(1)),
            trail=jnp.stack([row, column]),
            paddle=jnp.int32(4),
            bricks=_build_wall(),
            passing=jnp.bool_(False),
            action=jnp.int32(0),
        )
        return state, self._observe(state)

    def step(
        self, key: jax.Array, state: State, action: jax.Array, params: None
    ) -> tuple[State, jax.Array, jax.Array, jax.Array, dict[str, jax.Array]]:
        """Move the paddle, then the ball.

        Args:
            key: PRNG key used for repeating the last action.
            state: State from `reset` or `step`.
            action: 0, 1 or 2.
            params: None.

        Returns:
            State, observation, reward, whether the ball is lost, and an empty `info`.
        """
        is_repeated = jax.random.bernoulli(key, self.sticky_action_prob)
        action = jnp.where(is_repeated, state.action, action)
        paddle = jnp.clip(state.paddle + jnp.array(MOVES)[action], 0, LAST)
        before = jnp.stack([state.row, state.column])
        state = state._replace(paddle=paddle, trail=before, action=action)
        state, reward, is_lost = _move_ball(state)
        return state, self._observe(state), reward, is_lost, {}

    def grid(self, state: State) -> jax.Array:
        """Return the board `[10, 10, 4]` with channels for paddle, ball, trail and bricks."""
        board = jnp.zeros((SIZE, SIZE, 4), jnp.float32).at[..., 3].set(state.bricks)
        board = board.at[LAST, state.paddle, 0].set(1.0)
        board = board.at[state.row, state.column, 1].set(1.0)
        return board.at[state.trail[0], state.trail[1], 2].set(1.0)

    def _observe(self, state: State) -> jax.Array:
        grid = self.grid(state)
        return grid.ravel() if self.flat else grid


def _build_wall() -> jax.Array:
    return jnp.zeros((SIZE, SIZE), bool).at[WALL, :].set(True)


def _move_ball(state: State) -> tuple[State, jax.Array, jax.Array]:
    """Return the state after the ball has moved, the reward, and whether the ball is lost."""
    row, column = state.row + state.down, state.column + state.right

    # The side walls reflect the ball, which then moves along the wall in this step.
    at_side = (column < 0) | (column > LAST)
    right, column = jnp.where(at_side, -state.right, state.right), jnp.clip(column, 0, LAST)

    # One of three things stops the ball on its way: the ceiling, a brick, or the last row.
    at_ceiling, row = row < 0, jnp.maximum(row, 0)
    at_brick = state.bricks[row, column]
    at_last = row == LAST
    breaks = at_brick & ~state.passing
    on_paddle = at_last & (state.column == state.paddle)  # the paddle is below the ball
    on_corner = at_last & ~on_paddle & (column == state.paddle)  # it is where the ball goes
    is_lost = at_last & ~on_paddle & ~on_corner

    # A new wall stands when the ball reaches the last row, and a hit brick is gone.
    is_cleared = at_last & ~state.bricks.any()
    bricks = state.bricks.at[row, column].set(at_brick & ~breaks)
    bricks = jnp.where(is_cleared, _build_wall(), bricks)

    # The ball keeps its row where it is reflected.
    is_reflected = at_ceiling | breaks | on_paddle | on_corner
    state = state._replace(
        row=jnp.where(is_reflected, state.row, row),
        column=column,
        down=jnp.where(is_reflected, -state.down, state.down),
        right=jnp.where(on_corner, -right, right),
        bricks=bricks,
        passing=at_brick,
    )
    return state, breaks.astype(jnp.float32), is_lost
