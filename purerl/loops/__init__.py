"""Loops that train: the only place that steps environments."""

import importlib
from typing import TYPE_CHECKING, Any

from purerl.lazy import load_on_use

if TYPE_CHECKING:
    from purerl.loops import adapters, carry, gym, scan, snapshot

__all__ = ["adapters", "carry", "gym", "scan", "snapshot"]


def choose_loop(env: Any) -> Any:
    """Return the loop for an environment: `scan` for one in JAX, `gym` for a function.

    Both have `start`, `advance`, `run`, `finish`, `evaluate` and `evaluate_epoch`.
    """
    from purerl.loops.adapters.in_jax import is_jax_env  # start-up time

    return importlib.import_module(f"{__name__}.{'scan' if is_jax_env(env) else 'gym'}")


__getattr__ = load_on_use(__name__, __all__)
