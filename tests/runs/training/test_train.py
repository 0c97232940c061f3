"""Training in a folder: its files, and the same end after stops, kills and resumes."""

import contextlib
import dataclasses
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import gymnasium
import jax
import pytest

from purerl import errors
from purerl.errors import ConfigError
from purerl.runs.record import (
    checkpoint,
    checkpoint_folders,
    files,
    folder,
    progress,
    safe_files,
    status,
)
from purerl.runs.settings import config as configs
from purerl.runs.training import reporting, requirements, saving, train
from purerl.runs.training.progress_bar import Screen
from tests.cli.commands.call import call
from tests.mpi.launch import ROOT, clean, ranks
from tests.runs.script import final, kept, quietly, settings, start, table, the_run, tiny


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    ends = {}

    def of(algo):
        if algo not in ends:
            data_dir = tmp_path_factory.mktemp(algo)
            screen = Screen(io.StringIO())
            run = train.train(settings(algo), data_dir=str(data_dir), screen=screen).run
            ends[algo] = run, final(run), screen.stream.getvalue()
        return ends[algo]

    return of


def test_a_run_writes_all_its_files(undisturbed):
    run, _, out = undisturbed("td3")
    assert run.name == "pendulum-v1-td3_s5"
    assert run.parent.name == "pendulum-v1-td3"
    names = {p.name for p in run.iterdir()} - {".lock"}
    assert names == {
        "config.json", "status.json", "progress.txt", "metrics.jsonl", "episodes.csv",
        "stdout.log", "checkpoints", "replay",
    }  # fmt: skip
    state = status.read_status(run)
    assert (state["status"], state["step"]) == ("done", 6_000)
    assert (state["seed"], state["ranks"]) == (5, 1)
    assert state["versions"]["jax"]
    rows = table(run / "progress.txt", "\t")
    assert [row["TotalEnvInteracts"] for row in rows] == [str(1_000 * i) for i in range(1, 7)]
    for name in ("AverageEpRet", "StdEpRet", "MaxEpRet", "MinEpRet", "EpLen", "AverageTestEpRet"):
        assert name in rows[0]
    assert {"LossQ", "LossPi", "AverageQ1Vals", "Epoch", "Time"} <= set(rows[0])
    episodes = table(run / "episodes.csv")
    assert sum(int(e["length"]) for e in episodes if e["kind"] == "train") == 6_000
    assert sum(e["kind"] == "test" for e in episodes) == 6
    assert len(checkpoint_folders.list_steps(run)) in (2, 3)  # the newest two, and the best
    assert "everything is in" in out
    assert json.loads((run / "config.json").read_text())["spec"]["hidden"] == [16, 16]


@pytest.mark.parametrize(
    ("algo", "number"),
    [
        ("td3", signal.SIGTERM),
        pytest.param("td3", signal.SIGINT, marks=pytest.mark.reliability),
        pytest.param("ppo", signal.SIGTERM, marks=pytest.mark.reliability),
        pytest.param("ppo", signal.SIGINT, marks=pytest.mark.reliability),
    ],
)
def test_a_stopped_run_saves_and_resumes_to_the_same_end(tmp_path, undisturbed, algo, number):
    for attempt in range(5):
        process = start("train", algo, str(data := tmp_path / str(attempt)))
        for line in process.stdout:
            if line.split()[:1] == ["1,000"]:
                break
        process.send_signal(number)
        out, _ = process.communicate(timeout=600)
        if process.returncode:  # else it was done before the signal arrived
            break
    assert process.returncode == errors.STOPPED, out
    run = the_run(data)
    assert f"Continue: purerl resume {run}" in out
    state = status.read_status(run)
    assert state["status"] == "stopped"
    assert checkpoint_folders.list_steps(run)[-1] == state["step"] < 6_000
    screen = Screen(io.StringIO())
    assert train.resume(run, screen=screen).code == 0
    assert f"continues at step {state['step']:,}" in screen.stream.getvalue()
    assert final(run) == undisturbed(algo)[1]


@pytest.mark.parametrize(
    ("algo", "seed", "kills"),
    [
        pytest.param("td3", 0, 1, marks=pytest.mark.reliability),
        pytest.param("sac", 0, 3, marks=pytest.mark.reliability),
        pytest.param("dqn", 1, 3, marks=pytest.mark.reliability),
        pytest.param("ppo", 2, 3, marks=pytest.mark.reliability),
    ],
)
def test_a_killed_run_resumes_to_the_same_end(tmp_path, undisturbed, algo, seed, kills):
    rng, words, killed, data = random.Random(seed), (), 0, tmp_path
    for number in range(12):
        if not words:
            words = ("train", algo, str(data := tmp_path / str(number)))
        process = start(*words)
        said = []
        for line in process.stdout:
            said.append(line)
            if "steps/s" in line:  # it reports, and saves several times a second
                break
        if killed < kills:
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


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, marks=pytest.mark.reliability),
        pytest.param(signal.SIGHUP, marks=pytest.mark.mpi),
    ],
)
def test_two_stopped_ranks_save_and_end_with_the_same_code(tmp_path, number):
    words = [sys.executable, "-m", "purerl", "train", "vpg", "--env", "CartPole-v1", "--num-cpu"]
    words += ["2", "--steps", "4000000", "--steps-per-epoch", "1000", "--hidden", "8"]
    words += ["--train-v-iters", "2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    words += ["--data-dir", str(tmp_path)]
    process = subprocess.Popen(words, env=clean(), cwd=ROOT, start_new_session=True, **pipes)
    for line in process.stdout:
        if "steps/s" in line:
            break
    for _ in range(2):  # like Ctrl-C at a terminal plus a shell's own, or like a closed session
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        time.sleep(0.05)
    out, err = process.communicate(timeout=600)
    assert process.returncode == errors.STOPPED, err
    assert f"Continue: purerl resume {the_run(tmp_path)} --num-cpu 2\n" in out
    assert checkpoint_folders.list_steps(the_run(tmp_path))


def test_a_run_killed_before_its_first_checkpoint_restarts_in_its_folder(tmp_path, undisturbed):
    config = settings("td3")
    run = folder.create_folder(configs.to_json(config), str(tmp_path))
    folder.update_status(run, status="running", step=0)
    progress.Logs(run, {}).logger.log_tabular("Torn", 1)
    outcome = train.resume(run, screen=Screen(quiet=True))
    assert outcome.run == run
    assert final(run) == undisturbed("td3")[1]


def test_other_settings_of_jax_are_named_when_a_run_continues(tmp_path):
    run = quietly(tiny(), tmp_path).run
    known = status.read_status(run)["settings"]
    folder.update_status(run, settings=known | {"threads": "64"})
    screen = Screen(io.StringIO())
    train.resume(run, steps=300, screen=screen)
    line = f"warning: threads was 64 and is {known['threads']}. Results may differ."
    assert [text for text in screen.stream.getvalue().split("\n") if "warning" in text] == [line]
    assert status.read_status(run)["settings"]["threads"] == "64"  # as at the start of the run


def test_a_checkpoint_that_jax_settings_make_unusable_is_refused_with_their_names(tmp_path):
    short = settings("ppo", steps=100, steps_per_epoch=100, num_test_episodes=0)
    run = quietly(short, tmp_path).run
    cause = "float32 of shape .* Possible causes: jax_enable_x64 was False and is True"
    with jax.enable_x64(True), pytest.raises(errors.SnapshotMismatch, match=cause):
        train.resume(run, steps=300, screen=Screen(quiet=True))


def test_two_processes_never_share_a_folder(tmp_path):
    run = folder.create_folder(configs.to_json(settings("td3")), str(tmp_path))
    with (
        safe_files.lock_folder(run),
        pytest.raises(errors.StorageError, match="is in use by process"),
    ):
        train.resume(run)


@pytest.mark.mpi
def test_on_two_ranks_one_writes_and_both_resume(tmp_path):
    words = ("-m", "tests.runs.script")
    done = ranks(2, *words, "train", "ppo", str(tmp_path), "2000")
    assert done.code == 0, done.err
    run = the_run(tmp_path)
    assert done.out.count("everything is in") == 1
    whole = [checkpoint.load(run, {"ranks": 2}, rank).frozen for rank in range(2)]
    assert len(table(run / "progress.txt", "\t")) == 4
    path = run / "checkpoints" / f"{checkpoint_folders.list_steps(run)[-1]:012d}"
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
    with pytest.raises(errors.NoCheckpoint) as caught:
        train.resume(run)
    said = str(caught.value)
    assert f"ranks was 2, now it is 1. Type: purerl resume {run} --num-cpu 2" in said
    assert status.format_command("resume", run) == f"purerl resume {run} --num-cpu 2"


def test_an_impossible_total_of_steps_is_a_config_error(tmp_path):
    run = quietly(tiny(), tmp_path).run
    for steps in (0, -5, 8_500.5):
        with pytest.raises(ConfigError, match="steps"):
            train.resume(run, steps=steps)
    with pytest.raises(ConfigError, match="has done 200 steps, more than the 100 of .*--steps"):
        train.resume(run, steps=100)
    with pytest.raises(ConfigError, match="is complete: 200 of 200 steps.*--steps"):
        train.resume(run)


def test_counts_are_rounded_up_with_a_line_and_saved_as_they_are_used(tmp_path):
    given = tiny()
    given = dataclasses.replace(
        given, schedule=dataclasses.replace(given.schedule, steps=150, num_envs=3)
    )
    screen = Screen(io.StringIO())
    outcome = train.train(given, data_dir=str(tmp_path), screen=screen)
    text = "rounded up to what fits: steps from 150 to 204, steps_per_epoch from 100 to 102\n"
    assert text in screen.stream.getvalue()
    assert text in (outcome.run / "stdout.log").read_text()
    saved = configs.from_json(json.loads((outcome.run / "config.json").read_text())).schedule
    assert saved == outcome.config.schedule == given.schedule.settle()
    assert (saved.steps, saved.rollout_steps, saved.steps_per_epoch) == (204, 102, 102)
    screen = Screen(io.StringIO())
    assert train.resume(outcome.run, steps=300, screen=screen).step == 306
    assert "rounded up to what fits: steps from 300 to 306\n" in screen.stream.getvalue()
    screen = Screen(io.StringIO())
    assert train.resume(outcome.run, steps=408, screen=screen).step == 408
    assert "rounded up" not in screen.stream.getvalue()


def test_returns_of_random_episodes_are_in_parentheses_and_no_score(tmp_path):
    schedule = {"steps": 900, "steps_per_epoch": 300, "start_steps": 500, "num_test_episodes": 0}
    screen = Screen(io.StringIO())
    outcome = train.train(settings("td3", **schedule), data_dir=str(tmp_path), screen=screen)
    out = screen.stream.getvalue()
    assert "; (return) is of the first 500 steps, which are random\n" in out
    shown = [line.split()[:2] for line in out.splitlines() if re.match(r" +\d[\d,]* ", line)]
    rows = table(outcome.run / "progress.txt", "\t")
    means = [f"{float(row['AverageEpRet']):.1f}" for row in rows]
    assert shown == [["300", f"({means[0]})"], ["600", f"({means[1]})"], ["900", means[2]]]
    assert "RandomSteps" not in rows[0]
    assert checkpoint_folders.read_best(outcome.run) == (900, outcome.score)


def test_json_files_contain_no_nan_or_infinity(tmp_path):
    """The run ends before its first episode, so there is no return."""
    config = tiny()
    config = dataclasses.replace(
        config, schedule=dataclasses.replace(config.schedule, steps=4, steps_per_epoch=4)
    )
    outcome = quietly(config, tmp_path)
    assert outcome.score != outcome.score

    def refuse(word):
        raise AssertionError(word)

    run = outcome.run
    for path in (*run.rglob("*.json"), run / "metrics.jsonl"):
        for line in path.read_text().split("\n") if path.suffix == ".jsonl" else [path.read_text()]:
            assert not line or json.loads(line, parse_constant=refuse)
    assert json.loads((run / "metrics.jsonl").read_text())["AverageEpRet"] is None
    assert "no episode has ended; everything is in" in (run / "stdout.log").read_text()
    assert [one.score for one in status.list_runs(tmp_path)] == [None]
    # Older versions wrote NaN.
    status.write_status(run, status.read_status(run) | {"score": float("nan")})
    assert [one.score for one in status.list_runs(tmp_path)] == [None]
    again = train.resume(run, steps=8, screen=Screen(quiet=True))
    assert again.score != again.score


def test_a_raised_total_of_steps_is_remembered(tmp_path):
    outcome = train.train(tiny(), data_dir=str(tmp_path), screen=Screen(quiet=True))
    stops = iter([0, 1])
    original = reporting.Display.report_advance

    def report(self, carry, compiled):
        original(self, carry, compiled)
        if next(stops):
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reporting.Display, "report_advance", report)
        with pytest.raises(KeyboardInterrupt):
            train.resume(outcome.run, steps=500, screen=Screen(quiet=True))
    again = train.resume(outcome.run, screen=Screen(quiet=True))
    assert again.step == 500


class StopInTest(gymnasium.Wrapper):
    """Asks this process to stop at the 300th step of all test episodes together."""

    steps = 0

    def step(self, action):
        type(self).steps += 1
        if type(self).steps == 300:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().step(action)


@pytest.mark.parametrize("algo", ["td3", "ppo"])
def test_a_stop_request_ends_an_evaluation_which_is_repeated_after_resuming(algo, tmp_path):
    small = {"steps": 300, "steps_per_epoch": 100, "num_test_episodes": 2, "max_ep_len": 100}
    if algo == "td3":
        small |= {"start_steps": 50, "update_after": 50, "update_every": 50, "batch_size": 8}
    content = {"algo": algo, "env": "Pendulum-v1", "seed": 3, "spec": {"hidden": [8]}}
    config = configs.from_json(content | {"schedule": small, "options": {"save_freq": None}})
    quiet = {"screen": Screen(quiet=True), "data_dir": str(tmp_path)}
    whole = train.train(config, **quiet)

    StopInTest.steps = 0  # two episodes of 100 steps at each epoch: it is inside of the second
    config = dataclasses.replace(config, name="stopped")
    stopped = train.train(
        config, eval_env_fn=lambda: StopInTest(gymnasium.make("Pendulum-v1")), **quiet
    )
    assert (stopped.code, stopped.step) == (errors.STOPPED, 200)
    assert StopInTest.steps == 300
    assert len(table(stopped.run / "progress.txt", "\t")) == 1
    assert status.read_status(stopped.run)["status"] == "stopped"
    resumed = train.resume(stopped.run, screen=Screen(quiet=True))
    assert resumed.code == errors.DONE
    assert final(resumed.run) == final(whole.run)


def test_a_run_stopped_in_its_last_evaluation_is_not_complete(tmp_path):
    content = {"algo": "ppo", "env": "Pendulum-v1", "spec": {"hidden": [8]}}
    small = {"steps": 100, "steps_per_epoch": 100, "num_test_episodes": 4, "max_ep_len": 100}
    config = configs.from_json(content | {"schedule": small})
    StopInTest.steps = 0
    stopped = train.train(
        config,
        eval_env_fn=lambda: StopInTest(gymnasium.make("Pendulum-v1")),
        screen=Screen(io.StringIO()),
        data_dir=str(tmp_path),
    )
    assert (stopped.code, stopped.step) == (errors.STOPPED, 100)
    assert train.resume(stopped.run, screen=Screen(quiet=True)).code == errors.DONE
    rows = table(stopped.run / "progress.txt", "\t")
    assert [row["TotalEnvInteracts"] for row in rows] == ["100"]


def test_a_pending_record_of_a_stranger_is_checked(tmp_path):
    good = {"epoch": 1, "steps": 2, "updates": 0, "ep_returns": [1.5], "ep_lengths": [2]}
    assert saving.read_pending({"pending": good}) == good
    assert saving.read_pending({}) is None
    for bad in ("x", [], {}, good | {"loss": "x"}, good | {"ep_returns": [[1]]}, {"epoch": 1}):
        with pytest.raises(errors.Damaged, match="is not a record"):
            saving.read_pending({"pending": bad})


class StopInTraining(gymnasium.Wrapper):
    """Asks this process to stop at a step of all its episodes together."""

    at, steps = 0, 0

    def step(self, action):
        type(self).steps += 1
        if type(self).steps == self.at:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().step(action)


@pytest.mark.parametrize("algo", ["td3", "ppo"])
def test_a_stop_request_ends_a_rollout_which_is_repeated_after_resuming(algo, tmp_path):
    small = {"steps": 300, "steps_per_epoch": 100, "num_test_episodes": 0}
    if algo == "td3":
        small |= {"start_steps": 50, "update_after": 50, "update_every": 50, "batch_size": 8}
    content = {"algo": algo, "env": "Pendulum-v1", "seed": 3, "spec": {"hidden": [8]}}
    config = configs.from_json(content | {"schedule": small, "options": {"save_freq": None}})
    quiet = {"screen": Screen(quiet=True), "data_dir": str(tmp_path)}
    whole = train.train(config, **quiet)
    for at, step in ((30, 0), (230, 200)):
        StopInTraining.at, StopInTraining.steps = at, 0
        named = dataclasses.replace(config, name=f"stopped-{at}")
        stopped = train.train(
            named, env_fn=lambda: StopInTraining(gymnasium.make("Pendulum-v1")), **quiet
        )
        assert (stopped.code, stopped.step) == (errors.STOPPED, step)
        assert StopInTraining.steps == at
        assert status.read_status(stopped.run)["status"] == "stopped"
        assert checkpoint_folders.list_steps(stopped.run) == [step] * (step > 0)
        resumed = train.resume(stopped.run, screen=Screen(quiet=True))
        assert resumed.code == errors.DONE
        assert final(resumed.run) == final(whole.run)


@pytest.mark.parametrize("name", [status.STATUS, status.OLD_STATUS])
def test_a_damaged_status_is_reported_and_a_raised_total_is_kept(tmp_path, capsys, name):
    run = quietly(tiny(), tmp_path).run
    train.resume(run, steps=400, screen=Screen(quiet=True))
    (run / "checkpoints" / "000000000400" / "rank0.npz").unlink()  # its manifest is intact
    (run / status.STATUS).rename(run / name)
    (run / name).write_bytes((run / name).read_bytes().replace(b"done", b"dome"))
    assert [one.status for one in status.list_runs(tmp_path)] == ["damaged"]
    assert call("inspect", run) == 6
    assert "status.json is damaged, and is not shown" in capsys.readouterr().err
    assert call("doctor", run) == 6
    assert "status: damaged, step 0" in capsys.readouterr().out
    screen = Screen(io.StringIO())
    train.train(tiny(), data_dir=str(tmp_path), screen=screen)
    assert f"warning: {run} has a damaged status.json, so it may be " in screen.stream.getvalue()
    screen = Screen(io.StringIO())
    assert train.resume(run, screen=screen).step == 400
    said = screen.stream.getvalue()
    assert "status.json is damaged. The run goes on to a total of 400 steps." in said
    assert status.read_status(run)["status"] == "done"
    assert not status.is_damaged(run)


def test_a_run_without_a_status_has_the_total_of_its_configuration(tmp_path):
    run = quietly(tiny(), tmp_path).run
    (run / status.STATUS).unlink()
    shutil.rmtree(run / "checkpoints")
    assert not status.is_damaged(run)
    assert requirements.read_config(run, None, None, None).schedule.steps == 200
