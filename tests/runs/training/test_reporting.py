"""What a run tells while it goes on: the screen, the logs on a bad disk, sinks."""

import contextlib
import errno
import io
import json
import sys
import types
import warnings

import pytest

from purerl import errors
from purerl.errors import ConfigError, EpisodesCut
from purerl.runs.record import logger, progress, status
from purerl.runs.settings.config import from_json
from purerl.runs.training import reporting, sinks, train
from purerl.runs.training.progress_bar import Screen, format_clock
from tests.runs.training.test_train import table as rows_of

RECORD = {
    "epoch": 1,
    "steps": 10,
    "updates": 1,
    "ep_returns": [1.0, 2.0],
    "ep_lengths": [5, 5],
    "q1": 3.0,
    "q1_std": 0.5,
    "q1_min": 2.0,
    "q1_max": 4.0,
    "kl": 0.1,
    "kl_std": 0.2,
}


def tiny(**options):
    content = {"algo": "vpg", "env": "CartPole-v1", "spec": {"hidden": [4]}, "options": options}
    return from_json(content | {"schedule": {"steps": 200, "steps_per_epoch": 100}})


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_columns_have_spinning_ups_names():
    found = progress.make_row(RECORD, 1.5)
    assert found["AverageEpRet"] == 1.5
    spread = [found[f"{kind}Q1Vals"] for kind in ("Average", "Std", "Min", "Max")]
    assert spread == [3.0, 0.5, 2.0, 4.0]
    assert found["KL"] == 0.1
    assert "StdKL" not in found  # a mean is enough of what is no loss and no value


def test_lines_go_out_at_once_and_a_bar_only_to_a_terminal(monkeypatch):
    plain, terminal = io.StringIO(), Terminal()
    now = iter(range(0, 100, 10))
    monkeypatch.setattr("purerl.runs.training.progress_bar.time.monotonic", lambda: next(now))
    for stream in (plain, terminal):
        screen = Screen(stream)
        screen.say("begins")
        screen.progress(1_000, 4_000)
        screen.progress(2_000, 4_000)
        screen.say("ends")
    assert plain.getvalue() == "begins\nends\n"
    drawn = terminal.getvalue().split("\r\x1b[K")
    assert drawn[2] == f"{'█' * 6}{'░' * 18} 1,000 of 4,000"
    assert drawn[3] == f"{'█' * 12}{'░' * 12} 2,000 of 4,000   100 steps/s   0:20 left"
    assert drawn[4] == "ends\n"


def test_a_bar_has_one_line_however_narrow_the_terminal_is(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    now = iter((0, 10))
    monkeypatch.setattr("purerl.runs.training.progress_bar.time.monotonic", lambda: next(now))
    screen = Screen(terminal := Terminal())
    for step in (1_000, 2_000):
        screen.progress(step, 4_000)
    drawn = terminal.getvalue().split("\r\x1b[K")
    assert drawn[2] == f"{'█' * 12}{'░' * 12} 2,000 of 4,000"
    assert [len(line) for line in drawn[1:]] == [39, 39]


def test_control_characters_do_not_reach_the_terminal():
    Screen(shown := io.StringIO()).say("a\x1b]0;title\x07b\nc\x9bd")
    assert shown.getvalue() == "a?]0;title?b\nc?d\n"
    assert [format_clock(s) for s in (7, 61.6, 3_723)] == ["0:07", "1:02", "1:02:03"]


def test_a_header_returns_when_the_columns_change(tmp_path):
    logs = progress.Logs(tmp_path, {})
    first = logs.add(RECORD, 100)[1]
    assert [line.split()[:2] for line in first] == [["step", "return"], ["10", "1.5"]]
    assert len(logs.add(RECORD, 100)[1]) == 1
    wider = logs.add(RECORD | {"loss_q": 1.0}, 100)[1]
    assert "loss_q" in wider[0]
    assert len(wider[0].split()) == len(wider[1].split())


@pytest.mark.parametrize("name", ["metrics.jsonl", "progress.txt", "episodes.csv"])
def test_rows_that_a_full_disk_refuses_are_written_later_and_whole(tmp_path, monkeypatch, name):
    logs = progress.Logs(tmp_path, {})
    logs.add(RECORD, 100)
    logs.write()
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}

    class Full(io.FileIO):
        def write(self, data):
            super().write(data[:3])
            raise OSError(errno.ENOSPC, "No space left on device")

    def opened(path, mode, **_):
        kind = Full if path.name == name else io.FileIO
        return io.TextIOWrapper(kind(path, mode), write_through=True)

    monkeypatch.setattr(logger, "open", opened, raising=False)
    logs.add(RECORD | {"epoch": 2, "ep_returns": [7.0], "ep_lengths": [3]}, 100)
    with pytest.raises(errors.StorageError, match="the disk is full"):
        logs.write()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before
    assert (logs.rows, logs.episodes) == (1, 2)
    monkeypatch.undo()
    logs.add(RECORD | {"epoch": 3}, 100)
    logs.write()
    found = rows_of(tmp_path / "progress.txt", "\t")
    assert [row["Epoch"] for row in found] == ["1", "2", "3"]
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["Epoch"] for line in lines] == [1, 2, 3]
    episodes = [row["epoch"] for row in rows_of(tmp_path / "episodes.csv")]
    assert episodes == ["1", "1", "2", "3", "3"]


def test_a_sink_of_ones_own_gets_the_numbers_of_each_epoch(tmp_path, monkeypatch):
    class Mine:
        def __init__(self):
            self.rows, self.closed = [], 0

        def write(self, step, row):
            self.rows.append((step, dict(row)))

        def close(self):
            self.closed += 1

    mine, out = Mine(), io.StringIO()
    monkeypatch.setattr(train, "compiling", lambda: contextlib.nullcontext([1.25, 0.5]))
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
        sinks.TensorBoard(tmp_path, step)
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
    monkeypatch.setattr(sinks.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'purerl\[tensorboard\]'"):
        train.train(tiny(tensorboard=True), data_dir=str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_total_that_was_raised_is_remembered(tmp_path):
    outcome = train.train(tiny(), data_dir=str(tmp_path), screen=Screen(quiet=True))
    stops = iter([0, 1])
    original = reporting.Report.tell

    def tell(self, carry, record, compiled):
        original(self, carry, record, compiled)
        if next(stops):
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reporting.Report, "tell", tell)
        with pytest.raises(KeyboardInterrupt):
            train.resume(outcome.run, steps=500, screen=Screen(quiet=True))
    again = train.resume(outcome.run, screen=Screen(quiet=True))
    assert again.step == 500


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
