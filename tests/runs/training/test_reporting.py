"""The report of a run: lines of the screen and of `stdout.log`, and warnings of the loop."""

import io
import warnings

import pytest

from purerl.errors import EpisodesCut
from purerl.runs.record import status
from purerl.runs.training import reporting, train
from purerl.runs.training.progress_bar import Screen
from tests.runs.script import tiny


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
