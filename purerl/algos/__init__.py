"""Algorithms: one flat module each, with the functions of docs/design.md."""

import difflib
import importlib
from types import ModuleType

NAMES = ("ddpg", "dqn", "ppo", "reinforce", "sac", "td3", "trpo", "vpg")


def check(name: str) -> None:
    """Refuse what is no algorithm, with the nearest name."""
    if name not in NAMES:
        near = difflib.get_close_matches(name.lower(), NAMES, 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ValueError(f"algorithm must be one of {', '.join(NAMES)}, got {name!r}.{hint}")


def load(name: str) -> ModuleType:
    """Import an algorithm by name.

    Example:
        >>> load("td3").__name__
        'purerl.algos.td3'
    """
    check(name)
    return importlib.import_module(f"purerl.algos.{name}")
