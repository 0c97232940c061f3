"""Displays that accept connections, and drawing without one."""

import socket

import pytest

from purerl.runs.policy import display


@pytest.fixture(autouse=True)
def no_display(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("MUJOCO_GL", "egl")


@pytest.mark.parametrize(
    ("libraries", "before", "after"),
    [
        (("EGL", "OSMesa"), None, "egl"),
        (("OSMesa",), "", "osmesa"),
        ((), None, None),
        ((), "", None),  # empty, it is an error
        (("EGL",), "glfw", "glfw"),
    ],
)
def test_without_a_display_it_is_drawn_off_the_screen(monkeypatch, libraries, before, after):
    found = {name: name for name in libraries}
    monkeypatch.setattr(display.ctypes.util, "find_library", found.get)
    monkeypatch.delenv("SDL_VIDEODRIVER")
    monkeypatch.delenv("MUJOCO_GL")
    if before is not None:
        monkeypatch.setenv("MUJOCO_GL", before)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(display, "_accepts", lambda address: True)
    display.configure_headless_drawing()
    assert (display.os.environ.get("MUJOCO_GL"), "SDL_VIDEODRIVER" in display.os.environ) == (
        before, False,
    )  # fmt: skip
    monkeypatch.delenv("DISPLAY")
    monkeypatch.setattr(display.sys, "platform", "linux")
    display.configure_headless_drawing()
    assert display.os.environ.get("MUJOCO_GL") == after
    assert display.os.environ["SDL_VIDEODRIVER"] == "dummy"


def test_a_display_is_there_if_somebody_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(display.sys, "platform", "linux")
    path = tmp_path / "wayland-9"
    for name in (path.name, str(path)):
        monkeypatch.setenv("WAYLAND_DISPLAY", name)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        assert not display.has_display()
    with socket.socket(socket.AF_UNIX) as there:
        there.bind(str(path))
        there.listen()
        for name in (path.name, str(path)):
            monkeypatch.setenv("WAYLAND_DISPLAY", name)
            assert display.has_display()
    assert not display.has_display()  # the file is left behind
    monkeypatch.delenv("WAYLAND_DISPLAY")
    with socket.create_server(("127.0.0.1", 0)) as there:
        number = there.getsockname()[1] - 6000
        if number >= 0:
            monkeypatch.setenv("DISPLAY", f"127.0.0.1:{number}.0")
            assert display.has_display()
    for name in (":77", ":77.0", "unix:77", "127.0.0.1:77", ":99999", "word", ""):
        monkeypatch.setenv("DISPLAY", name)
        assert not display.has_display()
    asked = []
    monkeypatch.setattr(display, "_accepts", lambda address: asked.append(address))
    monkeypatch.setenv("DISPLAY", ":3.1")
    assert not display.has_display()
    assert asked == ["\0/tmp/.X11-unix/X3", "/tmp/.X11-unix/X3"]
