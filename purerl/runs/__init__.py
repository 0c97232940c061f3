"""Runs: folders, logs and checkpoints. No other package touches the disk."""

from typing import TYPE_CHECKING

from purerl.lazy import load_on_use

if TYPE_CHECKING:
    from purerl.runs import analysis, policy, record, settings, sweeps, training

__all__ = ["analysis", "policy", "record", "settings", "sweeps", "training"]

__getattr__ = load_on_use(__name__, __all__)
