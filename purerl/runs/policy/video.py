"""A policy at play, in a window or in a GIF or MP4 file.

The episodes are those of `Run.evaluate` with the same seed. Without a display MuJoCo draws through
EGL or OSMesa, and SDL into memory.
"""

import contextlib
import functools
import inspect
import math
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium
import numpy as np

from purerl.errors import ConfigError, StorageError
from purerl.runs.console import print_warning
from purerl.runs.policy.display import configure_headless_drawing
from purerl.runs.policy.evaluation import Evaluation, play_episodes, reserve_path
from purerl.runs.record import files

if TYPE_CHECKING:
    from purerl.runs.policy.run import Run

GIF_WIDTH = 320  # maximum width of a GIF in pixels
GIF_BITS = 6  # a GIF has 2**6 = 64 colours per frame
GIF_RATE = 30  # maximum frames per second of a GIF: viewers slow down faster ones
GIF_FRAMES = 3_000  # maximum number of frames of a GIF, which are all in memory
NO_CONTEXT = (
    "No off-screen OpenGL context could be made. On Debian or Ubuntu: apt-get install libegl1 "
    "libgl1-mesa-dri; or libosmesa6, with MUJOCO_GL=osmesa."
)
EXTRAS = {"pygame": "classic", "mujoco": "mujoco", "box2d": "box2d"}  # missing package -> extra


class Recording(NamedTuple):
    """A video file and the episodes that it shows."""

    path: Path
    played: Evaluation


def record_video(
    run: "Run",
    path: str | Path | None = None,
    fps: float | None = None,
    width: int | None = None,
    max_steps: int | None = None,
    **episodes: Any,
) -> Recording:
    """Play episodes into a new GIF or MP4 file.

    Args:
        run: Run whose policy plays.
        path: New file that ends in `.gif` or `.mp4`; None for a GIF in the run's folder.
        fps: Environment steps per second of the video; None for the environment's own rate.
        width: Maximum width in pixels; None for 320 in a GIF and no limit in an MP4.
        max_steps: Length limit of an episode, as `max_ep_len` of `Run.evaluate`.
        **episodes: `episodes`, `seed` and `deterministic`, as for `Run.evaluate`; one episode by
            default.
    """
    path = None if path is None else Path(path)
    suffix = ".gif" if path is None else path.suffix
    if suffix not in (".gif", ".mp4"):
        raise ConfigError(f"a video must end in .gif or .mp4, got {str(path)!r}.")
    if path is not None and path.exists():
        raise ConfigError(f"{path} already exists; purerl never overwrites files.")
    if fps is not None and not 1 <= fps <= 1000:
        raise ConfigError(f"fps must be in 1 .. 1000, got {fps}.")
    if width is not None and width < 16:
        raise ConfigError(f"width must be at least 16 pixels, got {width}.")
    make, rate = prepare_drawing(run, "rgb_array")
    files.make_folder(run.folder / "video" if path is None else path.parent)
    with tempfile.TemporaryDirectory(prefix="purerl-") as folder:
        film = Film(Path(folder, f"film{suffix}"), fps or rate, width)
        try:
            played = play_episodes(
                run, lambda: Filmed(make(), film.add), max_ep_len=max_steps, **episodes
            )
        finally:
            film.close()
        content = film.read()
    if path is None:
        path = reserve_path(run.folder / "video", f"{run.step:012d}", suffix)
    files.replace_file(path, content)
    if film.lost:
        print_warning(
            f"{path} ends after {GIF_FRAMES:,} frames, the limit of a GIF: {film.lost:,} more "
            f"are not in it. An MP4 has them all: --save film.mp4, or run.video('film.mp4')."
        )
    return Recording(path, played)


def play_in_window(run: "Run", **how: Any) -> Evaluation:
    """Play episodes in a window; the arguments are those of `Run.evaluate`."""
    return play_episodes(run, prepare_drawing(run, "human")[0], **how)


def prepare_drawing(run: "Run", mode: str) -> tuple[Callable[[], Any], float]:
    """Draw a frame to see that it works; return what makes the environment, and steps per second.

    Raises:
        ConfigError: if the environment cannot be drawn; the message names what to install.
    """
    if mode == "rgb_array":
        configure_headless_drawing()
    make = run.make_env_fn()
    taken = inspect.signature(run.env_fn).parameters.values() if run.env_fn else ()
    if run.env_fn is None or any(p.name == "render_mode" or p.kind is p.VAR_KEYWORD for p in taken):
        make = functools.partial(make, render_mode=mode)
    env: Any = None
    frame: Any = None
    try:
        env = make()
        drawable = getattr(env, "render_mode", None) == mode
        if drawable:
            env.reset(seed=0)
        if drawable and mode == "rgb_array":
            frame = env.render()
    except ConfigError:
        raise
    except Exception as error:  # environments raise errors of any class
        raise ConfigError(_explain_failure(error)) from error
    finally:
        if env is not None:
            env.close()
    if not drawable:
        raise ConfigError(
            f"the environment must have render_mode={mode!r}, got "
            f"{getattr(env, 'render_mode', None)!r}. A function that makes one can take "
            f"render_mode as an argument and hand it on to gymnasium.make."
        )
    if mode == "rgb_array" and (getattr(frame, "ndim", 0) != 3 or frame.dtype != "uint8"):
        raise ConfigError(
            f"render() must return an array of uint8 [height, width, 3], got {type(frame)}."
        )
    return make, float((env.metadata or {}).get("render_fps") or 30)


def _explain_failure(error: Exception) -> str:
    """Return why an environment cannot be drawn, and what to install."""
    text = f"{type(error).__name__}: {error}"
    hint = NO_CONTEXT if re.search("opengl|egl|glfw|osmesa|glget", text, re.IGNORECASE) else ""
    missing = next((name for name in EXTRAS if f"{name} is not installed" in text.lower()), "")
    if missing:
        hint = f"Install it: pip install 'purerl[{EXTRAS[missing]}]'"
    return f"the environment cannot be drawn: {text}. {hint}"


class Filmed(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Pass each frame of an environment to a function; a reset without a step adds no frame."""

    def __init__(self, env: Any, add: Callable[[Any], None]) -> None:
        super().__init__(env)
        follow_agent(env)
        self._add = add
        self._first: Any = None

    def reset(self, **options: Any) -> Any:
        """Start an episode and remember its first frame."""
        found = self.env.reset(**options)
        self._first = self.env.render()
        return found

    def step(self, action: Any) -> Any:
        """Take an action and add its frame, after the first frame of a new episode."""
        found = self.env.step(action)
        if self._first is not None:
            self._add(self._first)
            self._first = None
        self._add(self.env.render())
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


class Film:
    """Writer of a GIF that repeats for ever, or of an MP4 (H.264) with every frame.

    Args:
        path: New file that ends in `.gif` or `.mp4`.
        rate: Frames per second that `add` is given.
        width: Maximum width in pixels; None for 320 in a GIF and no limit in an MP4.
    """

    def __init__(self, path: Path, rate: float, width: int | None) -> None:
        try:
            import imageio.v2 as imageio  # start-up time, and an extra
            import imageio_ffmpeg
            from PIL import Image
        except ImportError as error:
            raise ConfigError(f"a video needs {error.name}: pip install 'purerl[video]'") from error
        self._image, self._count = Image, imageio_ffmpeg.count_frames_and_secs
        self._path, self._is_gif = path, path.suffix == ".gif"
        self._width = width or (GIF_WIDTH if self._is_gif else 2**16)
        self._every = math.ceil(rate / GIF_RATE) if self._is_gif else 1
        self._period = 100 * self._every / rate  # of a GIF, which counts centiseconds
        self._delays: list[int] = []  # milliseconds of each frame; a GIF is encoded by `close`
        self._given = 0
        self.lost = 0  # frames over the limit of a GIF
        options: dict[str, Any] = {"fps": rate, "macro_block_size": 2, "ffmpeg_log_level": "error"}
        if self._is_gif:
            options = {"loop": 0, "bits": GIF_BITS, "duration": self._delays}
        self._writer = imageio.get_writer(path, mode="I", **options)

    def add(self, frame: np.ndarray) -> None:
        """Write a frame `[height, width, 3]`, unless a GIF would get too fast or too long."""
        due = self._given % self._every == 0
        self._given += 1
        number = len(self._delays)
        if due and self._is_gif and number >= GIF_FRAMES:
            self.lost += 1
        elif due:
            start, end = (round(self._period * i) for i in (number, number + 1))
            self._delays.append(10 * (end - start))
            with _guard_encoder():
                self._writer.append_data(self._shrink(frame))

    def _shrink(self, frame: np.ndarray) -> np.ndarray:
        """Return a frame of at most the film's width; H.264 needs even sizes."""
        height, width = frame.shape[:2]
        unit = 1 if self._is_gif else 2
        wide = min(width, self._width) // unit * unit
        tall = max(unit, round(height * wide / width / unit) * unit)
        if (wide, tall) == (width, height):
            return frame
        image = self._image.fromarray(np.ascontiguousarray(frame))
        return np.asarray(image.resize((wide, tall), self._image.Resampling.BOX))

    def close(self) -> None:
        """Finish the file."""
        with _guard_encoder():
            self._writer.close()

    def read(self) -> bytes:
        """Return the content of the finished file."""
        with _guard_encoder():
            written = len(self._delays) if self._is_gif else self._count(self._path)[0]
            if written != len(self._delays):
                raise OSError(f"{written} of {len(self._delays)} frames were written")
            return self._path.read_bytes()


@contextlib.contextmanager
def _guard_encoder() -> Iterator[None]:
    """Raise errors of the encoder and of the disk as `StorageError`, without JAX's fork warning."""
    try:
        with warnings.catch_warnings():  # JAX warns of forks, but here ffmpeg starts at once
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            yield
    except (OSError, RuntimeError) as error:  # RuntimeError: ffmpeg cannot read the file
        raise StorageError(f"the video could not be written: {error}") from error
