"""Array files: uncompressed `.npz`, read without pickle and without trusting claimed sizes.

The reader allocates memory only for data that the file contains. The first member of the archive
lists the names and types of the arrays, so that names may contain any character.
"""

import json
import math
import os
import zipfile
from pathlib import Path
from typing import IO, Any

import ml_dtypes
import numpy as np

from purerl.errors import Damaged
from purerl.runs.record import files

MAX_ARRAYS = 20_000
_NAMES = "names.json"
_KINDS = "biuf"  # bools, integers and floats; no type that can contain objects
_EXTENDED = {"bfloat16": ml_dtypes.bfloat16}  # stored as the integers of their bits


def write_arrays(arrays: dict[str, np.ndarray], stream: Any) -> None:
    """Write arrays to a stream, without a second copy of them in memory."""
    names = [[name, x.dtype.name] for name, x in arrays.items()]
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        # A `ZipInfo` has the date of 1980, so that equal arrays give equal bytes.
        archive.writestr(zipfile.ZipInfo(_NAMES), json.dumps(names))
        for i, x in enumerate(arrays.values()):
            if x.dtype.name in _EXTENDED:
                x = x.view(f"u{x.dtype.itemsize}")
            x = np.asarray(x, order="C")
            with archive.open(zipfile.ZipInfo(f"{i}.npy"), "w", force_zip64=True) as member:
                header = np.lib.format.header_data_from_array_1_0(x)
                np.lib.format.write_array_header_1_0(member, header)
                member.write(x.reshape(-1).view(np.uint8).data)


def read_arrays(path: Path, file: files.File) -> dict[str, np.ndarray]:
    """Read the arrays of a file, after verifying its size and SHA-256."""
    with files.verify_and_open(path, file) as stream:
        try:
            return _read_archive(stream, file.bytes)
        except Exception as error:  # zipfile, json and NumPy raise many kinds
            raise Damaged(f"{path} is not a file of arrays: {error}.") from error


def _read_archive(stream: IO[bytes], size: int) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        if len(members) > MAX_ARRAYS + 1:
            raise ValueError(f"it has {len(members)} entries, more than {MAX_ARRAYS}")
        if any(m.compress_type != zipfile.ZIP_STORED for m in members):
            raise ValueError("it has compressed entries, which purerl does not write")
        if sum(m.file_size for m in members) > size:
            raise ValueError(f"its entries claim more than its {size} bytes")
        names = json.loads(archive.read(_NAMES))
        is_text = all(isinstance(word, str) for pair in names for word in pair)
        if not is_text or not len(dict(names)) == len(names) == len(members) - 1:
            raise ValueError("its arrays do not match its list of names")
        return {
            name: _read_member(stream, archive.getinfo(f"{i}.npy"), dtype)
            for i, (name, dtype) in enumerate(names)
        }


def _read_member(file: Any, member: zipfile.ZipInfo, dtype_name: str) -> np.ndarray:
    """Read an array directly into its final memory, which `ZipFile.open` cannot do."""
    file.seek(member.header_offset + 26)  # lengths of the name and of the extra field
    name, extra = np.frombuffer(file.read(4), "<u2").tolist()
    began = file.seek(name + extra, os.SEEK_CUR)
    version = np.lib.format.read_magic(file)
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    if version != (1, 0) or dtype.kind not in _KINDS or dtype.hasobject or fortran:
        raise ValueError(f"it has an array of {dtype} in a form that purerl does not write")
    needed = dtype.itemsize * math.prod(shape)
    there = began + member.file_size - file.tell()
    if needed != there or min(shape, default=0) < 0:
        raise ValueError(f"it claims an array of {needed} bytes but contains {there}")
    x = np.empty(shape, dtype)
    if file.readinto(x.reshape(-1).view(np.uint8)) != needed:
        raise ValueError("it ends in the middle of an array")
    if dtype_name in _EXTENDED:
        x = x.view(_EXTENDED[dtype_name])
    if x.dtype.name != dtype_name:
        raise ValueError(f"it has an array of {x.dtype.name}, listed as {dtype_name}")
    return x
