"""Files are complete or absent, and checked when they are read."""

import contextlib
import errno
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from purerl.errors import Damaged, StorageError
from purerl.runs.record import files, safe_files
from purerl.runs.record.files import to_json, write_json
from tests.runs.record.test_arrays import pack


def read(path, file):
    with files.verify_and_open(path, file) as stream:
        return stream.read()


def test_a_file_is_read_as_written_or_refused_at_every_cut_and_flip(tmp_path):
    path = tmp_path / "x.npz"
    content = pack({"a": np.arange(3, dtype=np.float32)})
    file = files.write_file(path, content)
    assert read(path, file) == content
    for cut in range(len(content)):
        path.write_bytes(content[:cut])
        with pytest.raises(Damaged, match=r"x\.npz must have \d+ bytes"):
            read(path, file)
    rng = np.random.default_rng(0)
    for place in rng.integers(0, 8 * len(content), 200):
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << (place % 8)
        path.write_bytes(flipped)
        with pytest.raises(Damaged, match="SHA-256"):
            read(path, file)
    path.unlink()
    with pytest.raises(Damaged, match="is missing"):
        read(path, file)
    path.symlink_to("/etc/passwd")
    with pytest.raises(Damaged, match="not a regular file"):
        read(path, file)


def test_a_file_is_on_disk_before_its_name_and_its_name_before_the_end(tmp_path, monkeypatch):
    """After a crash, a name without content would count as a complete file."""
    events = []

    def record_fsync(descriptor):
        there = os.fstat(descriptor)
        is_folder = there.st_ino == tmp_path.stat().st_ino
        events.append("folder" if is_folder else there.st_size)

    def record_replace(source, target, replace=os.replace):
        events.append("rename")
        replace(source, target)

    monkeypatch.setattr(files.os, "fsync", record_fsync)
    monkeypatch.setattr(files.os, "replace", record_replace)
    contents = (b"x" * 500, lambda stream: [stream.write(b"y" * 100) for _ in range(5)])
    for content in contents:  # smaller than the buffer of a file
        events.clear()
        files.replace_file(tmp_path / "x", content)
        assert events == [500, "rename", "folder"]


def test_a_manifest_is_read_as_written_or_refused_at_every_cut_and_flip(tmp_path):
    path = tmp_path / "manifest.json"
    content = {"step": 3, "returns": [1.1, -0.0, float("inf")], "name": "grün"}
    sealed = files.seal_json(content)
    path.write_bytes(sealed)
    assert files.read_sealed_json(path) == content
    for cut in range(len(sealed) - 2):  # the last two are a brace and the end of the line
        path.write_bytes(sealed[:cut])
        with pytest.raises(Damaged):
            files.read_sealed_json(path)
    for place in range(8 * len(sealed)):
        flipped = bytearray(sealed)
        flipped[place // 8] ^= 1 << (place % 8)
        path.write_bytes(flipped)
        with contextlib.suppress(Damaged):
            assert files.read_sealed_json(path) == content  # white space between tokens


def test_lines_are_complete_text_of_limited_length(tmp_path, monkeypatch):
    path = tmp_path / "table"
    path.write_bytes("é\n\nb\nc".encode())
    assert [*files.read_lines(path)] == ["é", "", "b"]
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(Damaged, match="not a regular file"):
        next(files.read_lines(tmp_path / "link"))
    path.write_bytes(b"a\n\xff\n")
    with pytest.raises(Damaged, match="is not a text file"):
        [*files.read_lines(path)]
    path.write_bytes(b"a\n")
    with open(path, "r+b") as file:
        file.truncate(10**9)  # with a hole
    with pytest.raises(Damaged, match="longer than the limit of 1048576 bytes"):
        [*files.read_lines(path)]
    monkeypatch.setattr(files, "MAX_LINE", 4)
    path.write_bytes(b"abc\nabcd\n")
    with pytest.raises(Damaged, match="longer than the limit of 4 bytes"):
        [*files.read_lines(path)]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
@pytest.mark.parametrize("call", ["fsync", "replace", "open"])
def test_a_failing_disk_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, call, number):
    path = tmp_path / "x"
    files.replace_file(path, b"old")

    def fail(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(files.os, call, fail) if call != "open" else patch.setattr(
            "builtins.open", fail
        )
        with pytest.raises(StorageError, match="could not be written") as caught:
            files.replace_file(path, b"new")
        assert caught.value.errno == number
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


TOO_LARGE = """
import resource, signal, sys; from pathlib import Path
from purerl.errors import StorageError; from purerl.runs.record import files
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    files.replace_file(Path(sys.argv[1]), b"x" * 2000)
except StorageError as error:
    print(error)
"""


def test_a_too_large_file_is_explained_and_the_old_one_kept(tmp_path):
    path = tmp_path / "x"
    files.replace_file(path, b"old")
    said = subprocess.check_output([sys.executable, "-c", TOO_LARGE, str(path)], text=True)
    assert "/x could not be written: File too large.\n" in said
    assert "Errno" not in said
    assert ".tmp" not in said
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
    full = pytest.raises(StorageError, match="the disk is full; free some space")
    with full, safe_files.explain_errors(tmp_path):
        raise OSError(errno.ENOSPC, "x")


def test_a_storage_error_names_the_final_path_and_no_error_number(tmp_path):
    with pytest.raises(StorageError) as caught:
        files.replace_file(tmp_path / "no" / "a.png", b"")
    assert str(caught.value) == f"{tmp_path}/no/a.png could not be written: its folder is missing."
    assert caught.value.errno == errno.ENOENT


class Point(NamedTuple):
    x: float
    y: object


def test_values_become_plain_data():
    value = {
        "array": np.arange(3),
        "scalar": np.float32(0.5),
        "tuple": (1, None, True),
        "point": Point(1.0, (2,)),
        "nan": [math.nan, -math.inf, 1e300],
        "function": math.tanh,
        "class": Path,
        3: Path("a/b"),
    }
    assert to_json(value) == {
        "array": [0, 1, 2],
        "scalar": 0.5,
        "tuple": [1, None, True],
        "point": {"x": 1.0, "y": [2]},
        "nan": [None, None, 1e300],
        "function": "tanh",
        "class": "Path",
        "3": "a/b",
    }


def test_a_json_file_ends_with_a_line_end(tmp_path):
    write_json(tmp_path / "x.json", {"b": 1, "a": [2]}, sort_keys=True)
    text = (tmp_path / "x.json").read_text()
    assert text.endswith("}\n")
    assert json.loads(text) == {"a": [2], "b": 1}
    assert text.index('"a"') < text.index('"b"')
