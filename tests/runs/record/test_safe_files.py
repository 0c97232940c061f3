"""Safe reading of files, and locks of run folders."""

import fcntl
import os
import signal
import subprocess
import sys

import pytest

from purerl.errors import Damaged, StorageError
from purerl.runs.record import safe_files

HOLD = """
import sys, time; from pathlib import Path; from purerl.runs.record import safe_files
with safe_files.lock_folder(Path(sys.argv[1])):
    print("mine", flush=True); time.sleep(60)
"""


def test_a_link_to_a_file_is_not_read(tmp_path):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "config.json").symlink_to(tmp_path / "secret")
    with (
        pytest.raises(Damaged, match="config.json is missing, or not a regular file"),
        safe_files.open_file(tmp_path / "config.json"),
    ):
        pass


def test_a_folder_has_one_owner_and_a_kill_releases_it(tmp_path):
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


def test_checking_a_lock_does_not_keep_its_owner_out(tmp_path, monkeypatch):
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


FORK = """
import os, sys, time; from pathlib import Path; from purerl.runs.record import safe_files
with safe_files.lock_folder(Path(sys.argv[1])):
    if os.fork() == 0:
        with safe_files.lock_folder(Path(sys.argv[1], "own")):
            print("own", flush=True); time.sleep(600)
    time.sleep(600)
"""


def test_a_forked_helper_does_not_keep_the_lock_of_a_killed_process(tmp_path):
    (tmp_path / "own").mkdir()
    words = [sys.executable, "-c", FORK, str(tmp_path)]
    first = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert first.stdout.readline() == "own\n"
        refused = pytest.raises(StorageError, match=f"in use by process {first.pid} on ")
        with refused, safe_files.lock_folder(tmp_path):
            pass
        first.kill()
        first.wait()
        with safe_files.lock_folder(tmp_path):
            pass
        refused = pytest.raises(StorageError, match="own is in use by process")  # it still runs
        with refused, safe_files.lock_folder(tmp_path / "own"):
            pass
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        first.stdout.close()
