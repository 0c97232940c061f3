"""Environments of other libraries, with the protocol of `purerl.envs.protocol`.

| function | takes |
|---|---|
| `from_gymnax` | an environment of gymnax, 0.0.x or 1.x |
| `from_brax` | an environment of Brax |
| `from_playground` | an environment of MuJoCo Playground |
| `from_func_env` | a `gymnasium.experimental.functional.FuncEnv` |

purerl imports none of these packages. An adapter uses only the object that it is given. Time limits
and automatic resets of the other library are not used: `purerl.envs.episodes` has both.

Two adapters are equal only if they are the same object. Make each once, because every new one is
compiled again.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl import checks
from purerl.spaces import Box, Discrete, EnvSpec

UNREACHABLE = 2**30  # steps
Step = tuple[Any, jax.Array, jax.Array, jax.Array, dict[str, Any]]


@dataclasses.dataclass(frozen=True, eq=False)
class Gymnax:
    """An environment of gymnax; made by `from_gymnax`."""

    env: Any
    params: Any
    spec: EnvSpec
    max_steps: int | None

    def reset(self, key: jax.Array, params: Any) -> tuple[Any, jax.Array]:
        """Return state and observation."""
        obs, state = self.env.reset_env(key, params)
        return state, obs

    def step(self, key: jax.Array, state: Any, action: jax.Array, params: Any) -> Step:
        """Make one step. A sixth value of `step_env`, the time limit, is not used."""
        obs, state, reward, terminated, *_, info = self.env.step_env(key, state, action, params)
        return state, obs, jnp.reshape(reward, ()), jnp.reshape(terminated, ()), info


def from_gymnax(env: Any, params: Any = None) -> Gymnax:
    """Adapt an environment of gymnax.

    Versions 0.0.x report the time limit as the end of the task. The adapter therefore sets
    `params.max_steps_in_episode` out of reach and returns its value as `max_steps`. Observations of
    these versions that contain it, as in DiscountingChain-bsuite, are near 0 there.

    Args:
        env: First result of `gymnax.make`.
        params: Second result of `gymnax.make`, or None for the default.
    """
    params = env.default_params if params is None else params
    act, obs = env.action_space(params), env.observation_space(params)
    if not hasattr(obs, "low"):
        raise ValueError(
            f"observations must be a Box, got {obs!r}. Change reset_env, step_env and "
            f"observation_space in a subclass, for example to return jax.nn.one_hot(obs, n)."
        )
    shape = tuple(int(n) for n in obs.shape)
    spec = EnvSpec(shape, _read_action(act), np.dtype(obs.dtype).name)
    limit = getattr(params, "max_steps_in_episode", None)
    if limit is not None and not hasattr(env, "is_truncated"):  # a method since 1.0
        params = params.replace(max_steps_in_episode=type(limit)(UNREACHABLE))
    return Gymnax(env, params, spec, None if limit is None else int(limit))


def _read_action(space: Any) -> Box | Discrete:
    """Return the action space that equals one of gymnax."""
    if hasattr(space, "n"):
        return Discrete(int(space.n))
    if not hasattr(space, "low"):
        raise ValueError(
            f"actions must be Discrete or a Box, got {space!r}. Change step_env in a subclass, so "
            f"that it makes such an action from a Box."
        )
    bounds = [np.broadcast_to(np.asarray(x), space.shape).ravel() for x in (space.low, space.high)]
    if not np.isfinite(bounds).all():
        raise ValueError(
            f"actions must have finite bounds, got low {space.low} and high {space.high}. Change "
            f"action_space in a subclass."
        )
    low, high = (tuple(x.tolist()) for x in bounds)
    return Box(low, high, tuple(space.shape))


@dataclasses.dataclass(frozen=True, eq=False)
class Physics:
    """An environment of Brax or MuJoCo Playground."""

    env: Any
    spec: EnvSpec
    max_steps: int | None
    obs_key: str | None  # of observations that are a dict
    params: None = None  # no parameters of the protocol

    def reset(self, key: jax.Array, params: None) -> tuple[Any, jax.Array]:
        """Return state and observation. The state contains the key of later random numbers."""
        state = self.env.reset(jax.random.key_data(key))
        return state, self._observe(state)

    def step(self, key: jax.Array, state: Any, action: jax.Array, params: None) -> Step:
        """Make one step. Random numbers come from the state, not from `key`."""
        state = self.env.step(state, action)
        return state, self._observe(state), state.reward, state.done.astype(bool), state.metrics

    def _observe(self, state: Any) -> jax.Array:
        obs: jax.Array = state.obs if self.obs_key is None else state.obs[self.obs_key]
        return obs


def from_brax(env: Any, max_steps: int | None = 1_000, obs_key: str = "state") -> Physics:
    """Adapt an environment of Brax. Wrappers, for episodes or batches, are removed.

    Actions are in [-1, 1], as in Brax's own algorithms.

    Args:
        env: Result of `brax.envs.get_environment`.
        max_steps: Number of steps after which an episode is cut, as by default in Brax, or None.
        obs_key: Name of the observation, if the environment returns a dict of several.
    """
    if max_steps is not None:
        checks.integer("max_steps", max_steps, 1)
    env = getattr(env, "unwrapped", env)
    obs = jax.eval_shape(env.reset, jax.random.key_data(jax.random.key(0))).obs
    if isinstance(obs, Mapping) and obs_key not in obs:
        raise ValueError(
            f"observations are a dict with {', '.join(sorted(obs))}, and obs_key is {obs_key!r}. "
            f"Choose one of these names as obs_key."
        )
    key = obs_key if isinstance(obs, Mapping) else None
    shape = obs.shape if key is None else obs[key].shape
    size = int(env.action_size)
    spec = EnvSpec(tuple(shape), Box((-1.0,) * size, (1.0,) * size))
    return Physics(env, spec, max_steps, key)


def from_playground(env: Any, max_steps: int | None = None, obs_key: str = "state") -> Physics:
    """Adapt an environment of MuJoCo Playground. Wrappers are removed.

    Actions are in [-1, 1], as in Playground's own training.

    Args:
        env: Result of `mujoco_playground.registry.load`.
        max_steps: Number of steps after which an episode is cut; None for `episode_length` of the
            environment's configuration, or 1,000 without one.
        obs_key: Name of the observation, if the environment returns a dict of several.
    """
    env = getattr(env, "unwrapped", env)
    configured = getattr(getattr(env, "_config", None), "episode_length", 1_000)
    return from_brax(env, int(configured) if max_steps is None else max_steps, obs_key)


@dataclasses.dataclass(frozen=True, eq=False)
class Functional:
    """A functional environment of Gymnasium; made by `from_func_env`."""

    env: Any
    params: Any
    spec: EnvSpec
    max_steps: int | None

    def reset(self, key: jax.Array, params: Any) -> tuple[Any, jax.Array]:
        """Return state and observation."""
        key_state, key_obs = jax.random.split(key)
        state = self.env.initial(key_state, params)
        return state, self.env.observation(state, key_obs, params)

    def step(self, key: jax.Array, state: Any, action: jax.Array, params: Any) -> Step:
        """Make one step."""
        key_state, key_obs, key_reward, key_end = jax.random.split(key, 4)
        after = self.env.transition(state, action, key_state, params)
        obs = self.env.observation(after, key_obs, params)
        reward = self.env.reward(state, action, after, key_reward, params)
        terminated = self.env.terminal(after, key_end, params)
        info = self.env.transition_info(state, action, after, params)
        return after, obs, jnp.reshape(reward, ()), jnp.reshape(terminated, ()), info


def from_func_env(env: Any, params: Any = None, max_steps: int | None = None) -> Functional:
    """Adapt a functional environment of Gymnasium that is written in JAX.

    Args:
        env: A `gymnasium.experimental.functional.FuncEnv`.
        params: Parameters, or None for the default.
        max_steps: Number of steps after which an episode is cut, or None. A functional environment
            has no time limit.
    """
    if max_steps is not None:
        checks.integer("max_steps", max_steps, 1)
    params = env.default_params if params is None else params
    return Functional(env, params, EnvSpec.of(env), max_steps)
