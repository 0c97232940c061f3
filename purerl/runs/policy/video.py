"""Record episodes of a policy to a GIF or MP4 file, and prepare environments for drawing.

The episodes are those of `Run.evaluate` with the same seed. Without a display, MuJoCo renders with
EGL or OSMesa, and SDL renders to memory.
"""

import contextlib
import ctypes.util
import dataclasses
import functools
import inspect
import io
import itertools
import math
import os
import re
import socket
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from purerl.errors import ConfigError, StorageError
from purerl.runs.console import print_warning
from purerl.runs.policy.evaluation import Evaluation, reserve_path
from purerl.runs.record import files, machine, safe_files

if TYPE_CHECKING:
    from purerl.runs.policy.run import Run

GIF_WIDTH = 320  # maximum width of a GIF in pixels
GIF_COLOURS = 64
GIF_SAMPLE = 32  # number of first frames from which the colours of a GIF are chosen
GIF_RATE = 30  # maximum frames per second of a GIF: viewers slow down faster ones
GIF_FRAMES = 3_000  # maximum number of frames of a GIF: all are in memory
NO_CONTEXT = (
    "No off-screen OpenGL context could be created. On Debian or Ubuntu: apt-get install libegl1 "
    "libgl1-mesa-dri. Or install libosmesa6 and set MUJOCO_GL=osmesa."
)
WAIT = 2.0  # seconds that a display server has to accept a connection


def record_video(
    run: "Run",
    path: str | Path | None = None,
    fps: float | None = None,
    width: int | None = None,
    max_steps: int | None = None,
    **episodes: Any,
) -> tuple[Path, Evaluation]:
    """Record episodes to a new GIF or MP4 file; return its path and the evaluation.

    Args:
        run: Run whose policy acts.
        path: New file that ends in `.gif` or `.mp4`; None for a GIF in the run's folder.
        fps: Environment steps per second of the video; None for the environment's own rate.
        width: Maximum width in pixels; None for 320 in a GIF and no limit in an MP4.
        max_steps: Maximum length of an episode, like `max_ep_len` of `Run.evaluate`.
        **episodes: Arguments `episodes` (1 by default), `seed` and `deterministic` of
            `Run.evaluate`.
    """
    path = None if path is None else Path(path)
    suffix = ".gif" if path is None else path.suffix
    if suffix not in (".gif", ".mp4"):
        raise ConfigError(f"the name of a video must end in .gif or .mp4, got {str(path)!r}.")
    if path is not None and path.exists():
        raise ConfigError(f"{path} already exists; purerl never overwrites files.")
    if fps is not None and not 1 <= fps <= 1000:
        raise ConfigError(f"fps must be in 1 .. 1000, got {fps}.")
    if width is not None and width < 16:
        raise ConfigError(f"width must be at least 16 pixels, got {width}.")
    place = safe_files.get_subfolder(run.folder, "video") if path is None else path.parent
    make, rate = prepare_drawing(run, "rgb_array")
    files.make_folder(place)
    with contextlib.ExitStack() as stack:
        film = Gif(fps or rate, width) if suffix == ".gif" else Mp4(fps or rate, width, stack)
        filmed = dataclasses.replace(run, env_fn=lambda: Filmed(make(), film.add))
        played = filmed.evaluate(**{"episodes": 1, "max_ep_len": max_steps} | episodes)
        content = film.content()
    path = path or reserve_path(place, f"{run.step:012d}", suffix)
    files.replace_file(path, content)
    if film.lost:
        print_warning(
            f"{path} ends after {GIF_FRAMES:,} frames, the limit for a GIF; {film.lost:,} more are "
            f"missing. An MP4 contains every frame: --save film.mp4, or run.video('film.mp4')."
        )
    return path, played


def prepare_drawing(run: "Run", mode: str) -> tuple[Callable[[], Any], float]:
    """Draw a test frame; return a function that makes the environment, and steps per second.

    Raises:
        ConfigError: if the environment cannot be drawn. Its message names missing packages.
    """
    if mode == "rgb_array":
        configure_headless_drawing()
    make = run.make_env_fn()
    taken = inspect.signature(run.env_fn).parameters.values() if run.env_fn else ()
    if run.env_fn is None or any(p.name == "render_mode" or p.kind is p.VAR_KEYWORD for p in taken):
        make = functools.partial(make, render_mode=mode)
    try:
        with contextlib.closing(make()) as env:
            if (drawn := getattr(env, "render_mode", None)) != mode:
                raise ConfigError(
                    f"the environment must have render_mode={mode!r}, got {drawn!r}. If a function "
                    f"makes it, let it accept render_mode and pass it on to gymnasium.make."
                )
            env.reset(seed=0)
            frame = env.render() if mode == "rgb_array" else np.zeros((1, 1, 3), np.uint8)
            if getattr(frame, "ndim", 0) != 3 or frame.dtype != "uint8":
                raise ConfigError(
                    f"render() must return a uint8 array [height, width, 3], got {type(frame)}."
                )
            return make, float((env.metadata or {}).get("render_fps") or 30)
    except ConfigError:
        raise
    except Exception as error:  # environments raise errors of any class
        text = f"{type(error).__name__}: {error}"
        hint = NO_CONTEXT if re.search("opengl|egl|glfw|osmesa|glget", text.lower()) else ""
        for extra, module in machine.EXTRAS.items():
            if f"{module} is not installed".lower() in text.lower():
                hint = f"Install it: pip install 'purerl[{extra}]'"
        raise ConfigError(f"the environment cannot be drawn: {text}. {hint}") from error


def configure_headless_drawing() -> None:
    """Without a display, set variables so that MuJoCo and SDL draw off-screen; keep the user's."""
    if not has_display():
        os.environ["SDL_VIDEODRIVER"] = os.environ.get("SDL_VIDEODRIVER") or "dummy"
        library = next(filter(ctypes.util.find_library, ("EGL", "OSMesa")), "").lower()
        if chosen := os.environ.pop("MUJOCO_GL", "") or library:  # MuJoCo refuses an empty value
            os.environ["MUJOCO_GL"] = chosen


def get_display() -> str:
    """Return the name of the display that shows windows, or an empty string."""
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
    """Return whether an address accepts connections; it is a path, or a host and its port."""
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


class Filmed(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Environment that passes its frames to a function; a reset without a step passes none."""

    def __init__(self, env: Any, add: Callable[[Any], None]) -> None:
        super().__init__(env)
        follow_agent(env)
        self._add = add
        self._first: tuple[Any, ...] = ()

    def reset(self, **options: Any) -> Any:
        """Start an episode and keep its first frame."""
        found = self.env.reset(**options)
        self._first = (self.env.render(),)
        return found

    def step(self, action: Any) -> Any:
        """Take an action and pass on its frame; in a new episode, first the frame of the reset."""
        found = self.env.step(action)
        for frame in (*self._first, self.env.render()):
            self._add(frame)
        self._first = ()
        return found


def follow_agent(env: Any) -> None:
    """Use MuJoCo's camera `track` if the environment's own camera stands still."""
    renderer = getattr(env.unwrapped, "mujoco_renderer", None)
    if renderer is None or renderer.camera_id != -1:
        return
    model, settings = env.unwrapped.model, renderer.default_cam_config or {}
    names = [model.camera(i).name for i in range(model.ncam)]
    if "track" in names and "trackbodyid" not in settings:
        renderer.camera_id = names.index("track")


class Gif:
    """GIF that repeats for ever, with one palette and at most `GIF_RATE` frames per second."""

    def __init__(self, rate: float, width: int | None) -> None:
        try:
            from PIL import Image  # an extra
        except ImportError as error:
            raise ConfigError("a GIF needs Pillow: pip install 'purerl[video]'") from error
        self._image, self._width = Image, width or GIF_WIDTH
        self._every = math.ceil(rate / GIF_RATE)
        self._period = 100 * self._every / rate  # duration of a frame in hundredths of a second
        self._given, self.lost = 0, 0  # frames received, and frames beyond the limit
        self._frames: list[Any] = []
        self._palette: Any = None

    def add(self, frame: np.ndarray) -> None:
        """Add a frame `[height, width, 3]`, unless the GIF would get too fast or too long."""
        due = self._given % self._every == 0
        self._given += 1
        if due and len(self._frames) >= GIF_FRAMES:
            self.lost += 1
        elif due:
            image = self._image.fromarray(np.ascontiguousarray(frame))
            image.thumbnail((self._width, image.height), self._image.Resampling.BOX)
            self._frames.append(image)
            if len(self._frames) % GIF_SAMPLE == 0:
                self._reduce_colours()

    def content(self) -> bytes:
        """Return the bytes of the file."""
        self._reduce_colours()
        ends = [round(self._period * i) for i in range(len(self._frames) + 1)]
        delays = [10 * (end - start) for start, end in itertools.pairwise(ends)]  # milliseconds
        file = io.BytesIO()
        first, *rest = self._frames
        first.save(file, "GIF", save_all=True, append_images=rest, duration=delays, loop=0)
        return file.getvalue()

    def _reduce_colours(self) -> None:
        """Reduce new frames to the palette, which is chosen from the first frames."""
        if self._palette is None:
            sheet = np.concatenate([np.asarray(image) for image in self._frames[::4]])
            self._palette = self._image.fromarray(sheet).quantize(GIF_COLOURS)
        how = {"palette": self._palette, "dither": self._image.Dither.NONE}
        self._frames = [x if x.mode == "P" else x.quantize(**how) for x in self._frames]


class Mp4:
    """MP4 (H.264) of every frame; ffmpeg writes it to a temporary file, which `stack` removes."""

    lost = 0

    def __init__(self, rate: float, width: int | None, stack: contextlib.ExitStack) -> None:
        try:
            import imageio_ffmpeg  # an extra
        except ImportError as error:
            raise ConfigError("an MP4 needs imageio-ffmpeg: pip install 'purerl[video]'") from error
        self._ffmpeg, self._rate, self._width = imageio_ffmpeg, rate, width or 2**16
        self._stack, self._given = stack, 0
        self._writer: Any = None
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="purerl-"))
        self._path = Path(folder, "film.mp4")

    def add(self, frame: np.ndarray) -> None:
        """Add a frame `[height, width, 3]`."""
        with _guard_ffmpeg():
            if self._writer is None:
                size = f"scale=trunc(min(iw\\,{self._width})/2)*2:-2"  # H.264 needs even numbers
                self._writer = self._ffmpeg.write_frames(
                    *(self._path, (frame.shape[1], frame.shape[0])),
                    fps=self._rate,
                    quality=None,  # ffmpeg's default
                    macro_block_size=1,
                    ffmpeg_log_level="error",
                    output_params=["-vf", size, "-movflags", "+faststart"],
                )
                self._stack.callback(self._writer.close)
                self._writer.send(None)  # starts ffmpeg
            self._writer.send(np.ascontiguousarray(frame))
        self._given += 1

    def content(self) -> bytes:
        """Return the bytes of the file."""
        with _guard_ffmpeg():
            self._writer.close()
            written, _ = self._ffmpeg.count_frames_and_secs(self._path)
            if written != self._given:
                raise OSError(f"it has {written} of {self._given} frames")
            return self._path.read_bytes()


@contextlib.contextmanager
def _guard_ffmpeg() -> Iterator[None]:
    """Raise errors of ffmpeg as `StorageError`, and hide JAX's warning about forks."""
    try:
        with warnings.catch_warnings():  # the forked process becomes ffmpeg at once
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            yield
    except (OSError, RuntimeError) as error:
        raise StorageError(f"ffmpeg could not write the video: {error}") from error
