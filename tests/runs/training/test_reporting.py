"""The report of a run: screen, `stdout.log`, sinks, warnings, the end with its next command."""

import contextlib
import io
import os
import subprocess
import sys
import types
import warnings

import pytest

from purerl.cli import main as cli
from purerl.errors import ConfigError, EpisodesCut
from purerl.runs.record import status
from purerl.runs.training import reporting, train
from purerl.runs.training.progress_bar import Screen
from tests.mpi.launch import ROOT, clean, python
from tests.runs.script import quietly, settings, the_run, tiny

PURERL = ("-m", "purerl")


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


def test_what_the_loop_warns_of_is_a_line_and_other_warnings_stay_what_they_are():
    def begins():
        with reporting.report_warnings(lines.append):
            warnings.warn("cut", EpisodesCut, stacklevel=1)
            warnings.warn("old", DeprecationWarning, stacklevel=1)

    lines = []
    with pytest.warns(DeprecationWarning, match="old") as caught:
        begins()
    assert lines == ["warning: cut"]
    assert len(caught) == 1


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


@pytest.mark.parametrize("where", ["full", "closed"])
def test_the_command_trains_without_an_output(tmp_path, where):
    words = ["train", "vpg", "--env", "CartPole-v1", "--hidden", "4", "--steps", "200"]
    words += ["--steps-per-epoch", "100", "--data-dir", str(tmp_path)]
    line = [sys.executable, *PURERL, *words]
    shell = 'exec "$@" > /dev/full' if where == "full" else 'exec "$@" >&-'
    line = ["sh", "-c", shell, "sh", *line]
    done = subprocess.run(line, env=clean(), cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert status.read_status(the_run(tmp_path))["status"] == "done"


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
    class Module:
        def __getattr__(self, name):
            return lambda words: sys.stdout.write("rows") - 4

    monkeypatch.setattr(cli.importlib, "import_module", lambda name: Module())
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
    run = the_run(tmp_path)
    state = status.read_status(run)
    assert (state["status"], state["reason"]) == ("stopped", "interrupted")
    assert caught.value.__notes__ == [f"no checkpoint yet. Begin again: purerl resume {run}"]
    said = (run / "stdout.log").read_text()
    assert said.splitlines()[-2:] == ["interrupted", f"  {caught.value.__notes__[0]}"]
    train.resume(run, screen=Screen(quiet=True))
    assert "reason" not in status.read_status(run)


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
    run = the_run(tmp_path / "my data")
    assert done.err.splitlines() == [
        "purerl train: environment 0 raised SystemExit in step: 0 (step 1 of its episode 1)",
        "  it came after environment step 0 of the run.",
        f"  no checkpoint yet. Begin again: purerl resume '{run}' --env faulty:Faulty-v0",
        "  not begun: seed 7 8. Type the same line with --seed 7 8",
    ]
    assert status.read_status(run)["status"] == "failed"


def test_a_sink_of_ones_own_gets_the_numbers_of_each_epoch(tmp_path, monkeypatch):
    class Mine:
        def __init__(self):
            self.rows, self.closed = [], 0

        def write(self, step, row):
            self.rows.append((step, dict(row)))

        def close(self):
            self.closed += 1

    mine, out = Mine(), io.StringIO()
    monkeypatch.setattr(
        train.reporting, "time_compilations", lambda: contextlib.nullcontext([1.25, 0.5])
    )
    train.train(tiny(), data_dir=str(tmp_path), sinks=(mine,), screen=Screen(out))
    assert [step for step, _ in mine.rows] == [100, 200]
    assert all(isinstance(x, float) for _, row in mine.rows for x in row.values())
    assert "AverageVVals" in mine.rows[0][1]
    assert mine.closed == 1
    said = out.getvalue()
    assert "observations (4,) float32, actions one of 2, 55 parameters" in said
    assert said.index("compiling: ") < said.index("compiled in ") < said.index("     step")
    run = next(tmp_path.rglob("stdout.log"))
    assert "compiled in" in run.read_text()
    assert status.read_status(run.parent)["compile_seconds"] == 1.75


@pytest.mark.parametrize("fails", ["write", "close"])
def test_a_sink_that_fails_is_said_once_and_the_run_goes_on_without_it(tmp_path, fails):
    class Good:
        def __init__(self):
            self.called = []

        def write(self, step, row):
            self.called.append("write")

        def close(self):
            self.called.append("close")

    class Remote(Good):
        def write(self, step, row):
            super().write(step, row)
            if fails == "write":
                raise OSError(28, "No space left on device")

        def close(self):
            super().close()
            raise ConnectionError("no\nnetwork")

    good, bad, out = Good(), Remote(), io.StringIO()
    outcome = train.train(tiny(), data_dir=str(tmp_path), sinks=(bad, good), screen=Screen(out))
    assert outcome.code == 0
    assert good.called == ["write", "write", "close"]
    assert bad.called == (["write"] if fails == "write" else good.called)
    why = {"write": "OSError: [Errno 28] No space", "close": "ConnectionError: no network"}[fails]
    assert f"Remote failed, and the run goes on without it: {why}" in out.getvalue()
    assert out.getvalue().count("goes on without it") == 1
    assert "goes on without it" in (outcome.run / "stdout.log").read_text()


def test_an_interrupt_passes_through_a_sink(tmp_path):
    class Mine:
        def write(self, step, row):
            raise KeyboardInterrupt

        def close(self):
            pass

    with pytest.raises(KeyboardInterrupt):
        train.train(tiny(), data_dir=str(tmp_path), sinks=(Mine(),), screen=Screen(quiet=True))


def test_tensorboard_gets_event_files(tmp_path):
    train.train(tiny(tensorboard=True), data_dir=str(tmp_path), screen=Screen(quiet=True))
    (events,) = tmp_path.rglob("events.out.tfevents.*")
    content = events.read_bytes()
    assert content.count(b"AverageEpRet") == 2


def test_tensorboard_forgets_what_a_cut_run_wrote_beyond_its_checkpoint(tmp_path, monkeypatch):
    given = []

    class Writer:
        def __init__(self, folder, purge_step):
            given.append(purge_step)

    monkeypatch.setattr("tensorboardX.SummaryWriter", Writer)
    for step in (0, 200):
        reporting.TensorBoard(tmp_path, step)
    assert given == [None, 201]


def test_weights_and_biases_gets_a_run_that_can_be_gone_on_with(tmp_path, monkeypatch):
    told = []

    class Fake:
        def define_metric(self, *args, **kwargs):
            told.append(("metric", args, kwargs))

        def log(self, row):
            told.append(("log", row))

        def finish(self):
            told.append(("finish",))

    fake = types.ModuleType("wandb")
    fake.__spec__ = types.SimpleNamespace()
    fake.init = lambda **given: told.append(("init", given)) or Fake()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    config = tiny(wandb="mine")
    outcome = train.train(config, data_dir=str(tmp_path), screen=Screen(quiet=True))
    train.resume(outcome.run, steps=400, screen=Screen(quiet=True))
    given = [one[1] for one in told if one[0] == "init"]
    assert [g["project"] for g in given] == ["mine", "mine"]
    assert given[0]["id"] == given[1]["id"]
    assert given[0]["config"]["spec"]["hidden"] == [4]
    steps = [one[1]["TotalEnvInteracts"] for one in told if one[0] == "log"]
    assert steps == [100, 200, 300, 400]
    assert told.count(("finish",)) == 2


def test_a_sink_without_its_package_is_refused_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(reporting.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'purerl\[tensorboard\]'"):
        train.train(tiny(tensorboard=True), data_dir=str(tmp_path))
    assert not list(tmp_path.iterdir())
