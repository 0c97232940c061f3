"""Adapters over environments: over N single ones, or over a user's vector environment.

In both, `next_obs` is always the true successor, never the start of the next episode.
"""

import math
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode

from purerl.errors import EnvFault
from purerl.loops import faults
from purerl.spaces import Box, EnvSpec
from purerl.types import Transition


class Step(NamedTuple):
    """Result of one `step` of N environments."""

    rows: Transition  # [N, ...], one transition of each environment
    valid: np.ndarray | None  # [N] bool, False where the call only started an episode; None: all
    ended: list[int]  # indices of the environments whose row ended an episode
    obs: np.ndarray  # [N, ...], observations to act on next


Marks = list[tuple[int, list[Any], int]]  # episode number, its actions, how many they are


class OwnEnvs:
    """N single environments, which this class resets with a derived seed for every episode.

    Args:
        envs: The environments.
        spec: Their spaces, which are equal.
        seed_of: Function that returns the seed of an episode, given the environment's index and the
            episode's number.
        max_ep_len: Length at which this class cuts episodes, or None to cut none.
    """

    exact_resume = True

    def __init__(
        self,
        envs: list[Any],
        spec: EnvSpec,
        seed_of: Callable[[int, int], int],
        max_ep_len: int | None = None,
    ) -> None:
        self.envs, self.spec, self.seed_of, self.max_ep_len = envs, spec, seed_of, max_ep_len
        self.num_envs = len(envs)
        self.episode = [-1] * len(envs)  # number of the episode in progress
        self.actions: list[list[Any]] = [[] for _ in envs]  # actions of the episode in progress
        self._convert_actions = _make_action_converter(spec, envs[0].action_space)
        self._limit = math.inf if max_ep_len is None else max_ep_len
        self._dtype = envs[0].observation_space.dtype  # 64 bits are stored as 32

    def reset(self) -> np.ndarray:
        """Start an episode in every environment; return the observations."""
        obs = np.empty((self.num_envs, *self.spec.obs_shape), self.spec.obs_dtype)
        for i in range(self.num_envs):
            self._start_episode(i, obs)
        return obs

    def step(self, obs: np.ndarray, act: np.ndarray) -> Step:
        """Take one action in every environment; reset those whose episode ended."""
        number = self.num_envs
        next_obs = np.empty_like(obs)
        rew = np.empty(number, np.float32)
        terminated, truncated = np.empty(number, bool), np.empty(number, bool)
        ended = []
        for i, (env, action) in enumerate(zip(self.envs, self._convert_actions(act), strict=True)):
            self.actions[i].append(action if isinstance(action, int) else action.copy())
            try:
                now, gain, ends, cut, _ = env.step(action)
            except faults.RAISED as error:  # any error is the environment's fault
                raise self._explain(i, error, obs[i], act[i]) from error
            rew[i], ends, cut = faults.check_outcome(i, gain, ends, cut)
            self._store_obs(i, now, next_obs)
            cut = cut or len(self.actions[i]) >= self._limit
            terminated[i], truncated[i] = ends, cut
            if ends or cut:
                ended.append(i)
        rows = Transition(obs, act, rew, next_obs, terminated, truncated)
        if ended:
            next_obs = next_obs.copy()
            for i in ended:
                self._start_episode(i, next_obs)
        return Step(rows, None, ended, next_obs)

    def list_episodes(self) -> tuple[list[int], list[np.ndarray]]:
        """Return the numbers and the actions of the episodes in progress."""
        space = self.envs[0].action_space
        taken = [np.array(x, space.dtype).reshape(len(x), *space.shape) for x in self.actions]
        return list(self.episode), taken

    def mark_episodes(self) -> Marks:
        """Return marks of the episodes in progress, for `rewind`."""
        return [(n, x, len(x)) for n, x in zip(self.episode, self.actions, strict=True)]

    def rewind(self, marks: Marks) -> None:
        """Restore episode numbers and actions as they were at the marks; step no environment."""
        self.episode = [number for number, _, _ in marks]
        self.actions = [taken[:length] for _, taken, length in marks]

    def replay_episodes(
        self, episodes: list[int], actions: list[np.ndarray], obs: np.ndarray
    ) -> tuple[np.ndarray, list[int]]:
        """Replay episodes, and compare the observations they reach with `obs`, bit for bit.

        Returns:
            The observations to act on next, and the indices of environments whose episode ended or
            reached another observation. They start a new episode.
        """
        reached, lost = np.empty_like(obs), []
        for i, taken in enumerate(actions):
            self.episode[i] = episodes[i] - 1
            self._start_episode(i, reached)
            ended = False
            for action in taken:
                action = action.item() if isinstance(action, np.generic) else action
                self.actions[i].append(action)
                try:
                    now, _, ends, cut, _ = self.envs[i].step(action)
                except faults.RAISED as error:  # any error is the environment's fault
                    raise self._explain(i, error) from error
                self._store_obs(i, now, reached)
                ended = ended or ends or cut
            if ended or reached[i].tobytes() != obs[i].tobytes():
                lost.append(i)
                self._start_episode(i, reached)
        return reached, lost

    def close(self) -> None:
        """Close every environment, then raise the first error if there was one."""
        failed = None
        for i, env in enumerate(self.envs):
            _live.discard(env)
            fault = faults.close_env(f"environment {i}", env)
            failed = failed or fault
        if failed:
            raise failed

    def _start_episode(self, i: int, obs: np.ndarray) -> None:
        self.episode[i] += 1
        self.actions[i] = []
        seed = self.seed_of(i, self.episode[i])
        try:
            first, _ = self.envs[i].reset(seed=seed)
        except faults.RAISED as error:  # any error is the environment's fault
            raise faults.explain_exception(f"environment {i}", "reset", error) from error
        self._store_obs(i, first, obs)

    def _explain(self, i: int, error: Any, obs: Any = None, act: Any = None) -> Exception:
        when = f" (step {len(self.actions[i])} of its episode {self.episode[i] + 1})"
        return faults.explain_exception(f"environment {i}", "step", error, act, obs, when)

    def _store_obs(self, i: int, now: Any, obs: np.ndarray) -> None:
        if isinstance(now, np.ndarray) and now.dtype == self._dtype and now.shape == obs.shape[1:]:
            obs[i] = now  # the usual case needs none of the checks below
            return
        if faults.describe_shape(now) != self.spec.obs_shape:
            raise EnvFault(
                f"environment {i} must return observations of shape {self.spec.obs_shape}, the "
                f"shape of its observation_space, got {faults.describe_shape(now)}."
            )
        faults.check_dtype(now, self.spec)
        obs[i] = now


class VectorEnvs:
    """A user's Gymnasium vector environment, of any autoreset mode.

    It is seeded once and resets itself, so a run that uses it cannot be resumed exactly.
    """

    exact_resume = False

    def __init__(self, env: Any, spec: EnvSpec, seed: int) -> None:
        self.env, self.spec, self.seed = env, spec, seed
        self.num_envs = int(env.num_envs)
        self.mode = (env.metadata or {}).get("autoreset_mode")
        if not isinstance(self.mode, AutoresetMode):
            raise ValueError(
                f"a vector environment must have a gymnasium.vector.AutoresetMode in "
                f"metadata['autoreset_mode'], got {self.mode!r}."
            )
        self._fresh = np.zeros(self.num_envs, bool)  # NEXT_STEP: the next call starts an episode
        self._convert_actions = _make_action_converter(spec, env.single_action_space)

    def reset(self) -> np.ndarray:
        """Start an episode in every environment; return the observations."""
        return self._call("reset", seed=self.seed)[0]

    def step(self, obs: np.ndarray, act: np.ndarray) -> Step:
        """Take one action in every environment; its autoreset mode decides when it resets."""
        handed = self._convert_actions(act)
        if not isinstance(self.spec.action, Box):
            handed = np.asarray(handed, self.env.action_space.dtype)
        now, rew, terminated, truncated, info = self._call("step", handed)
        next_obs = now.copy()
        for name, value in (("rew", rew), ("terminated", terminated), ("truncated", truncated)):
            if faults.describe_shape(value) != (self.num_envs,):
                raise EnvFault(
                    f"the vector environment must return {name} of shape ({self.num_envs},), got "
                    f"{faults.describe_shape(value)}."
                )
        terminated, truncated = np.array(terminated, bool), np.array(truncated, bool)
        done = terminated | truncated
        valid = ~self._fresh if self._fresh.any() else None
        ended = np.flatnonzero(done if valid is None else done & valid).tolist()
        if self.mode is AutoresetMode.SAME_STEP:
            for i in np.flatnonzero(done):
                next_obs[i] = faults.get_final_obs(info, int(i))
        elif self.mode is AutoresetMode.NEXT_STEP:
            self._fresh = done
        elif done.any():
            now = self._call("reset", options={"reset_mask": done})[0]
        rows = Transition(obs, act, np.array(rew, np.float32), next_obs, terminated, truncated)
        return Step(rows, valid, ended, now)

    def list_episodes(self) -> tuple[list[int], list[np.ndarray]]:
        """Return empty lists, because these episodes cannot be replayed."""
        return [], []

    def mark_episodes(self) -> Marks:
        """Return an empty list."""
        return []

    def rewind(self, marks: Marks) -> None:
        """Do nothing."""

    def replay_episodes(
        self, episodes: list[int], actions: list[np.ndarray], obs: np.ndarray
    ) -> tuple[np.ndarray, list[int]]:
        """Start new episodes in all environments."""
        self._fresh[:] = False
        return self.reset(), list(range(self.num_envs))

    def close(self) -> None:
        """Close the vector environment."""
        _live.discard(self.env)
        fault = faults.close_env("the vector environment", self.env)
        if fault:
            raise fault

    def _call(self, method: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        try:
            obs, *rest = getattr(self.env, method)(*args, **kwargs)
        except faults.RAISED as why:  # any error is the environment's fault, or the action's
            raise faults.explain_exception("the vector environment", method, why, *args) from why
        shape = (self.num_envs, *self.spec.obs_shape)
        if faults.describe_shape(obs) != shape:
            raise EnvFault(
                f"the vector environment must return observations of shape {shape}, the shape of "
                f"its observation_space, got {faults.describe_shape(obs)}."
            )
        faults.check_dtype(obs, self.spec)
        return np.array(obs, self.spec.obs_dtype), *rest  # a copy, because it may reuse its array


Envs = OwnEnvs | VectorEnvs


def make_envs(
    env_fn: Callable[[], Any],
    num_envs: int | None,
    seed_of: Callable[[int, int], int],
    max_ep_len: int | None = None,
) -> Envs:
    """Make `num_envs` environments or one vector environment; return the adapter over them.

    Args:
        env_fn: Function that returns a Gymnasium environment or a Gymnasium vector environment.
        num_envs: Number of environments. None means one, or all of the vector environment.
        seed_of: Function that returns the seed of an episode, given the environment's index and the
            episode's number. The seed of a vector environment is `seed_of(0, 0)`.
        max_ep_len: Length at which episodes are cut, or None for the environment's own limit.
    """
    if not callable(env_fn):
        raise ValueError(f"env_fn must be a function that makes an environment, got {env_fn!r}.")
    made = [_make_env(env_fn)]
    try:
        return _make_adapter(made, env_fn, num_envs, seed_of, max_ep_len)
    except BaseException:
        for env in made:  # the caller has no adapter to close them with
            _live.discard(env)
            faults.close_env("an environment", env)
        raise


def _make_adapter(
    made: list[Any],
    env_fn: Callable[[], Any],
    num_envs: int | None,
    seed_of: Callable[[int, int], int],
    max_ep_len: int | None,
) -> Envs:
    """Append the other environments to `made`, and return the adapter over all of them."""
    first = made[0]
    if not hasattr(first, "single_observation_space"):
        while len(made) < (num_envs or 1):
            made.append(_make_env(env_fn))
        specs = [EnvSpec.of(env) for env in made]
        if len(set(specs)) > 1:
            raise ValueError(f"env_fn must make environments with equal spaces, got {set(specs)}.")
        return OwnEnvs(made, specs[0], seed_of, max_ep_len)
    if num_envs not in (None, first.num_envs):
        raise ValueError(
            f"num_envs is {num_envs} but env_fn returns a vector environment of {first.num_envs}. "
            f"Set num_envs={first.num_envs}."
        )
    if max_ep_len is not None:
        raise ValueError(
            f"max_ep_len={max_ep_len} cannot be imposed on a vector environment, because it starts "
            f"its episodes itself. Leave max_ep_len at None, and set the limit when you make it: "
            f"gymnasium.make_vec(id, max_episode_steps={max_ep_len})."
        )
    return VectorEnvs(first, EnvSpec.of(first), seed_of(0, 0))


_live: weakref.WeakSet[Any] = weakref.WeakSet()  # environments that an adapter uses


def _make_env(env_fn: Callable[[], Any]) -> Any:
    """Make an environment, and refuse one that is in use."""
    try:
        env = env_fn()
    except faults.RAISED as error:  # any error is the environment's fault
        text = f"env_fn raised {type(error).__name__}: {faults.format_in_a_line(error)}"
        raise EnvFault(text) from error
    if not hasattr(env, "action_space"):
        raise ValueError(f"env_fn must return a Gymnasium environment, got {env!r}.")
    if env in _live:
        raise ValueError(
            "env_fn must make a new environment at each call, but it returned one that is in use. "
            "Training and evaluation would step the same one. Create the environment in env_fn."
        )
    _live.add(env)
    return env


def _make_action_converter(spec: EnvSpec, space: Any) -> Callable[[np.ndarray], Any]:
    """Return the function that converts stored actions `[N, ...]` for the environments."""
    if not isinstance(spec.action, Box):
        return lambda act: [int(a) for a in act]
    low, high, dtype = space.low, space.high, space.dtype
    return lambda act: np.minimum(np.maximum(act, low), high).astype(dtype, copy=False)
