"""`purerl show ALGO`: equations, settings, and where its functions are; read from the source."""

import ast
import inspect
import sys
from pathlib import Path
from typing import NamedTuple

from purerl import algos
from purerl.cli import formulas
from purerl.cli.options import Parser
from purerl.runs.console import print_lines

FUNCTIONS = ("init", "act", "policy", "prepare", "loss", "update")


class Setting(NamedTuple):
    """A field of a dataclass as its source has it."""

    name: str
    default: str
    comment: str


def show(words: list[str]) -> int:
    """Print what an algorithm is."""
    parser = Parser("show", "Equations, settings, and where its functions are.")
    parser.add_argument("algo", help=", ".join(algos.NAMES))
    parser.add_argument("--source", action="store_true", help="print the whole file")
    args = parser.parse_args(words)
    try:
        algos.check(args.algo)
    except ValueError as error:
        parser.error(str(error))
    path = Path(algos.__file__).with_name(f"{args.algo}.py")
    if args.source:
        print_lines(path.read_text().rstrip())
    else:
        print_lines(
            formulas.readable(describe_algorithm(path), sys.stdout.encoding or "utf-8").rstrip()
        )
    return 0


def describe_algorithm(path: Path) -> str:
    """Return the docstring of an algorithm's file, its settings, and file:line of its functions."""
    source = path.read_text()
    tree = ast.parse(source)
    text = [inspect.cleandoc(ast.get_docstring(tree) or ""), "", "Functions"]
    where = _short(path)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and _is_shown(node):
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            place = f"{where}:{node.lineno}"
            text.append(f"  {node.name + _arguments(node):<34} {place:<36} {first}")
    kind, given = _schedule(tree)
    types = path.parents[1] / "types.py"
    schedule = settings(types.read_text(), kind)
    for title, rows in (("Spec", settings(source, "Spec")), (kind, schedule)):
        text += ["", f"{title}: settings, defaults"]
        text += [
            f"  {s.name:<20} {given.get(s.name, s.default):<16} {s.comment}".rstrip()
            for s in rows
            if s.name != "env"
        ]
    text += ["", f"purerl train {path.stem} --help   lists them as options."]
    return "\n".join(text) + "\n"


def settings(source: str, cls: str) -> list[Setting]:
    """Return the fields of a dataclass, with the comments behind them."""
    lines = source.splitlines()
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name == cls:
            return [
                Setting(
                    entry.target.id,
                    "" if entry.value is None else ast.unparse(entry.value),
                    lines[(entry.end_lineno or 1) - 1].partition("  # ")[2],
                )
                for entry in node.body
                if isinstance(entry, ast.AnnAssign)
                and isinstance(entry.target, ast.Name)
                and not entry.target.id.startswith("_")
            ]
    raise ValueError(f"there is no class {cls}.")


def _is_shown(node: ast.FunctionDef) -> bool:
    return node.name in FUNCTIONS or node.name.endswith("loss")


def _arguments(node: ast.FunctionDef) -> str:
    return f"({', '.join(argument.arg for argument in node.args.args)})"


def _schedule(tree: ast.Module) -> tuple[str, dict[str, str]]:
    """Return the class of `SCHEDULE = Class(field=value)`, and what differs from its defaults."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if "SCHEDULE" in names and isinstance(node.value.func, ast.Name):
                given = {k.arg: ast.unparse(k.value) for k in node.value.keywords if k.arg}
                return node.value.func.id, given
    raise ValueError("there is no SCHEDULE.")


def _short(path: Path) -> str:
    """Return a path as one would type it here."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
