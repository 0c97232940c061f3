"""Files that survive: written completely or not at all, checked when read, one owner at a time.

Nothing read here can execute code: arrays are numpy's format without pickle, everything else is
JSON, and sizes are compared with what is there before anything is allocated.
"""

import contextlib
import errno
import hashlib
import io
import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import ml_dtypes
import numpy as np

from purerl.errors import Damaged, StorageError
from purerl.runs.record import safe_files
from purerl.runs.record.safe_files import explain_os_error

MAX_JSON = 4 * 2**20  # bytes; as Python objects they may take thirty times as many
MAX_LINE = 2**20  # bytes of a line of a table, which has as many lines as it has
MAX_ARRAYS = 20_000
_KINDS = "biuf"  # bools, integers and floats; nothing that could hold objects
_EXTENDED = {"bfloat16": ml_dtypes.bfloat16}  # stored as the integers of their bits


class File(NamedTuple):
    """What a manifest says of a file."""

    bytes: int
    sha256: str


def write_file(path: Path, content: bytes) -> File:
    """Write a file and force it to the disk; its name is final only for `replace`d ones."""
    return _write_and_sync(path, lambda stream: stream.write(content))


def _write_and_sync(path: Path, fill: Callable[[Any], Any], name: Path | None = None) -> File:
    """Make a file and force it to the disk; errors give it the name it is to have."""
    try:
        path.unlink(missing_ok=True)  # a link left there would be followed to another file
        with open(path, "xb") as file:
            stream = _Hashed(file)
            fill(stream)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink()
        raise explain_os_error(error, name or path) from error
    return File(stream.bytes, stream.sha256.hexdigest())


class _Hashed:
    """A file to write to that hashes on the way; it cannot seek."""

    def __init__(self, file: Any) -> None:
        self.file, self.bytes, self.sha256 = file, 0, hashlib.sha256()

    def write(self, content: Any) -> int:
        self.file.write(content)
        self.sha256.update(content)
        self.bytes += memoryview(content).nbytes
        return memoryview(content).nbytes

    def flush(self) -> None:
        """Do nothing: the file is flushed once, at its end."""


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> File:
    """Write a file as `packed` makes it, without having all of it in memory."""
    return _write_and_sync(path, lambda stream: _pack(stream, arrays))


def replace_file(path: Path, content: bytes) -> File:
    """Write a file under another name and rename it: the old or the new one is there, complete."""
    done = _write_and_sync(_beside(path), lambda stream: stream.write(content), path)
    rename_into_place(_beside(path), path)
    return done


def replace_arrays(path: Path, arrays: dict[str, np.ndarray]) -> File:
    """Write arrays as `replace` does bytes."""
    done = _write_and_sync(_beside(path), lambda stream: _pack(stream, arrays), path)
    rename_into_place(_beside(path), path)
    return done


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp")


def rename_into_place(made: Path, path: Path) -> None:
    """Give a file or folder its final name, and force the name to the disk."""
    try:
        os.replace(made, path)
    except OSError as error:
        remove(made)
        raise explain_os_error(error, path) from error
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Force the names in a folder to the disk."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise explain_os_error(error, path) from error


def make_folder(path: Path) -> None:
    """Make a folder and those above it, where they are missing."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise explain_os_error(error, path) from error


def remove(path: Path) -> None:
    """Remove a file or folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def read_verified(path: Path, file: File) -> bytes:
    """Read a file and check that it is what was written."""
    with _open_verified(path, file) as there:
        return there.read()


def read_arrays(path: Path, file: File) -> dict[str, np.ndarray]:
    """Read the arrays that `packed` made of a file, if it is what was written."""
    with _open_verified(path, file) as there:
        return _unpack(there, file.bytes, path)


@contextlib.contextmanager
def _open_verified(path: Path, file: File) -> Iterator[io.BufferedReader]:
    """Open a file to read after checking, piece by piece, that it is what was written."""
    with safe_files.open_file(path) as there:
        size = os.fstat(there.fileno()).st_size
        if size != file.bytes:
            raise Damaged(f"{path} must have {file.bytes} bytes, got {size}.")
        if hashlib.file_digest(there, "sha256").hexdigest() != file.sha256:
            raise Damaged(f"{path} was changed after it was written: its SHA-256 differs.")
        there.seek(0)
        yield there


# --- JSON and arrays -----------------------------------------------------------------------------


def seal_json(content: dict[str, Any]) -> bytes:
    """Return JSON that carries its own checksum."""
    text = json.dumps(content, indent=1)
    if len(text) > MAX_JSON - 1_000:
        raise StorageError(
            errno.EFBIG, f"a manifest may have {MAX_JSON} bytes, this one has {len(text)}."
        )
    seal = hashlib.sha256(text.encode()).hexdigest()
    return f'{{"sha256": "{seal}", "content":\n{text}\n}}\n'.encode()


def read_sealed_json(path: Path) -> dict[str, Any]:
    """Read what `sealed` made, or raise `Damaged`."""
    text = read_text(path)
    try:
        found = json.loads(text)
        content, seal = found["content"], found["sha256"]
        same = hashlib.sha256(json.dumps(content, indent=1).encode()).hexdigest()
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Damaged(f"{path} is no manifest: {error}.") from error
    if not isinstance(content, dict) or same != seal:
        raise Damaged(f"{path} was changed after it was written: its SHA-256 differs.")
    return content


def read_text(path: Path, most: int = MAX_JSON) -> str:
    """Read a text of limited size."""
    with safe_files.open_file(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise Damaged(f"{path} must have at most {most} bytes.")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Damaged(f"{path} is no text: {error}.") from error


def read_lines(path: Path) -> Iterator[str]:
    """Read the complete lines of a text, without their ends: one that has none is being written."""
    with safe_files.open_file(path) as file:
        while (line := file.readline(MAX_LINE)).endswith(b"\n"):
            try:
                yield line[:-1].decode("utf-8")
            except UnicodeDecodeError as error:
                raise Damaged(f"{path} is no text: {error}.") from error
        if len(line) == MAX_LINE:
            raise Damaged(f"{path} must have at most {MAX_LINE} bytes in a line.")


def pack_arrays(arrays: dict[str, np.ndarray]) -> bytes:
    """Return arrays as the bytes of an uncompressed `.npz`, names in a first member."""
    stream = io.BytesIO()
    _pack(stream, arrays)
    return stream.getvalue()


def _pack(stream: Any, arrays: dict[str, np.ndarray]) -> None:
    names = [[name, x.dtype.name] for name, x in arrays.items()]
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_info(_NAMES), json.dumps(names))
        for i, x in enumerate(arrays.values()):
            if x.dtype.name in _EXTENDED:
                x = x.view(f"u{x.dtype.itemsize}")
            x = np.asarray(x, order="C")
            with archive.open(_info(f"{i}.npy"), "w", force_zip64=True) as member:
                header = np.lib.format.header_data_from_array_1_0(x)
                np.lib.format.write_array_header_1_0(member, header)
                member.write(x.reshape(-1).view(np.uint8).data)


def pack_named_arrays(arrays: dict[str, np.ndarray]) -> bytes:
    """Return arrays as the bytes of an `.npz` for people: `numpy.load(path)[name]`."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def _info(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name)  # with the date of 1980, so that equal arrays are equal bytes


def unpack_arrays(content: bytes, where: Path) -> dict[str, np.ndarray]:
    """Read what `packed` made."""
    return _unpack(io.BytesIO(content), len(content), where)


def _unpack(stream: IO[bytes], size: int, where: Path) -> dict[str, np.ndarray]:
    """Read arrays; nothing is allocated that the `size` bytes do not hold."""
    try:
        with zipfile.ZipFile(stream) as archive:
            members = archive.infolist()
            if len(members) > MAX_ARRAYS + 1:
                raise Damaged(f"{where} holds {len(members)} entries, more than {MAX_ARRAYS}.")
            if any(m.compress_type != zipfile.ZIP_STORED for m in members):
                raise Damaged(f"{where} holds compressed entries, which purerl does not write.")
            if sum(m.file_size for m in members) > size:
                raise Damaged(f"{where} claims more than the {size} bytes it has.")
            names = json.loads(archive.read(_NAMES))
            words = all(isinstance(word, str) for pair in names for word in pair)
            if not words or not len(dict(names)) == len(names) == len(members) - 1:
                raise Damaged(f"{where} holds other arrays than its names say.")
            return {
                name: _array(stream, archive.getinfo(f"{i}.npy"), dtype, where)
                for i, (name, dtype) in enumerate(names)
            }
    except StorageError:
        raise
    except _UNREADABLE as error:
        raise Damaged(f"{where} is no file of arrays: {error}.") from error


_NAMES = "names.json"
_UNREADABLE = (
    *(zipfile.BadZipFile, ValueError, KeyError, TypeError, EOFError),
    *(RuntimeError, OverflowError, MemoryError),  # encrypted, deep or endless ones
)


def _array(file: Any, member: zipfile.ZipInfo, dtype_name: str, where: Path) -> np.ndarray:
    file.seek(member.header_offset + 26)  # of what the archive says of it once more
    name, extra = np.frombuffer(file.read(4), "<u2").tolist()
    file.seek(name + extra, os.SEEK_CUR)
    began = file.tell()
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise Damaged(f"{where} holds an array of format {version}, known is (1, 0).")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.kind not in _KINDS or dtype.hasobject or fortran:
        raise Damaged(f"{where} holds an array of {dtype}, which purerl does not write.")
    needed = dtype.itemsize * _product(shape)
    there = began + member.file_size - file.tell()
    if needed != there or min(shape, default=0) < 0:
        raise Damaged(f"{where} claims an array of {needed} bytes and holds {there}.")
    x = np.empty(shape, dtype)
    if file.readinto(x.reshape(-1).view(np.uint8)) != needed:
        raise Damaged(f"{where} ends in the middle of an array.")
    if dtype_name in _EXTENDED:
        x = x.view(_EXTENDED[dtype_name])
    if x.dtype.name != dtype_name:
        raise Damaged(f"{where} holds an array of {x.dtype.name}, its names say {dtype_name}.")
    return x


def _product(shape: tuple[int, ...]) -> int:
    total = 1  # of Python integers: it does not overflow
    for n in shape:
        total *= n
    return total


# --- names -----------------------------------------------------------------------------------


def check_name(name: Any) -> str:
    """Return a name that is safe as one of a folder, or say what it must be."""
    good = isinstance(name, str) and re.fullmatch(r"[\w][\w.-]*", name) is not None
    if not good or len(name.encode()) > 100 or name.upper() in _RESERVED:
        raise ValueError(
            f"name must be of letters, digits, '_', '.' and '-', begin with a letter, digit or "
            f"'_', and have at most 100 bytes, got {name!r}."
        )
    return str(name)


_RESERVED = {"CON", "PRN", "AUX", "NUL"} | {f"{p}{i}" for p in ("COM", "LPT") for i in range(10)}
