"""Draw states of environments written in JAX.

Gymnasium draws those which equal one of its own. A game on a grid is drawn if the environment has a
function `grid(state)` that returns `[rows, columns, channels]` with 0 for empty cells.
"""

import functools
from typing import Any

import gymnasium
import numpy as np

from purerl.envs.classic.acrobot import Acrobot
from purerl.envs.classic.cartpole import CartPole
from purerl.envs.classic.mountain_car import MountainCar, MountainCarContinuous
from purerl.envs.classic.pendulum import Pendulum

GYMNASIUM: dict[type, str] = {
    CartPole: "CartPole-v1",
    Pendulum: "Pendulum-v1",
    Acrobot: "Acrobot-v1",
    MountainCar: "MountainCar-v0",
    MountainCarContinuous: "MountainCarContinuous-v0",
}
CELL = 20  # pixels
BACKGROUND = (24, 26, 32)
COLOURS = (  # of the channels; after the last one they repeat
    (238, 238, 238),
    (250, 204, 64),
    (150, 118, 44),
    (86, 152, 226),
    (112, 196, 112),
    (226, 98, 98),
    (178, 124, 220),
    (88, 200, 200),
)


def draw(env: Any, state: Any, action: Any = None) -> np.ndarray:
    """Return a picture of a state, uint8 `[height, width, 3]`.

    Args:
        env: Environment in JAX.
        state: One state, from `reset` or `step`.
        action: Action that led to the state; Pendulum shows its torque.
    """
    if type(env) in GYMNASIUM:
        return _draw_with_gymnasium(GYMNASIUM[type(env)], np.asarray(state), action)
    if hasattr(env, "grid"):
        return draw_grid(np.asarray(env.grid(state)))
    names = sorted(cls.__name__ for cls in GYMNASIUM)
    raise ValueError(
        f"{type(env).__name__} cannot be drawn. purerl draws {', '.join(names)}, and any "
        f"environment with a function grid(state) that returns [rows, columns, channels]."
    )


def choose_fps(env: Any) -> int:
    """Return how many pictures a video shows per second: 10 for a game on a grid."""
    if type(env) in GYMNASIUM:
        return int(_make_renderer(GYMNASIUM[type(env)]).metadata["render_fps"])
    return 10


def draw_grid(grid: np.ndarray) -> np.ndarray:
    """Return a picture of a grid `[rows, columns, channels]`, with one colour per channel.

    Where several channels are above 0, the first of them is visible.
    """
    picture = np.full((*grid.shape[:2], 3), BACKGROUND, np.uint8)
    for channel in reversed(range(grid.shape[2])):
        picture[grid[..., channel] > 0] = COLOURS[channel % len(COLOURS)]
    picture = picture.repeat(CELL, axis=0).repeat(CELL, axis=1)
    picture[::CELL], picture[:, ::CELL] = BACKGROUND, BACKGROUND  # lines between cells
    return picture


def _draw_with_gymnasium(name: str, state: np.ndarray, action: Any) -> np.ndarray:
    """Put the renderer of a Gymnasium environment into a state and return its picture."""
    renderer = _make_renderer(name)
    renderer.state = state.astype(np.float64)
    if name == "Pendulum-v1":
        renderer.last_u = None if action is None else float(np.asarray(action).ravel()[0])
    return np.array(renderer.render(), np.uint8)


@functools.cache
def _make_renderer(name: str) -> Any:
    renderer = gymnasium.make(name, render_mode="rgb_array").unwrapped
    renderer.reset(seed=0)
    return renderer
