"""Errors to plant, for tests/mutants/__main__.py."""

from typing import NamedTuple


class Mutant(NamedTuple):
    """One planted error: `old` becomes `new` in `file`; `tests` are meant to fail."""

    file: str
    old: str
    new: str
    tests: str
