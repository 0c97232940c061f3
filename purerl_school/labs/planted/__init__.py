"""Tables of the planted errors, one module for each algorithm."""

from typing import NamedTuple


class PlantedError(NamedTuple):
    """An error in an algorithm, and how to find it.

    `level` is 1 if the learning curve shows the error at once, and 2 if the other metrics show it.
    At level 3 the curves look right, or do not show where it is, and a test of a function finds it.
    """

    name: str  # a few words, for the solution
    level: int  # difficulty: 1, 2 or 3
    old: str  # text of the right module, which it contains once
    new: str  # the same text with the error
    clue: str  # first hint: where to look
    probe: str  # second hint: a test that fails
    equation: str  # the equation that the line must implement
    effect: str  # what the curves show
    why: str  # how the error causes it
