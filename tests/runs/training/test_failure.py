"""What a run says when it ends, however it ends, and that it does not end for nobody reading."""

import dataclasses
import io
import json
import os
import subprocess
import sys
import types

import gymnasium
import pytest

import purerl.__main__ as cli
from purerl import errors
from purerl.errors import ConfigError, EnvFault
from purerl.runs.record import checkpoint, folder, machine, manifest, safe_files, status
from purerl.runs.settings.config import from_json
from purerl.runs.training import saving, train
from purerl.runs.training.progress_bar import Screen
from tests.mpi.launch import ROOT, clean, python
from tests.runs.training.test_reporting import tiny
from tests.runs.training.test_train import final

PURERL = ("-m", "purerl")


def only(tmp_path):
    (path,) = tmp_path.rglob("config.json")
    return path.parent


def quietly(config, tmp_path, **options):
    return train.train(config, data_dir=str(tmp_path), screen=Screen(quiet=True), **options)


class Gone(io.StringIO):
    """A terminal that is there for some writes."""

    def __init__(self, writes, error):
        super().__init__()
        self.left, self.error = writes, error

    def isatty(self):
        return True

    def write(self, text):
        self.left -= 1
        if self.left < 0:
            raise self.error
        return super().write(text)


@pytest.mark.parametrize("writes", [0, 5, 9])
@pytest.mark.parametrize(
    ("error", "why"),
    [
        (BrokenPipeError(32, "Broken pipe"), "Broken pipe"),
        (OSError(5, "Input/output error"), "Input/output error"),
        (ValueError("I/O operation on closed file."), "I/O operation on closed file."),
    ],
)
def test_a_run_goes_on_when_its_screen_is_gone_and_says_so_once(tmp_path, writes, error, why):
    screen = Screen(Gone(writes, error))
    outcome = train.train(tiny(), data_dir=str(tmp_path), screen=screen)
    assert outcome.code == 0
    assert status.read_status(outcome.run)["status"] == "done"
    said = (outcome.run / "stdout.log").read_text()
    assert said.count(f"the screen is gone ({why})") == 1
    assert "everything is in" in said


def test_all_lines_of_the_screen_are_in_the_log(tmp_path):
    out = io.StringIO()
    run = train.train(tiny(save_freq=100), data_dir=str(tmp_path), screen=Screen(out)).run
    assert (run / "stdout.log").read_text() == out.getvalue()
    content = status.read_status(run)
    content["versions"]["numpy"] = "0.1"
    status.write_status(run, content)
    (run / "checkpoints" / "000000000200" / "rank0.npz").write_bytes(b"")
    (run / "metrics.jsonl").write_text("")
    train.resume(run, screen=Screen(out))
    said = out.getvalue()
    assert (run / "stdout.log").read_text() == said
    for words in ("vpg on CartPole-v1", "passed over: ", "noticed: ", "numpy was 0.1", "return "):
        assert words in said
    assert "goes on at 100; the 100 steps up to the newest checkpoint are lost and done" in said


@pytest.mark.parametrize("where", ["full", "closed"])
def test_the_command_trains_without_an_output(tmp_path, where):
    words = ["train", "vpg", "--env", "CartPole-v1", "--hidden", "4", "--steps", "200"]
    words += ["--steps-per-epoch", "100", "--data-dir", str(tmp_path)]
    line = [sys.executable, *PURERL, *words]
    shell = 'exec "$@" > /dev/full' if where == "full" else 'exec "$@" >&-'
    line = ["sh", "-c", shell, "sh", *line]
    done = subprocess.run(line, env=clean(), cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert status.read_status(only(tmp_path))["status"] == "done"


def test_a_list_that_nobody_reads_or_nothing_takes_ends_without_a_traceback():
    read, write = os.pipe()
    os.close(read)
    for words in (("list", "algos"), ("--help",)):
        line = [sys.executable, *PURERL, *words]
        rest = {"env": clean(), "cwd": ROOT, "stderr": subprocess.PIPE, "text": True}
        done = subprocess.run(line, stdout=write, **rest)
        assert (done.returncode, done.stderr) == (141, "")
        with open("/dev/full", "w") as full:
            done = subprocess.run(line, stdout=full, **rest)
        assert done.returncode == 5
        assert done.stderr == (
            "purerl: the output could not be written: No space left on device.\n"
        )
    os.close(write)


def test_what_is_held_back_and_cannot_be_written_is_an_error(monkeypatch, capsys):
    def module(name):
        return types.SimpleNamespace(listing=lambda words: sys.stdout.write("rows") - 4)

    monkeypatch.setattr(cli.importlib, "import_module", module)
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert cli.main(["list"]) == 5
    assert "No space left on device" in capsys.readouterr().err


def test_ctrl_c_is_one_line_and_a_code(monkeypatch, capsys):
    def interrupted(name):
        error = KeyboardInterrupt()
        error.add_note("the checkpoint of step 5 is kept.")
        raise error

    monkeypatch.setattr(cli.importlib, "import_module", interrupted)
    assert cli.main(["list"]) == 130
    assert capsys.readouterr().err == "purerl: interrupted\n  the checkpoint of step 5 is kept.\n"
    monkeypatch.setattr(cli.world, "is_rank", lambda: True)
    with pytest.raises(KeyboardInterrupt):  # which ends the job on all ranks
        cli.main(["list"])


def test_a_run_that_is_interrupted_at_once_can_go_on(tmp_path, monkeypatch):
    def leave(carry):
        raise KeyboardInterrupt

    monkeypatch.setattr(train.loop, "advance", leave)
    with pytest.raises(KeyboardInterrupt) as caught:
        quietly(tiny(), tmp_path)
    monkeypatch.undo()
    run = only(tmp_path)
    state = status.read_status(run)
    assert (state["status"], state["reason"]) == ("stopped", "interrupted")
    assert caught.value.__notes__ == [f"no checkpoint yet. Begin again: purerl resume {run}"]
    said = (run / "stdout.log").read_text()
    assert said.splitlines()[-2:] == ["interrupted", f"  {caught.value.__notes__[0]}"]
    train.resume(run, screen=Screen(quiet=True))
    assert "reason" not in status.read_status(run)


def test_a_run_that_failed_is_named_with_the_line_that_goes_on(tmp_path):
    first = folder.create_folder(tiny(), str(tmp_path))
    folder.update_status(first, status="failed", reason="EnvFault: no\x1b joint")
    said = []
    assert folder.create_folder(tiny(), str(tmp_path), say=said.append).name == f"{first.name}-2"
    assert said == [
        f"{first} failed (EnvFault: no? joint); to go on with it: purerl resume {first}"
    ]
    out = io.StringIO()
    run = train.train(tiny(), data_dir=str(tmp_path), screen=Screen(out)).run
    assert out.getvalue().startswith(said[0])
    assert (run / "stdout.log").read_text().startswith(said[0])


def test_a_total_that_a_run_cannot_have_is_a_mistake_in_what_was_typed(tmp_path):
    run = quietly(tiny(), tmp_path).run
    for steps in (0, -5, 8_500.5, 250):
        with pytest.raises(ConfigError, match="steps"):
            train.resume(run, steps=steps)
    with pytest.raises(ConfigError, match="has done 200 steps, and 100 are asked for.*--steps"):
        train.resume(run, steps=100)
    with pytest.raises(ConfigError, match="is complete: 200 of 200 steps.*--steps"):
        train.resume(run)


def test_what_is_to_be_typed_can_be_copied(tmp_path):
    run = tmp_path / "my runs" / "a"
    run.mkdir(parents=True)
    quoted = f"'{run}'"
    assert status.format_command("watch", run) == f"purerl watch {quoted}"
    (run / "config.json").write_text(json.dumps({"env": "mine:Own v0"}))
    status.write_status(run, {"ranks": 2})
    assert status.format_command("watch", run) == f"purerl watch {quoted} --env 'mine:Own v0'"
    assert status.format_command("plot", run) == f"purerl plot {quoted}"
    assert status.format_command("resume", run, "--steps", "8") == (
        f"purerl resume {quoted} --steps 8 --env 'mine:Own v0' --num-cpu 2"
    )


def test_a_disk_that_stays_full_is_said_once_with_what_is_kept(tmp_path, monkeypatch):
    real, failed = checkpoint.save, []

    def save(run, carry, *rest):
        if carry.steps < 200:
            return real(run, carry, *rest)
        failed.append(carry.steps)
        raise safe_files.explain_os_error(OSError(28, "No space left on device"), run / "x.npz")

    monkeypatch.setattr(checkpoint, "save", save)
    config = tiny(save_freq=100)
    config = dataclasses.replace(config, schedule=dataclasses.replace(config.schedule, steps=900))
    with pytest.raises(errors.StorageError) as caught:
        quietly(config, tmp_path)
    assert failed == [200, 300, 400]
    assert saving.PATIENCE == 3
    run = only(tmp_path)
    assert str(caught.value).startswith(f"{run}/x.npz could not be written: the disk is full")
    assert caught.value.__notes__ == [
        "the checkpoint of step 400 was not made, number 3 in a row.",
        f"the checkpoint of step 100 is kept. Go on: purerl resume {run}",
    ]
    said = (run / "stdout.log").read_text()
    assert [f"checkpoint at {n} failed: " in said for n in failed] == [True, True, False]


def test_json_has_no_words_that_are_not_json(tmp_path):
    """The run ends before an episode does: there is no return."""
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
    status.write_status(
        run, status.read_status(run) | {"score": float("nan")}
    )  # of an older purerl
    assert [one.score for one in status.list_runs(tmp_path)] == [None]
    again = train.resume(run, steps=8, screen=Screen(quiet=True))
    assert again.score != again.score


def test_a_commit_is_read_without_git(tmp_path):
    first, second = "a" * 40, "b" * 40
    git = tmp_path / ".git"
    assert machine.read_commit(tmp_path) == ""
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text(f"{first}\n")
    assert machine.read_commit(tmp_path) == first
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    assert machine.read_commit(tmp_path) == ""  # no commit yet
    (git / "packed-refs").write_text(
        f"# pack-refs\n{first} refs/heads/x/main\n{second} refs/heads/main\n"
    )
    assert machine.read_commit(tmp_path) == second
    (git / "refs" / "heads" / "main").write_text(f"{first}\n")
    assert machine.read_commit(tmp_path) == first
    tree, own = tmp_path / "tree", git / "worktrees" / "tree"
    tree.mkdir()
    own.mkdir(parents=True)
    (tree / ".git").write_text(f"gitdir: {own}\n")
    (own / "HEAD").write_text("ref: refs/heads/other\n")
    (own / "commondir").write_text("../..\n")
    (git / "refs" / "heads" / "other").write_text(f"{second}\n")
    assert machine.read_commit(tree) == second
    found = machine.describe_machine()
    assert {"versions", "cpu", "cores", "command", "commits"} <= set(found)


def test_seeds_that_were_not_begun_are_named(tmp_path):
    (tmp_path / "faulty.py").write_text(
        "import gymnasium\n"
        "class Faulty(gymnasium.Wrapper):\n"
        "    def step(self, action):\n"
        "        raise SystemExit(0)\n"
        "gymnasium.register('Faulty-v0', lambda: Faulty(gymnasium.make('CartPole-v1')))\n"
    )
    words = ["train", "vpg", "--env", "faulty:Faulty-v0", "--hidden", "4", "--seed", "0", "7", "8"]
    words += ["--data-dir", str(tmp_path / "my data")]
    done = python(*PURERL, *words, PYTHONPATH=f"{ROOT}:{tmp_path}")
    assert done.code == 4
    run = only(tmp_path)
    assert done.err.splitlines() == [
        "purerl: environment 0 raised SystemExit in step: 0 (step 1 of its episode 1)",
        "  it came after environment step 0 of the run.",
        f"  no checkpoint yet. Begin again: purerl resume '{run}' --env faulty:Faulty-v0",
        "purerl: not begun: seed 7 8. Type the same line with --seed 7 8",
    ]
    assert status.read_status(run)["status"] == "failed"


class Breaks(gymnasium.Wrapper):
    """Raises at a step of all that are taken, if it is to."""

    at, steps = 0, 0

    def __init__(self):
        super().__init__(gymnasium.make("CartPole-v1"))

    def step(self, action):
        Breaks.steps += 1
        if Breaks.steps == Breaks.at:
            raise ArithmeticError("boom")
        return self.env.step(action)


@pytest.mark.parametrize("algo", ["dqn", "vpg"])
def test_an_environment_that_fails_loses_nothing_before_its_burst(tmp_path, monkeypatch, algo):
    def made(name, steps=400):
        content = {"algo": algo, "env": name, "spec": {"hidden": [4]}, "seed": 2}
        schedule = {"steps": steps, "steps_per_epoch": 100, "num_envs": 2}
        if algo == "dqn":
            small = {"start_steps": 20, "update_after": 20, "update_every": 20, "batch_size": 8}
            schedule |= small | {"updates_per_burst": 1, "num_test_episodes": 0}
        options = {"save_freq": None}
        content |= {"schedule": schedule, "options": options, "name": name}
        return from_json(content, Breaks)

    monkeypatch.setattr(Breaks, "steps", 0)
    whole = quietly(made("x"), tmp_path / "whole", env_fn=Breaks).run
    monkeypatch.setattr(Breaks, "steps", 0)
    monkeypatch.setattr(Breaks, "at", 333)
    with pytest.raises(EnvFault, match="boom") as caught:
        quietly(made("x"), tmp_path / "cut", env_fn=Breaks)
    run = only(tmp_path / "cut")
    step = 320 if algo == "dqn" else 300
    assert manifest.list_steps(run) == [step]
    assert f"the checkpoint of step {step} is kept" in str(caught.value.__notes__)
    train.resume(run, env_fn=Breaks, screen=Screen(quiet=True))
    assert final(run) == final(whole)
    monkeypatch.setattr(Breaks, "steps", 0)
    monkeypatch.setattr(Breaks, "at", 13)
    with pytest.raises(EnvFault):
        quietly(made("y"), tmp_path / "first", env_fn=Breaks)
    assert not manifest.list_steps(only(tmp_path / "first"))
