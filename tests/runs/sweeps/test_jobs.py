"""The result of a run in a sweep is read from its folder, not from the exit code alone."""

import functools
import json
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from purerl import errors
from purerl.runs.record import status as places
from purerl.runs.sweeps import grid as grids
from purerl.runs.sweeps import jobs, results
from tests.mpi.launch import ROOT, clean
from tests.runs.sweeps import thunks
from tests.runs.sweeps.test_grid import make_grid


def test_exit_code_0_alone_does_not_make_a_run_done(tmp_path):
    plan = jobs.Plan(data_dir=str(tmp_path))
    named = [(kind, 0, {"kind": kind}) for kind in ("leave", "exit")]
    left, exited = (table := grids.run_variants(named, "bench", thunks.fate, plan, {})).rows
    assert table.code == 1
    assert (left.status, left.exit) == (exited.status, exited.exit) == ("failed", 0)
    assert left.reason == "ended with exit code 0, but its run is not done"
    assert exited.reason == "SystemExit: 0"


def test_control_characters_of_a_run_do_not_reach_the_terminal(tmp_path):
    def start(log, unfinished):
        raise errors.TaskRefused("one\ntwo \t three")

    task = jobs.Task(results.TaskResult("a", 0), lambda: None, start)
    (row,) = jobs.run_tasks([task], tmp_path, None, jobs.Plan()).rows
    assert row.reason == "one two three"


def test_a_folder_that_cannot_be_made_fails_only_its_run(tmp_path):
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "bench_kingood").write_text("in the way")
    sweep = make_grid([("kind", ["good", "word"])]).run(thunks.fate, data_dir=str(tmp_path))
    assert [(row.status, row.exit) for row in sweep.rows] == [("failed", 5), ("done", 0)]


def by_name(sweep):
    return {row.name.removeprefix("bench_kin"): row for row in sweep.rows}


def make_clock(folder):
    """Return a clock that stands still until the run that hangs is the last one, and then jumps."""

    def read_clock():
        log, results = folder / "logs" / "bench_kinhang_s0.log", folder / "sweep.json"
        if not log.exists() or "hang with seed 0" not in log.read_text():
            return 0.0
        states = [one["status"] for one in json.loads(results.read_text())["variants"]]
        return 2_000.0 if states.count("waiting") == 1 else 0.0

    return types.SimpleNamespace(monotonic=read_clock, sleep=time.sleep)


def test_each_of_six_fates_ends_one_run_and_the_next_call_repeats_only_failures(
    tmp_path, monkeypatch
):
    kinds = ["raise", "nan", "kill", "good", "word", "hang"]
    plan = jobs.Plan(data_dir=str(tmp_path), jobs=2, timeout=1_000.0)
    run = functools.partial(grids.run_variants, plan=plan, values={})
    named = [("bench_bad", 0, {"kind": "good", "scael": 2})]
    named += make_grid([("kind", kinds)]).name_runs()
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "time", make_clock(tmp_path / "bench"))
        sweep = run(named, "bench", thunks.fate)
    assert sweep.code == 1
    found = by_name(sweep)
    assert {name: (row.status, row.exit) for name, row in found.items()} == {
        "raise": ("failed", 1), "nan": ("failed", 3), "kill": ("failed", -9),
        "hang": ("timeout", -15), "good": ("done", 0), "word": ("done", 0),
        "bench_bad": ("failed", 2),
    }  # fmt: skip
    assert found["good"].score == 1.0
    assert "ArithmeticError: boom" in found["raise"].reason
    assert "returned nan" in found["nan"].reason
    assert found["kill"].reason == "ended by SIGKILL"
    assert found["hang"].reason == "took longer than 1000 s"
    assert "unexpected keyword argument 'scael'" in found["bench_bad"].reason
    assert "good with seed 0" in Path(found["good"].log).read_text()
    assert "Traceback" in Path(found["raise"].log).read_text()
    table = results.format_results(sweep).splitlines()
    assert [line.split()[:4] for line in table[2:5]] == [
        ["bench_kinraise", "0", "failed", "1"],
        ["bench_kinnan", "0", "failed", "3"],
        ["bench_kinkill", "0", "failed", "-9"],
    ]
    kept = json.loads((tmp_path / "bench" / "sweep.json").read_text())
    assert [one["status"] for one in kept["variants"]] == [row.status for row in sweep.rows]
    assert kept["variants"][1]["settings"] == {"kind": "raise"}

    again = run([one for one in named if one[0] != "bench_kinhang"], "bench", thunks.fate)
    assert [(row.name, row.reason) for row in again.rows if row.status == "done"] == [
        ("bench_kingood", "was done before"), ("bench_kinword", "was done before"),
    ]  # fmt: skip
    assert by_name(again)["raise"].run.endswith("bench_kinraise_s0-2")
    assert by_name(again)["kill"].exit == -9
    kept = json.loads((tmp_path / "bench" / "sweep.json").read_text())
    assert {one["name"]: one["status"] for one in kept["variants"]}["bench_kinhang"] == "timeout"
    standing = {one.path.name: one.status for one in places.list_runs(tmp_path)}
    assert standing["bench_kinkill_s0"] == "failed"  # given up, when it was done again
    assert standing["bench_kinkill_s0-2"] == "killed"


def test_no_more_runs_than_jobs_run_at_a_time(tmp_path):
    path = tmp_path / "lines"
    grid = make_grid([("path", str(path)), ("seed", [0, 1, 2])])
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path), "2"], env=clean(), cwd=ROOT
    )
    try:
        wait(lambda: path.exists() and len(path.read_text().split()) == 2)
        time.sleep(0.3)
        assert len(path.read_text().split()) == 2
        assert [one.status for one in places.list_runs(tmp_path)] == ["running", "running"]
        with pytest.raises(errors.StorageError, match="in use by process"):
            grid.run(thunks.count_calls, data_dir=str(tmp_path), timeout=3)
        Path(f"{path}.go").touch()
        assert process.wait(600) == 0
    finally:
        process.kill()
    assert sorted(path.read_text().split()) == ["0", "1", "2"]


def test_a_grid_continues_when_its_output_is_closed(tmp_path):
    words = [sys.executable, "-c", PROGRAM, str(tmp_path), "1"]
    process = subprocess.Popen(words, env=clean(), cwd=ROOT, stdout=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    (tmp_path / "lines.go").touch()
    assert process.wait(600) == 0
    assert [one.status for one in places.list_runs(tmp_path)] == ["done"] * 3


PROGRAM = """
import sys
from purerl.runs.sweeps.grid import ExperimentGrid
from purerl.runs.sweeps.results import format_results
from tests.runs.sweeps import thunks
from tests.runs.sweeps.test_grid import make_grid
if __name__ == "__main__":
    grid = ExperimentGrid("bench")
    grid.add("path", sys.argv[1] + "/lines")
    grid.add("seed", [0, 1, 2])
    sweep = grid.run(thunks.count_calls, data_dir=sys.argv[1], jobs=int(sys.argv[2]))
    print(format_results(sweep))
    sys.exit(sweep.code)
"""


def wait(happens):
    for _ in range(12_000):
        if happens():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen within ten minutes")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_request_stops_the_runs_of_a_grid_and_lists_the_rest(tmp_path, number):
    words = [sys.executable, "-c", PROGRAM, str(tmp_path), "1"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(words, env=clean(), cwd=ROOT, **pipes)
    wait(lambda: (tmp_path / "lines").exists())
    process.send_signal(number)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 75, err
    results = [line.split()[2] for line in out.splitlines() if line.startswith("bench  ")]
    assert results == ["stopped", "waiting", "waiting"]
    assert "Traceback" not in err
    (tmp_path / "lines.go").touch()
    process = subprocess.run(words, env=clean(), cwd=ROOT, check=False)
    assert process.returncode == 0


def test_the_progress_line_counts_runs_and_fits_the_terminal(tmp_path, monkeypatch, capsys):
    standing = places.RunStatus(tmp_path, "ppo", "E", 0, "running", 300, 1200, None, "")
    rows = [results.TaskResult(name, 0) for name in ("a", "b", "c")]
    tasks = [jobs.Task(row, lambda: standing, None) for row in rows]
    board = jobs._Supervisor(tasks, tmp_path, None, None)
    tasks[0].row = rows[0]._replace(status="done")
    assert board.format_progress(107.0) == "1 of 3 done"
    tasks[1].row = rows[1]._replace(status="failed")
    tasks[2].process, tasks[2].began = object(), 100.0
    assert board.format_progress(107.0) == "1 of 3 done, 1 not done; running: c_s0 25% 7 s"
    board.draw()
    assert not capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "20")
    board = jobs._Supervisor(tasks, tmp_path, None, None)
    board.draw()
    board.draw()  # within the same second
    shown = "\r\x1b[K1 of 3 done, 1 not done; "[:23]
    task = jobs.Task(rows[0], lambda: None, lambda log, unfinished: Ends())
    board.begin(task)  # its line replaces the progress line
    assert capsys.readouterr().out == f"{shown}\r\x1b[Ka_s0: starts\n"


class Ends:
    """A process that ends when it has been asked a few times."""

    pid, left = None, 5

    @property
    def exitcode(self):
        self.left -= 1
        return None if self.left > 0 else 0


def test_a_progress_line_that_fails_is_switched_off_and_the_runs_continue(
    tmp_path, monkeypatch, capsys
):
    asked = []

    def look():
        asked.append(1)
        if len(asked) == 2:  # while the line is drawn
            raise FileNotFoundError(2, "No such file or directory", "000000000010")
        state = "done" if len(asked) > 2 else "unknown"
        return places.RunStatus(tmp_path, "ppo", "E", 0, state, 1, 1, None, "")

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    now = iter(range(0, 10_000, 2))
    clock = types.SimpleNamespace(monotonic=lambda: float(next(now)), sleep=lambda seconds: None)
    monkeypatch.setattr(jobs, "time", clock)
    task = jobs.Task(results.TaskResult("a", 0), look, lambda log, unfinished: Ends())
    (row,) = jobs.run_tasks([task], tmp_path, None, jobs.Plan()).rows
    assert row.status == "done"
    said = capsys.readouterr().out
    assert said.count("warning: the progress line failed, the runs continue") == 1


def test_a_sweep_file_that_cannot_be_used_is_refused_before_a_run_starts(tmp_path):
    (tmp_path / "sweep.json").write_text("{}")
    task = jobs.Task(results.TaskResult("a", 0), lambda: None, lambda *_: pytest.fail("started"))
    with pytest.raises(errors.StorageError, match=r"is not a file of a sweep.*Move it away"):
        jobs.run_tasks([task], tmp_path, {}, jobs.Plan())


def test_a_sweep_file_that_cannot_be_written_meanwhile_ends_no_run(tmp_path, monkeypatch, capsys):
    real, calls = jobs.save_results, []

    def save(*args):
        calls.append(1)
        if len(calls) == 2:
            raise errors.StorageError("the disk is full.")
        real(*args)

    monkeypatch.setattr(jobs, "save_results", save)
    refuse = {"a": errors.TaskRefused("no"), "b": OSError(2, "No such file", "logs/b.log")}

    def start(name, log, unfinished):
        raise refuse[name]

    tasks = [
        jobs.Task(results.TaskResult(name, 0), lambda: None, functools.partial(start, name))
        for name in refuse
    ]
    rows = jobs.run_tasks(tasks, tmp_path, {}, jobs.Plan()).rows
    assert [row.status for row in rows] == ["failed", "failed"]
    assert "warning: the disk is full. The runs continue." in capsys.readouterr().out
    kept = json.loads((tmp_path / "sweep.json").read_text())
    assert [one["status"] for one in kept["variants"]] == ["failed", "failed"]


def test_an_unexpected_error_lets_the_runs_save(tmp_path, monkeypatch):
    sent = []
    monkeypatch.setattr(jobs.Task, "kill", lambda task, *how, **group: sent.append((how, group)))
    monkeypatch.setattr(jobs._Supervisor, "watch", lambda board, stopping: 1 / 0)
    task = jobs.Task(results.TaskResult("a", 0), lambda: None, lambda log, unfinished: Ends())
    with pytest.raises(ZeroDivisionError):
        jobs.run_tasks([task], tmp_path, None, jobs.Plan())
    assert sent == [((signal.SIGTERM,), {"group": False})]
