"""Read values from words by the type of their setting, without evaluating them.

Importing this imports neither JAX nor NumPy.
"""

import argparse
import re
import typing
from collections.abc import Callable
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, NamedTuple

from purerl import checks
from purerl.mpi import world

if TYPE_CHECKING:
    from purerl.runs.settings import names


class Reader(NamedTuple):
    """Function that reads a value from a word."""

    metavar: str
    parse: Callable[[str], Any]


def parse_value(setting: "names.Setting", word: str) -> Any:
    """Read the value of a setting from a word; a bool is `true` or `false`.

    Raises:
        argparse.ArgumentTypeError: if the word is not a value of the setting's type.
    """
    if setting.name == "activation":
        from purerl.runs.settings import names  # here for start-up time

        return names.normalise_activation(word)
    if setting.name in ("seed", "num_cpu"):
        return parse_seed(word) if setting.name == "seed" else parse_ranks(word)
    reader = get_reader(setting.hint)
    if reader is None:
        raise argparse.ArgumentTypeError(f"{setting.name} cannot be given on a command line")
    return reader.parse(word)


def parse_ranks(word: str) -> int:
    """Read a number of ranks; `auto` is the number of cores that this process may use."""
    value = len(world.list_cpus()) if word == "auto" else parse_integer(word)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected auto or an integer of at least 1, got {word!r}")
    return value


def parse_seed(word: str) -> int:
    """Read a seed."""
    value = parse_integer(word)
    try:
        checks.seed(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return value


def parse_integer(word: str) -> int:
    """Read an integer; `1e6` is one, `1.5` is not."""
    number = _parse_number("an integer", word)
    if re.fullmatch(r"[+-]?[0-9]{1,300}", word):
        return int(word)  # exact where a float is not
    if not number.is_integer():
        raise argparse.ArgumentTypeError(f"expected an integer, got {word!r}")
    return int(number)


def parse_float(word: str) -> float:
    """Read a number."""
    return _parse_number("a number", word)


def _parse_number(what: str, word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected {what}, got {word!r}") from None


def _parse_float_or_word(word: str) -> float | str:
    try:
        return float(word)
    except ValueError:
        return word


def _parse_bool(word: str) -> bool:
    if word.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"expected true or false, got {word!r}")
    return word.lower() == "true"


_SCALARS = {
    int: Reader("INT", parse_integer),
    float: Reader("FLOAT", parse_float),
    str: Reader("STR", str),
    bool: Reader("BOOL", _parse_bool),
}


def get_reader(hint: Any) -> Reader | None:
    """Return the reader of an annotated type; None if no word can express it."""
    if typing.get_origin(hint) in (UnionType, typing.Union):
        inner = [h for h in typing.get_args(hint) if h is not NoneType]
        if inner == [float, str]:
            return Reader("FLOAT_OR_WORD", _parse_float_or_word)
        reader = get_reader(inner[0]) if len(inner) == 1 else None
        return reader and _make_optional(reader)
    if typing.get_origin(hint) is tuple:
        reader = get_reader(typing.get_args(hint)[0])
        return reader and _make_tuple_reader(reader)
    return _SCALARS.get(hint)


def _make_optional(reader: Reader) -> Reader:
    return Reader(reader.metavar, lambda w: None if w.lower() == "none" else reader.parse(w))


def _make_tuple_reader(reader: Reader) -> Reader:
    def parse(word: str) -> tuple[Any, ...]:
        bare = (word[:1] + word[-1:]) not in ("[]", "()")
        inside = word if bare else word[1:-1]
        return tuple(reader.parse(part.strip()) for part in inside.split(",")) if inside else ()

    return Reader(f"{reader.metavar},...", parse)
