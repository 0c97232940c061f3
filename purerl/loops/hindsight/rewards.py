"""Reward functions of environments with goals, and the names of their success.

Goals that an episode reached by chance need new rewards, which the environment computes. If it has
`jax_compute_reward`, this happens inside of the compiled burst, and else with `compute_reward` on
the host. The same holds for `jax_compute_terminated` and `compute_terminated`, which are for
environments whose episodes end at the goal.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl import checks, rng
from purerl.errors import EnvFault
from purerl.loops import adapters, faults
from purerl.loops.adapters import goals
from purerl.loops.adapters.step import make_action_converter
from purerl.schedules import ResolvedOffPolicySchedule, ResolvedSchedule
from purerl.spaces import Box, EnvSpec

if TYPE_CHECKING:
    from purerl.envs.protocol import JaxEnv

SUCCESS = ("is_success", "success")  # names in `info`: of most environments, of the mazes
SPARSE = (-1.0, 0.0)  # rewards that bound the targets of `clip_targets`


class Outcome(NamedTuple):
    """Result of one step of an environment, to learn what it returns."""

    achieved_goal: np.ndarray  # [G]
    desired_goal: np.ndarray  # [G]
    reward: float
    success: str | None  # name of the number in `info` that says whether the goal is reached


def inspect_env(
    spec: Any, schedule: ResolvedSchedule, envs: adapters.GymEnvs, is_default: bool
) -> tuple[ResolvedSchedule, "Relabelling | None"]:
    """Find out from one step of an environment what it logs and how it computes rewards.

    Args:
        spec: Settings of the algorithm.
        schedule: Schedule of the run.
        envs: The environments, which must be reset afterwards.
        is_default: Whether to log the success of episodes.

    Returns:
        The schedule with the name to log, and how to replay goals; None without a replay of goals.
    """
    if not spec.env.goal_size:
        return schedule, None
    env = envs.envs[0] if isinstance(envs, adapters.SingleEnvs) else envs.env
    outcome = try_step(env, spec.env)
    if is_default and outcome.success:
        schedule = dataclasses.replace(schedule, log_info=(outcome.success,))
        envs.wanted = envs.wanted._replace(log=schedule.log_info)
    if not (isinstance(schedule, ResolvedOffPolicySchedule) and schedule.her):
        return schedule, None
    is_sparse = has_clipped_targets(spec)
    args = (outcome, schedule.her_strategy, schedule.her_k, is_sparse)
    return schedule, find_relabelling(envs.get_goal_env(), *args)


def inspect_jax_env(
    spec: Any, schedule: ResolvedSchedule, env: "JaxEnv", is_default: bool
) -> tuple[ResolvedSchedule, "Relabelling | None"]:
    """Do what `inspect_env` does, for an environment in JAX."""
    if not spec.env.goal_size:
        return schedule, None
    outcome = _try_jax_step(env)
    if is_default and outcome.success:
        schedule = dataclasses.replace(schedule, log_info=(outcome.success,))
    if not (isinstance(schedule, ResolvedOffPolicySchedule) and schedule.her):
        return schedule, None
    how = (outcome, schedule.her_strategy, schedule.her_k, has_clipped_targets(spec))
    relabelling = find_relabelling(env, *how)
    if not relabelling.in_jax:
        raise ValueError(
            "her needs jax_compute_reward(achieved_goal, desired_goal, info) of the environment, "
            "which it lacks. Add the method, or set her=False (--no-her)."
        )
    return schedule, relabelling


def _try_jax_step(env: "JaxEnv") -> Outcome:
    """Take one step in an environment with goals, to learn what it returns."""
    state, _ = env.reset(jax.random.key(0), env.params)
    if isinstance(env.spec.action, Box):
        first = env.spec.clip(np.zeros(env.spec.action.shape, np.float32))
    else:
        first = np.array(env.spec.action.start, np.int32)
    _, obs, reward, _, info = env.step(jax.random.key(1), state, jnp.asarray(first), env.params)
    if "achieved_goal" not in info:
        raise ValueError(
            f"step of an environment with goals must return info['achieved_goal'], got "
            f"{', '.join(info) or 'nothing'}."
        )
    checks.shape("info['achieved_goal'] of step", info["achieved_goal"], (env.spec.goal_size,))
    achieved, desired = np.asarray(info["achieved_goal"]), np.asarray(obs)[-env.spec.goal_size :]
    return Outcome(achieved, desired, float(reward), find_success(info, ()))


def has_clipped_targets(spec: Any) -> bool:
    """Return whether an algorithm clips its targets, which needs rewards of -1 and 0."""
    return bool(getattr(spec, "clip_targets", False))


def try_step(env: Any, spec: EnvSpec) -> Outcome:
    """Take one step in an environment, single or vector, which must be reset afterwards."""
    number = getattr(env, "num_envs", None)
    space = env.action_space if number is None else env.single_action_space
    if isinstance(spec.action, Box):
        act = np.zeros((number or 1, *(spec.action.shape or ())), np.float32)
    else:
        act = np.stack([np.array(spec.action.start, np.int32)] * (number or 1))
    handed = make_action_converter(spec, space)(act)
    handed = handed[0] if number is None else np.asarray(handed, env.action_space.dtype)
    try:
        env.reset(seed=rng.host_seed(0, 0, "env", 0, 0))
        obs, rew, _, _, info = env.step(handed)
    except faults.RAISED as error:  # any error is the environment's fault
        raise faults.explain_exception("the environment", "its first step", error) from error
    last = None if number is None else info.get("final_obs")
    if last is not None and last[0] is not None:  # the step ended an episode in SAME_STEP mode
        obs, info = last[0], info.get("final_info", {})
    flat, achieved = goals.flatten_obs(obs, spec, "the environment's observation")
    desired, rewards = flat[..., -spec.goal_size :], np.ravel(rew)
    achieved, desired = (x.reshape(-1, spec.goal_size)[0] for x in (achieved, desired))
    shape = () if number is None else (number,)
    return Outcome(achieved, desired, float(rewards[0]), find_success(info, shape))


def find_success(info: Mapping[str, Any], shape: tuple[int, ...]) -> str | None:
    """Return the name of success in `info`, if it is a number for each environment."""
    found = {name: np.asarray(info[name]) for name in SUCCESS if name in info}
    good = (name for name, x in found.items() if x.shape == shape and x.dtype.kind in "biuf")
    return next(good, None)


@dataclasses.dataclass(frozen=True)
class Partial:
    """A `functools.partial` that is equal to others with equal arguments."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...]

    def __call__(self, *args: Any) -> Any:
        """Call the function."""
        return self.function(*self.args, *args, **dict(self.keywords))


def _compare_by_value(function: Any) -> Any:
    """Return a function that equals those of other environments, so that programs are reused."""
    if not isinstance(function, functools.partial):
        return function
    return Partial(function.func, function.args, tuple(sorted(function.keywords.items())))


@dataclasses.dataclass(frozen=True)
class Relabelling:
    """Choice of new goals for sampled rows, and the functions for their rewards."""

    strategy: str
    k: float
    in_jax: bool  # whether the functions are traced into the burst, or called on the host
    reward: Callable[..., Any]  # achieved goal, desired goal, info -> reward; all with rows
    terminated: Callable[..., Any] | None = None

    def compute(self, achieved: np.ndarray, goal: np.ndarray, changed: np.ndarray) -> Any:
        """Compute rewards and terminations `[...]` on the host, for goals `[..., G]`.

        `changed` says which rows have a new goal; others may get any value.
        """
        shape = changed.shape
        rows = (achieved.reshape(-1, achieved.shape[-1]), goal.reshape(-1, goal.shape[-1]))
        reward = self.reward(*rows, changed.ravel()).reshape(shape)
        if self.terminated is None:
            return reward, None
        return reward, self.terminated(*rows, changed.ravel()).reshape(shape)


class HostFunction(NamedTuple):
    """A function of an environment for goals, called on rows `[n, G]` with the same result type."""

    name: str
    function: Callable[..., Any]
    dtype: Any
    one_by_one: bool  # whether it takes one goal only

    def __call__(self, achieved: np.ndarray, goal: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Return the values `[n]`; those of rows that are not wanted may be anything."""
        values = np.zeros(len(achieved), self.dtype)
        try:
            if self.one_by_one:
                for i in np.flatnonzero(wanted).tolist():
                    values[i] = self.function(achieved[i], goal[i], {})
            else:
                values[:] = self.function(achieved, goal, {})
        except faults.RAISED as error:  # any error is the environment's fault
            raise faults.explain_exception("the environment", self.name, error) from error
        if not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values))[0])
            raise EnvFault(
                f"{self.name} of the environment must return finite numbers, got {values[row]} "
                f"for the achieved goal {achieved[row].tolist()} and the goal "
                f"{goal[row].tolist()}."
            )
        return values


def find_relabelling(
    env: Any, outcome: Outcome, strategy: str, k: float, is_sparse: bool
) -> Relabelling:
    """Find the reward functions of an environment, and check them on the step of `outcome`.

    Args:
        env: A single environment, which may be wrapped.
        outcome: A step of it.
        strategy, k: Which goals are replayed, and how many.
        is_sparse: Whether rewards must be -1 or 0, as `clip_targets` needs.
    """
    has = {name: _find(env, name) for name in (*_JAX, *_HOST)}
    reward, ends = (has[name] for name in _JAX)
    in_jax = reward is not None and (ends is not None or has[_HOST[1]] is None)
    if not in_jax:
        reward = _make_host_function(_HOST[0], has[_HOST[0]], np.float32, outcome)
        ends = _make_host_function(_HOST[1], has[_HOST[1]], np.bool_, outcome)
    if reward is None:
        raise ValueError(
            "her needs compute_reward(achieved_goal, desired_goal, info) of the environment, which "
            "it lacks. Add the method to the environment, or set her=False (--no-her)."
        )
    functions = map(_compare_by_value, (reward, ends))
    relabelling = Relabelling(strategy, k, in_jax, *functions)
    _check_rewards(relabelling, outcome, is_sparse)
    return relabelling


_JAX = ("jax_compute_reward", "jax_compute_terminated")
_HOST = ("compute_reward", "compute_terminated")


def _find(env: Any, name: str) -> Any:
    """Return a method of an environment or of the first wrapper that has it; None without."""
    try:
        return env.get_wrapper_attr(name)
    except AttributeError:
        return getattr(env, name, None)


def _make_host_function(
    name: str, function: Any, dtype: Any, outcome: Outcome
) -> HostFunction | None:
    """Return a function of goals, after finding out whether it takes several at once.

    `compute_terminated` of most robots returns one flag for any number of goals.
    """
    if function is None:
        return None
    achieved, goal = outcome.achieved_goal, outcome.desired_goal
    rows = len(goal) + 1  # another number than that of the entries of a goal
    many = np.stack([achieved] * rows), np.stack([goal] + [achieved] * (rows - 1))
    alone = HostFunction(name, function, dtype, one_by_one=True)
    try:
        expected = alone(*many, np.ones(rows, bool))
    except EnvFault as fault:
        if isinstance(fault.__cause__, NotImplementedError):
            return None  # as in Gymnasium's abstract class
        raise
    try:
        found = np.asarray(function(*many, {}))
        takes_many = found.shape == (rows,) and np.allclose(np.float64(found), np.float64(expected))
    except faults.RAISED:
        takes_many = False
    return alone._replace(one_by_one=not takes_many)


def _check_rewards(relabelling: Relabelling, outcome: Outcome, is_sparse: bool) -> None:
    """Refuse a reward function that contradicts the rewards of `step`, or clipping of others."""
    achieved = np.stack([outcome.achieved_goal] * 2)
    goals = np.stack([outcome.desired_goal, outcome.achieved_goal])
    last: Any = {} if relabelling.in_jax else np.ones(2, bool)
    rewards = np.asarray(relabelling.reward(achieved, goals, last))
    if rewards.shape != (2,):
        raise ValueError(
            f"jax_compute_reward of the environment must return a reward for each of the rows "
            f"[n, G], got shape {rewards.shape} for 2 rows."
        )
    if not np.allclose(rewards[0], outcome.reward, rtol=1e-3, atol=1e-5):
        raise ValueError(
            f"her needs the same rewards from compute_reward and step, got {rewards[0]:g} and "
            f"{outcome.reward:g} for the same goals. If a wrapper changes rewards, let it change "
            f"compute_reward too, or set her=False (--no-her)."
        )
    if is_sparse and not set(rewards.tolist()) <= {*SPARSE}:
        raise ValueError(
            f"clip_targets is for rewards of -1 and 0, got {rewards.tolist()} from the environment "
            f"before and at the goal. Set clip_targets=False (--no-clip-targets), or shift the "
            f"rewards."
        )
