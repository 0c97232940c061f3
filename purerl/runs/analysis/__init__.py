"""Draw learning curves and compare runs from their tables, without importing JAX."""

from typing import TYPE_CHECKING

from purerl.lazy import load_on_use

if TYPE_CHECKING:
    from purerl.runs.analysis import comparison, figures, groups, plots, statistics, tables

__all__ = ["comparison", "figures", "groups", "plots", "statistics", "tables"]

__getattr__ = load_on_use(__name__, __all__)
