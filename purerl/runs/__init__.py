"""Runs: folders, logs and checkpoints. No other package touches the disk."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from purerl.runs import analysis, policy, record, settings, sweeps, training

__all__ = ["analysis", "policy", "record", "settings", "sweeps", "training"]


def __getattr__(name: str) -> Any:
    """Import a submodule on first use."""
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
