"""Parse command lines: a parser for all commands, flags for dataclass fields, `KEY=VALUE` pairs.

parser = Parser("train td3", "Train TD3.")
add_settings(parser, td3.Spec, td3.SCHEDULE)
args = parser.parse_args()  # has the settings that were given

A value is parsed by the type of its setting and never evaluated. Importing this imports no JAX.
"""

import argparse
import dataclasses
import re
import sys
import typing
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NoReturn

from purerl import errors, mpi
from purerl.cli.values import get_reader, parse_value
from purerl.errors import ConfigError
from purerl.mpi import world
from purerl.runs.settings import aliases

Check = Callable[[argparse.Namespace], list[str]]
Item = tuple[str, str, list[str]]  # setting as typed (for messages), key[shorthand], values
Axes = dict[str, tuple[str | None, list[Any]]]  # key -> shorthand in names of runs, and values


class Parser(argparse.ArgumentParser):
    """Parser of a command: reports all mistakes of a command line at once, with exit code 2.

    Flags cannot be abbreviated, and `_` in a flag means `-`. The error about an unknown flag
    suggests the nearest one. A value may be any negative number.

    `examples` is the text below the help. `how` holds more arguments of `ArgumentParser`. `check`
    returns the mistakes in the values; it is also called if some flags cannot be parsed.
    """

    def __init__(self, name: str, description: str, examples: str = "", **how: Any) -> None:
        form = argparse.RawDescriptionHelpFormatter
        defaults: dict[str, Any] = {"prog": f"purerl {name}", "formatter_class": form}
        how = defaults | {"epilog": examples, "allow_abbrev": False} | how
        super().__init__(description=description, **how)
        self.check: Check = lambda args: []
        self.groups: dict[str, argparse._ArgumentGroup] = {}
        self.rare: list[argparse.Action] = []

    def group(self, title: str) -> argparse._ArgumentGroup:
        """Return the group of flags with a title."""
        if title not in self.groups:
            self.groups[title] = self.add_argument_group(title)
        return self.groups[title]

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse a list of arguments; None: the arguments of this process."""
        words = sys.argv[1:] if args is None else list(args)
        loose = bool(self._get_positional_actions())  # a word after a flag may be positional
        end = words.index("--") if loose and "--" in words else len(words)
        line, wrong, unread = list[str](), list[str](), ["$^"]  # matches nothing
        given: dict[argparse.Action, str] = {}
        known = self._option_string_actions
        for typed, values in split_flags(words[:end]):
            explicit = f"{typed}={''.join(values[:1])}" in words
            flag = typed.replace("_", "-")
            if flag not in known and flag[:2] in known:  # -n3
                flag, values = flag[:2], [flag[2:], *values]
            action = known.get(flag)
            if not flag and loose:
                line += values
            elif action is None:
                wrong.append(self._explain_flag(flag) if flag else explain_stray_words(values))
            elif action.dest in ("help", "help_all"):
                action(self, argparse.Namespace(), None, flag)
            elif action in given and not isinstance(action, argparse._AppendAction):
                both = sorted({given[action], flag})
                wrong.append(f"{' and '.join(both)}: the setting is given twice. Give it once.")
            else:
                given[action] = flag
                if mistake := self._find_mistake(action, flag, values, loose, explicit):
                    wrong.append(mistake)
                    unread.append(rf"\b{action.dest}\b")
                elif action.nargs is None or (len(values) == 1 and action.nargs != 0):
                    line += [f"{flag}={values[0]}", *values[1:]]
                else:
                    line += [flag, *values]
        if wrong and loose:
            self.error("\n".join(wrong))
        found, extra = self.parse_known_args(line + words[end:], namespace)
        if extra:
            self.error(f"unexpected argument {extra[0]!r}")
        follows = re.compile("|".join(unread))
        wrong += [text for text in self.check(found) if not follows.search(text)]
        if wrong:
            self.error("\n".join(wrong))
        return found

    def error(self, message: str) -> NoReturn:
        """Print the usage and a mistake, and exit with code 2; ranks print a shared one once."""
        if world.is_rank() and not mpi.all_raise(mistake := ConfigError(message)):
            raise mistake
        if mpi.is_root():
            super().error(message)
        self.exit(errors.USAGE)

    def _find_mistake(
        self, action: argparse.Action, flag: str, values: list[str], loose: bool, explicit: bool
    ) -> str:
        """Return the mistake in the values of a flag, or an empty string."""
        most = 1 if action.nargs is None else 0 if action.nargs == 0 else len(values)
        if most == 0 and values and (explicit or not loose):
            return f"argument {flag}: expected no value, got {values[0]!r}"
        if action.nargs in (None, "+") and not values:
            return f"argument {flag}: expected a value"
        if len(values) > most and not loose:
            name = flag.lstrip("-").replace("-", "_")
            grid = f"--grid {name}={','.join(values)}"
            return (
                f"argument {flag}: unexpected value {values[most]!r}. Write a tuple without "
                f"spaces, 64,64. To train with several values, use purerl sweep with {grid}."
            )
        try:
            if most:
                self._get_values(action, values[:most])
        except argparse.ArgumentError as error:
            return str(error)
        return ""

    def _explain_flag(self, flag: str) -> str:
        known = {word.lstrip("-").replace("-", "_"): word for word in self._option_string_actions}
        near = aliases.suggest(flag.lstrip("-").replace("-", "_"), sorted(known), known.__getitem__)
        return f"unknown flag {flag}.{near or f' `{self.prog} --help` lists all.'}"


def split_flags(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Split words into flags, each with the words that follow it; `--x=1` means `--x 1`."""
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


def explain_stray_words(values: Sequence[str]) -> str:
    """Return the error message for values before the first flag."""
    hint = f", for example --env {values[0]}" if "-v" in values[0] else ""
    return f"{', '.join(map(repr, values))}: expected a flag before the value{hint}."


def add_settings(parser: Parser, *sources: Any, **defaults: Any) -> None:
    """Add a flag for each field of dataclasses; skip fields such as networks.

    Types come from the annotations, defaults from the fields or the instance. Help, group and a
    second flag come from `fields.setting`. Tuples are written `64,64`, None is written `none`, and
    a bool is set by `--x` or `--no-x`.

    `sources` are dataclasses, or instances with the defaults. `defaults` override their defaults.
    """
    for source in sources:
        cls = source if isinstance(source, type) else type(source)
        hints = typing.get_type_hints(cls)
        for field in dataclasses.fields(cls):
            reader, about = get_reader(hints[field.name]), field.metadata
            if reader is None:
                continue
            how: Any = {"metavar": reader[0], "type": reader[1]}
            if hints[field.name] in (bool, bool | None):
                how = {"action": argparse.BooleanOptionalAction}
            own = field.default if source is cls else getattr(source, field.name)
            shown = _format_default(defaults.get(field.name, own))
            action = parser.group(about.get("group", "Algorithm")).add_argument(
                *filter(None, (f"--{field.name}".replace("_", "-"), about.get("flag"))),
                dest=field.name,
                default=defaults.get(field.name, argparse.SUPPRESS),
                help=f"{about.get('help', '')} ({shown})".replace("%", "%%").strip(),
                **how,
            )
            parser.rare += [action] if about.get("rare") else []


def _format_default(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return {dataclasses.MISSING: "required", None: "none"}.get(value, str(value))


def split_pairs(flag: str, given: Sequence[Sequence[str]] | None, several: bool) -> list[Item]:
    """Split the `KEY=VALUE` pairs of a flag; if `several`, also split values at commas."""
    return [
        (f"{flag} {word}", key if equals else "", split_values(value) if several else [value])
        for words in given or [] for word in words for key, equals, value in [word.partition("=")]
    ]  # fmt: skip


def read_axes(
    algo: Any, items: Iterable[Item], refused: Collection[str] = (), taken: Iterable[str] = ()
) -> Axes:
    """Parse the values of settings, which may have any of their names; report all mistakes.

    Settings in `refused` must be given by their own flag. Those in `taken` already have a value.
    """
    axes: Axes = {}
    wrong = []
    fields = {aliases.resolve_name(algo, key).name for key in taken}
    for typed, text, words in items:
        try:
            match = re.fullmatch(r"([A-Za-z][\w:.-]*)(?:\[([\w-]*)\])?", text)
            if match is None:
                raise ConfigError("expected KEY=VALUE, for example gamma=0.98")
            setting = aliases.resolve_name(algo, match[1])
            if not words and setting.hint not in (bool, bool | None):
                raise ConfigError("expected a value")
            if setting.name in refused:
                flag = f"--{setting.name}".replace("_", "-")
                raise ConfigError(f"use the flag {flag} instead")
            if setting.name in fields:
                raise ConfigError(f"{setting.name} is given twice")
            fields.add(setting.name)
            axes[match[1]] = match[2], [parse_value(setting, word) for word in words or ["true"]]
        except (ConfigError, argparse.ArgumentTypeError) as error:
            wrong.append(f"{typed}: {error}")
    if wrong:
        raise ConfigError("\n".join(wrong))
    return axes


def split_values(text: str) -> list[str]:
    """Split at the commas outside of brackets: `[64,64],[32]` has two values."""
    return [part.strip() for part in re.split(r",(?![^\[(]*[\])])", text)]
