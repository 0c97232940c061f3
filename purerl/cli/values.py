"""Parse the values on a command line by the type of their setting, without evaluating them."""

import argparse
import contextlib
import functools
import re
import typing
from collections.abc import Callable
from types import NoneType
from typing import Any

from purerl import checks
from purerl.mpi import world
from purerl.runs.settings import aliases

Reader = tuple[str, Callable[[str], Any]]  # placeholder in the help, function that parses


def parse_value(setting: aliases.Setting, word: str) -> Any:
    """Parse the value of a setting; a bool is `true` or `false`. Raises `ArgumentTypeError`."""
    reader = _SPECIAL.get(setting.name) or get_reader(setting.hint)
    if reader is None:
        raise argparse.ArgumentTypeError(f"{setting.name} cannot be given on a command line")
    return reader[1](word)


def parse_ranks(word: str) -> int:
    """Parse a number of ranks; `auto` is the number of cores that this process may use."""
    if (value := len(world.list_cpus()) if word == "auto" else parse_integer(word)) > 0:
        return value
    raise argparse.ArgumentTypeError(f"expected auto or an integer of at least 1, got {word!r}")


def parse_seed(word: str) -> int:
    """Parse a seed."""
    value = parse_integer(word)
    try:
        checks.seed(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return value


def parse_integer(word: str) -> int:
    """Parse an integer: `100000`, `1e5`, `100_000`, `100k` or `0.1M`; `1.5` is not one."""
    if re.fullmatch(r"[+-]?[0-9]{1,300}", word):
        return int(word)  # exact, unlike a float
    unit = _UNITS.get(word[-1:].lower(), 1)
    number = _parse_float_or_word(word if unit == 1 else word[:-1])
    if unit > 1 and isinstance(number, float):
        number = round(number * unit, 6)  # 1.1 * 1e6 is 1100000.0000000002
    if isinstance(number, str) or not number.is_integer():
        raise argparse.ArgumentTypeError(f"expected an integer, got {word!r}")
    return int(number)


def parse_float(word: str) -> float:
    """Parse a number."""
    number = _parse_float_or_word(word)
    if isinstance(number, str):
        raise argparse.ArgumentTypeError(f"expected a number, got {word!r}")
    return number


def get_reader(hint: Any) -> Reader | None:
    """Return the reader of an annotated type; None if a command line cannot express it."""
    inner = typing.get_args(hint)
    if typing.get_origin(hint) is tuple and (reader := get_reader(inner[0])):
        return f"{reader[0]},...", functools.partial(_parse_tuple, reader[1])
    if NoneType in inner and (reader := get_reader(inner[0])):
        metavar, parse = reader
        return metavar, lambda word: None if word.lower() == "none" else parse(word)
    return _READERS.get(hint)


def _parse_tuple(parse: Callable[[str], Any], word: str) -> tuple[Any, ...]:
    inside = word[1:-1] if word[:1] + word[-1:] in ("[]", "()") else word
    return tuple(parse(part.strip()) for part in inside.split(",")) if inside else ()


def _parse_float_or_word(word: str) -> float | str:
    with contextlib.suppress(ValueError):
        return float(word)
    return word


def _parse_bool(word: str) -> bool:
    if word.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"expected true or false, got {word!r}")
    return word.lower() == "true"


_UNITS = {"k": 1_000, "m": 1_000_000}
_READERS: dict[Any, Reader] = {
    int: ("INT", parse_integer),
    float: ("FLOAT", parse_float),
    str: ("STR", str),
    bool: ("BOOL", _parse_bool),
    float | str: ("FLOAT|STR", _parse_float_or_word),
}
_SPECIAL: dict[str, Reader] = {
    "activation": ("STR", aliases.normalise_activation),
    "seed": ("INT", parse_seed),
    "num_cpu": ("INT", parse_ranks),
}
