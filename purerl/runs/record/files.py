"""Crash-safe files: written completely or not at all, and checked when read."""

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from purerl.errors import Damaged, StorageError
from purerl.runs.record import safe_files
from purerl.runs.record.safe_files import explain_errors

MAX_JSON = 4 * 2**20  # bytes; as Python objects they may take thirty times as many
MAX_LINE = 2**20  # bytes of a line of a table; the number of lines is not limited
_NAME = re.compile(r"(?!(?i:CON|PRN|AUX|NUL|COM[0-9]|LPT[0-9])$)\w[\w.-]*")


class File(NamedTuple):
    """Size and checksum of a file, as a manifest lists them."""

    bytes: int
    sha256: str


Content = bytes | Callable[[Any], Any]  # or a function that writes to a stream without seeking


def replace_file(path: Path, content: Content) -> File:
    """Write a temporary file and rename it: the path always has the complete old or new content."""
    beside = path.with_name(f".{path.name}.tmp")
    done = write_file(beside, content, path)
    rename_into_place(beside, path)
    return done


def write_file(path: Path, content: Content, name: Path | None = None) -> File:
    """Write a file and force it to disk; a crash may leave a part. `name` is its name in errors."""
    try:
        with explain_errors(name or path):
            path.unlink(missing_ok=True)  # a link left there would be followed to another file
            with open(path, "xb") as file:
                stream = _Hashed(file)
                content(stream) if callable(content) else stream.write(content)
                file.flush()
                os.fsync(file.fileno())
                return File(file.tell(), stream.sha256.hexdigest())
    except StorageError:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


class _Hashed(io.RawIOBase):
    """Stream that hashes what it writes to a file; the file is flushed only once, at the end."""

    def __init__(self, file: Any) -> None:
        self.file, self.sha256 = file, hashlib.sha256()

    def write(self, content: Any) -> int:
        self.sha256.update(content)
        return self.file.write(content)


def rename_into_place(made: Path, path: Path) -> None:
    """Rename a file or folder to its final name, and force the name to disk."""
    try:
        with explain_errors(path):
            os.replace(made, path)
    except StorageError:
        remove(made)
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Force the list of names in a folder to disk."""
    with explain_errors(path):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_folder(path: Path) -> None:
    """Create a folder and its parents, if they are missing."""
    with explain_errors(path):
        path.mkdir(parents=True, exist_ok=True)


def remove(path: Path) -> None:
    """Remove a file or folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def append_text(path: Path, text: str) -> None:
    """Append a text to a file, completely or not at all, and explain errors.

    Bytes of paths and messages that are not UTF-8 are written as escapes, such as `\\udcff`.
    """
    text = text.encode(errors="backslashreplace").decode()
    with undo_on_error(path), explain_errors(path), open(path, "a", encoding="utf-8") as file:
        file.write(text)


@contextlib.contextmanager
def undo_on_error(path: Path) -> Iterator[None]:
    """Cut a file back to its length before the block if the block raises `StorageError`."""
    length = path.stat().st_size if path.exists() else None
    try:
        yield
    except StorageError:
        with contextlib.suppress(OSError):  # the error that is raised explains enough
            if length is None:
                path.unlink(missing_ok=True)
            else:
                os.truncate(path, length)
        raise


@contextlib.contextmanager
def verify_and_open(path: Path, file: File) -> Iterator[io.BufferedReader]:
    """Open a file for reading, after verifying its size and SHA-256."""
    with safe_files.open_file(path) as there:
        size = os.fstat(there.fileno()).st_size
        if size != file.bytes:
            raise Damaged(f"{path} must have {file.bytes} bytes, got {size}.")
        if hashlib.file_digest(there, "sha256").hexdigest() != file.sha256:
            raise Damaged(f"{path} was changed after it was written: its SHA-256 differs.")
        there.seek(0)
        yield there


def seal_json(content: dict[str, Any]) -> bytes:
    """Return JSON that contains its own checksum."""
    text = json.dumps(content, indent=1)
    if len(text) > MAX_JSON - 1_000:
        raise StorageError(
            errno.EFBIG, f"the manifest has {len(text)} bytes, more than the limit of {MAX_JSON}."
        )
    seal = hashlib.sha256(text.encode()).hexdigest()
    return f'{{"sha256": "{seal}", "content":\n{text}\n}}\n'.encode()


def read_sealed_json(path: Path) -> dict[str, Any]:
    """Read JSON that `seal_json` made, or raise `Damaged`."""
    text = read_text(path)
    try:
        found = json.loads(text)
        content, seal = found["content"], found["sha256"]
        same = hashlib.sha256(json.dumps(content, indent=1).encode()).hexdigest()
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Damaged(f"{path} is not a manifest: {error}.") from error
    if not isinstance(content, dict) or same != seal:
        raise Damaged(f"{path} was changed after it was written: its SHA-256 differs.")
    return content


def read_text(path: Path, most: int = MAX_JSON) -> str:
    """Read a text file of limited size."""
    with safe_files.open_file(path) as file:
        content = file.read(most + 1)
        if len(content) > most:
            raise Damaged(f"{path} is larger than the limit of {most} bytes.")
        return content.decode("utf-8")


def read_lines(path: Path) -> Iterator[str]:
    """Yield the complete lines of a text file; skip a last line that is still being written."""
    with safe_files.open_file(path) as file:
        while (line := file.readline(MAX_LINE)).endswith(b"\n"):
            yield line[:-1].decode("utf-8")
        if len(line) == MAX_LINE:
            raise Damaged(f"{path} has a line longer than the limit of {MAX_LINE} bytes.")


def check_name(name: Any) -> str:
    """Return a name if it is safe as the name of a folder, else raise `ValueError`."""
    good = isinstance(name, str) and _NAME.fullmatch(name)
    if not good or len(name.encode()) > 100:
        raise ValueError(
            f"name must consist of letters, digits, '_', '.' and '-', begin with a letter, a digit "
            f"or '_', and have at most 100 bytes, got {name!r}."
        )
    return str(name)


def to_json(value: Any) -> Any:
    """Return a value as plain data that every JSON reader accepts.

    Named tuples become objects, other tuples and arrays lists, NaN and infinities None. Functions
    and classes become their names, everything else its text.
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
    replace_file(path, f"{text}\n".encode())
