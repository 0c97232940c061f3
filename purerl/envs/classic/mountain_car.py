r"""Mountain car: leave a valley with an engine that is too weak to drive straight up.

`MountainCar` equals `MountainCar-v0`, and `MountainCarContinuous` equals Gymnasium's as well.
At position :math:`x` the height is :math:`\sin 3x`. With :math:`u \in [-1, 1]` one step is

.. math::
    v' = \mathrm{clip}(v + u f - g \cos 3x, \pm v_{max}), \qquad x' = \mathrm{clip}(x + v'),

and the car stops at the wall on the left. An episode ends at the goal. The reward is -1 for each
step. With continuous actions it is :math:`-0.1 \, u^2`, plus 100 at the goal.

Reference: Moore, 1990, "Efficient memory-based learning for robot control".
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.spaces import Box, Discrete, EnvSpec


class Params(NamedTuple):
    """Physical constants. Each may be an array, for example to map `step` over several values."""

    force: Any = 0.001  # acceleration at full throttle
    gravity: Any = 0.0025
    min_position: Any = -1.2
    max_position: Any = 0.6
    max_speed: Any = 0.07
    goal_position: Any = 0.5
    goal_velocity: Any = 0.0  # smallest velocity at the goal


DEFAULTS = Params()
CONTINUOUS = Params(force=0.0015, goal_position=0.45)


@dataclasses.dataclass(frozen=True)
class MountainCar:
    """Mountain car with three actions: pure functions, without a time limit or automatic reset.

    The state is position and velocity, float32 `[2]`. Observations equal it.

    Example:
        >>> env = MountainCar()
        >>> state, obs = env.reset(jax.random.key(0), env.params)
        >>> state, obs, reward, terminated, info = env.step(
        ...     jax.random.key(1), state, jnp.int32(2), env.params
        ... )
        >>> obs.shape, float(reward), bool(terminated)
        ((2,), -1.0, False)
    """

    params: Params = DEFAULTS

    @property
    def spec(self) -> EnvSpec:
        """Spaces: actions 0, 1, 2 accelerate to the left, not at all, and to the right."""
        return EnvSpec((2,), Discrete(3))

    @property
    def max_steps(self) -> int:
        """Number of steps after which an episode is cut."""
        return 200

    def reset(self, key: jax.Array, params: Params) -> tuple[jax.Array, jax.Array]:
        """Return a state and its observation: at rest, at a position in [-0.6, -0.4).

        Args:
            key: PRNG key used for the position.
            params: Physical constants.
        """
        state = _start(key)
        return state, state

    def step(
        self, key: jax.Array, state: jax.Array, action: jax.Array, params: Params
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, dict[str, jax.Array]]:
        """Accelerate and move.

        Args:
            key: PRNG key, which is not used.
            state: State from `reset` or `step`, `[2]`.
            action: 0, 1 or 2.
            params: Physical constants.

        Returns:
            State, observation, reward, whether the car is at the goal, and an empty `info`.
        """
        state, is_at_goal = _move(state, action - 1, params)
        return state, state, jnp.float32(-1), is_at_goal, {}


@dataclasses.dataclass(frozen=True)
class MountainCarContinuous:
    """Mountain car with a throttle in [-1, 1]: pure functions, as those of `MountainCar`.

    Example:
        >>> env = MountainCarContinuous()
        >>> state, obs = env.reset(jax.random.key(0), env.params)
        >>> state, obs, reward, terminated, info = env.step(
        ...     jax.random.key(1), state, jnp.float32([1.0]), env.params
        ... )
        >>> f"{float(reward):.1f}"
        '-0.1'
    """

    params: Params = CONTINUOUS

    @property
    def spec(self) -> EnvSpec:
        """Spaces: an action is a throttle in [-1, 1]."""
        return EnvSpec((2,), Box((-1.0,), (1.0,)))

    @property
    def max_steps(self) -> int:
        """Number of steps after which an episode is cut."""
        return 999

    def reset(self, key: jax.Array, params: Params) -> tuple[jax.Array, jax.Array]:
        """Return a state and its observation: at rest, at a position in [-0.6, -0.4).

        Args:
            key: PRNG key used for the position.
            params: Physical constants.
        """
        state = _start(key)
        return state, state

    def step(
        self, key: jax.Array, state: jax.Array, action: jax.Array, params: Params
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, dict[str, jax.Array]]:
        """Accelerate and move. As in `MountainCar`, but `action` is a throttle `[1]`."""
        throttle = action[0]
        state, is_at_goal = _move(state, jnp.clip(throttle, -1.0, 1.0), params)
        reward = jnp.where(is_at_goal, 100.0, 0.0) - 0.1 * throttle**2
        return state, state, reward, is_at_goal, {}


def _start(key: jax.Array) -> jax.Array:
    return jnp.stack([jax.random.uniform(key, (), jnp.float32, -0.6, -0.4), jnp.float32(0)])


def _move(state: jax.Array, throttle: jax.Array, params: Params) -> tuple[jax.Array, jax.Array]:
    """Return the state after one step with a throttle in [-1, 1], and whether it is at the goal."""
    position, velocity = state
    velocity = velocity + throttle * params.force - params.gravity * jnp.cos(3 * position)
    velocity = jnp.clip(velocity, -params.max_speed, params.max_speed)
    position = jnp.clip(position + velocity, params.min_position, params.max_position)
    is_at_wall = (position == params.min_position) & (velocity < 0)
    velocity = jnp.where(is_at_wall, 0.0, velocity)
    is_at_goal = (position >= params.goal_position) & (velocity >= params.goal_velocity)
    return jnp.stack([position, velocity]), is_at_goal
