"""The folder of a run: files, status, checkpoints, logs."""

from typing import TYPE_CHECKING

from purerl.lazy import load_on_use

if TYPE_CHECKING:
    from purerl.runs.record import (
        arrays,
        checkpoint,
        checkpoint_folders,
        files,
        folder,
        logger,
        machine,
        progress,
        safe_files,
        states,
        status,
    )

__all__ = [
    "arrays",
    "checkpoint",
    "checkpoint_folders",
    "files",
    "folder",
    "logger",
    "machine",
    "progress",
    "safe_files",
    "states",
    "status",
]

__getattr__ = load_on_use(__name__, __all__)
