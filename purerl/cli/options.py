"""Command-line options generated from dataclasses: typed, documented, never evaluated as code.

parser = argparse.ArgumentParser()
add_fields(parser, td3.Spec, td3.SCHEDULE)
args = parser.parse_args()
spec = build(parser, td3.Spec, args, env=env_spec(parser, "Pendulum-v1"))
schedule = build(parser, td3.SCHEDULE, args)
"""

import argparse
import dataclasses
import inspect
import io
import itertools
import re
import tokenize
import typing
from collections.abc import Callable, Sequence
from types import NoneType, UnionType
from typing import Any

from purerl import checks
from purerl.runs.settings import environments
from purerl.runs.settings import names as keys
from purerl.runs.sweeps import jobs
from purerl.spaces import EnvSpec


def add_fields(parser: argparse.ArgumentParser, *sources: Any, **defaults: Any) -> None:
    """Add one option per field of each dataclass that a word on a command line can express.

    Types come from the annotations, defaults from the fields (or from the instance given), help
    from `metadata={"help": ...}` or from the comment behind the field. A tuple is one word,
    `64,64`; None is `none`; a bool is `--x` or `--no-x`. Fields of other types, such as networks,
    are left out.

    Args:
        parser: gets one group of options per dataclass.
        *sources: dataclasses, or instances whose values are the defaults.
        **defaults: of fields whose own default does not suit.
    """
    for source in sources:
        cls = source if isinstance(source, type) else type(source)
        group = parser.add_argument_group(f"{cls.__module__}.{cls.__name__}")
        for name, (text, default, convert) in list_fields(source).items():
            default = defaults.get(name, default)
            group.add_argument(
                *_flags(name),
                default=defaults.get(name, argparse.SUPPRESS),
                help=f"{text} ({_show(default)})".replace("%", "%%").strip(),
                **_options(convert),
            )


def add_setting_flags(groups: Callable[[str], Any], other: dict[str, str], *sources: Any) -> None:
    """Add one option per field as `add_fields` does, each to the group that its name belongs to.

    Only spellings with dashes are added: `parse` takes underscores for them.

    Args:
        groups: name of a field -> group of options.
        other: name of a field -> another flag for it.
        *sources: dataclasses, or instances whose values are the defaults.
    """
    for source in sources:
        for name, (text, default, convert) in list_fields(source).items():
            groups(name).add_argument(
                *[_format_flag(name), *filter(None, [other.get(name)])],
                dest=name,
                default=argparse.SUPPRESS,
                help=f"{text} ({_show(default).removeprefix('default: ')})".replace("%", "%%"),
                **_options(convert),
            )


def list_fields(source: Any) -> dict[str, tuple[str, Any, Callable[[str], Any]]]:
    """Return help, default and reader of each field that a word can express."""
    cls = source if isinstance(source, type) else type(source)
    hints, comments = typing.get_type_hints(cls), _comments(cls)
    found = {}
    for field in dataclasses.fields(cls):
        convert = _converter(hints[field.name])
        if convert is not None:
            default = field.default if source is cls else getattr(source, field.name)
            text = field.metadata.get("help", comments.get(field.name, ""))
            found[field.name] = (text, default, convert)
    return found


def parse_line(
    parser: argparse.ArgumentParser,
    words: Sequence[str],
    check: Callable[[argparse.Namespace], list[str]] = lambda found: [],
) -> argparse.Namespace:
    """Parse a line of flags and their values; report all its mistakes at once, with exit code 2.

    A flag is never matched by its beginning, `_` is the same as `-` in it, and a value may be any
    negative number.

    Args:
        parser: with `exit_on_error=False`, and flags of the form `--some-name`.
        words: without positional ones.
        check: returns what is wrong with options that can be read, where others cannot.
    """
    known = parser._option_string_actions  # argparse has no public way to ask
    found, wrong, given = argparse.Namespace(), [], dict[str, str]()
    unread: set[str] = set()
    for flag, values in split_flags(words):
        flag = flag.replace("_", "-")
        if flag not in known:
            names = {word.lstrip("-").replace("-", "_") for word in known}
            near = keys.suggest(flag.lstrip("-").replace("-", "_"), sorted(names), _format_flag)
            wrong.append(
                f"unknown setting {flag}.{near}" if flag else f"{explain_stray_words(values)}."
            )
            continue
        action = known[flag]
        if action.dest in given and not isinstance(action, argparse._AppendAction):
            both = sorted({given[action.dest], flag})
            wrong.append(f"{' and '.join(both)}: one setting, given twice.")
            continue
        given[action.dest] = flag
        if action.nargs == 0 and values:
            wrong.append(f"argument {flag}: it takes no value, got {values[0]!r}")
            continue
        line = [f"{flag}={values[0]}"] if len(values) == 1 else [flag, *values]
        try:
            _, extra = parser.parse_known_args(line, found)
        except argparse.ArgumentError as error:
            unread.add(action.dest)
            wrong.append(str(error))
            continue
        if extra:
            wrong.append(
                f"argument {flag}: one word too many, {extra[0]!r}. A tuple is one word, 64,64; "
                f"several values are a grid, of purerl sweep."
            )
    made = parser.parse_args([], found)
    if wrong:
        known_by_now = re.compile("|".join(rf"\b{name}\b" for name in unread) or "$^")
        more = [line for line in check(made) if not known_by_now.search(line)]
        parser.error("\n".join(wrong + more))
    return made


def explain_stray_words(values: Sequence[str]) -> str:
    """Return what is wrong with words that no flag stands before."""
    text = f"{', '.join(map(repr, values))}: no flag stands before that"
    return f"{text}; an environment is --env {values[0]}" if "-v" in values[0] else text


def split_flags(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Split words into flags, each with the words behind it; `--x=1` is `--x 1`.

    Example:
        >>> flagged(["--lr", "-1e-1", "--hid=64", "--dt"])
        [('--lr', ['-1e-1']), ('--hid', ['64']), ('--dt', [])]
    """
    found: list[tuple[str, list[str]]] = []
    for word in words:
        if word.startswith("--") or re.match("-(?!inf$|nan$)[A-Za-z]", word):
            flag, equals, value = word.partition("=")
            found.append((flag, [value] if equals else []))
        elif found:
            found[-1][1].append(word)
        else:
            found.append(("", [word]))
    return found


def parse_value(setting: keys.Setting, word: str) -> Any:
    """Read the value of a setting from a word; a bool is `true` or `false`.

    Raises:
        argparse.ArgumentTypeError: where the word is no value of the setting's type.
    """
    if setting.name == "seed":
        return parse_seed(word)
    if setting.name == "num_cpu":
        return parse_ranks(word)
    if setting.hint is bool:
        if word.lower() not in ("true", "false"):
            raise argparse.ArgumentTypeError(f"expected true or false, got {word!r}")
        return word.lower() == "true"
    convert = _converter(setting.hint)
    assert convert, setting
    return convert(word)


def parse_ranks(word: str) -> int:
    """Read a number of ranks; `auto` is as many as there are cores for this process."""
    value = jobs.count_cores() if word == "auto" else _int(word)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected auto or an integer of at least 1, got {word!r}")
    return value


def build(
    parser: argparse.ArgumentParser, source: Any, args: argparse.Namespace, **given: Any
) -> Any:
    """Make the dataclass from parsed options; a value it refuses is a usage error (exit code 2).

    Args:
        parser: reports the error.
        source: the dataclass or instance that `add_fields` was given.
        args: parsed options.
        **given: fields that are not options.
    """
    cls = source if isinstance(source, type) else type(source)
    names = {field.name for field in dataclasses.fields(cls)}
    values = {k: v for k, v in vars(args).items() if k in names} | given
    try:
        return cls(**values) if source is cls else dataclasses.replace(source, **values)
    except ValueError as error:
        parser.error(str(error))


def parse_seed(word: str) -> int:
    """Read a seed: the `type` of a `--seed` option."""
    value = _int(word)
    try:
        checks.seed(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return value


def parse_integer(word: str) -> int:
    """Read an integer, of which `1e6` is one: the `type` of an option."""
    return _int(word)


def read_env_spec(parser: argparse.ArgumentParser, env_id: str) -> EnvSpec:
    """Read the spaces of a Gymnasium id; an id or a space that will not do is a usage error."""
    import gymnasium

    try:
        env = gymnasium.make(env_id)
        spec = EnvSpec.of(env)
        env.close()
    except (gymnasium.error.Error, ImportError, ValueError) as error:
        parser.error(f"--env {env_id}: {environments.explain_failure(env_id, error)}")
    return spec


def _flags(name: str) -> list[str]:
    """Return `--steps-per-epoch` and Spinning Up's spelling, `--steps_per_epoch`."""
    return list(dict.fromkeys([_format_flag(name), f"--{name}"]))


def _format_flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _converter(hint: Any) -> Callable[[str], Any] | None:
    """Return the function from a word to a value of the annotated type, or None."""
    if typing.get_origin(hint) in (UnionType, typing.Union):
        inner = [h for h in typing.get_args(hint) if h is not NoneType]
        if inner == [float, str]:
            return _float_or_word
        convert = _converter(inner[0]) if len(inner) == 1 else None
        return _optional(convert) if convert else None
    if typing.get_origin(hint) is tuple:
        item = _converter(typing.get_args(hint)[0])
        return _tuple_of(item) if item else None
    readers: dict[Any, Callable[[str], Any]] = {int: _int, float: _float, str: str, bool: _bool}
    return readers.get(hint)


def _options(convert: Callable[[str], Any]) -> dict[str, Any]:
    if convert is _bool:
        return {"action": argparse.BooleanOptionalAction}
    return {"type": convert, "metavar": convert.__name__.strip("_").upper()}


def _int(word: str) -> int:
    """Read an integer; `1e6` is one, `1.5` is not."""
    number = _number("an integer", word)
    if re.fullmatch(r"[+-]?[0-9]{1,300}", word):
        return int(word)  # exact where a float is not
    if not number.is_integer():
        raise argparse.ArgumentTypeError(f"expected an integer, got {word!r}")
    return int(number)


def _float(word: str) -> float:
    return _number("a number", word)


def _float_or_word(word: str) -> float | str:
    try:
        return float(word)
    except ValueError:
        return word


def _number(what: str, word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected {what}, got {word!r}") from None


def _bool(word: str) -> bool:
    raise argparse.ArgumentTypeError(f"expected --flag or --no-flag, got {word!r}")


def _optional(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(word: str) -> Any:
        return None if word.lower() == "none" else convert(word)

    read.__name__ = convert.__name__
    return read


def _tuple_of(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(word: str) -> tuple[Any, ...]:
        bare = (word[:1] + word[-1:]) not in ("[]", "()")
        inside = word if bare else word[1:-1]
        return tuple(convert(part.strip()) for part in inside.split(",")) if inside else ()

    read.__name__ = f"{convert.__name__},..."
    return read


def _show(value: Any) -> str:
    if value is dataclasses.MISSING:
        return "required"
    if isinstance(value, tuple):
        value = ",".join(map(str, value))
    return f"default: {'none' if value is None else value}"


def _comments(cls: type) -> dict[str, str]:
    """Read the comment behind each field, `name: type = default  # comment`, from the source."""
    comments: dict[str, str] = {}
    name = ""
    tokens = list(tokenize.generate_tokens(io.StringIO(inspect.getsource(cls)).readline))
    for first, second in itertools.pairwise(tokens):
        if first.type == tokenize.NAME and second.string == ":":
            name = first.string
        elif second.type == tokenize.COMMENT and name:
            comments.setdefault(name, second.string.lstrip("# "))
        elif first.type == tokenize.NEWLINE:
            name = ""
    return comments
