"""Adapter over N single environments.

`next_obs` is always the true successor, never the start of the next episode.
"""

import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from purerl.errors import EnvFault
from purerl.loops import faults
from purerl.loops.adapters import generators, goals
from purerl.loops.adapters.step import (
    NOTHING,
    Episodes,
    InfoRequest,
    Step,
    allocate_extra,
    end_use,
    make_action_converter,
    read_info,
    store_info,
)
from purerl.spaces import EnvSpec
from purerl.types import Transition, extend

MOST_ACTIONS = 1_000_000  # an episode with more actions cannot be replayed


class _Taken:
    """Actions of an episode, in an array that grows."""

    def __init__(self, space: Any) -> None:
        self.rows, self.length = np.empty((16, *space.shape), space.dtype), 0

    def append(self, action: Any) -> None:
        if self.length == len(self.rows) < MOST_ACTIONS:
            self.rows = np.concatenate([self.rows, np.empty_like(self.rows)])
        if self.length < len(self.rows):
            self.rows[self.length] = action
        self.length += 1

    def to_array(self) -> np.ndarray:
        """Return a copy of the actions; none if there were too many."""
        return self.rows[: self.length if self.length <= MOST_ACTIONS else 0].copy()


Marks = list[tuple[int, _Taken, int, int]]  # episode number, actions, how many, checksum


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
        wanted: InfoRequest = NOTHING,
    ) -> None:
        self.envs, self.spec, self.seed_of, self.max_ep_len = envs, spec, seed_of, max_ep_len
        self.num_envs, self.wanted = len(envs), wanted
        self.episode = [-1] * len(envs)  # number of the episode in progress
        self.space = envs[0].action_space
        self.actions = [_Taken(self.space) for _ in envs]  # of the episode in progress
        self.digest = [0] * len(envs)  # checksum of the observations of the episode in progress
        self.generators = generators.read()  # before the first episode
        self.has_moved = False  # whether an interrupted advance has stepped the environments
        self.calls = 0  # calls of `step` before the newest carry
        self._convert_actions = make_action_converter(spec, self.space)
        self._limit = math.inf if max_ep_len is None else max_ep_len
        self._dtype = envs[0].observation_space.dtype  # 64 bits are stored as 32

    def get_goal_env(self) -> Any:
        """Return the environment that computes rewards of other goals."""
        return self.envs[0]

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
        extra = None if self.wanted.store is None else allocate_extra(self.wanted.store, number)
        achieved = (
            np.empty((number, self.spec.goal_size), np.float32) if self.wanted.goals else None
        )
        ended, logged = [], []
        for i, (env, action) in enumerate(zip(self.envs, self._convert_actions(act), strict=True)):
            self.actions[i].append(action)
            try:
                now, gain, ends, cut, info = env.step(action)
            except faults.RAISED as error:  # any error is the environment's fault
                raise self._explain(i, error, obs[i], act[i]) from error
            rew[i], ends, cut = faults.check_outcome(i, gain, ends, cut)
            self._store_obs(i, now, next_obs)
            if achieved is not None:
                achieved[i] = now["achieved_goal"]
            cut = cut or self.actions[i].length >= self._limit
            terminated[i], truncated[i] = ends, cut
            if extra is not None:
                store_info(extra, i, info)
            if ends or cut:
                ended.append(i)
                if self.wanted.log:
                    logged.append(read_info(self.wanted, i, info))
        if achieved is not None:
            extra = goals.make_extra(achieved, [taken.length - 1 for taken in self.actions])
        rows = Transition(obs, act, rew, next_obs, terminated, truncated)
        if ended:
            next_obs = next_obs.copy()
            for i in ended:
                self._start_episode(i, next_obs)
        return Step(extend(rows, extra), None, ended, next_obs, logged)

    def list_episodes(self) -> tuple[list[int], list[np.ndarray], list[int]]:
        """Return the numbers, the actions and the checksums of the episodes in progress."""
        return [*self.episode], [taken.to_array() for taken in self.actions], [*self.digest]

    def mark_episodes(self) -> Marks:
        """Return marks of the episodes in progress, for `rewind`."""
        lengths = [taken.length for taken in self.actions]
        return list(zip(self.episode, self.actions, lengths, self.digest, strict=True))

    def rewind(self, marks: Marks) -> None:
        """Restore what is known of the episodes, as it was at the marks; step no environment."""
        for i, (number, taken, length, digest) in enumerate(marks):
            taken.length = length
            self.episode[i], self.actions[i], self.digest[i] = number, taken, digest

    def replay_episodes(self, saved: Episodes) -> tuple[np.ndarray, list[int]]:
        """Replay episodes, and compare what they reach with what they had reached, bit for bit.

        Returns:
            The observations to act on next, and the indices of environments whose episode ended or
            had other observations or rewards. They start a new episode.
        """
        reached, lost = np.empty_like(saved.obs), []
        for i in range(self.num_envs):
            if not self._replay_episode(i, saved, reached):
                lost.append(i)
                self._start_episode(i, reached)
        self.has_moved = False
        return reached, lost

    def _replay_episode(self, i: int, saved: Episodes, reached: np.ndarray) -> bool:
        """Replay the episode of environment `i`; return whether everything was the same."""
        self.episode[i] = saved.numbers[i] - 1
        self._start_episode(i, reached)
        total, has_ended = 0.0, False
        for action in saved.actions[i]:
            action = action.item() if isinstance(action, np.generic) else action
            self.actions[i].append(action)
            try:
                now, gain, ends, cut, _ = self.envs[i].step(action)
            except faults.RAISED as error:  # any error is the environment's fault
                raise self._explain(i, error) from error
            gain, ends, cut = faults.check_outcome(i, gain, ends, cut)
            total += float(np.float32(gain))
            self._store_obs(i, now, reached)
            has_ended = has_ended or ends or cut
        return (
            not has_ended
            and reached[i].tobytes() == saved.obs[i].tobytes()
            and (len(saved.actions[i]), total) == (saved.lengths[i], saved.returns[i])
            and (saved.digests is None or self.digest[i] == saved.digests[i])
        )

    def close(self) -> None:
        """Close every environment, then raise the first error if there was one."""
        failed = None
        for i, env in enumerate(self.envs):
            end_use(env)
            fault = faults.close_env(f"environment {i}", env)
            failed = failed or fault
        if failed:
            raise failed

    def _start_episode(self, i: int, obs: np.ndarray) -> None:
        self.episode[i] += 1
        self.actions[i], self.digest[i] = _Taken(self.space), 0
        seed = self.seed_of(i, self.episode[i])
        try:
            first, _ = self.envs[i].reset(seed=seed)
        except faults.RAISED as error:  # any error is the environment's fault
            raise faults.explain_exception(f"environment {i}", "reset", error) from error
        self._store_obs(i, first, obs)

    def _explain(self, i: int, error: Any, obs: Any = None, act: Any = None) -> Exception:
        when = f" (step {self.actions[i].length} of its episode {self.episode[i] + 1})"
        return faults.explain_exception(f"environment {i}", "step", error, act, obs, when)

    def _store_obs(self, i: int, now: Any, obs: np.ndarray) -> None:
        if isinstance(now, np.ndarray) and now.dtype == self._dtype and now.shape == obs.shape[1:]:
            obs[i] = now  # the usual case needs none of the checks below
            self.digest[i] = zlib.crc32(obs[i], self.digest[i])
            return
        if self.spec.goal_size:
            now, _ = goals.flatten_obs(now, self.spec, f"the observation of environment {i}")
        if faults.describe_shape(now) != self.spec.obs_shape:
            raise EnvFault(
                f"environment {i} must return observations of shape {self.spec.obs_shape}, the "
                f"shape of its observation_space, got {faults.describe_shape(now)}."
            )
        faults.check_dtype(now, self.spec)
        obs[i] = now
        self.digest[i] = zlib.crc32(obs[i], self.digest[i])
