"""What became of the runs of a sweep is what is on the disk, not what a process ended with."""

import json

import pytest

from purerl import errors
from purerl.cli.commands import sweep
from purerl.runs.sweeps import grid as grids
from purerl.runs.sweeps import jobs, results
from tests.runs.sweeps import thunks


def test_a_process_that_ends_with_0_has_not_done_its_run_by_that(tmp_path):
    quiet = {"data_dir": str(tmp_path), "say": lambda line: None}
    named = [(kind, 0, {"kind": kind}) for kind in ("leave", "exit")]
    left, exited = (table := grids.run_variants(named, "bench", thunks.fate, **quiet)).rows
    assert table.code == 1
    assert (left.status, left.exit) == (exited.status, exited.exit) == ("failed", 0)
    assert left.reason == "ended with exit code 0, but its run is not done"
    assert exited.reason == "SystemExit: 0"


def test_sweep_json_keeps_what_is_known_of_runs_that_are_not_done_again(tmp_path):
    def row(status, code, seconds, log, reason="", run="runs/a_s0"):
        return results.TaskResult("a", 0, status, code, reason, 9, 1.5, seconds, run, log)

    def kept(*given, settings=None):
        results.save_results(tmp_path, {}, [settings or {"x": (1,)}], given)
        (one,) = json.loads((tmp_path / "sweep.json").read_text())["variants"]
        return one["status"], one["exit"], one["seconds"], one["log"]

    first = ("done", 0, 12.5, "logs/a_s0.log")
    nothing = ("done", None, 0.0, "")
    assert kept(row(*first)) == first
    assert kept(row(*nothing, "was done before")) == first
    assert kept(row("waiting", None, 0.0, "", run="")) == first
    assert kept(row("failed", 1, 2.0, "l")) == ("failed", 1, 2.0, "l")
    assert kept(row(*nothing)) == nothing  # done since then, by somebody else
    assert kept(row(*first)) == first
    assert kept(row(*nothing, run="runs/a_s0-2")) == nothing
    assert kept(row(*first)) == first
    assert kept(row(*nothing), settings={"x": (2,)}) == nothing


def test_a_dry_run_shows_the_variants_and_makes_nothing(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = "ppo --env CartPole-v1 --grid gamma=0.9,2 --seed 0 1 --dry-run --name g"
    assert sweep.main(words.split()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("g_gam0-9  seed") for line in lines) == 2
    assert any("g_gam2-0  seed 1  gamma must be a number" in line for line in lines)
    assert not list(tmp_path.iterdir())


def test_what_comes_from_a_run_cannot_steer_the_terminal(capsys):
    task = jobs.Task("a", 0, {}, None, None)
    assert jobs._row(task, "failed", 1, "one\ntwo \t three").reason == "one two three"


def test_the_table_of_a_damaged_sweep_is_not_written_over(tmp_path):
    named = [("good", 0, {"kind": "good"})]
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "sweep.json").write_text('{"variants": 3}')
    with pytest.raises(errors.StorageError, match="not what a sweep wrote"):
        grids.run_variants(named, "bench", thunks.fate, data_dir=str(tmp_path))
