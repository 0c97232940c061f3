"""Files: complete or absent, checked when read, with one owner; hostile ones are refused."""

import contextlib
import errno
import fcntl
import json
import os
import pickle
import subprocess
import sys
import zipfile

import ml_dtypes
import numpy as np
import pytest

from purerl.errors import Damaged, StorageError
from purerl.runs.record import files, safe_files

ARRAYS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b/[0]['x']": np.array(True),
    "": np.zeros((0, 4), np.int64),
    "half": np.array([1.5, -2.0], ml_dtypes.bfloat16),
    "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
}


def test_arrays_come_back_bit_for_bit(tmp_path):
    found = files.unpack_arrays(files.pack_arrays(ARRAYS), tmp_path)
    assert list(found) == list(ARRAYS)
    for name, x in ARRAYS.items():
        assert (found[name].dtype, found[name].shape) == (x.dtype, x.shape)
        assert found[name].tobytes() == x.tobytes()
    assert files.pack_arrays(ARRAYS) == files.pack_arrays(ARRAYS)


def test_a_file_is_read_as_written_or_refused_at_every_cut_and_flip(tmp_path):
    path = tmp_path / "x.npz"
    content = files.pack_arrays({"a": np.arange(3, dtype=np.float32)})
    file = files.write_file(path, content)
    assert files.read_verified(path, file) == content
    for cut in range(len(content)):
        path.write_bytes(content[:cut])
        with pytest.raises(Damaged, match=r"x\.npz must have \d+ bytes"):
            files.read_verified(path, file)
    rng = np.random.default_rng(0)
    for place in rng.integers(0, 8 * len(content), 200):
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << (place % 8)
        path.write_bytes(flipped)
        with pytest.raises(Damaged, match="SHA-256"):
            files.read_verified(path, file)
    path.unlink()
    with pytest.raises(Damaged, match="is missing"):
        files.read_verified(path, file)
    path.symlink_to("/etc/passwd")
    with pytest.raises(Damaged, match="no plain file"):
        files.read_verified(path, file)


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


class Bomb:
    def __reduce__(self):
        return os.system, ("touch /tmp/purerl-was-here",)


def hostile(tmp_path):
    """Files that claim what they do not hold, or hold what nobody should open."""
    good = files.pack_arrays({"a": np.ones(3)})
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
        with pytest.raises(Damaged):
            files.unpack_arrays(content, tmp_path / what)
        path = tmp_path / "manifest.json"
        path.write_bytes(content)
        with pytest.raises(Damaged):
            files.read_sealed_json(path)
    assert not os.path.exists(mark)


def test_lines_are_complete_text_of_limited_length(tmp_path, monkeypatch):
    path = tmp_path / "table"
    path.write_bytes("é\n\nb\nc".encode())
    assert [*files.read_lines(path)] == ["é", "", "b"]
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(Damaged, match="no plain file"):
        next(files.read_lines(tmp_path / "link"))
    path.write_bytes(b"a\n\xff\n")
    with pytest.raises(Damaged, match="is no text"):
        [*files.read_lines(path)]
    path.write_bytes(b"a\n")
    with open(path, "r+b") as file:
        file.truncate(10**9)  # with a hole
    with pytest.raises(Damaged, match="at most 1048576 bytes in a line"):
        [*files.read_lines(path)]
    monkeypatch.setattr(files, "MAX_LINE", 4)
    path.write_bytes(b"abc\nabcd\n")
    with pytest.raises(Damaged, match="at most 4 bytes in a line"):
        [*files.read_lines(path)]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
@pytest.mark.parametrize("call", ["fsync", "replace", "open"])
def test_a_failing_disk_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch, call, number):
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
import resource, signal, sys; from pathlib import Path; from purerl.runs import storage
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    storage.replace(Path(sys.argv[1]), b"x" * 2000)
except storage.StorageError as error:
    print(error)
"""


def test_a_file_that_does_not_fit_is_refused_by_the_kernel_and_explained(tmp_path):
    path = tmp_path / "x"
    files.replace_file(path, b"old")
    said = subprocess.check_output([sys.executable, "-c", TOO_LARGE, str(path)], text=True)
    assert "/x could not be written: File too large.\n" in said
    assert "Errno" not in said
    assert ".tmp" not in said
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
    error = safe_files.explain_os_error(OSError(errno.ENOSPC, "x"), tmp_path)
    assert "the disk is full; make room, or write elsewhere" in str(error)


HOLD = """
import sys, time; from pathlib import Path; from purerl.runs import storage
with storage.owned(Path(sys.argv[1])):
    print("mine", flush=True); time.sleep(60)
"""


def test_a_folder_has_one_owner_and_a_killed_one_gives_it_back(tmp_path):
    words = [sys.executable, "-c", HOLD, str(tmp_path)]
    first = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert first.stdout.readline() == "mine\n"
    with (
        pytest.raises(StorageError, match=f"is in use by process {first.pid} on "),
        safe_files.lock_folder(tmp_path),
    ):
        pass
    first.kill()
    first.wait()
    first.stdout.close()
    with safe_files.lock_folder(tmp_path):
        pass


def test_who_only_looks_whether_a_folder_is_owned_does_not_keep_its_owner_out(
    tmp_path, monkeypatch
):
    (tmp_path / ".lock").write_text("process 1 on elsewhere\n")
    with open(tmp_path / ".lock") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        waits = []

        def sleep(seconds):
            waits.append(seconds)
            if len(waits) == 3:
                fcntl.flock(looking, fcntl.LOCK_UN)

        monkeypatch.setattr("time.sleep", sleep)
        with safe_files.lock_folder(tmp_path):
            assert len(waits) == 3
            assert (tmp_path / ".lock").read_text().startswith(f"process {os.getpid()} on ")
    assert sum(waits) < 1


def test_an_error_of_storage_has_no_number_and_no_name_that_is_not_the_users(tmp_path):
    with pytest.raises(StorageError) as caught:
        files.replace_file(tmp_path / "no" / "a.png", b"")
    assert str(caught.value) == f"{tmp_path}/no/a.png could not be written: its folder is missing."
    assert caught.value.errno == errno.ENOENT
