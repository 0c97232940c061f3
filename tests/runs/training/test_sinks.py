"""TensorBoard, Weights & Biases and custom sinks get the rows; failing sinks are dropped."""

import contextlib
import io
import sys
import types

import pytest

from purerl.errors import ConfigError
from purerl.runs.record import machine, status
from purerl.runs.training import sinks, train
from purerl.runs.training.progress_bar import Screen
from tests.runs.script import tiny


def test_a_custom_sink_gets_the_numbers_of_each_epoch(tmp_path, monkeypatch):
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
def test_a_failing_sink_is_reported_once_and_dropped(tmp_path, fails):
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
    assert f"Remote failed, and the run continues without it: {why}" in out.getvalue()
    assert out.getvalue().count("continues without it") == 1
    assert "continues without it" in (outcome.run / "stdout.log").read_text()


def test_an_interrupt_in_a_sink_ends_the_run(tmp_path):
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


def test_tensorboard_drops_rows_after_the_checkpoint(tmp_path, monkeypatch):
    given = []

    class Writer:
        def __init__(self, folder, purge_step):
            given.append(purge_step)

    monkeypatch.setattr("tensorboardX.SummaryWriter", Writer)
    for step in (0, 200):
        sinks.TensorBoard(tmp_path, step)
    assert given == [None, 201]


def test_a_resumed_run_continues_in_weights_and_biases(tmp_path, monkeypatch):
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


def test_a_sink_without_its_package_is_refused_before_the_run_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(machine.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'purerl\[tensorboard\]'"):
        train.train(tiny(tensorboard=True), data_dir=str(tmp_path))
    assert not list(tmp_path.iterdir())
