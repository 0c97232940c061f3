"""Parts of the adapters: results of steps, episodes in progress, actions, values of `info`."""

import contextlib
import weakref
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from purerl.errors import EnvFault
from purerl.spaces import Discrete, EnvSpec, MultiDiscrete
from purerl.types import Rows

_in_use: dict[int, weakref.ref[Any]] = {}  # id -> environment that an adapter steps


def begin_use(env: Any) -> None:
    """Note that an adapter steps an environment; refuse one that another adapter steps."""
    other = _in_use.get(id(env))
    if other is not None and other() is env:
        raise ValueError(
            "env_fn must make a new environment at each call, but it returned one that is in use. "
            "Training and evaluation would step the same one. Create the environment in env_fn."
        )
    with contextlib.suppress(TypeError):  # a class with slots has no weak references
        key = id(env)
        _in_use[key] = weakref.ref(env, lambda _: _in_use.pop(key, None))


def end_use(env: Any) -> None:
    """Note that no adapter steps an environment any more."""
    _in_use.pop(id(env), None)


class Episodes(NamedTuple):
    """Episodes in progress in N environments: all that is needed to replay and to check them."""

    numbers: list[int]
    actions: list[np.ndarray]  # for each environment [T, ...], in the dtype of its space
    obs: np.ndarray  # [N, ...], the observations that they reached
    returns: np.ndarray  # [N] float64, so far
    lengths: np.ndarray  # [N] int64, so far
    digests: list[int] | None = None  # checksums of all observations; None in old checkpoints


class Step(NamedTuple):
    """Result of one `step` of N environments."""

    rows: Rows  # [N, ...], one transition of each environment
    valid: np.ndarray | None  # [N] bool, False where the call only started an episode; None: all
    ended: list[int]  # indices of the environments whose row ended an episode
    obs: np.ndarray  # [N, ...], observations to act on next
    logged: list[tuple[float, ...]]  # for each of `ended`, the values that `InfoRequest.log` names


class InfoRequest(NamedTuple):
    """Values of `info` that a loop wants from the environments."""

    log: tuple[str, ...] = ()  # read as numbers from the last step of each episode
    store: Mapping[str, np.ndarray] | None = None  # name -> example; read from every step
    goals: bool = False  # whether rows have what a goal replay buffer needs


NOTHING = InfoRequest()


def allocate_extra(store: Mapping[str, np.ndarray], number: int) -> dict[str, np.ndarray]:
    """Allocate zeros `[N, ...]` for the values to store."""
    return {name: np.zeros((number, *x.shape), x.dtype) for name, x in store.items()}


def store_info(extra: dict[str, np.ndarray], i: int, info: Mapping[str, Any]) -> None:
    """Copy the values to store from the `info` of environment `i`."""
    for name, rows in extra.items():
        value = np.asarray(_find(i, info, name, "at every step, because the algorithm stores it"))
        if value.shape != rows.shape[1:] or not np.can_cast(value.dtype, rows.dtype, "same_kind"):
            raise EnvFault(
                f"environment {i} must return info[{name!r}] as {rows.dtype} of shape "
                f"{rows.shape[1:]}, got {value.dtype} of shape {value.shape}."
            )
        rows[i] = value


def read_info(wanted: InfoRequest, i: int, info: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the values to log from the last `info` of an episode of environment `i`."""
    found = []
    for name in wanted.log:
        value = _find(i, info, name, "at the end of an episode, because log_info names it")
        if np.ndim(value) or np.asarray(value).dtype.kind not in "biuf":
            raise EnvFault(
                f"environment {i} must return info[{name!r}] as a number, because log_info names "
                f"it, got {value!r:.200}."
            )
        found.append(float(value))
    return tuple(found)


def _find(i: int, info: Mapping[str, Any], name: str, when: str) -> Any:
    if name in info:
        return info[name]
    there = ", ".join(map(str, info)) or "nothing"
    raise EnvFault(f"environment {i} must return info[{name!r}] {when}, got {there}.")


def make_action_converter(spec: EnvSpec, space: Any) -> Callable[[np.ndarray], Any]:
    """Return the function that converts stored actions `[N, ...]` for the environments."""
    if isinstance(spec.action, Discrete):
        return lambda act: [int(a) for a in act]
    if isinstance(spec.action, MultiDiscrete):
        return lambda act: act.astype(space.dtype)
    low, high, dtype = space.low, space.high, space.dtype
    return lambda act: np.minimum(np.maximum(act, low), high).astype(dtype, copy=False)
