"""Immutable buffers for any pytree of arrays, and minibatches of their rows."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from purerl.buffers import goals, minibatches, replay, rollout

__all__ = ["goals", "minibatches", "replay", "rollout"]


def __getattr__(name: str) -> Any:
    """Import a submodule on first use."""
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
