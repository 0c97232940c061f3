"""Small environments with images: a bright square jumps, and the action must name its corner."""

from typing import Any

import gymnasium
import numpy as np

SIDE = 36


class Square(gymnasium.Env[Any, Any]):
    """The reward is 1 if the action is the quadrant of the square; an episode has 20 steps."""

    def __init__(self, continuous: bool = False) -> None:
        self.observation_space = gymnasium.spaces.Box(0, 255, (SIDE, SIDE, 3), np.uint8)
        box, discrete = gymnasium.spaces.Box(-1, 1, (1,)), gymnasium.spaces.Discrete(4)
        self.action_space = box if continuous else discrete
        self.quadrant, self.time = 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Start an episode."""
        super().reset(seed=seed)
        self.time = 0
        return self._draw(), {}

    def step(self, action: Any) -> Any:
        """Compare the action with the quadrant, and move the square."""
        chosen = int(action) if np.ndim(action) == 0 else int(2 * (action[0] + 1) * 0.999)
        reward, self.time = float(chosen == self.quadrant), self.time + 1
        return self._draw(), reward, False, self.time == 20, {}

    def _draw(self) -> np.ndarray:
        self.quadrant = int(self.np_random.integers(4))
        row, column = (18 * half + self.np_random.integers(12) for half in divmod(self.quadrant, 2))
        image = np.full((SIDE, SIDE, 3), 30, np.uint8)
        image[row : row + 6, column : column + 6] = 220
        return image


gymnasium.register("Square-v0", Square, max_episode_steps=20)
gymnasium.register("SquareBox-v0", Square, max_episode_steps=20, kwargs={"continuous": True})
