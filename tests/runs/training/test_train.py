"""A run in a folder: what it leaves, and that nothing that happens to it changes its end."""

import contextlib
import csv
import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from purerl.errors import ConfigError
from purerl.runs.record import checkpoint, files, folder, manifest, safe_files, status
from purerl.runs.record import progress as columns
from purerl.runs.training import train
from purerl.runs.training.progress_bar import Screen
from tests.mpi.launch import ROOT, clean, ranks
from tests.runs.script import settings

SCRIPT = (sys.executable, "-m", "tests.runs.script")


def start(*words):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([*SCRIPT, *words], env=clean(), cwd=ROOT, **pipes)


def the_run(data_dir):
    (run,) = [path.parent for path in Path(data_dir).glob("*/*/config.json")]
    return run


def table(path, delimiter=","):
    return list(csv.DictReader(path.read_text().splitlines(), delimiter=delimiter))


def final(run):
    """All that a finished run leaves, but for times."""
    last = manifest.list_steps(run)[-1]
    loaded = checkpoint.load(run, {}, 0)
    assert loaded.step == last
    frozen = loaded.frozen
    arrays = frozen.learner | frozen.host | (frozen.rows or {})
    found = {name: (x.dtype.str, x.shape, x.tobytes()) for name, x in arrays.items()}
    rows = table(run / "progress.txt", "\t")
    found["progress"] = [{k: v for k, v in row.items() if k != "Time"} for row in rows]
    found["episodes"] = (run / "episodes.csv").read_text()
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    found["metrics"] = str([{k: v for k, v in m.items() if k != "Time"} for m in metrics])
    return found | frozen.facts


def kept(run):
    """Which checkpoints are there, and which is the best: as in a run that nobody killed."""
    return manifest.list_steps(run), manifest.read_best(run)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    ends = {}

    def of(algo):
        if algo not in ends:
            data_dir = tmp_path_factory.mktemp(algo)
            out, _ = (process := start("train", algo, str(data_dir))).communicate()
            assert process.returncode == 0, out
            ends[algo] = the_run(data_dir), final(the_run(data_dir)), out
        return ends[algo]

    return of


def test_a_run_leaves_what_it_promises(undisturbed):
    run, _, out = undisturbed("td3")
    assert run.name == "pendulum-v1-td3_s5"
    assert run.parent.name == "pendulum-v1-td3"
    names = {p.name for p in run.iterdir()} - {".lock"}
    assert names == {
        "config.json", "manifest.json", "progress.txt", "metrics.jsonl", "episodes.csv",
        "stdout.log", "checkpoints", "replay",
    }  # fmt: skip
    state = status.read_status(run)
    assert (state["status"], state["step"]) == ("done", 12_000)
    assert (state["seed"], state["ranks"]) == (5, 1)
    assert state["versions"]["jax"]
    rows = table(run / "progress.txt", "\t")
    assert [row["TotalEnvInteracts"] for row in rows] == [str(2_000 * i) for i in range(1, 7)]
    for name in ("AverageEpRet", "StdEpRet", "MaxEpRet", "MinEpRet", "EpLen", "AverageTestEpRet"):
        assert name in rows[0]
    assert {"LossQ", "LossPi", "AverageQ1Vals", "Epoch", "Time"} <= set(rows[0])
    episodes = table(run / "episodes.csv")
    assert sum(int(e["length"]) for e in episodes if e["kind"] == "train") == 12_000
    assert sum(e["kind"] == "test" for e in episodes) == 6
    assert len(manifest.list_steps(run)) in (2, 3)  # the newest two, and the best
    assert "everything is in" in out
    assert json.loads((run / "config.json").read_text())["spec"]["hidden"] == [16, 16]


@pytest.mark.parametrize("algo", ["td3", "ppo"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_stop_it_saves_says_how_to_go_on_and_ends_the_same(
    tmp_path, undisturbed, algo, number
):
    for attempt in range(5):
        process = start("train", algo, str(data := tmp_path / str(attempt)))
        for line in process.stdout:
            if line.split()[:1] in (["2,000"], ["1,000"]):
                break
        process.send_signal(number)
        began = time.monotonic()
        out, _ = process.communicate()
        assert time.monotonic() - began < 10
        if process.returncode:  # else it was done before the signal came
            break
    assert process.returncode == train.STOPPED, out
    run = the_run(data)
    assert f"Go on: purerl resume {run}" in out
    state = status.read_status(run)
    assert state["status"] == "stopped"
    assert manifest.list_steps(run)[-1] == state["step"] < 12_000
    out, _ = (process := start("resume", str(run))).communicate()
    assert process.returncode == 0, out
    assert f"goes on at {state['step']:,}" in out
    assert final(run) == undisturbed(algo)[1]


@pytest.mark.parametrize(("algo", "seed"), [("sac", 0), ("dqn", 1), ("ppo", 2)])
def test_killed_at_any_moment_and_gone_on_with_it_ends_the_same(tmp_path, undisturbed, algo, seed):
    rng, words, killed, data = random.Random(seed), (), 0, tmp_path
    for number in range(12):
        if not words:
            words = ("train", algo, str(data := tmp_path / str(number)))
        process = start(*words)
        said = []
        for line in process.stdout:
            said.append(line)
            if "steps/s" in line:  # it has begun to report, and saves several times a second
                break
        if killed < 3:
            time.sleep(rng.random() * 0.5)
            process.send_signal(signal.SIGKILL)
        out, _ = process.communicate()
        killed += process.returncode == -9
        if status.read_status(the_run(data))["status"] == "done":  # perhaps killed just after
            assert final(the_run(data)) == undisturbed(algo)[1]
            assert kept(the_run(data)) == kept(undisturbed(algo)[0])
            words = ()
            if killed:
                break
        else:
            words = ("resume", str(the_run(data)))
    assert killed
    assert status.read_status(the_run(data))["status"] == "done", "".join(said) + out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_two_ranks_that_are_asked_to_stop_save_and_end_with_the_same_code(tmp_path, number):
    words = [sys.executable, "-m", "purerl", "train", "vpg", "--env", "CartPole-v1", "--num-cpu"]
    words += ["2", "--steps", "4000000", "--steps-per-epoch", "1000", "--hidden", "8"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    words += ["--data-dir", str(tmp_path)]
    process = subprocess.Popen(words, env=clean(), cwd=ROOT, start_new_session=True, **pipes)
    for line in process.stdout:
        if "steps/s" in line:
            break
    for _ in range(2):  # as Ctrl-C at a terminal and a shell's besides; as a session that is closed
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        time.sleep(0.05)
    out, err = process.communicate(timeout=60)
    assert process.returncode == train.STOPPED, err
    assert f"Go on: purerl resume {the_run(tmp_path)} --num-cpu 2\n" in out
    assert manifest.list_steps(the_run(tmp_path))


def test_a_second_start_takes_another_folder_and_an_unfinished_run_is_not_passed_over(
    tmp_path, undisturbed
):
    config = settings("td3")
    first = folder.create_folder(config, str(tmp_path))
    folder.update_status(first, status="done")
    second = folder.create_folder(config, str(tmp_path))
    assert second.name == f"{first.name}-2"
    folder.update_status(second, status="stopped", step=40_000)
    with pytest.raises(ConfigError, match=r"not finished \(step 40,000\).*purerl resume.*--name"):
        folder.create_folder(config, str(tmp_path))
    with (
        safe_files.lock_folder(second),
        pytest.raises(ConfigError, match=r"is running, in .* --name other"),
    ):
        folder.create_folder(config, str(tmp_path))
    dated = folder.create_folder(config, str(tmp_path), datestamp=True)
    assert dated.parent.name.endswith(f"_{config.name}")
    with pytest.raises(ConfigError, match=r"is complete: 12,000 of 12,000 steps.*--steps"):
        train.resume(undisturbed("td3")[0])


def test_logs_are_cut_back_to_where_the_checkpoint_was_made(tmp_path):
    record = {"epoch": 1, "steps": 10, "updates": 1, "ep_returns": [1.0, 2.0], "ep_lengths": [5, 5]}
    logs = columns.Logs(tmp_path, {})
    logs.add(record, 100)
    logs.write()
    notes = logs.notes()
    for _ in range(2):
        logs.add(record | {"epoch": 2}, 100)
    logs.write()
    again = columns.Logs(tmp_path, notes)
    again.add(record | {"epoch": 9}, 100)
    again.write()
    assert [row["Epoch"] for row in table(tmp_path / "progress.txt", "\t")] == ["1", "9"]
    assert [row["epoch"] for row in table(tmp_path / "episodes.csv")] == ["1", "1", "9", "9"]
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize("name", ["progress.txt", "metrics.jsonl", "episodes.csv"])
@pytest.mark.parametrize("left", [0, 3])
def test_rows_that_somebody_took_away_are_not_counted(tmp_path, name, left):
    record = {"steps": 10, "updates": 1, "ep_returns": [1.0], "ep_lengths": [5]}
    logs = columns.Logs(tmp_path, {})
    for epoch in range(1, 6):
        logs.add(record | {"epoch": epoch}, 100)
    logs.write()
    notes, path = logs.notes(), tmp_path / name
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:left]))
    logs = columns.Logs(tmp_path, notes)
    logs.add(record | {"epoch": 6}, 100)
    logs.write()
    notes = logs.notes()
    logs.add(record | {"epoch": 7}, 100)
    logs.write()
    again = columns.Logs(tmp_path, notes)  # as if epoch 7 was lost
    again.add(record | {"epoch": 7}, 100)
    again.write()
    full = [1, 2, 3, 4, 5, 6, 7]
    few = [*range(1, left + (name == "metrics.jsonl")), 6, 7]
    rows = [int(row["Epoch"]) for row in table(tmp_path / "progress.txt", "\t")]
    ended = [int(row["epoch"]) for row in table(tmp_path / "episodes.csv")]
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert rows == (few if name == "progress.txt" else full)
    assert ended == (few if name == "episodes.csv" else full)
    assert [json.loads(x)["Epoch"] for x in lines] == (few if name == "metrics.jsonl" else full)


def test_a_score_that_is_not_there_yet_is_never_the_best(tmp_path, monkeypatch):
    scores = iter([float("nan"), -2.0, -3.0])
    monkeypatch.setattr(train, "_score", lambda record, before: next(scores, -4.0))
    config = settings("vpg")
    schedule = dataclasses.replace(config.schedule, steps=2_000)
    config = dataclasses.replace(config, schedule=schedule)
    outcome = train.train(config, data_dir=str(tmp_path), screen=Screen(quiet=True))
    assert manifest.read_best(outcome.run) == (1_000, -2.0)


def test_a_run_killed_before_its_first_checkpoint_begins_again_in_its_folder(tmp_path, undisturbed):
    config = settings("td3")
    run = folder.create_folder(config, str(tmp_path))
    folder.update_status(run, status="running", step=0)
    columns.Logs(run, {}).logger.log_tabular("Torn", 1)
    outcome = train.resume(run, screen=Screen(quiet=True))
    assert outcome.run == run
    assert final(run) == undisturbed("td3")[1]


def test_two_processes_never_share_a_folder(tmp_path):
    run = folder.create_folder(settings("td3"), str(tmp_path))
    with safe_files.lock_folder(run):
        out, _ = (process := start("resume", str(run))).communicate()
    assert process.returncode == 1
    assert "is in use by process" in out


def test_a_failed_run_says_why_in_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(train.loop, "advance", lambda carry: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train.train(settings("ppo"), data_dir=str(tmp_path), screen=Screen(quiet=True))
    run = the_run(tmp_path)
    state = status.read_status(run)
    assert (
        (run / "stdout.log")
        .read_text()
        .endswith(
            f"purerl: division by zero\n  no checkpoint yet. Begin again: purerl resume {run}\n"
        )
    )
    assert (state["status"], state["reason"]) == ("failed", "ZeroDivisionError: division by zero")


def test_on_two_ranks_one_writes_and_both_go_on(tmp_path):
    words = ("-m", "tests.runs.script")
    done = ranks(2, *words, "train", "ppo", str(tmp_path))
    assert done.code == 0, done.err
    run = the_run(tmp_path)
    assert done.out.count("everything is in") == 1
    whole = [checkpoint.load(run, {"ranks": 2}, rank).frozen for rank in range(2)]
    assert len(table(run / "progress.txt", "\t")) == 24
    path = run / "checkpoints" / f"{manifest.list_steps(run)[-1]:012d}"
    files.remove(path)
    done = ranks(2, *words, "resume", str(run))
    assert done.code == 0, done.err
    again = [checkpoint.load(run, {"ranks": 2}, rank).frozen for rank in range(2)]
    for a, b in zip(whole, again, strict=True):
        assert {k: v.tobytes() for k, v in a.learner.items()} == {
            k: v.tobytes() for k, v in b.learner.items()
        }
        assert {k: v.tobytes() for k, v in a.host.items()} == {
            k: v.tobytes() for k, v in b.host.items()
        }
    out, _ = (process := start("resume", str(run))).communicate()
    assert process.returncode == 1
    assert f"ranks was 2, now it is 1. Type: purerl resume {run} --num-cpu 2" in out
    assert status.format_command("resume", run) == f"purerl resume {run} --num-cpu 2"
