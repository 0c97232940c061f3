r"""Acrobot: swing up two links by a torque at the joint between them. Equal to `Acrobot-v1`.

The angle :math:`\theta_1` is 0 when the first link hangs down, and :math:`\theta_2` is the angle of
the second link relative to the first. With the torque :math:`\tau`, and :math:`c_i` the distance of
the centre of mass of link i from its joint,

.. math::
    d_1 &= m_1 c_1^2 + m_2 (l_1^2 + c_2^2 + 2 l_1 c_2 \cos\theta_2) + 2 I \\
    d_2 &= m_2 (c_2^2 + l_1 c_2 \cos\theta_2) + I \\
    \phi_2 &= m_2 c_2 g \sin(\theta_1 + \theta_2) \\
    \phi_1 &= -m_2 l_1 c_2 \dot\theta_2 (\dot\theta_2 + 2 \dot\theta_1) \sin\theta_2
        + (m_1 c_1 + m_2 l_1) g \sin\theta_1 + \phi_2 \\
    \ddot\theta_2 &= \frac{\tau + \frac{d_2}{d_1} \phi_1
        - m_2 l_1 c_2 \dot\theta_1^2 \sin\theta_2 - \phi_2}
        {m_2 c_2^2 + I - d_2^2 / d_1}, \qquad
    \ddot\theta_1 = -\frac{d_2 \ddot\theta_2 + \phi_1}{d_1}.

One Runge-Kutta step of fourth order integrates these equations. The reward is -1 for each step, and
0 for the last one: an episode ends when the tip is more than one length above the upper joint.

Reference: Sutton and Barto, 1998, "Reinforcement Learning: An Introduction", section 11.3.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl.spaces import Discrete, EnvSpec


class Params(NamedTuple):
    """Physical constants. Each may be an array, for example to map `step` over several values."""

    gravity: Any = 9.8
    length_1: Any = 1.0
    mass_1: Any = 1.0
    mass_2: Any = 1.0
    centre_1: Any = 0.5  # distance of the centre of mass from the upper joint
    centre_2: Any = 0.5
    inertia: Any = 1.0  # moment of inertia of either link
    torque: Any = 1.0
    dt: Any = 0.2  # seconds per step
    max_speed_1: Any = 4 * math.pi
    max_speed_2: Any = 9 * math.pi


DEFAULTS = Params()


@dataclasses.dataclass(frozen=True)
class Acrobot:
    """Acrobot in JAX: pure functions, without a time limit and without automatic reset.

    The state is two angles in [-pi, pi] and their velocities, float32 `[4]`. An observation has
    cosine and sine of each angle, and then the velocities.

    Example:
        >>> env = Acrobot()
        >>> state, obs = env.reset(jax.random.key(0), env.params)
        >>> state, obs, reward, terminated, info = env.step(
        ...     jax.random.key(1), state, jnp.int32(2), env.params
        ... )
        >>> obs.shape, float(reward), bool(terminated)
        ((6,), -1.0, False)
    """

    params: Params = DEFAULTS

    @property
    def spec(self) -> EnvSpec:
        """Spaces: actions 0, 1, 2 are a negative, no, and a positive torque."""
        return EnvSpec((6,), Discrete(3))

    @property
    def max_steps(self) -> int:
        """Number of steps after which an episode is cut."""
        return 500

    def reset(self, key: jax.Array, params: Params) -> tuple[jax.Array, jax.Array]:
        """Return a state, each entry uniform in [-0.1, 0.1), and its observation.

        Args:
            key: PRNG key used for the state.
            params: Physical constants.
        """
        state = jax.random.uniform(key, (4,), jnp.float32, -0.1, 0.1)
        return state, _observe(state)

    def step(
        self, key: jax.Array, state: jax.Array, action: jax.Array, params: Params
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, dict[str, jax.Array]]:
        """Apply a torque and integrate over `params.dt` seconds.

        Args:
            key: PRNG key, which is not used.
            state: State from `reset` or `step`, `[4]`.
            action: 0, 1 or 2.
            params: Physical constants.

        Returns:
            State, observation, reward, whether the tip is high enough, and an empty `info`.
        """
        torque = (action - 1) * params.torque
        theta_1, theta_2, speed_1, speed_2 = _integrate(state, torque, params)
        theta_1, theta_2 = _wrap(theta_1), _wrap(theta_2)
        speed_1 = jnp.clip(speed_1, -params.max_speed_1, params.max_speed_1)
        speed_2 = jnp.clip(speed_2, -params.max_speed_2, params.max_speed_2)
        state = jnp.stack([theta_1, theta_2, speed_1, speed_2])
        is_high = -jnp.cos(theta_1) - jnp.cos(theta_1 + theta_2) > 1.0
        return state, _observe(state), jnp.where(is_high, 0.0, -1.0), is_high, {}


def _integrate(state: jax.Array, torque: jax.Array, params: Params) -> jax.Array:
    """Make one Runge-Kutta step of fourth order."""
    dt = params.dt
    k1 = _derive(state, torque, params)
    k2 = _derive(state + dt / 2 * k1, torque, params)
    k3 = _derive(state + dt / 2 * k2, torque, params)
    k4 = _derive(state + dt * k3, torque, params)
    return state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def _derive(state: jax.Array, torque: jax.Array, params: Params) -> jax.Array:
    """Return the derivative of the state, `[4]`."""
    theta_1, theta_2, speed_1, speed_2 = state
    g, l1, m1, m2, c1, c2, moment = params[:7]
    sin_2, cos_2 = jnp.sin(theta_2), jnp.cos(theta_2)

    d1 = m1 * c1**2 + m2 * (l1**2 + c2**2 + 2 * l1 * c2 * cos_2) + 2 * moment
    d2 = m2 * (c2**2 + l1 * c2 * cos_2) + moment
    phi_2 = m2 * c2 * g * jnp.sin(theta_1 + theta_2)
    phi_1 = (
        -m2 * l1 * c2 * speed_2 * (speed_2 + 2 * speed_1) * sin_2
        + (m1 * c1 + m2 * l1) * g * jnp.sin(theta_1)
        + phi_2
    )
    acc_2 = torque + d2 / d1 * phi_1 - m2 * l1 * c2 * speed_1**2 * sin_2 - phi_2
    acc_2 = acc_2 / (m2 * c2**2 + moment - d2**2 / d1)
    acc_1 = -(d2 * acc_2 + phi_1) / d1
    return jnp.stack([speed_1, speed_2, acc_1, acc_2])


def _observe(state: jax.Array) -> jax.Array:
    cos, sin = jnp.cos(state), jnp.sin(state)
    return jnp.stack([cos[0], sin[0], cos[1], sin[1], state[2], state[3]])


def _wrap(theta: jax.Array) -> jax.Array:
    """Return the same angle in [-pi, pi], exactly the argument if it is there already."""
    return theta - 2 * math.pi * jnp.round(theta / (2 * math.pi))
