"""Catch: move a paddle under a falling ball. The rules are those of bsuite's Catch.

A ball starts in a random column of the first row and falls by one row per step. A paddle in the
last row moves to the left, stays, or moves to the right. The episode ends when the ball reaches the
last row. The reward is then 1 if the paddle is there and -1 if not. All other rewards are 0.

Reference: Osband et al., 2020, https://arxiv.org/abs/1908.03568, section "Catch".
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from purerl import checks
from purerl.spaces import Discrete, EnvSpec


class State(NamedTuple):
    """Positions; all are int32 `()`."""

    ball_row: jax.Array
    ball_column: jax.Array
    paddle: jax.Array  # its column


@dataclasses.dataclass(frozen=True)
class Catch:
    """Catch in JAX: pure functions, without a time limit and without automatic reset.

    An observation is the board, 1 at ball and paddle and 0 elsewhere: float32
    `[rows * columns]`, or `[rows, columns, 1]` with `flat=False`.

    Example:
        >>> env = Catch(rows=2, columns=3)
        >>> state, obs = env.reset(jax.random.key(0), env.params)
        >>> state, obs, reward, terminated, info = env.step(
        ...     jax.random.key(1), state, state.ball_column - state.paddle + 1, env.params
        ... )
        >>> obs.shape, float(reward), bool(terminated)
        ((6,), 1.0, True)
    """

    rows: int = 10
    columns: int = 5
    flat: bool = True
    params: None = None  # no parameters of the protocol

    def __post_init__(self) -> None:
        """Check the fields."""
        checks.integer("rows", self.rows, 2)
        checks.integer("columns", self.columns, 1)
        checks.boolean("flat", self.flat)

    @property
    def spec(self) -> EnvSpec:
        """Spaces: actions 0, 1, 2 move the paddle to the left, not at all, and to the right."""
        shape = (self.rows, self.columns, 1)
        return EnvSpec((self.rows * self.columns,) if self.flat else shape, Discrete(3))

    @property
    def max_steps(self) -> int:
        """Number of steps after which an episode is cut. Each ends one step before."""
        return self.rows

    def reset(self, key: jax.Array, params: None) -> tuple[State, jax.Array]:
        """Return a state, with the paddle in the middle, and its observation.

        Args:
            key: PRNG key used for the column of the ball.
            params: None.
        """
        column = jax.random.randint(key, (), 0, self.columns, jnp.int32)
        state = State(jnp.int32(0), column, jnp.int32(self.columns // 2))
        return state, self._observe(state)

    def step(
        self, key: jax.Array, state: State, action: jax.Array, params: None
    ) -> tuple[State, jax.Array, jax.Array, jax.Array, dict[str, jax.Array]]:
        """Move the paddle, and let the ball fall by one row.

        Args:
            key: PRNG key, which is not used.
            state: State from `reset` or `step`.
            action: 0, 1 or 2.
            params: None.

        Returns:
            State, observation, reward, whether the ball is in the last row, and an empty `info`.
        """
        paddle = jnp.clip(state.paddle + action - 1, 0, self.columns - 1)
        state = State(state.ball_row + 1, state.ball_column, paddle)
        is_down = state.ball_row == self.rows - 1
        outcome = jnp.where(state.ball_column == paddle, 1.0, -1.0)
        return state, self._observe(state), jnp.where(is_down, outcome, 0.0), is_down, {}

    def grid(self, state: State) -> jax.Array:
        """Return the board `[rows, columns, 1]`."""
        board = jnp.zeros((self.rows, self.columns, 1), jnp.float32)
        board = board.at[state.ball_row, state.ball_column].set(1.0)
        return board.at[self.rows - 1, state.paddle].set(1.0)

    def _observe(self, state: State) -> jax.Array:
        grid = self.grid(state)
        return grid.ravel() if self.flat else grid
