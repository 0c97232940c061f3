"""Videos of evaluation episodes, and drawing with and without a display."""

import ctypes.util
import dataclasses
import io
import json
import socket
import subprocess
import sys
import types

import gymnasium
import numpy as np
import pytest
from PIL import Image

from purerl.errors import ConfigError, StorageError
from purerl.runs.policy import video
from tests.mpi.launch import python
from tests.runs.trained import begun

RED, GREEN, BLUE = (200, 30, 40), (20, 180, 60), (30, 60, 220)


@pytest.fixture(autouse=True)
def no_display(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("MUJOCO_GL", "egl")


def read_frames(content):
    """Return the frames of a GIF as arrays, each with its duration in seconds."""
    image = Image.open(io.BytesIO(content))
    found = []
    for i in range(image.n_frames):
        image.seek(i)
        found.append((np.asarray(image.convert("RGB")), image.info["duration"] / 1000))
    assert image.info["loop"] == 0  # for ever
    image.close()
    return found


def paint_frames(number, height=40, width=60):
    """Yield frames with a red block that moves over green; a blue block appears later."""
    for i in range(number):
        frame = np.full((height, width, 3), GREEN, np.uint8)
        frame[10:20, i % 50 : i % 50 + 8] = RED
        if i % 40 > 20:
            frame[30:38, 5:15] = BLUE
        yield frame


@pytest.mark.parametrize(
    ("rate", "number", "shown"), [(20, 70, 70), (30, 61, 61), (50, 100, 50), (100, 10, 3)]
)
def test_a_gif_lasts_as_long_as_its_steps_and_shows_them(rate, number, shown):
    gif = video.Gif(rate, None)
    given = list(paint_frames(number))
    for frame in given:
        gif.add(frame)
    found = read_frames(gif.content())
    every = number // shown if shown != 3 else 4
    assert sum(seconds for _, seconds in found) == pytest.approx(shown * every / rate, abs=0.011)
    assert len(found) == shown
    for (image, _), wanted in zip(found, given[::every], strict=True):
        assert np.abs(image.astype(int) - wanted).max() <= 12
    assert all(seconds >= 0.02 for _, seconds in found)  # viewers slow down shorter frames


def test_a_wide_gif_is_made_smaller_and_a_long_one_is_cut(monkeypatch):
    monkeypatch.setattr(video, "GIF_FRAMES", 5)
    for width, size in ((None, (213, 320)), (90, (60, 90)), (900, (400, 600))):
        gif = video.Gif(10, width)
        for frame in paint_frames(9, 400, 600):
            gif.add(frame)
        found = read_frames(gif.content())
        assert found[0][0].shape[:2] == size
        assert len(found) == 5


def test_a_video_of_cartpole_shows_each_step_of_the_evaluated_episodes(tmp_path):
    run = dataclasses.replace(begun("ppo"), folder=tmp_path)
    path = run.video(episodes=2, fps=25)
    assert path == tmp_path / "video" / "000000000000-1.gif"
    assert path.stat().st_size < 200_000
    found, lengths = read_frames(path.read_bytes()), run.evaluate(2).lengths
    steps = sum(lengths) + 2  # each episode begins with the frame of its reset
    assert sum(seconds for _, seconds in found) == pytest.approx(steps / 25, abs=0.011)
    env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    env.reset(seed=0)
    picture = np.asarray(Image.fromarray(env.render()).resize((320, 213), Image.Resampling.BOX))
    env.close()
    for image, _ in found:  # the same scene, except for the positions of cart and pole
        assert (np.abs(image.astype(int) - picture).max(axis=2) > 40).mean() < 0.1
        assert (image.max(axis=2) < 60).mean() > 0.005  # the black cart
    assert run.video(str(tmp_path / "again.gif"), max_steps=3).exists()
    assert run.video().name == "000000000000-1.gif".replace("-1", "-2")


def test_frames_keep_their_order_and_a_reset_without_a_step_adds_none():
    class Numbered(gymnasium.Env):
        metadata = None
        render_mode = "rgb_array"
        state = 0

        def reset(self, **options):
            self.state += 100
            return self.state, {}

        def step(self, action):
            self.state += 1
            return self.state, 0.0, False, False, {}

        def render(self):
            return self.state

    seen = []
    env = video.Filmed(Numbered(), seen.append)
    env.reset(seed=0)
    env.step(0)
    env.step(0)
    env.reset()
    env.step(0)
    env.reset()
    assert seen == [100, 101, 102, 202, 203]


def test_existing_files_and_wrong_arguments_are_refused(tmp_path):
    run = dataclasses.replace(begun("ppo"), folder=tmp_path)
    (tmp_path / "there.gif").write_text("mine")
    for path, options, message in (
        (tmp_path / "there.gif", {}, "there.gif already exists; purerl never overwrites files"),
        (tmp_path / "film.avi", {}, "must end in .gif or .mp4"),
        (None, {"fps": 0}, "fps must be in 1 .. 1000, got 0"),
        (None, {"width": 3}, "width must be at least 16 pixels, got 3"),
        (None, {"episodes": 0}, "episodes must be an integer"),
    ):
        with pytest.raises(ConfigError, match=message):
            run.video(path, **options)
    assert (tmp_path / "there.gif").read_text() == "mine"
    assert not list((tmp_path / "video").iterdir())


def test_a_function_that_makes_the_environment_receives_the_render_mode(tmp_path):
    run = dataclasses.replace(begun("ppo"), folder=tmp_path)
    blind = dataclasses.replace(run, env_fn=lambda: gymnasium.make("CartPole-v1"))
    with pytest.raises(ConfigError, match="must have render_mode='rgb_array', got None"):
        blind.video()
    for env_fn in (
        lambda render_mode=None: gymnasium.make("CartPole-v1", render_mode=render_mode),
        lambda **options: gymnasium.make("CartPole-v1", **options),
        lambda: gymnasium.make("CartPole-v1", render_mode="rgb_array"),
    ):
        assert dataclasses.replace(run, env_fn=env_fn).video(max_steps=2).exists()


class Undrawn(gymnasium.Wrapper):
    """CartPole whose `render` raises or returns `reason`."""

    def __init__(self, reason, render_mode):
        super().__init__(gymnasium.make("CartPole-v1", render_mode=render_mode))
        self.reason = reason

    def render(self):
        if isinstance(self.reason, Exception):
            raise self.reason
        return self.reason


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        (
            gymnasium.error.DependencyNotInstalled("pygame is not installed, run x"),
            r"cannot be drawn: .*pip install 'purerl\[classic\]'",
        ),
        (RuntimeError("gladLoadGL error"), "cannot be drawn: RuntimeError: gladLoadGL error"),
        (
            AttributeError("'NoneType' object has no attribute 'eglQueryString'"),
            "No off-screen OpenGL context.*apt-get install libegl1.*MUJOCO_GL=osmesa",
        ),
        (None, "must return a uint8 array"),
        (np.zeros((2, 2, 3)), "must return a uint8 array"),
    ],
)
def test_an_environment_that_cannot_be_drawn_is_refused_with_the_remedy(tmp_path, reason, message):
    def env_fn(render_mode):
        return Undrawn(reason, render_mode)

    run = dataclasses.replace(begun("ppo"), folder=tmp_path, env_fn=env_fn)
    with pytest.raises(ConfigError, match=message):
        run.video()
    assert not (tmp_path / "video").exists()


@pytest.mark.parametrize(
    ("package", "name", "message"),
    [
        ("PIL", "a.gif", r"a GIF needs Pillow: pip install 'purerl\[video\]'"),
        ("imageio_ffmpeg", "a.mp4", r"an MP4 needs imageio-ffmpeg: pip install 'purerl\[video\]'"),
    ],
)
def test_missing_packages_are_named(tmp_path, monkeypatch, package, name, message):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=message):
        begun("ppo").video(tmp_path / name)


def test_an_mp4_contains_every_frame_at_the_right_rate(tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    run = dataclasses.replace(begun("td3"), folder=tmp_path)
    for name, width, size in (("a.mp4", None, (500, 500)), ("b.mp4", 101, (100, 100))):
        path = run.video(tmp_path / name, max_steps=20, width=width)
        words = [ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", str(path), "-f", "rawvideo"]
        words += ["-pix_fmt", "rgb24", "-"]
        info = subprocess.run([*words[:1], "-i", str(path)], capture_output=True, text=True).stderr
        assert ", 30 fps," in info
        raw = subprocess.run(words, capture_output=True, check=True).stdout
        assert len(raw) == 21 * size[0] * size[1] * 3
        images = np.frombuffer(raw, np.uint8).reshape(21, *size, 3)
        assert (images[:, 0, 0] > 245).all()  # white around the pendulum
        assert ((images[..., 0] > 150) & (images[..., 1] < 130)).any(axis=(1, 2)).all()  # the rod


def test_an_mp4_that_lacks_a_frame_is_refused(tmp_path, monkeypatch):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    real = ffmpeg.count_frames_and_secs
    monkeypatch.setattr(ffmpeg, "count_frames_and_secs", lambda path: (real(path)[0] - 1, 0.1))
    run = dataclasses.replace(begun("td3"), folder=tmp_path)
    with pytest.raises(
        StorageError, match="ffmpeg could not write the video: it has 3 of 4 frames"
    ):
        run.video(tmp_path / "a.mp4", max_steps=3)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("before", "settings", "names", "after"),
    [
        (-1, {"distance": 4.0}, ["top", "track"], 1),
        (-1, None, ["track"], 0),
        (-1, {"trackbodyid": 2}, ["top", "track"], -1),  # the default camera follows already
        (0, {}, ["top", "track"], 0),  # the environment was made with a camera
        (-1, {}, ["top"], -1),
    ],
)
def test_the_camera_follows_the_agent_unless_another_was_chosen(before, settings, names, after):
    cameras = [types.SimpleNamespace(name=name) for name in names]
    model = types.SimpleNamespace(ncam=len(names), camera=cameras.__getitem__)
    renderer = types.SimpleNamespace(camera_id=before, default_cam_config=settings)
    inner = types.SimpleNamespace(mujoco_renderer=renderer, model=model)
    video.follow_agent(types.SimpleNamespace(unwrapped=inner))
    assert renderer.camera_id == after


def test_headless_mujoco_is_drawn_through_egl(tmp_path):
    pytest.importorskip("mujoco")
    if not ctypes.util.find_library("EGL"):
        pytest.skip("no libEGL on this machine")
    code = (
        "import sys, gymnasium, json\n"
        "from purerl.runs.policy import video\n"
        "video.configure_headless_drawing()\n"
        "env = gymnasium.make('HalfCheetah-v5', render_mode='rgb_array')\n"
        "video.follow_agent(env)\n"
        "env.reset(seed=0)\n"
        "frame = env.render()\n"
        "found = [frame.shape, float(frame.std()), env.unwrapped.mujoco_renderer.camera_id]\n"
        "env.close()\n"
        "print(json.dumps(found))\n"
    )
    done = python("-c", code, MUJOCO_GL="", DISPLAY="", WAYLAND_DISPLAY="")
    assert done.code == 0, done.err
    shape, spread, camera = json.loads(done.out.splitlines()[-1])
    assert (shape, camera) == ([480, 480, 3], 0)
    assert spread > 30


@pytest.mark.parametrize(
    ("libraries", "before", "after"),
    [
        (("EGL", "OSMesa"), None, "egl"),
        (("OSMesa",), "", "osmesa"),
        ((), None, None),
        ((), "", None),  # MuJoCo refuses an empty value
        (("EGL",), "glfw", "glfw"),
    ],
)
def test_without_a_display_drawing_is_off_screen(monkeypatch, libraries, before, after):
    found = {name: name for name in libraries}
    monkeypatch.setattr(video.ctypes.util, "find_library", found.get)
    monkeypatch.delenv("SDL_VIDEODRIVER")
    monkeypatch.delenv("MUJOCO_GL")
    if before is not None:
        monkeypatch.setenv("MUJOCO_GL", before)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(video, "_accepts", lambda address: True)
    video.configure_headless_drawing()
    assert (video.os.environ.get("MUJOCO_GL"), "SDL_VIDEODRIVER" in video.os.environ) == (
        before, False,
    )  # fmt: skip
    monkeypatch.delenv("DISPLAY")
    monkeypatch.setattr(video.sys, "platform", "linux")
    video.configure_headless_drawing()
    assert video.os.environ.get("MUJOCO_GL") == after
    assert video.os.environ["SDL_VIDEODRIVER"] == "dummy"


def test_a_display_counts_only_if_it_accepts_connections(tmp_path, monkeypatch):
    monkeypatch.setattr(video.sys, "platform", "linux")
    path = tmp_path / "wayland-9"
    for name in (path.name, str(path)):
        monkeypatch.setenv("WAYLAND_DISPLAY", name)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        assert not video.has_display()
    with socket.socket(socket.AF_UNIX) as there:
        there.bind(str(path))
        there.listen()
        for name in (path.name, str(path)):
            monkeypatch.setenv("WAYLAND_DISPLAY", name)
            assert video.has_display()
    assert not video.has_display()  # the file still exists, but nobody listens
    monkeypatch.delenv("WAYLAND_DISPLAY")
    with socket.create_server(("127.0.0.1", 0)) as there:
        number = there.getsockname()[1] - 6000
        if number >= 0:
            monkeypatch.setenv("DISPLAY", f"127.0.0.1:{number}.0")
            assert video.has_display()
    for name in (":77", ":77.0", "unix:77", "127.0.0.1:77", ":99999", "word", ""):
        monkeypatch.setenv("DISPLAY", name)
        assert not video.has_display()
    asked = []
    monkeypatch.setattr(video, "_accepts", lambda address: asked.append(address))
    monkeypatch.setenv("DISPLAY", ":3.1")
    assert not video.has_display()
    assert asked == ["\0/tmp/.X11-unix/X3", "/tmp/.X11-unix/X3"]
