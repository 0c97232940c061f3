"""Grids: Spinning Up's names, a process for each run, faults that stop no other, going on."""

import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from purerl import errors
from purerl.errors import ExperimentFailed
from purerl.runs.record import status as places
from purerl.runs.sweeps import grid as grids
from purerl.runs.sweeps import jobs, results, tasks
from purerl.runs.sweeps.grid import ExperimentGrid, call_experiment
from tests.mpi.launch import ROOT, clean
from tests.runs.sweeps import thunks

# Worked out by hand from Spinning Up's rules, as reference material tells them:
# parameters (key, values, shorthand, in_name), a variant, its name.
NAMES = [
    ([("gamma", [0.9, 0.99])], {"gamma": 0.99}, "bench_gam0-99"),
    ([("gamma", 0.9)], {"gamma": 0.9}, "bench"),
    ([("gamma", [0.9], None, True)], {"gamma": 0.9}, "bench_gam0-9"),
    ([("pi_lr", [1e-5, 3e-4])], {"pi_lr": 1e-5}, "bench_pi1e-05"),
    ([("pi_lr", [1e-5, 3e-4], "lr")], {"pi_lr": 3e-4}, "bench_lr0-0003"),
    ([("gamma", [0.9, 0.99], "")], {"gamma": 0.9}, "bench_0-9"),
    (
        [("ac_kwargs:hidden_sizes", [(32,), (64, 64)])],
        {"ac_kwargs": {"hidden_sizes": (64, 64)}},
        "bench_ac-hid64-64",
    ),
    (
        [("ac_kwargs:hidden_sizes", [(32,), (64, 64)], "hid")],
        {"ac_kwargs": {"hidden_sizes": (32,)}},
        "bench_hid32",
    ),
    ([("env_name", "CartPole-v1", "", True)], {"env_name": "CartPole-v1"}, "bench_cartpole-v1"),
    ([("seed", [0, 10], None, True)], {"seed": 10}, "bench"),
    ([("bug", [False, True])], {"bug": True}, "bench_bug"),
    ([("bug", [False, True])], {"bug": False}, "bench"),
    ([("bug", [False, None])], {"bug": False}, "bench_bugfalse"),
    ([("act", [len, max])], {"act": max}, "bench_actmax"),
    ([("n", [-1, 2])], {"n": -1}, "bench_n-1"),
    ([("a_b", [1, 2]), ("c", ["X/y z", 3])], {"a_b": 2, "c": "X/y z"}, "bench_ab2_cx-y-z"),
]


def made(parameters, name="bench"):
    grid = ExperimentGrid(name)
    for one in parameters:
        grid.add(*one)
    return grid


def test_odd_words_reach_the_process_as_they_are(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(tasks.subprocess, "Popen", lambda words, **rest: started.append(words))
    env, data = "a:b-v0", tmp_path / "-o; rm -rf $HOME"
    task = tasks.make_algorithm_task("ppo", "n", 3, {"env": env}, tmp_path / "g", data, num_cpu=2)
    (tmp_path / "log").touch()
    task.start(tmp_path / "log")
    file = tmp_path / "g" / "configs" / "n_s3.json"
    assert started[0][1:] == [
        "-m", "purerl", "train", "ppo", f"--config={file}", f"--env={env}", "--seed=3",
        f"--data-dir={data}", "--num-cpu=2", "--no-datestamp",
    ]  # fmt: skip
    assert json.loads(file.read_text())["env"] == env


def test_a_folder_that_cannot_be_made_fails_its_run_alone(tmp_path):
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "bench_kingood").write_text("in the way")
    sweep = made([("kind", ["good", "word"])]).run(thunks.fate, data_dir=str(tmp_path))
    assert [(row.status, row.exit) for row in sweep.rows] == [("failed", 5), ("done", 0)]


@pytest.mark.parametrize(("parameters", "variant", "name"), NAMES)
def test_variants_have_spinning_ups_names(parameters, variant, name):
    grid = made(parameters)
    assert grid.variant_name(variant) == name
    assert variant in grid.variants()


def test_a_grid_without_a_name_has_variants_without_a_leading_line():
    assert made([("gamma", [1, 2])], "").variant_name({"gamma": 1}) == "gam1"


def test_the_first_key_changes_slowest_and_nested_keys_make_dictionaries():
    grid = made([("a:b", [1, 2]), ("a:c", ["x", "y"]), ("seed", [0])])
    assert grid.variants() == [
        {"a": {"b": 1, "c": "x"}, "seed": 0},
        {"a": {"b": 1, "c": "y"}, "seed": 0},
        {"a": {"b": 2, "c": "x"}, "seed": 0},
        {"a": {"b": 2, "c": "y"}, "seed": 0},
    ]


def test_values_that_are_written_the_same_give_runs_of_different_names():
    named = made([("gamma", [0.1, "0-1"]), ("seed", [0, 1])]).named()
    assert [(name, seed) for name, seed, _ in named] == [
        ("bench_gam0-1", 0), ("bench_gam0-1", 1), ("bench_gam0-1-2", 0), ("bench_gam0-1-2", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ([("a", 1), ("a", 2)], "'a' clashes with 'a'"),
        ([("a", 1), ("a:b", 2)], "'a:b' clashes with 'a'"),
        ([("a:b", 1), ("a", 2)], "'a' clashes with 'a:b'"),
        ([("a", [])], "at least one value"),
        ([("", [1])], "key must be a word"),
    ],
)
def test_grids_that_make_no_sense_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        made(parameters)


def test_names_that_could_leave_the_folder_are_refused():
    with pytest.raises(ValueError, match="name must be of letters"):
        ExperimentGrid("../x")
    with pytest.raises(ValueError, match="at most 100 bytes"):
        made([("word", ["y" * 200, "z"])]).named()
    assert made([("word", ["../y", "; rm -rf /"])]).named()[0][0] == "bench_wor---y"


def test_print_shows_values_and_counts(capsys):
    made([("ac_kwargs:hidden_sizes", [(32,), (64, 64)]), ("seed", [0, 10, 20])]).print()
    out = capsys.readouterr().out
    assert "ac_kwargs:hidden_sizes [ac-hid]: [32], [64, 64]" in out
    assert "2 variants, 6 runs with their seeds" in out
    made([("gamma", [0.9])]).print()
    assert capsys.readouterr().out.endswith("  1 variant, 1 run\n")


def by_name(sweep):
    return {row.name.removeprefix("bench_kin"): row for row in sweep.rows}


def test_six_fates_stop_nobody_else_and_only_the_rest_is_done_again(tmp_path):
    kinds = ["raise", "nan", "kill", "hang", "good", "word"]
    said = []
    run = functools.partial(
        grids.run_variants, data_dir=str(tmp_path), jobs_at_once=2, timeout=2.0, say=said.append
    )
    named = made([("kind", kinds)]).named()
    named += [("bench_bad", 0, {"kind": "good", "scael": 2})]
    began = time.monotonic()
    sweep = run(named, "bench", thunks.fate)
    assert time.monotonic() - began < 60
    assert sweep.code == 1
    found = by_name(sweep)
    assert {name: (row.status, row.exit) for name, row in found.items()} == {
        "raise": ("failed", 1), "nan": ("failed", 3), "kill": ("failed", -9),
        "hang": ("timeout", -15), "good": ("done", 0), "word": ("done", 0),
        "bench_bad": ("failed", 2),
    }  # fmt: skip
    assert found["good"].score == 1.0
    assert "ArithmeticError: boom" in found["raise"].reason
    assert "gave nan" in found["nan"].reason
    assert found["kill"].reason == "ended by SIGKILL"
    assert found["hang"].reason == "took longer than 2 s"
    assert "unexpected keyword argument 'scael'" in found["bench_bad"].reason
    assert "good with seed 0" in Path(found["good"].log).read_text()
    assert "Traceback" in Path(found["raise"].log).read_text()
    table = results.format_results(sweep).splitlines()
    assert [line.split()[:4] for line in table[1:4]] == [
        ["bench_kinraise", "0", "failed", "1"],
        ["bench_kinnan", "0", "failed", "3"],
        ["bench_kinkill", "0", "failed", "-9"],
    ]
    kept = json.loads((tmp_path / "bench" / "sweep.json").read_text())
    assert [one["status"] for one in kept["variants"]] == [row.status for row in sweep.rows]
    assert kept["variants"][0]["settings"] == {"kind": "raise"}

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


def test_a_function_is_told_its_folder_and_what_spinning_up_would_give_it(tmp_path):
    row = call_experiment(
        "mine", thunks.told, seed=3, data_dir=str(tmp_path), env_name="CartPole-v1",
        ac_kwargs={"hidden_sizes": (8,)},
    )  # fmt: skip
    assert (row.status, row.seed, row.score) == ("done", 3, None)
    said = (tmp_path / "mine" / "mine_s3" / "said.txt").read_text()
    assert (
        said
        == f"CartPole-v1 {{'hidden_sizes': (8,)}} 3 mine {1}"
    )
    assert not (tmp_path / "mine" / "sweep.json").exists()
    assert "OMP_NUM_THREADS" not in os.environ
    with pytest.raises(ExperimentFailed, match=r"bad, seed 0: failed, ArithmeticError: boom"):
        call_experiment("bad", thunks.fate, data_dir=str(tmp_path), kind="raise")


def test_a_function_that_saves_its_configuration_is_done_and_found_again(tmp_path):
    row = call_experiment("mine", thunks.logged, seed=2, data_dir=str(tmp_path), lr=0.5)
    assert (row.status, row.exit, row.score) == ("done", 0, 0.5)
    run = tmp_path / "mine" / "mine_s2"
    saved = json.loads((run / "config.json").read_text())
    assert saved == {"lr": 0.5, "seed": 2, "env": None, "exp_name": "mine"}
    again = call_experiment("mine", thunks.logged, seed=2, data_dir=str(tmp_path), lr=0.5)
    assert (again.reason, again.score, again.run) == ("was done before", 0.5, str(run))
    (standing,) = places.list_runs(tmp_path)
    assert (standing.algo, standing.env, standing.seed) == (
        "tests.runs.sweeps.thunks.logged",
        "-",
        2,
    )
    assert list(tmp_path.rglob("config.json")) == [run / "config.json"]


def test_what_another_process_could_not_import_is_refused_at_once(tmp_path):
    def inner(seed):
        return seed

    grid = made([("seed", [0])])
    for thunk in (lambda seed: seed, inner, functools.partial(thunks.fate, "good"), 3):
        with pytest.raises(TypeError, match="at the top of a module"):
            grid.run(thunk, data_dir=str(tmp_path))
    with pytest.raises(ValueError, match="Did you mean sac"):
        grid.run("sca", data_dir=str(tmp_path))
    with pytest.raises(ValueError, match="num_cpu is for algorithms"):
        grid.run(thunks.fate, num_cpu=2, data_dir=str(tmp_path))
    with pytest.raises(ValueError, match="jobs must be an integer of at least 1"):
        grid.run(thunks.fate, jobs=0, data_dir=str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_key_of_the_grid_may_hold_the_functions(tmp_path):
    grid = made([("what", [thunks.fate]), ("kind", "good")])
    (row,) = grid.run("what", data_dir=str(tmp_path)).rows
    assert (row.status, row.score) == ("done", 1.0)


def test_a_value_that_no_process_can_be_given_fails_alone(tmp_path):
    named = [("bench_x", 0, {"kind": lambda: 0}), ("bench_y", 0, {"kind": "good"})]
    quiet = {"data_dir": str(tmp_path), "say": lambda line: None}
    first, second = grids.run_variants(named, "bench", thunks.fate, **quiet).rows
    assert first.status == "failed"
    assert "cannot be handed to a process" in first.reason
    assert second.status == "done"


def test_as_many_run_at_a_time_as_are_asked_for(tmp_path):
    path = tmp_path / "lines"
    grid = made([("path", str(path)), ("seed", [0, 1, 2])])
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path), "2"], env=clean(), cwd=ROOT
    )
    try:
        wait(lambda: path.exists() and len(path.read_text().split()) == 2)
        time.sleep(0.3)
        assert len(path.read_text().split()) == 2
        assert [one.status for one in places.list_runs(tmp_path)] == ["running", "running"]
        with pytest.raises(errors.StorageError, match="in use by process"):
            grid.run(thunks.counted, data_dir=str(tmp_path), timeout=3)
        Path(f"{path}.go").touch()
        assert process.wait(60) == 0
    finally:
        process.kill()
    assert sorted(path.read_text().split()) == ["0", "1", "2"]


def test_a_grid_that_nobody_reads_goes_on(tmp_path):
    words = [sys.executable, "-c", PROGRAM, str(tmp_path), "1"]
    process = subprocess.Popen(words, env=clean(), cwd=ROOT, stdout=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    (tmp_path / "lines.go").touch()
    assert process.wait(60) == 0
    assert [one.status for one in places.list_runs(tmp_path)] == ["done"] * 3


PROGRAM = """
import sys
from purerl.runs.sweeps.grid import ExperimentGrid
from purerl.runs.sweeps.results import format_results
from tests.runs.sweeps import thunks
if __name__ == "__main__":
    grid = ExperimentGrid("bench")
    grid.add("path", sys.argv[1] + "/lines")
    grid.add("seed", [0, 1, 2])
    sweep = grid.run(thunks.counted, data_dir=sys.argv[1], jobs=int(sys.argv[2]))
    print(format_results(sweep))
    sys.exit(sweep.code)
"""


def wait(happens):
    for _ in range(1_200):
        if happens():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen within a minute")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_stop_a_grid_stops_its_runs_and_says_what_is_missing(tmp_path, number):
    words = [sys.executable, "-c", PROGRAM, str(tmp_path), "1"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(words, env=clean(), cwd=ROOT, **pipes)
    wait(lambda: (tmp_path / "lines").exists())
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 75, err
    results = [line.split()[2] for line in out.splitlines() if line.startswith("bench  ")]
    assert results == ["stopped", "waiting", "waiting"]
    assert "Traceback" not in err
    (tmp_path / "lines.go").touch()
    process = subprocess.run(words, env=clean(), cwd=ROOT, check=False)
    assert process.returncode == 0


def test_the_line_on_a_terminal_says_how_far_it_is(tmp_path, monkeypatch, capsys):
    standing = places.RunStatus(tmp_path, "ppo", "E", 0, "running", 300, 1200, None, "")
    tasks = [jobs.Task(name, 0, {}, lambda: standing, None) for name in ("a", "b", "c")]
    board = jobs._Board(tuple(tasks), tmp_path, None, None, lambda line: None)
    board.ended["a", 0] = jobs._row(tasks[0], "done")
    assert board.progress() == "1 of 3 done"
    board.ended["b", 0] = jobs._row(tasks[1], "failed")
    board.running.append(jobs._Job(tasks[2], None, tmp_path, 0, time.monotonic() - 7))
    assert board.progress() == "1 of 3 done, 1 not; running: c_s0 25% 7 s"
    board.draw()
    assert not capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "20")
    board.draw()
    board.draw()  # within the same second
    assert capsys.readouterr().out == "\r\x1b[K1 of 3 done, 1 not; "[:23]


def test_a_script_without_its_guard_says_what_is_missing(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from purerl.runs.sweeps.grid import ExperimentGrid\n"
        "def mine(seed):\n    return 1.0\n"
        "grid = ExperimentGrid('g')\n"
        f"sweep = grid.run(mine, data_dir={str(tmp_path)!r})\nprint(sweep.rows[0].reason)\n"
    )
    done = subprocess.run([sys.executable, script], env=clean(), capture_output=True, text=True)
    assert "__name__ == '__main__'" in done.stdout + done.stderr


CONTENT = {"algo": "ppo", "env": "CartPole-v1", "seed": 0, "name": "x"}


def test_a_run_is_found_by_its_whole_configuration(tmp_path):
    complete = tasks.complete_config(CONTENT)
    assert complete["spec"]["gamma"] == 0.99
    assert "spaces" not in complete

    def put(where, status, step=0, **changes):
        run = tmp_path / "x" / where
        run.mkdir(parents=True)
        (run / "config.json").write_text(json.dumps(complete | {"spaces": "any"} | changes))
        places.write_status(run, {"status": status, "step": step})
        return run

    assert tasks.find_run(complete, tmp_path, "x") is None
    put("x_s0", "done", 9, spec=complete["spec"] | {"gamma": 0.9})
    put("x_s1", "done", 9, seed=1)
    assert tasks.find_run(complete, tmp_path, "x") is None
    put("x_s0-2", "failed", 5)
    assert tasks.find_run(complete, tmp_path, "x").status == "failed"
    put("x_s0-3", "stopped", 3)
    assert tasks.find_run(complete, tmp_path, "x").path.name == "x_s0-3"
    put("x_s0-4", "running", 4)  # by nobody: killed
    assert tasks.find_run(complete, tmp_path, "x").path.name == "x_s0-4"
    done = put("x_s0-5", "done", 4)
    assert tasks.find_run(complete, tmp_path, "x").path == done
