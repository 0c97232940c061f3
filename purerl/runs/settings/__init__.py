"""The settings of a run: names, configuration, environments."""

from typing import TYPE_CHECKING

from purerl.lazy import load_on_use

if TYPE_CHECKING:
    from purerl.runs.settings import aliases, config, environments, presets

__all__ = ["aliases", "config", "environments", "presets"]

__getattr__ = load_on_use(__name__, __all__)
