"""Array files are read back bit for bit, and hostile files are refused."""

import functools
import io
import json
import os
import pickle
import zipfile

import ml_dtypes
import numpy as np
import pytest

from purerl.errors import Damaged
from purerl.runs.record import arrays, files

ARRAYS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b/[0]['x']": np.array(True),
    "": np.zeros((0, 4), np.int64),
    "half": np.array([1.5, -2.0], ml_dtypes.bfloat16),
    "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
}


def pack(given):
    stream = io.BytesIO()
    arrays.write_arrays(given, stream)
    return stream.getvalue()


@pytest.mark.parametrize("content", [pack(ARRAYS), functools.partial(arrays.write_arrays, ARRAYS)])
def test_arrays_are_read_back_bit_for_bit(tmp_path, content):
    found = arrays.read_arrays(tmp_path / "x", files.write_file(tmp_path / "x", content))
    assert list(found) == list(ARRAYS)
    for name, x in ARRAYS.items():
        assert (found[name].dtype, found[name].shape) == (x.dtype, x.shape)
        assert found[name].tobytes() == x.tobytes()
    assert pack(ARRAYS) == pack(ARRAYS)


class Bomb:
    def __reduce__(self):
        return os.system, ("touch /tmp/purerl-was-here",)


def hostile(tmp_path):
    """Yield hostile files: with false sizes, wrong names, pickles or compressed data."""
    good = pack({"a": np.ones(3)})
    yield b"", "empty"
    yield pickle.dumps(Bomb()), "a pickle"
    yield b"PK" + pickle.dumps(Bomb()), "a pickle that begins like a zip"
    yield good[:-10], "cut"
    objects = tmp_path / "objects.npz"
    np.savez(objects, **{"0": np.array([Bomb()], object)})
    yield objects.read_bytes(), "an array of objects"

    def archive(names, members, compress=zipfile.ZIP_STORED):
        path = tmp_path / "made.npz"
        with zipfile.ZipFile(path, "w", compress) as made:
            made.writestr("names.json", names if isinstance(names, str) else json.dumps(names))
            for name, content in members.items():
                made.writestr(name, content)
        return path.read_bytes()

    def npy(header, body=b""):
        text = header.encode() + b" " * (118 - len(header)) + b"\n"
        return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body

    plain = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }"
    for descr, shape in (("<f4", "(10**15,)"), ("<f4", "(-1,)"), ("<f4", "(1000000000000000,)")):
        yield archive([["a", "float32"]], {"0.npy": npy(plain % (descr, shape))}), "claims much"
    yield archive([["a", "float32"]], {"0.npy": npy(plain % ("|O", "(1,)"), b"x" * 8)}), "objects"
    yield archive([["a", "float32"]], {"0.npy": npy("__import__('os')")}), "code as a header"
    yield archive([["a", "float64"]], {"0.npy": npy(plain % ("<f4", "(1,)"), b"x" * 4)}), "a lie"
    more = npy(plain % ("<f4", "(1,)"), b"x" * 8)
    yield archive([["a", "float32"]], {"0.npy": more}), "more than is claimed"
    yield archive([["a", "float32"]], {"1.npy": b""}), "a missing member"
    yield archive([[["a"], "float32"]], {"0.npy": npy(plain % ("<f4", "(0,)"))}), "a list as a name"
    yield archive([["a", ["b"]]], {"0.npy": npy(plain % ("<f4", "(0,)"))}), "a list as a dtype"
    yield archive("[" * 100_000, {}), "deep JSON"
    bomb = npy(plain % ("<f4", "(10000000,)"), bytes(4 * 10**7))
    yield archive([["a", "float32"]], {"0.npy": bomb}, zipfile.ZIP_DEFLATED), "compressed"


def test_hostile_files_are_refused_without_running_anything(tmp_path):
    mark = "/tmp/purerl-was-here"
    for content, what in hostile(tmp_path):
        path = tmp_path / what
        file = files.write_file(path, content)
        with pytest.raises(Damaged):
            arrays.read_arrays(path, file)
        with pytest.raises(Damaged):
            files.read_sealed_json(path)
    assert not os.path.exists(mark)
