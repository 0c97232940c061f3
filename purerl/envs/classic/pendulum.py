r"""Pendulum: swing a pendulum up with a weak torque. Equal to `Pendulum-v1`.

The angle :math:`\theta` is 0 when the pendulum stands upright. With the torque :math:`u`,

.. math::
    \ddot\theta = \frac{3 g}{2 l} \sin\theta + \frac{3}{m l^2} u, \qquad
    r = -(\theta^2 + 0.1 \, \dot\theta^2 + 0.001 \, u^2),

where the reward :math:`r` uses the state before the step, and its angle in :math:`[-\pi, \pi)`. The
new velocity moves the angle (semi-implicit Euler). An episode never terminates.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.spaces import Box, EnvSpec


class Params(NamedTuple):
    """Physical constants. Each may be an array, for example to map `step` over several values."""

    gravity: Any = 10.0
    mass: Any = 1.0
    length: Any = 1.0
    dt: Any = 0.05  # seconds per step
    max_speed: Any = 8.0
    max_torque: Any = 2.0  # actions are clipped to it


DEFAULTS = Params()


@dataclasses.dataclass(frozen=True)
class Pendulum:
    """Pendulum in JAX: pure functions, without a time limit and without automatic reset.

    The state is `theta, theta_dot`, float32 `[2]`. An observation is `cos(theta), sin(theta),
    theta_dot`.

    Example:
        >>> env = Pendulum()
        >>> state, obs = env.reset(jax.random.key(0), env.params)
        >>> state, obs, reward, terminated, info = env.step(
        ...     jax.random.key(1), state, jnp.float32([0.5]), env.params
        ... )
        >>> obs.shape, bool(reward < 0), bool(terminated)
        ((3,), True, False)
    """

    params: Params = DEFAULTS

    @property
    def spec(self) -> EnvSpec:
        """Spaces: an action is a torque in [-2, 2]."""
        return EnvSpec((3,), Box((-2.0,), (2.0,)))

    @property
    def max_steps(self) -> int:
        """Number of steps after which an episode is cut."""
        return 200

    def reset(self, key: jax.Array, params: Params) -> tuple[jax.Array, jax.Array]:
        r"""Return a state and its observation: any angle, and a velocity in [-1, 1).

        Args:
            key: PRNG key used for the state.
            params: Physical constants.
        """
        high = jnp.float32([math.pi, 1.0])
        state = jax.random.uniform(key, (2,), jnp.float32, -high, high)
        return state, _observe(state)

    def step(
        self, key: jax.Array, state: jax.Array, action: jax.Array, params: Params
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, dict[str, jax.Array]]:
        """Apply a torque and integrate over `params.dt` seconds.

        Args:
            key: PRNG key, which is not used.
            state: State from `reset` or `step`, `[2]`.
            action: Torque, `[1]`.
            params: Physical constants.

        Returns:
            State, observation, reward, False, and an empty `info`.
        """
        theta, theta_dot = state
        torque = jnp.clip(action[0], -params.max_torque, params.max_torque)
        cost = _wrap(theta) ** 2 + 0.1 * theta_dot**2 + 0.001 * torque**2

        inertia = params.mass * params.length**2
        theta_acc = 1.5 * params.gravity / params.length * jnp.sin(theta) + 3 / inertia * torque
        theta_dot = theta_dot + theta_acc * params.dt
        theta_dot = jnp.clip(theta_dot, -params.max_speed, params.max_speed)
        theta = theta + theta_dot * params.dt  # the new velocity
        state = jnp.stack([theta, theta_dot])
        return state, _observe(state), -cost, jnp.bool_(False), {}


def _observe(state: jax.Array) -> jax.Array:
    theta, theta_dot = state
    return jnp.stack([jnp.cos(theta), jnp.sin(theta), theta_dot])


def _wrap(theta: jax.Array) -> jax.Array:
    """Return the same angle in [-pi, pi)."""
    return (theta + math.pi) % (2 * math.pi) - math.pi
