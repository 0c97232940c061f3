"""Check environments and the values that they return; errors name environment, fault and step."""

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from purerl.errors import EnvFault, NonFiniteError, NoTimeLimit, ScaledReturns
from purerl.spaces import EnvSpec
from purerl.types import Rows, list_arrays, list_leaves

_NUMBER = (float, int, np.floating, np.integer)  # the usual types of a reward
_FLAG = (bool, np.bool_)


RAISED = (Exception, SystemExit)  # an environment that calls sys.exit must not end the program


def check_env(env: Any, spec: Any, needs_limit: bool) -> None:
    """Check for wrappers and missing time limits that make results misleading.

    Args:
        env: Environment, single or vector. The workers of an asynchronous one cannot be seen.
        spec: Settings of the algorithm.
        needs_limit: Whether to warn if it declares no time limit.
    """
    for wrapper in _list_wrappers(env):
        names = {cls.__name__ for cls in type(wrapper).__mro__}
        frozen = not getattr(wrapper, "update_running_mean", True)
        if "NormalizeObservation" in names and not frozen:
            instead = "set normalise_obs=True"
            if not hasattr(spec, "normalise_obs"):
                instead = "freeze it (update_running_mean = False), or use ppo with normalise_obs"
            raise ValueError(
                f"the environment is wrapped in NormalizeObservation, which keeps running "
                f"statistics. Test episodes, other environments and exported policies would have "
                f"other statistics. Remove the wrapper and {instead}."
            )
        if "NormalizeReward" in names and not frozen:
            warnings.warn(
                "the environment is wrapped in NormalizeReward, so all returns are in scaled "
                "units. Test episodes begin with new statistics. For returns in the units of the "
                "environment, give an eval_env_fn without this wrapper.",
                ScaledReturns,
                stacklevel=4,
            )
    if needs_limit and get_time_limit(env) is None:
        warnings.warn(
            "the environment declares no time limit. If its episodes may last for ever, neither "
            "they nor test episodes end: set max_ep_len (--max-ep-len 1000).",
            NoTimeLimit,
            stacklevel=4,
        )


def get_time_limit(env: Any) -> int | None:
    """Return the number of steps after which an environment cuts episodes, if it declares one."""
    limit: int | None = getattr(getattr(env, "spec", None), "max_episode_steps", None)
    limits = [getattr(one, "_max_episode_steps", None) for one in _list_wrappers(env)]
    return next((n for n in (limit, *limits) if isinstance(n, int) and n > 0), None)


def _list_wrappers(env: Any) -> Iterator[Any]:
    """List an environment and everything that it wraps."""
    import gymnasium  # start-up time

    seen: set[int] = set()
    while isinstance(env, gymnasium.Env | gymnasium.vector.VectorEnv) and id(env) not in seen:
        seen.add(id(env))
        yield env
        inner = getattr(env, "__dict__", {})
        several = inner.get("envs")
        first = several[0] if isinstance(several, list | tuple) and several else None
        env = inner.get("env", first)


def check_dtype(now: Any, spec: EnvSpec) -> None:
    """Refuse observations that the dtype of the space would truncate."""
    dtype = np.asarray(now).dtype
    if dtype != spec.obs_dtype and not np.can_cast(dtype, spec.obs_dtype, "same_kind"):
        raise EnvFault(
            f"an environment must return observations that fit dtype {spec.obs_dtype} of its "
            f"observation_space, got {dtype}. Correct the environment or its space."
        )


def get_final_obs(info: dict[str, Any], i: int, spec: EnvSpec) -> Any:
    """Return the last observation of an episode of a vector environment."""
    found = info.get("final_obs")
    try:
        obs = None if found is None else found[i]
    except (TypeError, LookupError):  # it is no array with an entry for each environment
        obs = None
    if obs is None:
        raise EnvFault(
            f"environment {i} ended an episode in SAME_STEP mode without info['final_obs'][{i}]. "
            f"Return the last observation of the episode there."
        )
    if spec.goal_size:  # a dict, which `goals.flatten_obs` checks
        return obs
    if describe_shape(obs) != spec.obs_shape:
        raise EnvFault(
            f"info['final_obs'][{i}] must be an observation of shape {spec.obs_shape}, got shape "
            f"{describe_shape(obs)}."
        )
    check_dtype(obs, spec)
    return obs


def explain_exception(
    who: str,
    call: str,
    error: BaseException,
    act: Any = None,
    obs: np.ndarray | None = None,
    when: str = "",
) -> EnvFault | NonFiniteError:
    """Return the error for an environment that raised.

    The message includes `obs`, the observation before the call, if it is not finite. If only the
    action `act` is not finite, the policy is at fault.
    """
    text = f"{who} raised {type(error).__name__} in {call}: {format_in_a_line(error)}{when}"
    if not is_finite(obs):
        return EnvFault(
            f"{text} The observation before this call was not finite: {np.asarray(obs).tolist()}."
        )
    if not is_finite(act):
        return explain_action(f"before {text}", act, obs)
    return EnvFault(text)


def explain_action(when: str, act: Any, obs: Any) -> NonFiniteError:
    """Return the error for an action that is not finite; `obs` is its finite observation."""
    text = f"the policy returned an action that is not finite, {when}: {np.asarray(act).tolist()}. "
    if obs is None:
        return NonFiniteError(f"{text}Check that observations are finite, and custom networks.")
    size = np.abs(obs).max(initial=0)
    return NonFiniteError(
        f"{text}Its observation is finite, with values up to {size:.3g}. Check custom networks, or "
        f"scale the observations."
    )


def is_finite(value: Any) -> bool:
    """Return whether an array has no NaN or infinity; None and integers have none."""
    return value is None or np.asarray(value).dtype.kind != "f" or bool(np.isfinite(value).all())


def format_in_a_line(error: BaseException) -> str:
    """Return the text of an error as one line."""
    return " ".join(str(error).split())


def close_env(who: str, env: Any) -> Exception | None:
    """Close an environment; return its fault if it raises."""
    try:
        env.close()
    except RAISED as error:  # any error is the environment's fault
        return explain_exception(who, "close", error)
    return None


def check_outcome(i: int, rew: Any, terminated: Any, truncated: Any) -> tuple[Any, Any, Any]:
    """Return reward and flags of a `step`; refuse them unless they are a number and two flags."""
    if isinstance(rew, _NUMBER) and isinstance(terminated, _FLAG) and isinstance(truncated, _FLAG):
        return rew, terminated, truncated
    return (
        _read_single(i, "a number as its reward", rew, "biuf"),
        _read_single(i, "True or False as terminated", terminated, "b"),
        _read_single(i, "True or False as truncated", truncated, "b"),
    )


def _read_single(i: int, what: str, value: Any, kinds: str) -> Any:
    """Return a value without axes; refuse other kinds. 0 and 1 count as flags."""
    x = np.asarray(value) if describe_shape(value) == () else np.asarray(None)
    if x.dtype.kind not in kinds and not (kinds == "b" and x.dtype.kind in "iu" and x in (0, 1)):
        raise EnvFault(f"environment {i} must return {what}, got {value!r}.")
    return x.item()


def describe_shape(value: Any) -> tuple[int, ...] | str:
    """Return the shape of a value, or a description if it has none."""
    try:
        return np.shape(value)
    except ValueError:  # rows of different lengths
        return "rows of different lengths"


def check_sparse(rew: np.ndarray, steps: int | None = None, ranks: int = 1) -> None:
    """Refuse rewards other than -1 and 0, which `clip_targets` needs.

    Args:
        rew: Rewards of new rows, or those that the environment computed for other goals.
        steps: Number of environment steps before the first row; None for computed rewards.
        ranks: Number of ranks.
    """
    bad = np.flatnonzero((rew != 0) & (rew != -1))
    if len(bad):
        row = int(bad[0])
        where = "from compute_reward for a goal that was reached later"
        if steps is not None:
            where = f"at environment step {steps + row * ranks + 1}"
        raise EnvFault(
            f"clip_targets is for rewards of -1 and 0, got {rew[row]:g} {where}. Set "
            f"clip_targets=False (--no-clip-targets), or shift the rewards of the environment."
        )


def check_rows(rows: Rows, who: np.ndarray, steps: int, ranks: int) -> None:
    """Refuse numbers that are not finite, before they reach the device.

    Args:
        rows: New rows `[R, ...]`.
        who: Index of the environment of each row.
        steps: Number of environment steps before the first row, over all ranks.
        ranks: Number of ranks.
    """
    if all(x.dtype.kind != "f" or math.isfinite(np.vdot(x, x)) for x in list_leaves(rows)):
        return  # the usual case; a sum of squares that overflows is no fault
    bad = {
        name: int((~np.isfinite(new)).reshape(len(new), -1).any(axis=1).argmax())
        for name, new in list_arrays(rows).items()
        if new.dtype.kind == "f" and not np.isfinite(new).all()
    }
    if bad:
        name = min(bad, key=bad.__getitem__)
        row = bad[name]
        if name == "act":
            when = f"for environment {who[row]} at environment step {steps + row * ranks + 1}"
            raise explain_action(when, rows.act[row], rows.obs[row])
        raise NonFiniteError(
            f"{name} of environment {who[row]} is not finite at environment step "
            f"{steps + row * ranks + 1}: {list_arrays(rows)[name][row]}. No row of this block was "
            f"stored. Correct the environment."
        )
