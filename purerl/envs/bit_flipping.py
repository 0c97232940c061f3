"""Bit flipping: reach a goal of n bits by flipping one bit per step, with a reward only there.

The smallest problem that plain DQN does not solve and hindsight experience replay does. Start and
goal are n random bits each. The reward is 0 for a step that reaches the goal and -1 for any other.
An episode ends at the goal, and after n steps at the latest. An episode that starts at its goal has
to leave it and return.

Reference: Andrychowicz et al., 2017, https://arxiv.org/abs/1707.01495, section 3.1.

`BitFlipping` has the pure functions for a loop in JAX, and `BitFlippingEnv` is a goal environment
of Gymnasium. The functions of achieved and desired goals serve both: they take NumPy and JAX
arrays `[..., n]`.

Difference from the paper: an episode ends at the goal. With `ends_at_goal=False` it always has n
steps, as in the paper, and a policy at its goal has to leave it again.
"""

import dataclasses
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from purerl import checks
from purerl.spaces import Discrete, EnvSpec


def is_at_goal(achieved_goal: Any, desired_goal: Any, info: Any = None) -> Any:
    """Return whether all bits of each goal are equal, `[...]`."""
    return (achieved_goal == desired_goal).all(axis=-1)


def is_never_over(achieved_goal: Any, desired_goal: Any, info: Any = None) -> Any:
    """Return False for each goal, `[...]`."""
    return is_at_goal(achieved_goal, desired_goal) & False


def compute_reward(achieved_goal: Any, desired_goal: Any, info: Any = None) -> Any:
    """Return 0 for each goal that is achieved and -1 for any other, float32 `[...]`."""
    return is_at_goal(achieved_goal, desired_goal).astype(np.float32) - np.float32(1)


@dataclasses.dataclass(frozen=True)
class BitFlipping:
    """Bit flipping in JAX: pure functions, without a time limit and without automatic reset.

    Example:
        >>> env = BitFlipping(n_bits=3)
        >>> state, obs = env.reset(jax.random.key(0), env.params)
        >>> state, obs, reward, terminated, info = env.step(
        ...     jax.random.key(1), state, jnp.int32(0), env.params
        ... )
        >>> obs.shape, float(reward), bool(info["is_success"])
        ((6,), 0.0, True)
    """

    n_bits: int = 10
    ends_at_goal: bool = True
    params: None = None  # no parameters of the protocol

    jax_compute_reward = staticmethod(compute_reward)

    def __post_init__(self) -> None:
        """Check the fields."""
        checks.integer("n_bits", self.n_bits, 1)
        checks.boolean("ends_at_goal", self.ends_at_goal)

    @property
    def spec(self) -> EnvSpec:
        """Spaces: observations are the bits and then the goal."""
        return EnvSpec((2 * self.n_bits,), Discrete(self.n_bits), goal_size=self.n_bits)

    @property
    def max_steps(self) -> int:
        """Number of steps after which an episode is cut."""
        return self.n_bits

    @property
    def jax_compute_terminated(self) -> Any:
        """Function that returns whether goals end an episode."""
        return is_at_goal if self.ends_at_goal else is_never_over

    def reset(self, key: jax.Array, params: None) -> tuple[jax.Array, jax.Array]:
        """Return a state, random bits and then a random goal, and the observation, which equals it.

        Args:
            key: PRNG key used for bits and goal.
            params: None.
        """
        state = jax.random.bernoulli(key, shape=(2 * self.n_bits,)).astype(jnp.float32)
        return state, state

    def step(
        self, key: jax.Array, state: jax.Array, action: jax.Array, params: None
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, dict[str, jax.Array]]:
        """Flip the bit `action`.

        Args:
            key: PRNG key, which is not used.
            state: State from `reset` or `step`.
            action: Index of a bit, 0 .. n - 1.
            params: None.

        Returns:
            State, observation, reward, whether the episode ends at its goal, and `info` with
            `achieved_goal` and `is_success`.
        """
        state = state.at[action].set(1 - state[action])
        bits, goal = state[: self.n_bits], state[self.n_bits :]
        success = is_at_goal(bits, goal)
        info = {"achieved_goal": bits, "is_success": success}
        terminated = self.jax_compute_terminated(bits, goal)
        return state, state, compute_reward(bits, goal), terminated, info


class BitFlippingEnv(gymnasium.Env[Any, np.int64]):
    """Bit flipping as a goal environment of Gymnasium.

    Args:
        n_bits: Number of bits, and the largest number of steps of an episode.
        ends_at_goal: Whether reaching the goal ends an episode.
        render_mode: None; there is nothing to draw.
    """

    compute_reward = staticmethod(compute_reward)
    jax_compute_reward = compute_reward
    compute_truncated = staticmethod(is_never_over)  # the time limit does not depend on goals

    def __init__(
        self, n_bits: int = 10, ends_at_goal: bool = True, render_mode: str | None = None
    ) -> None:
        """Make the spaces."""
        checks.integer("n_bits", n_bits, 1)
        checks.boolean("ends_at_goal", ends_at_goal)
        if render_mode is not None:
            raise ValueError(f"render_mode must be None, got {render_mode!r}.")
        bits = gymnasium.spaces.Box(0.0, 1.0, (n_bits,), np.float32)
        names = ("observation", "achieved_goal", "desired_goal")
        self.observation_space = gymnasium.spaces.Dict(dict.fromkeys(names, bits))
        self.action_space = gymnasium.spaces.Discrete(n_bits)
        self.render_mode = render_mode
        self.compute_terminated = is_at_goal if ends_at_goal else is_never_over
        self.jax_compute_terminated = self.compute_terminated
        self._max_episode_steps = n_bits  # the name under which Gymnasium's TimeLimit has it
        self._bits = self._goal = np.zeros(n_bits, np.float32)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Start an episode with random bits and a random goal."""
        super().reset(seed=seed)
        shape = (2, self._max_episode_steps)
        self._bits, self._goal = self.np_random.integers(0, 2, shape).astype(np.float32)
        self._steps = 0
        return self._observe(), {}

    def step(
        self, action: np.int64
    ) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Flip the bit `action`."""
        self._bits[action] = 1 - self._bits[action]
        self._steps += 1
        goals = (self._bits, self._goal)
        terminated = bool(self.compute_terminated(*goals))
        truncated = not terminated and self._steps >= self._max_episode_steps
        info = {"is_success": bool(is_at_goal(*goals))}
        return self._observe(), float(compute_reward(*goals)), terminated, truncated, info

    def _observe(self) -> dict[str, np.ndarray]:
        """Return copies of the bits and of the goal."""
        bits = self._bits.copy()
        return {
            "observation": bits,
            "achieved_goal": bits.copy(),
            "desired_goal": self._goal.copy(),
        }
