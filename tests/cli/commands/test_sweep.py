"""`purerl sweep`: grids on the command line, and sweeps that run again."""

import json
import os
import signal
import subprocess
import sys

import pytest

from purerl.cli import main as program
from purerl.cli.commands import sweep
from purerl.runs.record import status
from tests.mpi.launch import ROOT, clean
from tests.runs.sweeps.test_jobs import wait

SMALL = ("--steps", "400", "--steps-per-epoch", "200", "--hidden", "8", "--preset", "none")


def test_a_sweep_combines_grids_flags_and_a_preset(start_nothing, tmp_path):
    (tmp_path / "preset.json").write_text('{"spec": {"lam": 0.9, "gamma": 0.5}, "steps": 8000}')
    words = "ppo --env CartPole-v1 --grid hidden[h]=[64,64],[32] pi_lr=1e-4,3e-4 --seed 0 1"
    words += f" --grid gamma=0.98 --name g --activation relu --config {tmp_path / 'preset.json'}"
    assert sweep.main(words.split()) == 0
    start_nothing.pop("where")
    assert set(start_nothing) == {
        (f"g_h{h}_pi{lr}", s)
        for h in ("64-64", "32")
        for lr in ("0-0001", "0-0003")
        for s in (0, 1)
    }
    made = start_nothing["g_h64-64_pi0-0003", 1]
    assert (made.spec.hidden, made.spec.pi_lr, made.spec.activation) == ((64, 64), 3e-4, "relu")
    assert (made.spec.lam, made.spec.gamma, made.schedule.steps) == (0.9, 0.98, 8000)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "usage: purerl sweep"),
        ("pppo", "got 'pppo'. Did you mean ppo?"),
        ("ppo --grid gamma=0.9", "--env is missing"),
        ("ppo --env CartPole-v1 --grid gamma", "expected KEY=VALUE, for example gamma=0.98"),
        ("ppo --env CartPole-v1 --grid gama=1", "Did you mean 'gamma'?"),
        ("ppo --env CartPole-v1 --grid gamma=1,", "--grid gamma=1,: expected a number, got ''"),
        ("ppo --env CartPole-v1 --grid seed=1,2", "use the flag --seed instead"),
        ("ppo --env CartPole-v1 --gamma 1 --grid gamma=1,2", "gamma is given twice"),
        ("ppo --env CartPole-v1 --grid spec.gamma=1 gamma=0", "gamma is given twice"),
        ("ppo --env CartPole-v1 --grid gamma=2,3", "gamma must be a number"),
        ("ppo --env CartPole-v1 --gird gamma=2,3", "unknown flag --gird. Did you mean --grid?"),
        (
            "ppo --env A,B --grid gamma=1",
            "such as CartPole-v1, or module:Id, got 'A,B'. For several",
        ),
        ("ppo --env CartPole-v1 --jobs x --gamma 2", "gamma must be a number in"),
        ("ppo --env CartPole-v1 --jobs 0 --grid gamma=1", "jobs must be an integer of at least 1"),
        ("ppo --env CartPole-v9 --grid gamma=0.9,1", "doesn't exist. It provides versioned"),
    ],
)
def test_mistakes_in_a_sweep_have_exit_code_2(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        code = program.main(["sweep", *words.split()])
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    said = capsys.readouterr()
    assert message in said.err + said.out
    assert "(one per seed)" not in said.out
    assert not list(tmp_path.glob("*/*/*"))


def start_sweep(tmp_path, *words):
    command = [sys.executable, "-m", "purerl", "sweep", "ppo", "--env", "CartPole-v1", *words]
    command += ["--data-dir", str(tmp_path), "--name", "g", "--jobs", "2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=clean(), cwd=ROOT, start_new_session=True, **pipes)


def read_statuses(out):
    rows = [line.split() for line in out.splitlines()]
    return {row[0]: row[2] for row in rows if row[0].startswith("g_") and not row[0].endswith(":")}


def test_a_failed_run_does_not_stop_a_sweep_and_done_runs_are_not_repeated(tmp_path):
    process = start_sweep(tmp_path, *SMALL, "--grid", "gamma=0.9,2")
    out, err = process.communicate(timeout=600)
    assert process.returncode == 1, err
    assert read_statuses(out) == {"g_gam0-9": "done", "g_gam2-0": "failed"}
    assert "To complete the sweep: python -m purerl sweep ppo" in out
    assert [one.path.name for one in status.list_runs(tmp_path)] == ["g_gam0-9_s0"]
    assert "400" in (tmp_path / "g" / "logs" / "g_gam0-9_s0.log").read_text()
    saved = tmp_path / "g" / "g_gam0-9" / "g_gam0-9_s0" / "config.json"
    assert json.loads(saved.read_text())["spec"]["gamma"] == 0.9
    process = start_sweep(tmp_path, *SMALL, "--grid", "gamma=0.9,0.8")
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert out.count("was done before") == 2
    runs = {one.path.name: one.status for one in status.list_runs(tmp_path)}
    assert runs == {"g_gam0-9_s0": "done", "g_gam0-8_s0": "done"}


@pytest.mark.complete
def test_a_sweep_continues_stopped_and_killed_runs(tmp_path):
    long = "--steps 100000000 --steps-per-epoch 1000 --hidden 4 --save-freq 1000 "
    long = (long + "--train-pi-iters 2 --train-v-iters 2 --grid gamma=0.9,0.8").split()
    process = start_sweep(tmp_path, *long)
    logs = [tmp_path / "g" / "logs" / f"g_gam0-{digit}_s0.log" for digit in "98"]
    wait(lambda: all(log.exists() and log.read_text().count("steps/s") > 1 for log in logs))
    lock = (tmp_path / "g" / "g_gam0-8" / "g_gam0-8_s0" / ".lock").read_text()
    os.kill(int(lock.split()[1]), signal.SIGKILL)
    wait(lambda: any(one["status"] == "failed" for one in read_variants(tmp_path)))
    os.killpg(process.pid, signal.SIGINT)  # like a terminal
    out, err = process.communicate(timeout=600)
    assert process.returncode == 75, err + out
    assert "Traceback" not in err
    states = read_statuses(out)
    assert (states["g_gam0-9"], states["g_gam0-8"]) == ("stopped", "failed")
    assert "ended by SIGKILL" in out
    process = start_sweep(tmp_path, *long)
    wait(lambda: all("continues at step" in log.read_text() for log in logs))
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 75, err + out
    assert read_statuses(out) == dict.fromkeys(states, "stopped")
    assert out.count("continues") >= 2
    assert sorted(one.path.name for one in status.list_runs(tmp_path)) == [
        "g_gam0-8_s0", "g_gam0-9_s0",
    ]  # fmt: skip


def read_variants(tmp_path):
    path = tmp_path / "g" / "sweep.json"
    return json.loads(path.read_text())["variants"] if path.exists() else []


def test_a_dry_run_of_a_sweep_shows_the_runs_and_creates_nothing(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = "ppo --env CartPole-v1 --grid gamma=0.9,2 --seed 0 1 --dry-run --name g"
    assert sweep.main(words.split()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("g_gam0-9  seed") for line in lines) == 2
    assert any("g_gam2-0  seed 1  gamma must be a number" in line for line in lines)
    assert not list(tmp_path.iterdir())
