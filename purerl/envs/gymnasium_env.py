"""A Gymnasium environment around one written in JAX, for evaluation and videos."""

import functools
from collections.abc import Callable
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from purerl import checks
from purerl.envs import drawing, episodes
from purerl.envs.protocol import JaxEnv
from purerl.spaces import Box, Discrete, EnvSpec


class GymnasiumEnv(gymnasium.Env[Any, Any]):
    """An environment in JAX with the interface of Gymnasium.

    It truncates its episodes after `env.max_steps`, without a wrapper. If the environment has
    goals, an observation is the vector that ends with the goal.

    With `key_of` it plays the same episodes as `purerl.envs.episodes`. For environment i of them:

        GymnasiumEnv(env, key_of=lambda episode: rng.stream(seed, rank, "env", i, episode))

    Args:
        env: Environment, see `purerl.envs.protocol`.
        key_of: Function from the number of an episode, 0, 1, ..., to its key. Then the seeds
            given to `reset` have no effect.
        render_mode: None or "rgb_array".

    Example:
        >>> from purerl.envs.classic.cartpole import CartPole
        >>> env = GymnasiumEnv(CartPole())
        >>> obs, info = env.reset(seed=0)
        >>> obs, reward, terminated, truncated, info = env.step(1)
        >>> obs.shape, reward, terminated, truncated
        ((4,), 1.0, False, False)
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012 - as Gymnasium

    def __init__(
        self,
        env: JaxEnv,
        key_of: Callable[[int], jax.Array] | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Make the spaces."""
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode must be None or 'rgb_array', got {render_mode!r}.")
        self.jax_env = env
        self.observation_space = make_obs_space(env.spec)
        self.action_space = make_action_space(env.spec)
        self.render_mode = render_mode
        if render_mode is not None:
            self.metadata = self.metadata | {"render_fps": drawing.choose_fps(env)}
        self._max_episode_steps = env.max_steps  # the name under which TimeLimit has it
        self._key_of = key_of
        self._number = 0
        self._state: Any = None
        self._action: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode with the key of this seed, of a random seed, or of `key_of`."""
        super().reset(seed=seed)
        if self._key_of is not None:
            key = self._key_of(self._number)
        else:
            seed = int(self.np_random.integers(2**32)) if seed is None else seed
            checks.seed(seed)
            key = jax.random.key(jnp.uint32(seed))
        self._state, obs, self._key = _reset(self.jax_env, key, self.jax_env.params)
        self._number, self._length, self._action = self._number + 1, 0, None
        return self._convert(obs), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Make one step with an action that is clipped to the bounds of its space."""
        if self._state is None:
            raise ValueError("step was called before reset. Call reset first.")
        spec = self.jax_env.spec
        action = np.asarray(action, spec.action.dtype)
        self._action = spec.clip(action) if isinstance(spec.action, Box) else action
        self._state, *rest = _step(
            *(self.jax_env, self._key, np.int32(self._length)),
            *(self._state, self._action, self.jax_env.params),
        )
        obs, reward, terminated, info = jax.device_get(rest)
        self._length += 1
        limit = self._max_episode_steps
        truncated = limit is not None and self._length >= limit
        return self._convert(obs), float(reward), bool(terminated), truncated, info

    def render(self) -> Any:
        """Return a picture `[height, width, 3]`, or None without a `render_mode`."""
        if self.render_mode is None or self._state is None:
            return None
        return drawing.draw(self.jax_env, self._state, self._action)

    def _convert(self, obs: Any) -> np.ndarray:
        return np.array(obs, self.jax_env.spec.obs_dtype)


@functools.partial(jax.jit, static_argnums=0)
def _reset(env: JaxEnv, key: jax.Array, params: Any) -> tuple[Any, jax.Array, jax.Array]:
    """Return state, observation, and the key for the steps of the episode."""
    key_reset, key_steps = episodes.split_key(key)
    return *env.reset(key_reset, params), key_steps


@functools.partial(jax.jit, static_argnums=0)
def _step(
    env: JaxEnv, key: jax.Array, length: jax.Array, state: Any, action: jax.Array, params: Any
) -> Any:
    return env.step(jax.random.fold_in(key, length), state, action, params)


def make_obs_space(spec: EnvSpec) -> spaces.Box:
    """Return the space of observations, without bounds if they are floats."""
    dtype = np.dtype(spec.obs_dtype)
    if dtype.kind == "f":
        return spaces.Box(-np.inf, np.inf, spec.obs_shape, dtype.type)
    if dtype.kind == "b":
        return spaces.Box(0, 1, spec.obs_shape, dtype.type)
    limits = np.iinfo(dtype)
    return spaces.Box(limits.min, limits.max, spec.obs_shape, dtype.type)


def make_action_space(spec: EnvSpec) -> spaces.Space[Any]:
    """Return the space of actions."""
    action = spec.action
    if isinstance(action, Discrete):
        return spaces.Discrete(action.n, start=action.start)
    if isinstance(action, Box):
        bounds = action.low, action.high
        low, high = (np.array(x, np.float32).reshape(action.shape or ()) for x in bounds)
        return spaces.Box(low, high, dtype=np.float32)
    return spaces.MultiDiscrete(list(action.sizes), start=list(action.start))
