"""Files of arrays: an uncompressed `.npz`, read without pickle and without trusting its sizes.

A reader allocates nothing that the file does not hold. The first member of the archive lists the
names and types of the arrays, so that names may contain any character.
"""

import io
import json
import math
import os
import zipfile
from pathlib import Path
from typing import IO, Any

import ml_dtypes
import numpy as np

from purerl.errors import Damaged, StorageError
from purerl.runs.record import files
from purerl.runs.record.files import File

MAX_ARRAYS = 20_000
_NAMES = "names.json"
_KINDS = "biuf"  # bools, integers and floats; nothing that could hold objects
_EXTENDED = {"bfloat16": ml_dtypes.bfloat16}  # stored as the integers of their bits
_UNREADABLE = (
    *(zipfile.BadZipFile, ValueError, KeyError, TypeError, EOFError),
    *(RuntimeError, OverflowError, MemoryError),  # encrypted, deep or endless ones
)


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> File:
    """Write arrays to a file, without a second copy of them in memory."""
    return files.write_stream(path, lambda stream: _pack(stream, arrays))


def replace_arrays(path: Path, arrays: dict[str, np.ndarray]) -> File:
    """Write arrays as `files.replace_file` writes bytes."""
    return files.replace_stream(path, lambda stream: _pack(stream, arrays))


def read_arrays(path: Path, file: File) -> dict[str, np.ndarray]:
    """Read the arrays of a file, after comparing its size and SHA-256."""
    with files.verify_and_open(path, file) as stream:
        return _unpack(stream, file.bytes, path)


def pack_arrays(arrays: dict[str, np.ndarray]) -> bytes:
    """Return arrays as the bytes of a file."""
    stream = io.BytesIO()
    _pack(stream, arrays)
    return stream.getvalue()


def unpack_arrays(content: bytes, where: Path) -> dict[str, np.ndarray]:
    """Return the arrays that `pack_arrays` was given; `where` is the path for error messages."""
    return _unpack(io.BytesIO(content), len(content), where)


def pack_named_arrays(arrays: dict[str, np.ndarray]) -> bytes:
    """Return arrays as the bytes of an `.npz` for people: `numpy.load(path)[name]`."""
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def _pack(stream: Any, arrays: dict[str, np.ndarray]) -> None:
    names = [[name, x.dtype.name] for name, x in arrays.items()]
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        # A `ZipInfo` has the date of 1980, so that equal arrays are equal bytes.
        archive.writestr(zipfile.ZipInfo(_NAMES), json.dumps(names))
        for i, x in enumerate(arrays.values()):
            if x.dtype.name in _EXTENDED:
                x = x.view(f"u{x.dtype.itemsize}")
            x = np.asarray(x, order="C")
            with archive.open(zipfile.ZipInfo(f"{i}.npy"), "w", force_zip64=True) as member:
                header = np.lib.format.header_data_from_array_1_0(x)
                np.lib.format.write_array_header_1_0(member, header)
                member.write(x.reshape(-1).view(np.uint8).data)


def _unpack(stream: IO[bytes], size: int, where: Path) -> dict[str, np.ndarray]:
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
                name: _read_member(stream, archive.getinfo(f"{i}.npy"), dtype, where)
                for i, (name, dtype) in enumerate(names)
            }
    except StorageError:
        raise
    except _UNREADABLE as error:
        raise Damaged(f"{where} is no file of arrays: {error}.") from error


def _read_member(file: Any, member: zipfile.ZipInfo, dtype_name: str, where: Path) -> np.ndarray:
    """Read an array straight into its memory, which `ZipFile.open` cannot."""
    file.seek(member.header_offset + 26)  # lengths of the name and of the extra field
    name, extra = np.frombuffer(file.read(4), "<u2").tolist()
    file.seek(name + extra, os.SEEK_CUR)
    began = file.tell()
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise Damaged(f"{where} holds an array of format {version}, known is (1, 0).")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.kind not in _KINDS or dtype.hasobject or fortran:
        raise Damaged(f"{where} holds an array of {dtype}, which purerl does not write.")
    needed = dtype.itemsize * math.prod(shape)
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
