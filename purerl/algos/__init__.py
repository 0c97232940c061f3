"""Algorithms: one module each, and a table of facts about them that imports no JAX.

To add an algorithm, write its module, its entry in `ALGORITHMS`, its test file, its entry in
`tests/cases.py`, and its page.
A custom algorithm needs none of that: pass its module instead of a name, as in
`purerl.train(my_algorithm, "Pendulum-v1")`.
"""

import dataclasses
import difflib
import importlib
import importlib.util
import sys
from collections.abc import Mapping
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from purerl import checks
from purerl.errors import ConfigError
from purerl.schedules import OffPolicySchedule, OnPolicySchedule, SequenceSchedule
from purerl.types import Rows, extend

if TYPE_CHECKING:
    from purerl.algos import (  # noqa: F401 - loaded by `__getattr__`
        acer,
        crossq,
        ddpg,
        dqn,
        ppo,
        pqn,
        redq,
        reinforce,
        sac,
        sac_discrete,
        td3,
        tqc,
        trpo,
        vpg,
        xqc,
    )


class Algorithm(NamedTuple):
    """Facts about an algorithm that commands need without importing it."""

    title: str
    actions: tuple[str, ...]  # kinds of action spaces: discrete, multi_discrete, box
    columns: Mapping[str, str]  # metric -> column of progress.txt, if the names differ
    screen: tuple[str, ...]  # metrics printed for each epoch
    acting: str = "actor"  # network that chooses actions: a field of Spec and of Params
    squashed: bool = False  # whether tanh squashes the output of that network
    splits_batches: bool = True  # whether devices may split the rows of a batch


_ALL = ("discrete", "multi_discrete", "box")
_V = {"val": "AverageVVals", "kl": "KL"}
_TWIN_Q = {"q1": "AverageQ1Vals", "q2": "AverageQ2Vals"}
ALGORITHMS = {
    "acer": Algorithm(
        "Actor-critic with experience replay",
        ("discrete",),
        {"q": "AverageQVals", "kl": "KL"},
        ("loss_q", "q", "kl", "entropy"),
    ),
    "crossq": Algorithm(
        "SAC with batch renormalisation, without target networks",
        ("box",),
        _TWIN_Q | {"logp": "AverageLogPi"},
        ("loss_q", "q1", "alpha"),
        squashed=True,
        splits_batches=False,
    ),
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
    "ppo": Algorithm("Proximal policy optimisation", _ALL, _V, ("loss_v", "kl", "entropy")),
    "pqn": Algorithm(
        "Parallelised Q-network: Q(lambda) without a replay buffer",
        ("discrete",),
        {"q": "AverageQVals"},
        ("loss_q", "q", "epsilon"),
        acting="critic",
    ),
    "redq": Algorithm(
        "SAC with an ensemble of critics, many updates; also DroQ",
        ("box",),
        {"q": "AverageQVals", "logp": "AverageLogPi"},
        ("loss_q", "q", "alpha"),
        squashed=True,
    ),
    "reinforce": Algorithm("REINFORCE", _ALL, {"kl": "KL"}, ("kl", "entropy")),
    "sac": Algorithm(
        "Soft actor-critic",
        ("box",),
        _TWIN_Q | {"logp": "AverageLogPi"},
        ("loss_q", "q1", "alpha"),
        squashed=True,
    ),
    "sac_discrete": Algorithm(
        "Soft actor-critic for discrete actions",
        ("discrete",),
        _TWIN_Q,
        ("loss_q", "q1", "entropy", "alpha"),
    ),
    "td3": Algorithm("Twin delayed DDPG", ("box",), _TWIN_Q, ("loss_q", "q1"), squashed=True),
    "tqc": Algorithm(
        "SAC with truncated quantile critics",
        ("box",),
        {"q": "AverageQVals", "logp": "AverageLogPi"},
        ("loss_q", "q", "alpha"),
        squashed=True,
    ),
    "trpo": Algorithm(
        "Trust region policy optimisation, and natural policy gradient",
        _ALL,
        _V,
        ("loss_v", "kl", "entropy"),
    ),
    "vpg": Algorithm(
        "Policy gradient with a value function", _ALL, _V, ("loss_v", "kl", "entropy")
    ),
    "xqc": Algorithm(
        "CrossQ with weight normalisation and categorical critics",
        ("box",),
        _TWIN_Q | {"logp": "AverageLogPi"},
        ("loss_q", "q1", "alpha"),
        squashed=True,
        splits_batches=False,
    ),
}
NAMES = tuple(ALGORITHMS)
_SIMILAR = {
    "a2c": "vpg",
    "a3c": "vpg",
    "pg": "vpg",
    "npg": "trpo",
    "droq": "redq",
    "sacd": "sac_discrete",
}  # near in meaning
CONTRACT = ("Spec", "SCHEDULE", "init", "act", "policy", "loss", "update")  # of every algorithm


def __getattr__(name: str) -> Any:
    """Import an algorithm on first use."""
    if name in NAMES:
        return load(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def correct(name: str) -> str:
    """Return a name in lower case; for a similar algorithm, the name of ours."""
    return _SIMILAR.get(name.lower(), name.lower())


def check(name: str) -> None:
    """Refuse a name that is not an algorithm, and suggest the nearest name."""
    if name not in NAMES:
        near = difflib.get_close_matches(correct(name), NAMES, 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ConfigError(f"algorithm must be one of {', '.join(NAMES)}, got {name!r}.{hint}")


def load(algo: str | Any) -> Any:
    """Return the module of an algorithm: import it by name, or check the custom one given.

    Args:
        algo: A name of `NAMES`; or a module, class or `SimpleNamespace` with the names of the
            contract, which docs/reference/design.md explains.

    Example:
        >>> load("td3").__name__
        'purerl.algos.td3'
    """
    if not isinstance(algo, str):
        return _check_contract(algo)
    check(algo)
    return importlib.import_module(f"purerl.algos.{algo}")


def find(name: str) -> Any:
    """Return the name of one of purerl's algorithms, or import `my_package.my_algorithm`.

    This runs the code of the module, so `name` must come from the user and never from a file.
    """
    if name in NAMES:
        return name
    try:
        words = name.split(".")
        found = all(map(str.isidentifier, words)) and importlib.util.find_spec(name)
    except (ModuleNotFoundError, ValueError) as error:  # no package of this name
        if not name.startswith(str(getattr(error, "name", "") or name)):
            raise  # an import inside of the package failed
        found = None
    if not found:
        check(name)  # which names the nearest
    return _check_contract(importlib.import_module(name))


def _check_contract(algo: Any) -> Any:
    """Return a custom algorithm as a hashable object, or raise an error with all missing names."""
    if not isinstance(algo, ModuleType | type | SimpleNamespace):
        raise ConfigError(f"algo must be a name, module, class or SimpleNamespace, got {algo!r}.")
    lacks = [name for name in CONTRACT if not hasattr(algo, name)]
    schedule = getattr(algo, "SCHEDULE", None)
    if isinstance(schedule, OnPolicySchedule):
        lacks += ["prepare"] if not hasattr(algo, "prepare") else []
    elif isinstance(schedule, OffPolicySchedule):
        lacks += ["NOISE_DRAWS"] if not hasattr(algo, "NOISE_DRAWS") else []
    elif schedule is not None:
        raise ConfigError(
            f"SCHEDULE of {get_name(algo)} must be an OffPolicySchedule or an OnPolicySchedule of "
            f"purerl.schedules, got {schedule!r}."
        )
    spec = getattr(algo, "Spec", None)
    if spec is not None and not (isinstance(spec, type) and dataclasses.is_dataclass(spec)):
        raise ConfigError(f"Spec of {get_name(algo)} must be a frozen dataclass, got {spec!r}.")
    if lacks:
        raise ConfigError(
            f"{algo!r} is not an algorithm: it lacks {', '.join(lacks)}. Give a name ("
            f"{', '.join(NAMES)}), or a module with everything that docs/reference/design.md lists."
        )
    if isinstance(algo, SimpleNamespace):  # which has no hash, and compiled programs need one
        module = ModuleType(get_name(algo))
        vars(module).update(vars(algo))
        return module
    return algo


def check_settings(algo: Any, spec: Any, schedule: Any) -> None:
    """Refuse a spec or schedule of another algorithm, and settings that do not go together."""
    checks.spec(spec, algo.Spec)
    kind = type(algo.SCHEDULE)
    mixed = isinstance(schedule, SequenceSchedule) and not issubclass(kind, SequenceSchedule)
    if not isinstance(schedule, kind) or mixed:
        raise ValueError(
            f"schedule of {get_name(algo)} must be a purerl.schedules.{kind.__name__}, got "
            f"{schedule!r}."
        )
    if schedule.devices > 1 and not get_facts(algo).splits_batches:
        raise ValueError(
            f"devices must be 1 for {get_name(algo)}, which normalises by the mean and variance of "
            f"a whole batch, got {schedule.devices}. Set devices=1. To use more cores, start ranks "
            f"(--num-cpu), which sample batches of their own."
        )
    if isinstance(schedule, OffPolicySchedule) and schedule.changes_rewards:
        if not isinstance(getattr(spec, "gamma", None), int | float):
            raise ValueError(
                f"n_step and scale_rewards need the discount factor spec.gamma, which "
                f"{get_name(algo)} lacks. Add the field, or leave both settings out."
            )
        if schedule.scale_rewards and getattr(spec, "clip_targets", False):
            raise ValueError(
                "clip_targets is for rewards of -1 and 0, which scale_rewards changes. Set one of "
                "them to False (--no-clip-targets or --no-scale-rewards)."
            )
    replays_goals = spec.env.goal_size and getattr(schedule, "her", None) is not False
    if replays_goals and isinstance(schedule, OffPolicySchedule) and hasattr(algo, "stored_info"):
        raise ValueError(
            f"{get_name(algo)} stores values of info, which a goal replay buffer cannot. Set "
            f"her=False (--no-her)."
        )


def find_stored_info(algo: Any, spec: Any) -> dict[str, Any] | None:
    """Return an example of each value of `info` that an algorithm stores; None without any."""
    if not hasattr(algo, "stored_info"):
        return None
    import numpy as np  # start-up time

    return {name: np.asarray(x) for name, x in sorted(algo.stored_info(spec).items())}


def make_row(algo: Any, spec: Any) -> Rows:
    """Return a transition of zeros as loops store it."""
    return extend(spec.env.example(), find_stored_info(algo, spec))


def get_name(algo: str | Any) -> str:
    """Return the name of an algorithm in configurations, never that of another one."""
    if isinstance(algo, str):
        return algo
    name = str(getattr(algo, "__name__", "custom"))
    package, _, last = name.rpartition(".")
    if package == __name__ and last in NAMES and sys.modules.get(name) is algo:
        return last
    return f"custom.{name}" if name in NAMES else name


def get_facts(algo: str | Any) -> Algorithm:
    """Return the facts about an algorithm; a custom module may have its own in `ALGORITHM`."""
    if (name := get_name(algo)) in ALGORITHMS:
        return ALGORITHMS[name]
    title = (getattr(algo, "__doc__", None) or "").partition("\n")[0]
    own: Algorithm = getattr(algo, "ALGORITHM", Algorithm(title, _ALL, {}, ()))
    return own
