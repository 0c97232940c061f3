"""Plain data: the one way to turn a value into JSON, and to write it to a file."""

import json
import math
from pathlib import Path
from typing import Any

from purerl.runs.record import files


def to_json(value: Any) -> Any:
    """Return a value as plain data that every JSON reader accepts.

    Named tuples become objects, other tuples and arrays lists, NaN and infinities None. Functions
    and classes become their names, everything else its text.

    Example:
        >>> to_json({"lr": float("nan"), "hidden": (64, 64), "act": math.tanh})
        {'lr': None, 'hidden': [64, 64], 'act': 'tanh'}
    """
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy and JAX
        value = value.tolist()
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {str(key): to_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str | bool | int | float | None):
        return value
    return getattr(value, "__qualname__", getattr(value, "__name__", str(value)))


def write_json(path: Path, content: Any, indent: int = 4, sort_keys: bool = False) -> None:
    """Write plain data to a JSON file, which is complete or unchanged."""
    text = json.dumps(content, indent=indent, sort_keys=sort_keys)
    files.replace_file(path, f"{text}\n".encode())
