"""Runs are listed, loaded and inspected while another process saves and deletes checkpoints."""

import contextlib
import shutil
import subprocess

import pytest

import purerl
from purerl.errors import ConfigError, NoCheckpoint, StorageError
from purerl.runs.analysis import tables
from purerl.runs.record import checkpoint, checkpoint_folders, safe_files, status
from tests.cli.commands.call import call
from tests.mpi.launch import ROOT, clean
from tests.reliability.test_kills import SCRIPT

ROUNDS = 40


def read_everything(data, run, capsys):
    """Read a run in all ways; return the number of loads, and what was said about damage."""
    said = []
    assert call("list", "runs", "--data-dir", data) == 0
    assert [one.path for one in status.list_runs(data)] == [run]
    for wanted in ("last", "best"):
        try:
            found = purerl.load(run, wanted, say=said.append)
        except NoCheckpoint as error:
            if "no best checkpoint yet" not in str(error):
                raise
        else:
            assert found.status in ("running", "done")
            assert {len(column) for column in found.metrics.values()} <= {*range(10_000)}
            assert {len(column) for column in found.episodes.values()} <= {*range(100_000)}
    said += checkpoint.load(run, {}, 0).skipped
    assert call("inspect", run) == 0
    assert call("doctor", run) == 0
    with contextlib.suppress(ConfigError):  # no complete row yet
        assert [one.path for one in tables.find_runs([run])[0]] == [run]
    if status.is_running(run):
        with contextlib.suppress(StorageError), safe_files.lock_folder(run):
            assert status.read_status(run)["status"] != "running"
    shown = capsys.readouterr()
    said += [shown.err] if shown.err else []
    said += [line for line in shown.out.splitlines() if "killed" in line or "unknown" in line]
    return said


@pytest.mark.reliability
@pytest.mark.parametrize("algo", ["sac", "ppo"])
def test_readers_of_a_run_that_saves_continuously_see_no_damage(tmp_path, capsys, figures, algo):
    said, rounds, runs = [], 0, 0
    while rounds < ROUNDS:
        words = [*SCRIPT, "train", algo, str(tmp_path), "1000000"]
        process = subprocess.Popen(words, env=clean(), cwd=ROOT, stdout=subprocess.DEVNULL)
        try:
            run = None
            while run is None or not checkpoint_folders.list_steps(run):
                run = next((one.path for one in status.list_runs(tmp_path)), None)
                assert process.poll() is None
            while rounds < ROUNDS and process.poll() is None:
                said += read_everything(tmp_path, run, capsys)
                rounds += 1
        finally:
            process.kill()
            process.wait()
        runs += 1
        shutil.rmtree(run.parent)
    figures(algo=algo, rounds=rounds, runs=runs, said=len(said))
    assert not said
