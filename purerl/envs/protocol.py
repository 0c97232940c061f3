"""The protocol of an environment written in JAX: two pure functions, and what describes them.

A class follows the protocol if it has the names below; it does not have to inherit from `JaxEnv`. A
frozen dataclass is the usual form, because programs are compiled once per environment: it must be
hashable and compare by value.

An environment has no time limit and never resets itself. `purerl.envs.episodes` adds both.

`params` contains numbers that a user may vary without another compilation, such as gravity. They
are arguments of `reset` and `step`, so that `jax.vmap` maps over variants of an environment:

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from purerl.envs.classic.cartpole import CartPole
    >>> env = CartPole()
    >>> state, obs = env.reset(jax.random.key(0), env.params)
    >>> moons = env.params._replace(gravity=jnp.array([1.6, 9.8]))
    >>> axes = type(moons)(*(0 if x is moons.gravity else None for x in moons))
    >>> step = jax.vmap(env.step, (None, None, None, axes))
    >>> step(jax.random.key(1), state, jnp.int32(1), moons)[1].shape
    (2, 4)
"""

from typing import Any, Protocol

import jax

from purerl.spaces import EnvSpec


class JaxEnv(Protocol):
    """An environment as pure functions of one state; `jax.vmap` makes many of it."""

    @property
    def spec(self) -> EnvSpec:
        """Spaces of observations and actions."""

    @property
    def max_steps(self) -> int | None:
        """Number of steps after which an episode should be cut, or None."""

    @property
    def params(self) -> Any:
        """Default parameters: any pytree of numbers, or None."""

    def reset(self, key: jax.Array, params: Any) -> tuple[Any, jax.Array]:
        """Return the state and the observation at the start of an episode.

        Args:
            key: PRNG key used for the start.
            params: Parameters of the same structure as the property `params`.
        """

    def step(
        self, key: jax.Array, state: Any, action: jax.Array, params: Any
    ) -> tuple[Any, jax.Array, jax.Array, jax.Array, dict[str, Any]]:
        """Make one step.

        Args:
            key: PRNG key used for this step.
            state: State from `reset` or `step`; any pytree of arrays.
            action: Action in the environment's units, inside its bounds.
            params: Parameters of the same structure as the property `params`.

        Returns:
            State, observation, reward `()`, whether the episode ends in a terminal state `()`, and
            a dictionary `info` of arrays. Structure, shapes and dtypes of the state never change.
        """
