"""Adapter over a user's Gymnasium vector environment.

`next_obs` is always the true successor, never the start of the next episode.
"""

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

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
from purerl.spaces import Discrete, EnvSpec
from purerl.types import Transition, extend


class VectorEnvs:
    """A user's Gymnasium vector environment, of any autoreset mode.

    It is seeded once and resets itself, so a run that uses it cannot be resumed exactly.
    """

    exact_resume = False

    def __init__(self, env: Any, spec: EnvSpec, seed: int, wanted: InfoRequest = NOTHING) -> None:
        self.env, self.spec, self.seed, self.wanted = env, spec, seed, wanted
        self.num_envs = int(env.num_envs)
        self.mode = (env.metadata or {}).get("autoreset_mode")
        if not isinstance(self.mode, AutoresetMode):
            raise ValueError(
                f"a vector environment must have a gymnasium.vector.AutoresetMode in "
                f"metadata['autoreset_mode'], got {self.mode!r}."
            )
        self.generators = generators.read()  # before the first episode
        self.has_moved = False  # whether an interrupted advance has stepped the environments
        self.calls = 0  # calls of `step` before the newest carry
        self._fresh = np.zeros(self.num_envs, bool)  # NEXT_STEP: the next call starts an episode
        self._convert_actions = make_action_converter(spec, env.single_action_space)
        self._achieved = np.zeros((self.num_envs, spec.goal_size), np.float32)  # by the last call
        self._lengths = np.zeros(self.num_envs, np.int32)  # of the episodes in progress
        self._spare: Any = None  # environment that computes rewards, if the others are out of reach

    def get_goal_env(self) -> Any:
        """Return a single environment that computes rewards of other goals.

        An asynchronous vector environment has its environments in other processes, so one more is
        made with its own function.
        """
        inner = getattr(self.env, "unwrapped", self.env)
        if envs := getattr(inner, "envs", ()):
            return envs[0]
        if self._spare is None and (makers := getattr(inner, "env_fns", ())):
            self._spare = makers[0]()
        if self._spare is None and not hasattr(inner, "compute_reward"):
            raise ValueError(
                f"her needs compute_reward of an environment, but {type(inner).__name__} has "
                f"neither envs nor env_fns nor compute_reward. Give the vector environment the "
                f"method compute_reward, or set her=False (--no-her)."
            )
        return inner if self._spare is None else self._spare

    def reset(self) -> np.ndarray:
        """Start an episode in every environment; return the observations."""
        self._lengths[:] = 0
        return self._call("reset", seed=self.seed)[0]

    def step(self, obs: np.ndarray, act: np.ndarray) -> Step:
        """Take one action in every environment; its autoreset mode decides when it resets."""
        handed = self._convert_actions(act)
        if isinstance(self.spec.action, Discrete):
            handed = np.asarray(handed, self.env.action_space.dtype)
        now, rew, terminated, truncated, info = self._call("step", handed)
        next_obs, achieved = now.copy(), self._achieved
        rew = self._check_column("rewards", rew, "biuf", np.float32)
        terminated = self._check_column("terminated", terminated, "b", np.bool_)
        truncated = self._check_column("truncated", truncated, "b", np.bool_)
        done = terminated | truncated
        valid = ~self._fresh if self._fresh.any() else None
        ended = np.flatnonzero(done if valid is None else done & valid).tolist()
        if self.mode is AutoresetMode.SAME_STEP:
            for i in np.flatnonzero(done):
                last = faults.get_final_obs(info, int(i), self.spec)
                if self.spec.goal_size:
                    who = f"info['final_obs'][{i}]"
                    last, achieved[i] = goals.flatten_obs(last, self.spec, who)
                next_obs[i] = last
        elif self.mode is AutoresetMode.NEXT_STEP:
            self._fresh = done
        elif done.any():
            now = self._call("reset", options={"reset_mask": done})[0]
        extra, logged = self._read_info(info, done, valid, ended)
        if self.wanted.goals:
            extra = goals.make_extra(achieved, self._lengths)
            self._lengths = np.where(done, 0, self._lengths + (True if valid is None else valid))
        rows = Transition(obs, act, rew, next_obs, terminated, truncated)
        return Step(extend(rows, extra), valid, ended, now, logged)

    def _read_info(
        self, info: dict[str, Any], done: np.ndarray, valid: np.ndarray | None, ended: list[int]
    ) -> tuple[dict[str, np.ndarray] | None, list[tuple[float, ...]]]:
        """Return the values to store of all valid rows, and those to log of ended episodes."""

        def pick(i: int) -> dict[str, Any]:
            is_final = self.mode is AutoresetMode.SAME_STEP and done[i]
            found = info.get("final_info", {}) if is_final else info
            there = [k for k in found if not k.startswith("_") and f"_{k}" in found]
            return {k: found[k][i] for k in there if found[f"_{k}"][i]}

        extra = None
        if self.wanted.store is not None:
            extra = allocate_extra(self.wanted.store, self.num_envs)
            for i in range(self.num_envs) if valid is None else np.flatnonzero(valid).tolist():
                store_info(extra, i, pick(i))
        return extra, [read_info(self.wanted, i, pick(i)) for i in ended if self.wanted.log]

    def list_episodes(self) -> tuple[list[int], list[np.ndarray], list[int]]:
        """Return empty lists, because these episodes cannot be replayed."""
        return [], [], []

    def mark_episodes(self) -> list[Any]:
        """Return an empty list."""
        return []

    def rewind(self, marks: list[Any]) -> None:
        """Do nothing."""

    def replay_episodes(self, saved: Episodes) -> tuple[np.ndarray, list[int]]:
        """Start new episodes in all environments."""
        self._fresh[:] = False
        self.has_moved = False
        return self.reset(), list(range(self.num_envs))

    def close(self) -> None:
        """Close the vector environment."""
        end_use(self.env)
        if self._spare is not None:
            self._spare.close()
        fault = faults.close_env("the vector environment", self.env)
        if fault:
            raise fault

    def _call(self, method: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        try:
            returned = getattr(self.env, method)(*args, **kwargs)
        except faults.RAISED as why:  # any error is the environment's fault, or the action's
            raise faults.explain_exception("the vector environment", method, why, *args) from why
        flags = ("rewards", "terminated", "truncated") if method == "step" else ()
        names = ("obs", *flags, "info")
        if not isinstance(returned, tuple) or len(returned) != len(names):
            got = f"{len(returned)} values" if isinstance(returned, tuple) else type(returned)
            raise EnvFault(
                f"the vector environment must return a tuple of {', '.join(names)} from {method}, "
                f"got {got}."
            )
        obs, *rest = returned
        if not isinstance(rest[-1], dict):
            raise EnvFault(
                f"the vector environment must return info as a dict from {method}, got "
                f"{type(rest[-1])}."
            )
        if self.spec.goal_size:
            who = "the observation of the vector environment"
            obs, self._achieved = goals.flatten_obs(obs, self.spec, who)
        shape = (self.num_envs, *self.spec.obs_shape)
        if faults.describe_shape(obs) != shape:
            raise EnvFault(
                f"the vector environment must return observations of shape {shape}, the shape of "
                f"its observation_space, got {faults.describe_shape(obs)}."
            )
        faults.check_dtype(obs, self.spec)
        return np.array(obs, self.spec.obs_dtype), *rest  # a copy, because it may reuse its array

    def _check_column(self, name: str, value: Any, kinds: str, dtype: Any) -> np.ndarray:
        """Return a value for each environment as an array; refuse other shapes and dtypes."""
        shape = faults.describe_shape(value)
        column = np.array(value if shape == (self.num_envs,) else None)
        if column.dtype.kind not in kinds:
            what = "numbers" if kinds != "b" else "True or False"
            raise EnvFault(
                f"the vector environment must return {name} of shape ({self.num_envs},) with "
                f"{what}, got {value!r:.200}."
            )
        return column.astype(dtype)
