"""Algorithms: one module each, and a table of facts about them that imports no JAX.

To add an algorithm, write its module, its entry in `ALGORITHMS`, its test file, its entry in
`tests/cases.py`, and its page.
"""

import difflib
import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from purerl.errors import ConfigError

if TYPE_CHECKING:
    from purerl.algos import ddpg, dqn, ppo, reinforce, sac, td3, trpo, vpg  # noqa: F401 - loaded by `__getattr__`


class Algorithm(NamedTuple):
    """Facts about an algorithm that commands need without importing it."""

    title: str
    actions: tuple[str, ...]  # kinds of action spaces: box, discrete
    columns: Mapping[str, str]  # metric -> column of progress.txt, if the names differ
    screen: tuple[str, ...]  # metrics printed for each epoch
    acting: str = "actor"  # network that chooses actions: a field of Spec and of Params
    squashed: bool = False  # whether tanh squashes the output of that network


_BOTH = ("discrete", "box")
_V = {"val": "AverageVVals", "kl": "KL"}
_TWIN_Q = {"q1": "AverageQ1Vals", "q2": "AverageQ2Vals"}
ALGORITHMS = {
    "ddpg": Algorithm(
        "Deep deterministic policy gradient",
        ("box",),
        {"q": "AverageQVals"},
        ("loss_q", "q"),
        squashed=True,
    ),
    "dqn": Algorithm(
        "Deep Q-network, with double Q-learning",
        ("discrete",),
        {"q": "AverageQVals"},
        ("loss_q", "q", "epsilon"),
        acting="critic",
    ),
    "ppo": Algorithm("Proximal policy optimisation", _BOTH, _V, ("loss_v", "kl", "entropy")),
    "reinforce": Algorithm("REINFORCE", _BOTH, {"kl": "KL"}, ("kl", "entropy")),
    "sac": Algorithm(
        "Soft actor-critic",
        ("box",),
        _TWIN_Q | {"logp": "AverageLogPi"},
        ("loss_q", "q1", "alpha"),
        squashed=True,
    ),
    "td3": Algorithm("Twin delayed DDPG", ("box",), _TWIN_Q, ("loss_q", "q1"), squashed=True),
    "trpo": Algorithm(
        "Trust region policy optimisation, and natural policy gradient",
        _BOTH,
        _V,
        ("loss_v", "kl", "entropy"),
    ),
    "vpg": Algorithm(
        "Policy gradient with a value function", _BOTH, _V, ("loss_v", "kl", "entropy")
    ),
}
NAMES = tuple(ALGORITHMS)


def __getattr__(name: str) -> Any:
    """Import an algorithm on first use."""
    if name in NAMES:
        return load(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def check(name: str) -> None:
    """Refuse a name that is not an algorithm, and suggest the nearest name."""
    if name not in NAMES:
        near = difflib.get_close_matches(name.lower(), NAMES, 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ConfigError(f"algorithm must be one of {', '.join(NAMES)}, got {name!r}.{hint}")


def load(name: str) -> ModuleType:
    """Import an algorithm by name.

    Example:
        >>> load("td3").__name__
        'purerl.algos.td3'
    """
    check(name)
    return importlib.import_module(f"purerl.algos.{name}")
