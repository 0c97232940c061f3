"""Whether a window can be opened here, and how environments are drawn without one."""

import ctypes.util
import os
import re
import socket
import sys

WAIT = 2.0  # seconds in which a display server must accept a connection


def configure_headless_drawing() -> None:
    """Without a display, let MuJoCo and SDL draw off-screen; variables that are set stay."""
    if not has_display():
        os.environ["SDL_VIDEODRIVER"] = os.environ.get("SDL_VIDEODRIVER") or "dummy"
        library = next(filter(ctypes.util.find_library, ("EGL", "OSMesa")), "").lower()
        if chosen := os.environ.pop("MUJOCO_GL", "") or library:  # MuJoCo refuses an empty value
            os.environ["MUJOCO_GL"] = chosen


def get_display() -> str:
    """Return the name of the display for windows, or an empty string."""
    return os.environ.get("WAYLAND_DISPLAY") or os.environ.get("DISPLAY") or ""


def has_display() -> bool:
    """Return whether the named display accepts connections.

    Opening a window would be unsafe: with a dead display SDL draws off-screen without an error,
    and GLFW, which MuJoCo uses, aborts the process.
    """
    addresses: list[str | tuple[str, int]] = []
    if name := os.environ.get("WAYLAND_DISPLAY"):
        addresses.append(os.path.join(os.environ.get("XDG_RUNTIME_DIR", ""), name))
    if x11 := re.fullmatch(r"(?:\w+/)?(.*):(\d{1,5})(?:\.\d+)?", os.environ.get("DISPLAY", "")):
        path, local = f"/tmp/.X11-unix/X{x11[2]}", x11[1] in ("", "unix")
        addresses += [f"\0{path}", path] if local else [(x11[1], 6000 + int(x11[2]))]
    return sys.platform in ("darwin", "win32") or any(map(_accepts, addresses))


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
