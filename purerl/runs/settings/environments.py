"""Gymnasium's stock environments and the algorithms that fit them, known without importing it."""

import importlib.util
import re
from typing import NamedTuple

from purerl import algos
from purerl.errors import ConfigError

BOX_ALGORITHMS = ("ddpg", "ppo", "reinforce", "sac", "td3", "trpo", "vpg")
DISCRETE_ALGORITHMS = ("dqn", "ppo", "reinforce", "trpo", "vpg")
MODULES = {"mujoco": "mujoco", "box2d": "Box2D"}  # extra -> what it installs


class Stock(NamedTuple):
    """An environment as Gymnasium 1.4 registers it."""

    id: str
    observations: int
    actions: int
    is_discrete: bool
    limit: int  # steps
    extra: str = ""

    @property
    def fits(self) -> tuple[str, ...]:
        """The algorithms that can act in it."""
        return DISCRETE_ALGORITHMS if self.is_discrete else BOX_ALGORITHMS

    @property
    def is_there(self) -> bool:
        """Whether what it needs is installed."""
        return not self.extra or importlib.util.find_spec(MODULES[self.extra]) is not None


STOCK = (
    Stock("CartPole-v1", 4, 2, True, 500),
    Stock("Acrobot-v1", 6, 3, True, 500),
    Stock("MountainCar-v0", 2, 3, True, 200),
    Stock("MountainCarContinuous-v0", 2, 1, False, 999),
    Stock("Pendulum-v1", 3, 1, False, 200),
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
)


def check_id(env: str) -> None:
    """Refuse a word that has not the form of a Gymnasium id."""
    if not re.fullmatch(r"(?:[\w.]+:)?(?:[\w-]+/)?[\w.-]+", env):
        several = " Several are a grid: --grid env=A,B of purerl sweep." if "," in env else ""
        raise ConfigError(
            f"env must be an id of Gymnasium, as CartPole-v1, or module:Id, got {env!r}.{several}"
        )


def check_available(env: str) -> None:
    """Refuse an id that is not registered, or needs what is missing; nothing is made.

    What an id imports, as `module:Id`, is not looked at: only the run itself does.
    """
    check_id(env)
    if ":" in env:
        return
    from gymnasium import error
    from gymnasium.envs import registration

    try:
        space, name, version = registration.parse_env_id(env)
        if version is not None or registration.find_highest_version(space, name) is None:
            registration.spec(env)
    except error.Error as wrong:
        raise ConfigError(f"environment {env}: {explain_failure(env, wrong)}") from wrong
    if text := _missing(env):
        raise ConfigError(f"environment {env}: {text}")


def explain_failure(env: str, error: Exception) -> str:
    """Return why an environment cannot be made: what to install, or else what it raised."""
    if text := _missing(env):
        return text
    said = str(error)
    near = [one.id for one in STOCK if _name(one.id) == _name(env) and one.id != env]
    return f"{said} Did you mean {near[0]}?" if near and near[0] not in said else said


def _missing(env: str) -> str:
    """Return what to install for an environment; nothing where it is there, or not known."""
    for one in STOCK:
        if one.id == env and not one.is_there:
            return f"it needs {one.extra}: pip install 'purerl[{one.extra}]'"
    return ""


def _name(env: str) -> str:
    """Return an id without its version, in lower case."""
    return re.sub(r"-v\d+$", "", env).lower()


def list_rows(algo: str | None = None) -> list[tuple[str, ...]]:
    """Return the table of `purerl list envs`.

    Args:
        algo: only environments that fit it.
    """
    if algo is not None:
        algos.check(algo)
    table: list[tuple[str, ...]] = [("environment", "obs", "actions", "limit", "needs", "fits")]
    for one in STOCK:
        if algo is None or algo in one.fits:
            actions = f"one of {one.actions}" if one.is_discrete else f"box of {one.actions}"
            needs = "" if one.is_there else f"pip install 'purerl[{one.extra}]'"
            row = (one.id, str(one.observations), actions, str(one.limit), needs)
            table.append((*row, " ".join(one.fits)))
    return table
