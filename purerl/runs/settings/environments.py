"""Environments: a table of Gymnasium's own, checks of an id, and errors that name a way out.

Functions import Gymnasium only when they need it, so that `purerl list envs` starts quickly.
"""

import dataclasses
import functools
import importlib.util
import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from purerl import algos
from purerl.errors import ConfigError, EnvWarning
from purerl.loops import faults
from purerl.runs.record import machine
from purerl.spaces import EnvSpec, is_goal_space

WRAPPERS = ("flatten",)


class Stock(NamedTuple):
    """An environment of Gymnasium 1.4, purerl or gymnasium-robotics 1.4."""

    id: str
    observations: int  # with the goal, if there is one
    actions: int
    is_discrete: bool
    limit: int  # steps
    extra: str = ""

    @property
    def fits(self) -> tuple[str, ...]:
        """Algorithms that can act in it."""
        kind = "discrete" if self.is_discrete else "box"
        return tuple(name for name, one in algos.ALGORITHMS.items() if kind in one.actions)

    @property
    def needs(self) -> str:
        """Command that installs a missing package; empty if none is missing."""
        return machine.explain_missing(self.extra) if self.extra else ""


_TWICE = (  # for Gymnasium, and in JAX
    Stock("CartPole-v1", 4, 2, True, 500),
    Stock("Acrobot-v1", 6, 3, True, 500),
    Stock("MountainCar-v0", 2, 3, True, 200),
    Stock("MountainCarContinuous-v0", 2, 1, False, 999),
    Stock("Pendulum-v1", 3, 1, False, 200),
    Stock("BitFlipping-v0", 20, 10, True, 10),
)
STOCK = (
    *_TWICE,
    Stock("FrozenLake-v1", 16, 4, True, 100),
    Stock("Taxi-v4", 500, 6, True, 200),
    Stock("LunarLander-v3", 8, 4, True, 1000, "box2d"),
    Stock("LunarLanderContinuous-v3", 8, 2, False, 1000, "box2d"),
    Stock("BipedalWalker-v3", 24, 4, False, 1600, "box2d"),
    Stock("BipedalWalkerHardcore-v3", 24, 4, False, 2000, "box2d"),
    Stock("Reacher-v5", 10, 2, False, 50, "mujoco"),
    Stock("Pusher-v5", 23, 7, False, 100, "mujoco"),
    Stock("InvertedPendulum-v5", 4, 1, False, 1000, "mujoco"),
    Stock("InvertedDoublePendulum-v5", 9, 1, False, 1000, "mujoco"),
    Stock("HalfCheetah-v5", 17, 6, False, 1000, "mujoco"),
    Stock("Hopper-v5", 11, 3, False, 1000, "mujoco"),
    Stock("Swimmer-v5", 8, 2, False, 1000, "mujoco"),
    Stock("Walker2d-v5", 17, 6, False, 1000, "mujoco"),
    Stock("Ant-v5", 105, 8, False, 1000, "mujoco"),
    Stock("Humanoid-v5", 348, 17, False, 1000, "mujoco"),
    Stock("HumanoidStandup-v5", 348, 17, False, 1000, "mujoco"),
    *(one._replace(id=f"jax:{one.id}") for one in _TWICE),
    Stock("jax:Catch-v0", 50, 3, True, 10),
    Stock("jax:Breakout-v0", 400, 3, True, 1000),
    Stock("FetchReach-v4", 13, 4, False, 50, "robotics"),
    Stock("FetchPush-v4", 28, 4, False, 50, "robotics"),
    Stock("FetchSlide-v4", 28, 4, False, 50, "robotics"),
    Stock("FetchPickAndPlace-v4", 28, 4, False, 50, "robotics"),
    Stock("PointMaze_Open-v3", 6, 2, False, 300, "robotics"),
    Stock("PointMaze_UMaze-v3", 6, 2, False, 300, "robotics"),
)


def list_rows(algo: str | None = None) -> list[tuple[str, ...]]:
    """Return the table of `purerl list envs`: all environments, or those that fit an algorithm."""
    if algo is not None:
        algos.check(algo)
    rows: list[tuple[str, ...]] = [("environment", "obs", "actions", "limit", "needs", "fits")]
    for one in STOCK:
        if algo is None or algo in one.fits:
            actions = f"{'one' if one.is_discrete else 'box'} of {one.actions}"
            sizes = (str(one.observations), actions, str(one.limit))
            rows.append((one.id, *sizes, one.needs, " ".join(one.fits)))
    return rows


@dataclasses.dataclass(frozen=True)
class JaxMaker:
    """Function that makes an environment in JAX as one of Gymnasium; training uses `env` itself."""

    env: Any

    def __call__(self, **options: Any) -> Any:
        """Make a Gymnasium environment that plays the same episodes."""
        from purerl.envs.gymnasium_env import GymnasiumEnv  # start-up time

        return GymnasiumEnv(self.env, **options)


def is_jax_name(env: str) -> bool:
    """Return whether a text names an environment in JAX, such as jax:CartPole-v1."""
    from purerl.envs import names  # start-up time

    return names.is_jax_name(env)


def _make_jax_env(env: str) -> Any:
    from purerl.envs import names  # start-up time

    return names.make(env)


def check_id(env: str) -> None:
    """Refuse a text that has neither the form of a Gymnasium id nor that of a name in JAX."""
    if env.endswith("()"):
        raise ConfigError(
            f"the environment {env} of this run was a Python function, which no file contains. In "
            f"Python, give it again as env_fn."
        )
    if not re.fullmatch(r"(?:[\w.]+:)?(?:[\w-]+/)?[\w.-]+", env):
        several = " For several, use purerl sweep with --grid env=A,B." if "," in env else ""
        raise ConfigError(
            f"env must be a Gymnasium id such as CartPole-v1, or module:Id, got {env!r}.{several}"
        )


def check_available(env: str) -> None:
    """Refuse an id that is not registered or needs a missing package; make no environment.

    The module of `module:Id` is not imported here: only the run itself imports it.
    """
    check_id(env)
    if is_jax_name(env):
        _make_jax_env(env)
        return
    if ":" in env:
        return
    from gymnasium import error
    from gymnasium.envs.registration import find_highest_version, parse_env_id, spec

    from purerl.envs import registration  # start-up time

    env = registration.register_env(env)
    try:
        space, name, version = parse_env_id(env)
        if version is not None or find_highest_version(space, name) is None:
            spec(env)
    except error.Error as wrong:
        raise _explain_failure(env, wrong) from wrong
    if text := _explain_missing(env):
        raise ConfigError(f"environment {env}: {text}")


def make_env_fn(env: str) -> Callable[[], Any]:
    """Return the function that makes an environment of a Gymnasium id, or of a name in JAX.

    Observations of Dict, Tuple and similar spaces are flattened into a vector. Discrete parts
    become one-hot. Those of environments with goals stay as they are, for HER.
    """
    if is_jax_name(env):
        return JaxMaker(_make_jax_env(env))
    return functools.partial(_make_env, env)


def choose_env_fn(env_fn: Any, env: str, wrapper: str | None) -> Callable[..., Any]:
    """Return a custom `env_fn`, or that of an id; a wrapper of `WRAPPERS` is put around both.

    A custom environment in JAX may stand in the place of `env_fn`.
    """
    from purerl.loops.adapters.in_jax import is_jax_env  # start-up time

    made_by = JaxMaker(env_fn) if is_jax_env(env_fn) else env_fn or make_env_fn(env)
    if wrapper is not None and isinstance(made_by, JaxMaker):
        raise ConfigError(
            f"wrapper={wrapper} is for environments of Gymnasium, and {env} is in JAX. Leave "
            f"wrapper (--wrapper) out."
        )
    return made_by if wrapper is None else functools.partial(_make_flat_env, made_by)


def choose_training_env(env_fn: Any, env: str, wrapper: str | None) -> Any:
    """Return what a loop trains in: an environment in JAX, or a function of `choose_env_fn`."""
    made_by = choose_env_fn(env_fn, env, wrapper)
    return made_by.env if isinstance(made_by, JaxMaker) else made_by


def _make_flat_env(env_fn: Callable[..., Any], **options: Any) -> Any:
    """Make an environment, single or vector, with observations as one vector."""
    import gymnasium

    made = env_fn(**options)
    is_vector = isinstance(made, gymnasium.vector.VectorEnv)
    space = made.single_observation_space if is_vector else made.observation_space
    if isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 1:
        return made
    wrappers = gymnasium.wrappers.vector if is_vector else gymnasium.wrappers
    return wrappers.FlattenObservation(made)


def _make_env(env: str, **options: Any) -> Any:
    import gymnasium

    from purerl.envs import registration  # start-up time

    check_id(env)
    env = registration.register_env(env)
    made_by = str(getattr(gymnasium.registry.get(env), "entry_point", ""))
    uses_mujoco = "mujoco" in made_by or registration.PACKAGE in made_by
    if uses_mujoco and importlib.util.find_spec("mujoco") is not None:
        _report_mujoco_once()
    made = gymnasium.make(env, **options)
    space = made.observation_space
    if isinstance(space, gymnasium.spaces.Box) or not space.is_np_flattenable:
        return made
    if is_goal_space(space):
        return made
    return gymnasium.wrappers.FlattenObservation(made)


def _report_mujoco_once() -> None:
    """Turn warnings of MuJoCo into Python warnings, each once per process.

    Otherwise MuJoCo prints them again for every environment and writes MUJOCO_LOG.TXT into the
    working directory. Deprecations are dropped, because they are about Gymnasium's own models.
    """
    import mujoco

    if mujoco.get_mju_user_warning() is not None:
        return  # installed before, here or by the user
    seen = set()

    def report(message: str) -> None:
        kind = message.partition(" Time = ")[0]
        if kind not in seen and "deprecated" not in kind:
            seen.add(kind)
            warnings.warn(f"MuJoCo: {message}", EnvWarning, stacklevel=2)

    mujoco.set_mju_user_warning(report)


def make_env_fn_of_file(env: str) -> Callable[[], Any]:
    """Return `make_env_fn(env)` for an id from a file; refuse an id that imports a module."""
    if ":" in env and not is_jax_name(env):
        raise ConfigError(
            f"env {env!r} imports a module, which purerl never does for an id from a file. Give "
            f"the environment yourself, with --env or env_fn."
        )
    check_id(env)
    return make_env_fn(env)


def read_env_spec(env: str, env_fn: Callable[[], Any]) -> EnvSpec:
    """Read the spaces of an environment, or raise `ConfigError` with the reason."""
    if isinstance(env_fn, JaxMaker):
        spec: EnvSpec = env_fn.env.spec
        return spec
    try:
        with warnings.catch_warnings(record=True) as caught:
            made = env_fn()
    except ConfigError:
        raise
    except faults.RAISED as error:
        raise _explain_failure(env, error) from error
    for one in caught:  # if making it fails, the error is enough
        warnings.showwarning(one.message, one.category, one.filename, one.lineno)
    try:
        spec = EnvSpec.of(made)
    finally:
        fault = faults.close_env(f"environment {env}", made)
    if fault:
        raise ConfigError(str(fault)) from fault
    return spec


def _explain_failure(env: str, error: BaseException) -> ConfigError:
    """Return the error for an environment that cannot be made, with the package to install."""
    from gymnasium.error import Error

    said = str(error)
    if not isinstance(error, Error | ImportError):
        said = f"{type(error).__name__}: {faults.format_in_a_line(error)}"
    elif text := _explain_missing(env):
        said = text
    else:
        word = re.sub(r"-v\d+$", "", env).lower()
        near = [s.id for s in STOCK if s.id.rpartition("-")[0].lower() == word and s.id != env]
        if near and near[0] not in said:
            said = f"{said} Did you mean {near[0]}?"
    return ConfigError(f"environment {env}: {said}")


def _explain_missing(env: str) -> str:
    """Return what to install for an environment; empty if it is installed or unknown."""
    from purerl.envs import registration  # start-up time

    extra = next((one.extra for one in STOCK if one.id == env and one.needs), "")
    if registration.lacks_robotics(env):
        extra = "robotics"
    return f"it needs {extra}. Type: {machine.explain_missing(extra)}" if extra else ""
