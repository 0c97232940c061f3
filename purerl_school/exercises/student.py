"""The student's folder: the files to fill in, and a list of the solved exercises."""

import datetime
import errno
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import purerl
import purerl_school
from purerl.errors import ConfigError, StorageError, WrongAnswer
from purerl.runs.record import files, status
from purerl.runs.record.safe_files import explain_errors

FOLDER = "exercises"  # default folder, in the current one
SOLVED = "solved.json"  # in the student's folder: number -> date of the first correct answer


def name_file(number: str) -> str:
    """Return the name of a student's file.

    Example:
        >>> name_file("1.1")
        'exercise_1_1.py'
    """
    return f"exercise_{number.replace('.', '_')}.py"


def write_start(path: Path, content: str) -> Path:
    """Write the file that a student fills in, and never overwrite one."""
    files.make_folder(path.parent)
    try:
        with explain_errors(path), open(path, "x", encoding="utf-8") as file:
            file.write(content)
    except StorageError as error:
        if error.errno != errno.EEXIST:
            raise
        raise ConfigError(
            f"{path} already exists; purerl never overwrites files. Continue with it, delete it, "
            "or choose another folder."
        ) from error
    return path


def load_answer(path: Path, function: str) -> Callable[..., Any]:
    """Run a student's file, and return the function with a name."""
    if not path.is_file():
        raise ConfigError(f"{path} is not a file. Write it with `purerl exercise start`.")
    spec = importlib.util.spec_from_file_location(f"_student_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} must be a Python file, with the suffix .py.")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # for dataclasses
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # a student's file may raise anything
        raise WrongAnswer(f"{path} cannot be imported: {describe_error(error)}") from error
    found = getattr(module, function, None)
    if not callable(found):
        raise WrongAnswer(f"{path} has no function {function}. Keep the name of the start file.")
    return found


def describe_error(error: Exception) -> str:
    """Return the type and message of an error, and the last line outside of any package.

    The message is cut after its first paragraph, because JAX adds pages to some.
    """
    text = f"{type(error).__name__}: {str(error).partition(chr(10) * 2)[0]}"
    folders = (traceback.__file__, purerl.__file__, purerl_school.__file__)
    others = (*(str(Path(file).parent) for file in folders), "site-packages", "<frozen")
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if not any(word in one.filename for word in others)]
    where = f" (line {own[-1].lineno}: {own[-1].line}" if own else ""
    return text + (where.rstrip(": ") + ")" if own else "")


def read_solved(folder: Path) -> dict[str, str]:
    """Return the dates of the solved exercises, by number."""
    path = folder / SOLVED
    return status.read_json(path) if path.exists() else {}


def mark_solved(folder: Path, number: str) -> None:
    """Add an exercise to the solved ones; the date of the first time is kept."""
    solved = {number: datetime.date.today().isoformat()} | read_solved(folder)
    files.write_json(folder / SOLVED, solved, sort_keys=True)
