"""Write reference pages from facts in the code: commands, exit codes, settings, error messages."""

import ast
import contextlib
import dataclasses
import io
import os
import re
from pathlib import Path
from typing import Any

import names
from api_pages import write
from sphinx.application import Sphinx

from purerl import algos, errors
from purerl.cli import main
from purerl.runs.settings import presets

EXAMPLE = {"train": ["ppo"], "sweep": ["ppo"]}  # commands whose help needs an algorithm
NOTE = "<!-- Written by docs/extensions/fact_pages.py from the code. -->\n\n"


def make_commands() -> str:
    """Return the page of the command line: the help of each command."""
    text = ["# Command line", ""]
    text += ["`purerl` and `python -m purerl` are the same command.", ""]
    text += ["```text", main.OVERVIEW.rstrip(), "```", ""]
    for command in main.COMMANDS:
        words = [command, *EXAMPLE.get(command, [])]
        text += [f"## purerl {command}", ""]
        if command == "train":
            text += ["The settings depend on the algorithm; these are those of PPO.", ""]
        text += ["```text", get_help([*words, "--help"]), "```", ""]
    text += ["## purerl train: all settings", ""]
    text += ["`purerl train ppo --help-all` also lists the settings that are rarely changed.", ""]
    text += ["```text", get_help(["train", "ppo", "--help-all"]), "```", ""]
    return "\n".join(text)


def get_help(words: list[str]) -> str:
    """Return what a command prints with `--help`."""
    printed, columns = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"
    try:
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            main.main(words)
    finally:
        os.environ.pop("COLUMNS") if columns is None else os.environ.update(COLUMNS=columns)
    home = str(Path.home())
    return printed.getvalue().rstrip().replace(home, "~")


def make_exit_codes() -> str:
    """Return the page of exit codes: the numbers, and the exceptions that end with each."""
    body = ast.parse(names.read("purerl/errors.py")).body
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    raised: dict[int, list[type]] = {}
    for cls in classes:
        if issubclass(cls, errors.PurerlError) and cls is not errors.OutputClosed:
            raised.setdefault(cls.exit_code, []).append(cls)
    lines = names.read("purerl/errors.py").splitlines()
    text = ["# Exit codes", "", "Every command of purerl ends with one of these codes.", ""]
    text += ["| code | name | meaning | exceptions |", "|---|---|---|---|"]
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            (name,) = names.defined_names(node)
            comment = lines[node.lineno - 1].partition("#")[2].strip()
            these = raised.get(node.value.value, [])
            shown = ", ".join(f"`{cls.__name__}`" for cls in these)
            meaning = MEANINGS.get(name, comment)
            text.append(f"| {node.value.value} | `{name}` | {meaning} | {shown} |")
    text += ["", CODES, ""]
    text += ["## Exceptions", "", "| exception | meaning |", "|---|---|"]
    for cls in classes:
        if issubclass(cls, errors.PurerlError | Warning):
            text.append(f"| `{cls.__name__}` | {(cls.__doc__ or '').partition(chr(10))[0]} |")
    return "\n".join([*text, ""])


CODES = """The numbers are defined in `purerl/errors.py`. A plain `ValueError` ends with 2, an error
of the operating system with 5. If the output cannot be written (`OutputClosed`), the code is 141
for a closed pipe, and 5 otherwise."""
MEANINGS = {  # of the codes that the source explains less
    "DONE": "the command did what it was asked to do",
    "USAGE": "a mistake in the command or in a setting, or a missing package",
    "NOT_FINITE": "learning diverged: a number is not finite",
    "ENVIRONMENT": "an environment raised an error or broke its interface",
    "STORAGE": "a file could not be read or written",
    "NO_CHECKPOINT": "no checkpoint of the run can be used",
    "RANKS_DISAGREE": "a value that must be equal on all ranks differs",
    "INTERRUPTED": "Ctrl-C before there is anything to save, or the second one",
    "NO_READER": "the reader of the output closed the pipe",
}


def make_settings(name: str) -> str:
    """Return the page with the settings of an algorithm, of its schedule, and its presets."""
    algo = algos.load(name)
    text = [f"# Settings of {name}", "", f"{algos.ALGORITHMS[name].title}."]
    text += ["", f"The settings are fields of `purerl/algos/{name}.py::Spec` and of its schedule."]
    text += ["On the command line, `_` in a name becomes `-`.", ""]
    for source in (algo.Spec, algo.SCHEDULE):
        cls = source if isinstance(source, type) else type(source)
        text += [f"## {cls.__name__}", "", "| setting | flag | default | meaning |"]
        text += ["|---|---|---|---|"]
        for field in dataclasses.fields(source):
            about = field.metadata
            if not about.get("help"):
                continue
            default = field.default if source is cls else getattr(source, field.name)
            flags = [f"--{field.name.replace('_', '-')}", about.get("flag")]
            shown = ", ".join(f"`{flag}`" for flag in flags if flag)
            row = (f"`{field.name}`", shown, f"`{default}`", escape(about["help"]))
            text.append(f"| {' | '.join(row)} |")
        text.append("")
    if found := presets.read_presets(name):
        text += ["## Presets", "", "| preset | settings | result |", "|---|---|---|"]
        for one in found.values():
            values = ", ".join(f"`{key}={value}`" for key, value in one.settings.items())
            text.append(f"| `{one.name}` | {values} | {escape(one.about)} |")
    return "\n".join([*text, ""])


def escape(text: str) -> str:
    """Return text for a cell of a table, with its special characters and its code as written."""
    parts = text.replace("|", "\\|").split("`")
    if len(parts) % 2 == 0:  # no pairs of backticks
        parts = ["\\`".join(parts)]
    parts[::2] = [re.sub(r"([_*$<\[\]{}])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def make_messages() -> str:
    """Return the index of error messages: each message, its exception, and where it is raised."""
    text = ["# Error messages", ""]
    text += ["Every message that purerl raises, by file. Words in braces stand for values."]
    text += ["The search of this site finds the words of a message.", ""]
    for path in sorted((names.ROOT / "purerl").rglob("*.py")):
        where = str(path.relative_to(names.ROOT))
        rows = list(find_messages(where))
        if rows:
            text += [f"## `{where}`", "", "| message | exception | line |", "|---|---|---|"]
            for line, kind, message in rows:
                page = f"../../source/{where.removesuffix('.py')}.html#L-{line}"
                text.append(f'| {escape(message)} | `{kind}` | <a href="{page}">{line}</a> |')
            text.append("")
    return "\n".join(text)


def find_messages(path: str) -> list[tuple[int, str, str]]:
    """Return line, exception and message of each `raise` with a literal message."""
    found = []
    for node in ast.walk(ast.parse(names.read(path))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            messages = [t for arg in node.exc.args if (t := read_text(arg))]
            if messages:
                kind = ast.unparse(node.exc.func).rpartition(".")[2]
                found.append((node.lineno, kind, " ".join(messages[-1].split())))
    return sorted(found)


def read_text(node: ast.expr) -> str:
    """Return a literal text, with the expressions of an f-string as `{name}`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return ""
    parts = []
    for value in node.values:
        if isinstance(value, ast.Constant):
            parts.append(str(value.value))
        else:
            words = re.findall(r"[A-Za-z_]+", ast.unparse(value.value))
            parts.append("{" + (words[-1] if words else "...") + "}")
    return "".join(parts)


def write_pages(app: Sphinx) -> None:
    """Write all pages of this module."""
    pages = {
        "command_line.md": make_commands(),
        "exit_codes.md": make_exit_codes(),
        "error_messages.md": make_messages(),
        **{f"settings_{name}.md": make_settings(name) for name in algos.NAMES},
    }
    write(Path(app.srcdir) / "reference" / "generated", {k: NOTE + v for k, v in pages.items()})


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages when a build starts."""
    app.connect("builder-inited", write_pages)
    return {"version": "1"}
