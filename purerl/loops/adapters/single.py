"""Adapter over N single environments.

`next_obs` is always the true successor, never the start of the next episode.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from purerl.errors import EnvFault
from purerl.loops import faults
from purerl.loops.adapters.step import (
    NOTHING,
    Marks,
    Step,
    Wanted,
    allocate_extra,
    in_use,
    make_action_converter,
    read_logged,
    store_info,
)
from purerl.spaces import EnvSpec
from purerl.types import Transition, extend


class SingleEnvs:
    """N single environments, which this class resets with a derived seed for every episode.

    Args:
        envs: The environments.
        spec: Their spaces, which are equal.
        seed_of: Function that returns the seed of an episode, given the environment's index and the
            episode's number.
        max_ep_len: Length at which this class cuts episodes, or None to cut none.
        wanted: Values of `info` to read.
    """

    exact_resume = True

    def __init__(
        self,
        envs: list[Any],
        spec: EnvSpec,
        seed_of: Callable[[int, int], int],
        max_ep_len: int | None = None,
        wanted: Wanted = NOTHING,
    ) -> None:
        self.envs, self.spec, self.seed_of, self.max_ep_len = envs, spec, seed_of, max_ep_len
        self.num_envs, self.wanted = len(envs), wanted
        self.episode = [-1] * len(envs)  # number of the episode in progress
        self.actions: list[list[Any]] = [[] for _ in envs]  # actions of the episode in progress
        self._convert_actions = make_action_converter(spec, envs[0].action_space)
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
        extra = allocate_extra(self.wanted, number)
        ended, logged = [], []
        for i, (env, action) in enumerate(zip(self.envs, self._convert_actions(act), strict=True)):
            self.actions[i].append(action if isinstance(action, int) else action.copy())
            try:
                now, gain, ends, cut, info = env.step(action)
            except faults.RAISED as error:  # any error is the environment's fault
                raise self._explain(i, error, obs[i]) from error
            rew[i], ends, cut = faults.check_outcome(i, gain, ends, cut)
            self._store_obs(i, now, next_obs)
            cut = cut or len(self.actions[i]) >= self._limit
            terminated[i], truncated[i] = ends, cut
            if extra is not None:
                store_info(extra, i, info)
            if ends or cut:
                ended.append(i)
                if self.wanted.log:
                    logged.append(read_logged(self.wanted, i, info))
        rows = Transition(obs, act, rew, next_obs, terminated, truncated)
        if ended:
            next_obs = next_obs.copy()
            for i in ended:
                self._start_episode(i, next_obs)
        return Step(extend(rows, extra), None, ended, next_obs, logged)

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
            in_use.discard(env)
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

    def _explain(self, i: int, error: BaseException, obs: np.ndarray | None = None) -> EnvFault:
        when = f" (step {len(self.actions[i])} of its episode {self.episode[i] + 1})"
        return faults.explain_exception(f"environment {i}", "step", error, obs, when)

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
