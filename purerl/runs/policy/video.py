"""`purerl watch`: a policy at play, in a window or in a GIF or MP4 file.

The episodes are those that `purerl eval` plays with the same seed. Without a display, or where
nobody answers at it, MuJoCo draws through EGL, or OSMesa, and SDL into memory.
"""

import argparse
import ctypes.util
import functools
import inspect
import os
import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from purerl import errors
from purerl.cli import run_arguments
from purerl.runs.console import format_size, print_lines, print_warning
from purerl.runs.policy import evaluation
from purerl.runs.policy.evaluation import Evaluation
from purerl.runs.record import files

if TYPE_CHECKING:
    from purerl.runs.policy.run import Run

NO_CONTEXT = (
    "No off-screen OpenGL context could be made. On Debian or Ubuntu: apt-get install libegl1 "
    "libgl1-mesa-dri; or libosmesa6, with MUJOCO_GL=osmesa."
)
WAIT = 2.0  # seconds for a display to answer
EXTRAS = {"pygame": "classic", "mujoco": "mujoco", "box2d": "box2d"}  # what is missing -> ours


def save_video(
    run: "Run",
    path: str | Path | None = None,
    episodes: int = 1,
    seed: int = 10_000,
    deterministic: bool = True,
    max_steps: int | None = None,
    fps: float | None = None,
    width: int | None = None,
) -> Path:
    """Play episodes into a GIF or MP4 file.

    Args:
        run: whose policy plays.
        path: ends in `.gif` or `.mp4`, and is not there yet; None for a GIF in the run's folder.
        episodes: how many.
        seed: of them; those of `evaluate` with the same seed.
        deterministic: or exploring, as in training.
        max_steps: cut episodes here; None as in training, 0 for the environment's own limit.
        fps: environment steps per second of the film; None for what the environment says.
        width: of a frame in pixels, at most; None for 320 in a GIF, for the frame's own in an MP4.

    Returns:
        The path.
    """
    how = (episodes, seed, deterministic, max_steps)
    return _record_video(run, None if path is None else Path(path), fps, width, *how)[0]


def _record_video(
    run: "Run", path: Path | None, fps: float | None, width: int | None, *how: Any
) -> tuple[Path, Evaluation]:
    """Play episodes into a file; return its path and the episodes."""
    from purerl.runs.policy import video_files

    kind = ".gif" if path is None else path.suffix
    if kind not in (".gif", ".mp4"):
        raise errors.ConfigError(f"a video must end in .gif or .mp4, got {str(path)!r}.")
    if path is not None and path.exists():
        raise errors.ConfigError(f"{path} exists, and nothing is ever written over.")
    if fps is not None and not 1 <= fps <= 1000:
        raise errors.ConfigError(f"fps must be in 1 .. 1000, got {fps}.")
    if width is not None and width < 16:
        raise errors.ConfigError(f"width must be at least 16 pixels, got {width}.")
    make, rate = _drawing(run, "rgb_array")
    files.make_folder(run.folder / "video" if path is None else path.parent)
    reel = (video_files.Gif if kind == ".gif" else video_files.Mp4)(fps or rate, width)
    try:
        found = evaluation.play_episodes(run, lambda: video_files.Filmed(make(), reel.add), *how)
        content = reel.content()
    finally:
        reel.close()
    if path is None:
        path = evaluation.reserve_path(run.folder / "video", f"{run.step:012d}", kind)
    files.replace_file(path, content)
    if reel.lost:
        print_warning(
            f"{path} ends after {video_files.LONGEST:,} frames, as a GIF must: {reel.lost:,} more "
            f"are not in it. An MP4 has them all: --save film.mp4, or run.video('film.mp4')."
        )
    return path, found


def _drawing(run: "Run", mode: str) -> tuple[Callable[[], Any], float]:
    """Return what makes an environment that draws, tried out, and its steps per second."""
    if mode == "rgb_array":
        configure_headless_drawing()
    make = run.made()
    taken = inspect.signature(run.env_fn).parameters.values() if run.env_fn else ()
    if run.env_fn is None or any(p.name == "render_mode" or p.kind is p.VAR_KEYWORD for p in taken):
        make = functools.partial(make, render_mode=mode)
    return make, _try_drawing(make, mode)


def _try_drawing(make: Callable[[], Any], mode: str) -> float:
    """Draw once and return the environment's steps per second; what is lacking is said here."""
    env: Any = None
    frame: Any = None
    try:
        env = make()
        able = getattr(env, "render_mode", None) == mode
        if able:
            env.reset(seed=0)
        if able and mode == "rgb_array":
            frame = env.render()
    except errors.ConfigError:
        raise
    except Exception as error:  # whatever it raises, it is the environment's
        text = f"{type(error).__name__}: {error}"
        hint = NO_CONTEXT if re.search("opengl|egl|glfw|osmesa|glget", text, re.IGNORECASE) else ""
        missing = next((name for name in EXTRAS if f"{name} is not installed" in text.lower()), "")
        if missing:
            hint = f"Install it: pip install 'purerl[{EXTRAS[missing]}]'"
        raise errors.ConfigError(f"the environment cannot be drawn: {text}. {hint}") from error
    finally:
        if env is not None:
            env.close()
    if not able:
        raise errors.ConfigError(
            f"the environment must have render_mode={mode!r}, got "
            f"{getattr(env, 'render_mode', None)!r}. A function that makes one can take "
            f"render_mode as an argument and hand it on to gymnasium.make."
        )
    if mode == "rgb_array" and (getattr(frame, "ndim", 0) != 3 or frame.dtype != "uint8"):
        raise errors.ConfigError(
            f"render() must return an array of uint8 [height, width, 3], got {type(frame)}."
        )
    return float((env.metadata or {}).get("render_fps") or 30)


def configure_headless_drawing() -> None:
    """Where there is no display, let MuJoCo and SDL draw without one, as far as not set."""
    if has_display():
        return
    if not os.environ.get("SDL_VIDEODRIVER"):
        os.environ["SDL_VIDEODRIVER"] = "dummy"
    if not os.environ.get("MUJOCO_GL"):
        os.environ.pop("MUJOCO_GL", None)  # empty, it is an error
        for library in ("EGL", "OSMesa"):
            if ctypes.util.find_library(library):
                os.environ["MUJOCO_GL"] = library.lower()
                break


def get_display() -> str:
    """Return the display that is named for windows, or nothing."""
    return os.environ.get("WAYLAND_DISPLAY") or os.environ.get("DISPLAY") or ""


def has_display() -> bool:
    """Say whether a window can be opened: a display is named, and somebody answers there."""
    if sys.platform in ("darwin", "win32"):
        return True
    wayland = os.environ.get("WAYLAND_DISPLAY")
    if wayland and _answers(os.path.join(os.environ.get("XDG_RUNTIME_DIR", ""), wayland)):
        return True
    found = re.fullmatch(r"(?:\w+/)?(.*):(\d{1,5})(?:\.\d+)?", os.environ.get("DISPLAY", ""))
    if found is None:
        return False
    host, number = found[1], int(found[2])
    if host not in ("", "unix"):
        return _answers((host, 6000 + number))
    path = f"/tmp/.X11-unix/X{number}"
    return _answers(f"\0{path}") or _answers(path)


def _answers(address: str | tuple[str, int]) -> bool:
    """Say whether somebody listens at a socket: a path, or a host and its port."""
    try:
        if isinstance(address, tuple):
            socket.create_connection(address, timeout=WAIT).close()
        else:
            with socket.socket(socket.AF_UNIX) as one:
                one.settimeout(WAIT)
                one.connect(address)
    except (OSError, OverflowError):  # nobody there, no such host, no such port
        return False
    return True


def command(words: list[str]) -> int:
    """Show a policy at play."""
    parser = run_arguments.make_parser(
        "watch", "Show a policy at play: in a window, or in a file without one."
    )
    run_arguments.add_episode_flags(parser, "-n", default=1)
    add = parser.add_argument
    # fmt: off
    add("--save", type=Path, metavar="FILE",
        help="to this file, .gif or .mp4 (default: a window; without a display a GIF in the run's)")
    add("--fps", type=float, metavar="N",
        help="steps per second of the film (default: the environment's)")
    add("--width", type=int, metavar="PIXELS",
        help="of the film, at most (default: 320 of a GIF, the frame's of an MP4)")
    add("--max-steps", "--max_steps", "--len", "-l", type=int, metavar="STEPS",
        help="cut episodes at this length (default: as in training; 0: the environment's limit)")
    # fmt: on
    parser.add_argument("--norender", "-nr", action="store_true", help="play and draw nothing")
    args = parser.parse_args(words)
    return run_arguments.run_command("watch", lambda: _watch(args))


def _watch(args: argparse.Namespace) -> None:
    run = run_arguments.load_run(args, args.run)
    how = (args.episodes, args.seed, not args.stochastic, args.max_steps)
    path = None
    if args.norender:
        found = evaluation.play_episodes(run, run.made(), *how)
    elif args.save is None and has_display():
        found = evaluation.play_episodes(run, _drawing(run, "human")[0], *how)
    else:
        if args.save is None and get_display():
            print_warning(
                f"nobody answers at the display {get_display()}: a GIF instead of a window"
            )
        path, found = _record_video(run, args.save, args.fps, args.width, *how)
    lines = [
        f"episode {i}: return {value:.1f}, length {length}"
        for i, (value, length) in enumerate(zip(found.returns, found.lengths, strict=True), 1)
    ]
    lines.append(f"return {found.mean:.1f}, std {found.std:.1f}, length {found.mean_length:.0f}")
    if path:
        lines.append(f"written: {path} ({format_size(path.stat().st_size)})")
    print_lines("\n".join(lines))
