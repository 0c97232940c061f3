"""Tasks of a sweep: arguments of their processes, and their runs on disk."""

import json
import os

import pytest

from purerl.errors import ExperimentFailed
from purerl.runs.record import status as places
from purerl.runs.sweeps import grid as grids
from purerl.runs.sweeps import jobs, tasks
from purerl.runs.sweeps.grid import call_experiment
from tests.runs.sweeps import thunks


def test_unusual_arguments_reach_the_process_unchanged(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(tasks.subprocess, "Popen", lambda words, **rest: started.append(words))
    env, data = "a:b-v0", tmp_path / "-o; rm -rf $HOME"
    data.mkdir()
    variant = ("n", 3, {"env": env})
    task = tasks.make_algorithm_task("ppo", variant, data, jobs.Plan(num_cpu=2))
    (tmp_path / "log").touch()
    task.start(tmp_path / "log", None)
    file = data / "configs" / "n_s3.json"
    assert started[0][1:] == [
        "-m", "purerl", "train", "ppo", f"--config={file}", f"--env={env}", "--seed=3",
        f"--data-dir={data}", "--num-cpu=2", "--no-datestamp",
    ]  # fmt: skip
    assert json.loads(file.read_text())["env"] == env


def test_a_function_receives_its_folder_and_spinning_ups_arguments(tmp_path):
    row = call_experiment(
        "mine", thunks.report_arguments, seed=3, data_dir=str(tmp_path), env_name="CartPole-v1",
        ac_kwargs={"hidden_sizes": (8,)},
    )  # fmt: skip
    assert (row.status, row.seed, row.score) == ("done", 3, None)
    said = (tmp_path / "mine" / "mine_s3" / "arguments.txt").read_text()
    assert said == f"CartPole-v1 {{'hidden_sizes': (8,)}} 3 mine {1}"
    assert not (tmp_path / "mine" / "sweep.json").exists()
    assert "OMP_NUM_THREADS" not in os.environ
    with pytest.raises(ExperimentFailed, match=r"bad, seed 0: failed, ArithmeticError: boom"):
        call_experiment("bad", thunks.fate, data_dir=str(tmp_path), kind="raise")


def test_a_function_that_saves_its_configuration_is_done_and_found_again(tmp_path):
    row = call_experiment("mine", thunks.write_log, seed=2, data_dir=str(tmp_path), lr=0.5)
    assert (row.status, row.exit, row.score) == ("done", 0, 0.5)
    run = tmp_path / "mine" / "mine_s2"
    saved = json.loads((run / "config.json").read_text())
    assert saved == {"lr": 0.5, "seed": 2, "env": None, "exp_name": "mine"}
    again = call_experiment("mine", thunks.write_log, seed=2, data_dir=str(tmp_path), lr=0.5)
    assert (again.reason, again.score, again.run) == ("was done before", 0.5, str(run))
    (standing,) = places.list_runs(tmp_path)
    assert (standing.algo, standing.env, standing.seed) == (
        "tests.runs.sweeps.thunks.write_log",
        "-",
        2,
    )
    assert list(tmp_path.rglob("config.json")) == [run / "config.json"]


def test_an_argument_that_cannot_be_pickled_fails_only_its_own_run(tmp_path):
    named = [("bench_x", 0, {"kind": lambda: 0}), ("bench_y", 0, {"kind": "good"})]
    plan = jobs.Plan(data_dir=str(tmp_path))
    first, second = grids.run_variants(named, "bench", thunks.fate, plan, {}).rows
    assert first.status == "failed"
    assert "cannot be sent to a process" in first.reason
    assert second.status == "done"


CONTENT = {"algo": "ppo", "env": "CartPole-v1", "seed": 0, "name": "x"}


def test_a_run_is_found_by_its_whole_configuration(tmp_path):
    complete = tasks.complete_config(CONTENT, "ppo", 1)
    assert complete["spec"]["gamma"] == 0.99

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
    put("x_s0-4", "running", 4)  # no process runs it, so it was killed
    assert tasks.find_run(complete, tmp_path, "x").path.name == "x_s0-4"
    done = put("x_s0-5", "done", 2)  # fewer steps, because --steps was raised later
    assert tasks.find_run(complete, tmp_path, "x").path == done
    images = put("x_s0-6", "done", 9, spec=complete["spec"] | {"torso": "nature_cnn"})
    assert tasks.find_run(complete, tmp_path, "x").path == images  # the run chose the torso
