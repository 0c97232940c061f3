"""Loops that train: the only place that steps environments."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from purerl.loops import adapters, carry, gym, snapshot

__all__ = ["adapters", "carry", "gym", "snapshot"]


def __getattr__(name: str) -> Any:
    """Import a submodule on first use."""
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
