"""Find names in source files: `purerl/algos/ppo.py::actor_loss` becomes a file and a line.

This module needs only the standard library, so that tests can use it without Sphinx.
"""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = "purerl|examples|tests|benchmarks"
NAME = re.compile(rf"\b((?:{FOLDERS})/[\w./-]+\.py)(?:::([A-Za-z_][\w.]*\w|\w))?")


class UnknownName(ValueError):
    """A page names a file, or a name in a file, that does not exist."""


def find_line(path: str, name: str | None) -> int:
    """Return the line that defines a name; 1 for the file itself.

    Args:
        path: Source file, relative to the project.
        name: Function, class, constant, method or field, such as `Spec.gamma`; or None.

    Raises:
        UnknownName: If the file or the name does not exist.
    """
    if not (ROOT / path).is_file():
        raise UnknownName(f"{path} does not exist. Give a path from the root of the project.")
    if name is None:
        return 1
    body: list[ast.stmt] = ast.parse(read(path)).body
    line = 0
    for part in name.split("."):
        found = next((node for node in walk(body) if part in defined_names(node)), None)
        if found is None:
            raise UnknownName(f"{path} has no {name}. Name a function, class, method or field.")
        line, body = found.lineno, getattr(found, "body", [])
    return line


@functools.cache
def read(path: str) -> str:
    """Return the text of a source file."""
    return (ROOT / path).read_text(encoding="utf-8")


def walk(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, also those inside `if` and `try`, such as optional imports."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from walk([*node.body, *node.orelse])


def defined_names(node: ast.stmt) -> list[str]:
    """Return the names that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def find_names(text: str) -> list[tuple[str, str | None]]:
    """Return the files and names that a text mentions, as pairs (path, name or None)."""
    return [(match[1], match[2]) for match in NAME.finditer(text)]
