"""Register environments that a user names but has not imported: purerl's, gymnasium-robotics'.

Importing this module imports its package, which registers purerl's own.
"""

import functools
import importlib
import importlib.util
import sys
import types
from typing import Any

import gymnasium
import numpy as np

OWN = "purerl/"  # namespace of purerl's environments, which need not be typed
PACKAGE = "gymnasium_robotics"
FAMILIES = ("Fetch", "Hand", "PointMaze", "AntMaze", "AdroitHand", "FrankaKitchen")


def register_env(env: str) -> str:
    """Register an environment if its id is not known yet; return the id that Gymnasium knows."""
    if env in gymnasium.registry or ":" in env:
        return env
    if f"{OWN}{env}" in gymnasium.registry:
        return f"{OWN}{env}"
    if env.startswith(FAMILIES) and not lacks_robotics(env):
        _register_robotics()
    return env


def lacks_robotics(env: str) -> bool:
    """Return whether an id looks like one of gymnasium-robotics, which is not installed."""
    is_installed = PACKAGE in sys.modules or importlib.util.find_spec(PACKAGE) is not None
    return env.startswith(FAMILIES) and env not in gymnasium.registry and not is_installed


@functools.cache
def _register_robotics() -> None:
    """Register the environments of gymnasium-robotics, and repair them for MuJoCo 4."""
    importlib.import_module(PACKAGE)
    utils: Any = importlib.import_module(f"{PACKAGE}.utils.mujoco_utils")
    utils.mujoco = repair_joint_types(utils.mujoco)


def repair_joint_types(mujoco: Any) -> Any:
    """Return MuJoCo with joint types that are equal to NumPy integers, as models have them.

    In MuJoCo 4 an enum differs from every NumPy integer, and gymnasium-robotics 1.4 compares both:
    its robots fail with an `AssertionError`.
    """
    joints = mujoco.mjtJoint.__members__
    if all(kind == np.int32(int(kind)) for kind in joints.values()):  # the order matters
        return mujoco
    repaired: Any = types.ModuleType(mujoco.__name__)
    vars(repaired).update(vars(mujoco))
    repaired.mjtJoint = types.SimpleNamespace(**{name: int(x) for name, x in joints.items()})
    return repaired
