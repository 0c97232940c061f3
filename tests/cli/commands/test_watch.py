"""`purerl watch`: a window, or a file if there is no display."""

import dataclasses
import re
import shutil

import gymnasium
import pytest

from purerl.cli import checkpoint_arguments
from purerl.runs.policy import video
from tests.cli.commands.call import call
from tests.mpi.launch import python
from tests.runs.trained import begun


@pytest.fixture(autouse=True)
def no_display_and_no_setup(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("MUJOCO_GL", "egl")
    monkeypatch.setattr("purerl.setup", lambda: None)


def test_a_gif_is_written_if_the_display_does_not_respond(tmp_path, monkeypatch, capsys):
    run = dataclasses.replace(begun("ppo"), folder=tmp_path)
    monkeypatch.setattr(checkpoint_arguments, "load_run", lambda args, path: run)
    monkeypatch.setattr(video, "GIF_FRAMES", 4)
    monkeypatch.setenv("DISPLAY", ":77")
    assert call("watch", tmp_path, "-l", 6, "--fps", 20) == 0
    said = capsys.readouterr()
    path = tmp_path / "video" / "000000000000-1.gif"
    assert f"written: {path}" in said.out
    assert said.err.splitlines()[0] == (
        "display :77 does not respond: writing a GIF instead of a window"
    )
    assert f"{path} ends after 4 frames, the limit for a GIF; 3 more are missing." in said.err
    monkeypatch.delenv("DISPLAY")
    assert call("watch", tmp_path, "-l", 3) == 0
    assert not capsys.readouterr().err


def test_without_a_display_watch_writes_a_file_and_prints_returns(tmp_path, capsys):
    run = shutil.copytree(begun("ppo").folder, tmp_path / "run")
    gone = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "SDL_VIDEODRIVER": ""}
    done = python("-m", "purerl", "watch", str(run), "-n", "2", "-l", "9", "-d", "-i", "-1", **gone)
    assert done.code == 0, done.err
    lengths = begun("ppo").evaluate(2, max_ep_len=9).lengths
    assert f"episode 2: return {lengths[1]:.1f}, length {lengths[1]}\n" in done.out
    path = run / "video" / "000000000000-1.gif"
    assert re.search(rf"^written: {path} \([\d.]+ kB\)$", done.out, re.MULTILINE)
    assert call("watch", run, "-nr", "-n", 2, "--save", "x.gif") == 0
    assert "written" not in capsys.readouterr().out
    assert call("watch", run, "--save", "x.avi") == 2
    assert "must end in .gif or .mp4" in capsys.readouterr().err


def test_with_a_display_watch_opens_a_window(monkeypatch, capsys):
    opened = []
    real = gymnasium.make

    def make(name, **options):
        opened.append(options)
        return real(name, **options)

    monkeypatch.setattr(gymnasium, "make", make)
    monkeypatch.setattr(video, "has_display", lambda: True)
    monkeypatch.setattr(checkpoint_arguments, "load_run", lambda args, run: begun("ppo"))
    assert call("watch", begun("ppo").folder, "-l", 3) == 0
    assert opened == [{"render_mode": "human"}] * 2  # the first one tests drawing
    assert "episode 1: return 3.0, length 3\n" in capsys.readouterr().out
