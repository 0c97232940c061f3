"""Loops that train: the only place that steps environments."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from purerl.loops import carry, gym, snapshot, vector

__all__ = ["carry", "gym", "snapshot", "vector"]


def __getattr__(name: str) -> Any:
    """Import a submodule on first use."""
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
