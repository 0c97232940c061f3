"""`sweep.json` keeps the results of runs that are not started again."""

import json

import pytest

from purerl import errors
from purerl.runs.sweeps import grid as grids
from purerl.runs.sweeps import results
from purerl.runs.sweeps.jobs import Plan
from tests.runs.sweeps import thunks


def test_sweep_json_keeps_results_of_runs_that_are_not_started_again(tmp_path):
    def row(status, code, seconds, log, reason="", run="runs/a_s0"):
        return results.TaskResult("a", 0, status, code, reason, 9, 1.5, seconds, run, log)

    def kept(*given, settings=None):
        rows = [one._replace(settings=settings or {"x": (1,)}) for one in given]
        results.save_results(tmp_path, {}, rows)
        (one,) = json.loads((tmp_path / "sweep.json").read_text())["variants"]
        return one["status"], one["exit"], one["seconds"], one["log"]

    first = ("done", 0, 12.5, "logs/a_s0.log")
    nothing = ("done", None, 0.0, "")
    assert kept(row(*first)) == first
    assert kept(row(*nothing, "was done before")) == first
    assert kept(row("waiting", None, 0.0, "", run="")) == first
    assert kept(row("failed", 1, 2.0, "l")) == ("failed", 1, 2.0, "l")
    assert kept(row(*nothing)) == nothing  # another process finished the failed run
    assert kept(row(*first)) == first
    assert kept(row(*nothing, run="runs/a_s0-2")) == nothing
    assert kept(row(*first)) == first
    assert kept(row(*nothing), settings={"x": (2,)}) == nothing


def test_a_damaged_sweep_json_is_not_overwritten(tmp_path):
    named = [("good", 0, {"kind": "good"})]
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "sweep.json").write_text('{"variants": 3}')
    with pytest.raises(errors.StorageError, match="not a file of a sweep"):
        grids.run_variants(named, "bench", thunks.fate, Plan(data_dir=str(tmp_path)), {})
