"""Training in a run folder: saving, reporting, stopping, failing and resuming."""

from typing import TYPE_CHECKING

from purerl.lazy import load_on_use

if TYPE_CHECKING:
    from purerl.runs.training import (
        diagnosis,
        dry_run,
        epochs,
        progress_bar,
        reporting,
        requirements,
        restoring,
        saving,
        sinks,
        train,
    )

__all__ = [
    "diagnosis",
    "dry_run",
    "epochs",
    "progress_bar",
    "reporting",
    "requirements",
    "restoring",
    "saving",
    "sinks",
    "train",
]

__getattr__ = load_on_use(__name__, __all__)
