"""Whether a window can be opened here, and how environments are drawn without one."""

import ctypes.util
import os
import re
import socket
import sys

WAIT = 2.0  # seconds in which a display server must accept a connection


def configure_headless_drawing() -> None:
    """Without a display, let MuJoCo and SDL draw off-screen; variables that are set stay."""
    if has_display():
        return
    if not os.environ.get("SDL_VIDEODRIVER"):
        os.environ["SDL_VIDEODRIVER"] = "dummy"
    if not os.environ.get("MUJOCO_GL"):
        os.environ.pop("MUJOCO_GL", None)  # MuJoCo refuses an empty value
        for library in ("EGL", "OSMesa"):
            if ctypes.util.find_library(library):
                os.environ["MUJOCO_GL"] = library.lower()
                break


def get_display() -> str:
    """Return the name of the display for windows, or an empty string."""
    return os.environ.get("WAYLAND_DISPLAY") or os.environ.get("DISPLAY") or ""


def has_display() -> bool:
    """Return whether the named display accepts connections.

    Opening a window would be unsafe: with a dead display SDL draws off-screen without an error,
    and GLFW, which MuJoCo uses, aborts the process.
    """
    if sys.platform in ("darwin", "win32"):
        return True
    wayland = os.environ.get("WAYLAND_DISPLAY")
    if wayland and _accepts(os.path.join(os.environ.get("XDG_RUNTIME_DIR", ""), wayland)):
        return True
    found = re.fullmatch(r"(?:\w+/)?(.*):(\d{1,5})(?:\.\d+)?", os.environ.get("DISPLAY", ""))
    if found is None:
        return False
    if found[1] not in ("", "unix"):
        return _accepts((found[1], 6000 + int(found[2])))
    path = f"/tmp/.X11-unix/X{found[2]}"
    return _accepts(f"\0{path}") or _accepts(path)


def _accepts(address: str | tuple[str, int]) -> bool:
    """Return whether a socket accepts a connection: a path, or a host and its port."""
    try:
        if isinstance(address, tuple):
            socket.create_connection(address, WAIT).close()
        else:
            with socket.socket(socket.AF_UNIX) as one:
                one.settimeout(WAIT)
                one.connect(address)
    except (OSError, OverflowError):  # refused, or no such host or port
        return False
    return True
