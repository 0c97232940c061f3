"""Frames of an environment into the bytes of a GIF or MP4 file.

film = Gif(steps_per_second, width)
env = Filmed(env, film.add)     # whatever steps this environment, the film is told
film.content()
"""

import io
import itertools
import math
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from purerl.errors import ConfigError, StorageError

WIDTH = 320  # pixels of a GIF, at most
COLORS = 64  # of a GIF
FASTEST = 30  # frames per second of a GIF; viewers slow down what is much faster
LONGEST = 3_000  # frames of a GIF, which is made in memory
SAMPLED = 32  # first frames of a GIF, of whose colours it chooses


class Filmed(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Hand over what each reset and step shows; a reset without a step shows nothing."""

    def __init__(self, env: Any, take: Callable[[Any], None]) -> None:
        super().__init__(env)
        follow(env)
        self._take = take
        self._first: Any = None

    def reset(self, **options: Any) -> Any:
        """Start an episode and keep how it looks."""
        found = self.env.reset(**options)
        self._first = self.env.render()
        return found

    def step(self, action: Any) -> Any:
        """Take an action; hand over the episode's first frame before that of its first step."""
        found = self.env.step(action)
        if self._first is not None:
            self._take(self._first)
            self._first = None
        self._take(self.env.render())
        return found


def follow(env: Any) -> None:
    """Let MuJoCo's camera `track` follow what runs, where the environment's own stands still."""
    renderer = getattr(env.unwrapped, "mujoco_renderer", None)
    if renderer is None or renderer.camera_id != -1:
        return
    model, settings = env.unwrapped.model, renderer.default_cam_config or {}
    names = [model.camera(i).name for i in range(model.ncam)]
    if "track" in names and "trackbodyid" not in settings:
        renderer.camera_id = names.index("track")


class Gif:
    """A GIF that repeats for ever, in few colours and at most so wide.

    Args:
        rate: frames that `add` is given per second of the film.
        width: of a frame in pixels, at most.
    """

    def __init__(self, rate: float, width: int | None) -> None:
        try:
            from PIL import Image
        except ImportError as error:
            raise ConfigError("a GIF needs Pillow: pip install 'purerl[video]'") from error
        self._image, self._rate, self._width = Image, rate, width or WIDTH
        self._every = math.ceil(rate / FASTEST)
        self._given, self.lost = 0, 0  # frames that came, and those that came too late
        self._frames: list[Any] = []
        self._palette: Any = None

    def add(self, frame: np.ndarray) -> None:
        """Add a frame `[height, width, 3]`, where the film is not too fast or too long for it."""
        due = self._given % self._every == 0
        self._given += 1
        if due and len(self._frames) >= LONGEST:
            self.lost += 1
        if not due or len(self._frames) >= LONGEST:
            return
        image = self._image.fromarray(np.ascontiguousarray(frame))
        if image.width > self._width:
            height = max(1, round(image.height * self._width / image.width))
            image = image.resize((self._width, height), self._image.Resampling.BOX)
        self._frames.append(self._reduced(image) if self._palette else image)
        if self._palette is None and len(self._frames) == SAMPLED:
            self._choose()

    def content(self) -> bytes:
        """Return the file."""
        if self._palette is None:
            self._choose()
        period = self._every / self._rate
        ends = [round(100 * period * i) for i in range(len(self._frames) + 1)]  # in centiseconds
        delays = [10 * (b - a) for a, b in itertools.pairwise(ends)]
        file = io.BytesIO()
        first, *rest = self._frames
        first.save(file, "GIF", save_all=True, append_images=rest, duration=delays, loop=0)
        return file.getvalue()

    def close(self) -> None:
        """Forget the frames."""
        self._frames = []

    def _choose(self) -> None:
        """Choose the colours, and reduce the frames so far to them."""
        sample = self._frames[:: max(1, len(self._frames) // 8)]
        width, height = sample[0].size
        sheet = self._image.new("RGB", (width, height * len(sample)))
        for i, image in enumerate(sample):
            sheet.paste(image, (0, i * height))
        self._palette = sheet.quantize(COLORS)
        self._frames = [self._reduced(image) for image in self._frames]

    def _reduced(self, image: Any) -> Any:
        return image.quantize(palette=self._palette, dither=self._image.Dither.NONE)


class Mp4:
    """An MP4 (H.264) of every frame, written as they come.

    Args:
        rate: frames per second.
        width: of a frame in pixels, at most; None for as they come.
    """

    def __init__(self, rate: float, width: int | None) -> None:
        try:
            import imageio_ffmpeg
        except ImportError as error:
            raise ConfigError("an MP4 needs imageio-ffmpeg: pip install 'purerl[video]'") from error
        self._ffmpeg, self._rate, self._width = imageio_ffmpeg.get_ffmpeg_exe(), rate, width
        self.lost = 0  # none ever
        self._folder = Path(tempfile.mkdtemp(prefix="purerl-"))
        self._process: subprocess.Popen[bytes] | None = None

    def add(self, frame: np.ndarray) -> None:
        """Add a frame `[height, width, 3]`."""
        if self._process is None:
            self._process = self._started(*frame.shape[:2])
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(np.ascontiguousarray(frame).tobytes())
        except OSError as error:
            raise StorageError(f"ffmpeg ended with {self._process.wait()}.") from error

    def content(self) -> bytes:
        """Return the file."""
        if self._process is None:
            raise StorageError("an MP4 needs a frame at least.")
        self._process.communicate()
        if self._process.returncode:
            raise StorageError(f"ffmpeg ended with {self._process.returncode}.")
        return (self._folder / "film.mp4").read_bytes()

    def close(self) -> None:
        """End the encoder and remove its file."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.communicate()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _started(self, height: int, width: int) -> subprocess.Popen[bytes]:
        """Start the encoder on raw frames of a size."""
        wide = min(width, self._width or width) // 2 * 2  # H.264 wants even numbers
        tall = max(2, round(height * wide / width / 2) * 2)
        words = [self._ffmpeg, "-v", "error", "-f", "rawvideo", "-pix_fmt", "rgb24"]
        words += ["-s", f"{width}x{height}", "-r", f"{self._rate}", "-i", "-", "-an"]
        words += ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-vf", f"scale={wide}:{tall}"]
        words += ["-movflags", "+faststart", str(self._folder / "film.mp4")]
        return subprocess.Popen(words, stdin=subprocess.PIPE)
