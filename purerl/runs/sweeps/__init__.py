"""Run grids of experiments, several at a time."""

from typing import TYPE_CHECKING

from purerl.lazy import load_on_use

if TYPE_CHECKING:
    from purerl.runs.sweeps import grid, jobs, results, tasks

__all__ = ["grid", "jobs", "results", "tasks"]

__getattr__ = load_on_use(__name__, __all__)
