"""The screen of a run: lines, a bar on a terminal, and silence once it is gone."""

import dataclasses
import io
from pathlib import Path
from typing import ClassVar

import gymnasium
import pytest

from purerl.runs.record import status
from purerl.runs.training import train
from purerl.runs.training.progress_bar import Screen, format_clock
from purerl.runs.training.reporting import Output
from tests.runs.script import tiny


class Gone(io.StringIO):
    """A terminal that disappears after some writes."""

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
def test_a_run_continues_without_its_screen_and_reports_that_once(tmp_path, writes, error, why):
    screen = Screen(Gone(writes, error))
    outcome = train.train(tiny(), data_dir=str(tmp_path), screen=screen)
    assert outcome.code == 0
    assert status.read_status(outcome.run)["status"] == "done"
    said = (outcome.run / "stdout.log").read_text()
    assert said.count(f"the screen is gone ({why})") == 1
    assert "everything is in" in said


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_lines_are_printed_at_once_and_the_bar_only_on_a_terminal(monkeypatch):
    plain, terminal = io.StringIO(), Terminal()
    now = iter(range(0, 100, 10))
    monkeypatch.setattr("time.monotonic", lambda: next(now))
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


def test_the_bar_fits_on_one_line_of_a_narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    now = iter((0, 10))
    monkeypatch.setattr("time.monotonic", lambda: next(now))
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


def test_a_row_is_printed_in_two_parts_without_a_bar_between_them(monkeypatch):
    plain, terminal = io.StringIO(), Terminal()
    now = iter(range(0, 100, 10))
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    for stream in (plain, terminal):
        screen = Screen(stream)
        screen.progress(1, 10)
        screen.begin_row("  10   1.5")
        screen.progress(2, 10)
        assert stream.getvalue().endswith("  10   1.5")
        screen.end_row("   3.5")
        screen.say("next")
        assert stream.getvalue().replace("\r\x1b[K", "").endswith("  10   1.5   3.5\nnext\n")


class SlowTest(gymnasium.Wrapper):
    """An environment that keeps what the log says when an evaluation begins."""

    log: Path
    seen: ClassVar[list[str]] = []

    def reset(self, **how):
        self.seen.append(self.log.read_text())
        return self.env.reset(**how)


def test_the_row_of_an_epoch_is_printed_before_its_evaluation(tmp_path):
    given = tiny()
    schedule = dataclasses.replace(given.schedule, num_test_episodes=1)
    SlowTest.log = tmp_path / given.name / f"{given.name}_s0" / "stdout.log"
    screen = Screen(io.StringIO())
    train.train(
        dataclasses.replace(given, schedule=schedule),
        data_dir=str(tmp_path),
        screen=screen,
        eval_env_fn=lambda: SlowTest(gymnasium.make("CartPole-v1")),
    )
    before = [text.splitlines()[-1] for text in SlowTest.seen if "return" in text]
    rows = [line for line in screen.stream.getvalue().splitlines() if line[:10].strip().isdigit()]
    assert [row.split()[0] for row in rows] == ["100", "200"]
    assert {row[: row.rindex(" ")].rstrip() for row in rows} == set(before)
    assert (SlowTest.log).read_text() == screen.stream.getvalue()


def test_a_message_during_an_evaluation_has_its_own_line(tmp_path):
    screen = Screen(io.StringIO())
    (tmp_path / "stdout.log").touch()
    output = Output(screen, [tmp_path])
    output.begin_row("row")
    output.say("message")
    output.end_row(" lost")  # the row has ended already
    assert screen.stream.getvalue() == "row\nmessage\n" == (tmp_path / "stdout.log").read_text()


def test_a_stream_that_raises_anything_loses_only_the_screen(tmp_path):
    screen = Screen(Gone(3, RuntimeError("no display")))
    outcome = train.train(tiny(), data_dir=str(tmp_path), screen=screen)
    assert outcome.code == 0
    said = (outcome.run / "stdout.log").read_text()
    assert said.count("the screen is gone (RuntimeError('no display'))") == 1


def test_a_bar_that_cannot_be_drawn_is_switched_off_with_one_warning(tmp_path, monkeypatch):
    def broken(seconds):
        raise ZeroDivisionError("clock")

    monkeypatch.setattr("purerl.runs.training.progress_bar.format_clock", broken)
    monkeypatch.setattr("purerl.runs.training.progress_bar.PAUSE", 0.0)
    screen = Screen(Terminal())
    outcome = train.train(tiny(), data_dir=str(tmp_path), screen=screen)
    assert outcome.code == 0
    said = screen.stream.getvalue()
    assert said.count("warning: the progress bar failed, and is not drawn any more: ") == 1
    assert "everything is in" in said
