"""Folders from somebody else run no code, touch no other file, and take neither memory nor time."""

import json
import os
import shutil

import pytest

import purerl
from purerl import errors
from purerl.runs.record import files, safe_files, status
from purerl.runs.training import diagnosis
from tests.cli.commands.call import call
from tests.mpi.launch import python
from tests.reliability.counts import sizes
from tests.runs.trained import begun


@sizes("hostile")
def test_hostile_folders_run_nothing_and_are_refused_soon(tmp_path, figures, number):
    done = python("-m", "tests.reliability.sweep", str(tmp_path), str(number))
    assert done.code == 0, done.err
    found = [json.loads(line) for line in done.out.splitlines()]
    assert len(found) >= min(number, 170)
    refused = 0
    for one in found:
        assert not one["marked"], one
        assert not one["touched"], one
        assert not one["seen"], one
        assert one["mb"] < 200, one
        refused += bool(one["said"])
    assert refused > 0.7 * len(found)  # the others are read by nothing, or were meant to be good
    worst = {name: max(one[name] for one in found) for name in ("mb", "seconds")}
    figures(cases=len(found), refused=refused, **worst)


def test_a_link_in_the_way_of_a_file_is_not_followed(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".new.tmp").symlink_to(tmp_path / "mine")
    files.replace_file(tmp_path / "new", b"content")
    assert (tmp_path / "mine").read_text() == "mine"
    assert (tmp_path / "new").read_bytes() == b"content"
    (tmp_path / ".lock").symlink_to(tmp_path / "mine")
    with pytest.raises(errors.Damaged, match="is a link"), safe_files.lock_folder(tmp_path):
        pass
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_lock_that_is_a_pipe_is_not_waited_for(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    config = {"algo": "a", "env": "b", "seed": 0, "schedule": {"steps": 1}}
    (run / "config.json").write_text(json.dumps(config))
    state = {"status": "running"}
    (run / "status.json").write_text(json.dumps(state | {"sha256": status.hash_status(state)}))
    os.mkfifo(run / ".lock")
    assert [one.status for one in status.list_runs(tmp_path)] == ["killed"]
    with (
        pytest.raises(errors.Damaged, match="is a link, a pipe or a device"),
        safe_files.lock_folder(run),
    ):
        pass


@pytest.mark.parametrize("name", ["eval", "export", "video", "doctor"])
def test_nothing_is_written_through_a_link_in_a_run(tmp_path, monkeypatch, name):
    monkeypatch.setattr("purerl.setup", lambda: None)
    (tmp_path / "mine").mkdir()
    run = shutil.copytree(begun("ppo").folder, tmp_path / "run")
    (run / name).symlink_to(tmp_path / "mine")
    if name == "eval":
        assert call("eval", run, "--episodes", "1") == 5
    else:
        write = {
            "export": lambda: purerl.load(run).export(),
            "video": lambda: purerl.load(run).video(),
            "doctor": lambda: diagnosis.diagnose(run),
        }
        with pytest.raises(errors.Damaged, match="is a link, but a run must be in one folder"):
            write[name]()
    assert not [*(tmp_path / "mine").iterdir()]
