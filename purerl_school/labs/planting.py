"""Plant errors into the source of an algorithm, without importing it."""

import ast
import importlib
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from purerl import algos
from purerl.errors import ConfigError
from purerl_school.labs import planted as tables
from purerl_school.labs.planted import PlantedError

LEVELS = (1, 2, 3)
NAMES = tuple(sorted(path.stem for path in Path(tables.__file__).parent.glob("[a-z]*.py")))


class Planted(NamedTuple):
    """Source of an algorithm with one error, and the place of the error."""

    source: str
    lines: range  # numbers of the lines of the error, from 1
    function: str  # name of the function that contains it
    body: range  # numbers of the lines of that function


def list_labs(algo: str) -> tuple[PlantedError, ...]:
    """Return the labs of an algorithm; the first has the number 1.

    Example:
        >>> [lab.level for lab in list_labs("vpg")]
        [1, 1, 2, 2, 3, 3]
    """
    algos.check(algo)
    if algo not in NAMES:
        raise ConfigError(f"{algo} has no labs yet. Choose one of {', '.join(NAMES)}.")
    table = importlib.import_module(f"purerl_school.labs.planted.{algo}")
    labs: tuple[PlantedError, ...] = table.LABS
    return labs


def get_lab(algo: str, number: int) -> PlantedError:
    """Return the lab with a number."""
    labs = list_labs(algo)
    if not 1 <= number <= len(labs):
        raise ConfigError(
            f"{algo} has the labs 1 to {len(labs)}, got {number}. `purerl lab list` lists all."
        )
    return labs[number - 1]


def choose_number(algo: str, level: int | None, seed: int | None, taken: Iterable[int]) -> int:
    """Return the number of a lab, chosen by a seed, or else the first that is not taken.

    Args:
        algo: Name of the algorithm.
        level: Difficulty of the lab; None for any.
        seed: Integer that chooses the lab; None for the first that is not in `taken`.
        taken: Numbers of labs that were started before.
    """
    fits = [i for i, lab in enumerate(list_labs(algo), 1) if level in (None, lab.level)]
    if seed is not None:
        return fits[zlib.crc32(f"{algo} {level} {seed}".encode()) % len(fits)]
    if left := [number for number in fits if number not in taken]:
        return left[0]
    which = f" of difficulty {level}" if level else ""
    raise ConfigError(
        f"all labs of {algo}{which} have a folder here. Choose another difficulty or algorithm, or "
        f"give --number and --folder."
    )


def read_right(algo: str) -> str:
    """Return the source of an algorithm."""
    return Path(algos.__file__).with_name(f"{algo}.py").read_text(encoding="utf-8")


def plant(algo: str, number: int) -> Planted:
    """Return the source of an algorithm with the error of a lab.

    Example:
        >>> plant("ppo", 1).function
        'actor_loss'
    """
    lab, right = get_lab(algo, number), read_right(algo)
    if right.count(lab.old) != 1:
        raise ValueError(
            f"{algo}.py must contain the text of lab {number} once, got {right.count(lab.old)} "
            f"times: {lab.old!r}. Change purerl_school/labs/planted/{algo}.py."
        )
    source = right.replace(lab.old, lab.new)
    first = right[: right.index(lab.old)].count("\n") + 1
    lines = range(first, first + lab.new.count("\n") + 1)
    for node in ast.parse(source).body:
        body = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        if isinstance(node, ast.FunctionDef) and first in body:
            return Planted(source, lines, node.name, body)
    raise ValueError(f"the error of lab {number} of {algo} is at line {first}, in no function.")
