"""Numbers of test cases: a subset in `make test`, all in `make test-reliability`."""

from typing import Any

import pytest

# Signals at random moments to whole runs, only in `make test-reliability`.
KILLS = 160
EARLY_KILLS = 40  # while the process starts, imports and compiles
TERMINATIONS = 100
INTERRUPTS = 40  # Ctrl-C while it starts and compiles, once and twice

EVERY = 10**9
COUNTS = {  # a subset, all
    "calls": (1, EVERY),  # calls of each algorithm's run that change the disk
    "damages": (80, 1_000),
    "hostile": (35, EVERY),  # folders from other people
    "cuts": (30, EVERY),  # bytes of each small file at which it is cut
}


def sizes(kind: str) -> Any:
    """Parametrise a test by the number of its cases: `number` of the subset, and of all."""
    few, many = COUNTS[kind]
    every = pytest.param(many, id="full", marks=pytest.mark.reliability)
    return pytest.mark.parametrize("number", [pytest.param(few, id="subset"), every])
