"""The texts of exercises: task, hints and solution of `task.md`, and the two Python files."""

import re
from pathlib import Path
from typing import Any

HINTS = (1, 2, 3)


def read_task(exercise: Any) -> str:
    """Return the task: title, equations, arguments and shapes."""
    return _read(exercise, "task.md").partition("\n## ")[0].rstrip()


def read_section(exercise: Any, title: str) -> str:
    """Return the text below a heading of `task.md`, such as `Hint 1` or `Solution`."""
    _, *sections = re.split(r"^## ", _read(exercise, "task.md"), flags=re.MULTILINE)
    found = dict(section.split("\n", 1) for section in sections)
    return found[title].strip()


def read_start(exercise: Any) -> str:
    """Return the file that a student fills in."""
    return _read(exercise, "start.py")


def read_solution(exercise: Any) -> str:
    """Return the file with the solution."""
    return _read(exercise, "solution.py")


def _read(exercise: Any, name: str) -> str:
    return (Path(__file__).parent / exercise.folder / name).read_text(encoding="utf-8")
