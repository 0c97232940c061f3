r"""CartPole: balance a pole on a cart that is pushed left or right. Equal to `CartPole-v1`.

The angle :math:`\theta` of the pole is 0 when it stands upright. With a force :math:`F` on the
cart,

.. math::
    q = \frac{F + m_p l \dot\theta^2 \sin\theta}{m_c + m_p}, \qquad
    \ddot\theta = \frac{g \sin\theta - q \cos\theta}
        {l \left(\frac{4}{3} - \frac{m_p \cos^2\theta}{m_c + m_p}\right)}, \qquad
    \ddot x = q - \frac{m_p l \ddot\theta \cos\theta}{m_c + m_p},

where :math:`l` is half the length of the pole. The explicit Euler method integrates these
equations. The reward is 1 for each step. An episode ends when cart or pole leaves its range.

Reference: Barto, Sutton and Anderson, 1983, "Neuronlike adaptive elements that can solve difficult
learning control problems"; https://coneural.org/florian/papers/05_cart_pole.pdf for the equations.
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
    cart_mass: Any = 1.0
    pole_mass: Any = 0.1
    half_length: Any = 0.5  # of the pole
    force: Any = 10.0  # of one push
    dt: Any = 0.02  # seconds per step
    max_x: Any = 2.4
    max_theta: Any = 12 * 2 * math.pi / 360  # 12 degrees


DEFAULTS = Params()


@dataclasses.dataclass(frozen=True)
class CartPole:
    """CartPole in JAX: pure functions, without a time limit and without automatic reset.

    The state is `x, x_dot, theta, theta_dot`, float32 `[4]`. Observations equal it.

    Example:
        >>> env = CartPole()
        >>> state, obs = env.reset(jax.random.key(0), env.params)
        >>> state, obs, reward, terminated, info = env.step(
        ...     jax.random.key(1), state, jnp.int32(1), env.params
        ... )
        >>> obs.shape, float(reward), bool(terminated)
        ((4,), 1.0, False)
    """

    params: Params = DEFAULTS

    @property
    def spec(self) -> EnvSpec:
        """Spaces: actions are 0, a push to the left, and 1, a push to the right."""
        return EnvSpec((4,), Discrete(2))

    @property
    def max_steps(self) -> int:
        """Number of steps after which an episode is cut."""
        return 500

    def reset(self, key: jax.Array, params: Params) -> tuple[jax.Array, jax.Array]:
        """Return a state and its observation, each entry uniform in [-0.05, 0.05).

        Args:
            key: PRNG key used for the state.
            params: Physical constants.
        """
        state = jax.random.uniform(key, (4,), jnp.float32, -0.05, 0.05)
        return state, state

    def step(
        self, key: jax.Array, state: jax.Array, action: jax.Array, params: Params
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, dict[str, jax.Array]]:
        """Push the cart and integrate over `params.dt` seconds.

        Args:
            key: PRNG key, which is not used.
            state: State from `reset` or `step`, `[4]`.
            action: 0 or 1.
            params: Physical constants.

        Returns:
            State, observation, reward, whether cart or pole left its range, and an empty `info`.
        """
        _, x_dot, theta, theta_dot = state
        force = jnp.where(action == 1, params.force, -params.force)
        mass = params.cart_mass + params.pole_mass
        moment = params.pole_mass * params.half_length
        sin, cos = jnp.sin(theta), jnp.cos(theta)

        push = (force + moment * theta_dot**2 * sin) / mass
        inertia = params.half_length * (4.0 / 3.0 - params.pole_mass * cos**2 / mass)
        theta_acc = (params.gravity * sin - push * cos) / inertia
        x_acc = push - moment * theta_acc * cos / mass

        velocities = jnp.stack([x_dot, x_acc, theta_dot, theta_acc])
        state = state + params.dt * velocities  # all velocities from before the step
        is_outside = (jnp.abs(state[0]) > params.max_x) | (jnp.abs(state[2]) > params.max_theta)
        return state, state, jnp.float32(1), is_outside, {}
