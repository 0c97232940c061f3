"""Packages whose submodules are imported on first use, so that imports stay fast."""

import importlib
from collections.abc import Callable, Collection
from types import ModuleType


def load_on_use(package: str, names: Collection[str]) -> Callable[[str], ModuleType]:
    """Return the `__getattr__` of a package.

    Args:
        package: Name of the package, its `__name__`.
        names: Submodules to import when they are first used.
    """

    def load(name: str) -> ModuleType:
        if name in names:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load
