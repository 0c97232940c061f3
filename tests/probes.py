"""Tiny environments with known values. Each isolates one thing that can be wrong.

Observations have one axis, and actions are Discrete or in Box(-1, 1). `Probe.step` maps an action
to a number in [-1, 1], so that one reward function serves both kinds of action space.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Probe(gymnasium.Env):
    """Base class: the observation is a random sign, and the action becomes a number."""

    length = 1

    def __init__(self, discrete: bool = False) -> None:
        self.observation_space = spaces.Box(-2.0, 2.0, (2,), np.float32)
        self.action_space = spaces.Discrete(2) if discrete else spaces.Box(-1.0, 1.0, (1,))
        self.discrete = discrete

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.sign = float(self.np_random.choice([-1.0, 1.0]))
        self.time = 0
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        number = 2.0 * int(action) - 1.0 if self.discrete else float(np.asarray(action)[0])
        reward = self.reward(number)
        self.time += 1
        return self._obs(), reward, self.time >= self.length, False, {}

    def _obs(self) -> np.ndarray:
        return np.array([self.sign, self.time], np.float32)

    def reward(self, number: float) -> float:
        raise NotImplementedError


class Constant(Probe):
    """One step with reward 1, so Q = 1. Learning fails if the value loss is wrong."""

    def reward(self, number: float) -> float:
        return 1.0


class Observation(Probe):
    """The reward is the observed sign, so Q = ±1. Fails if the critic ignores observations."""

    def reward(self, number: float) -> float:
        return self.sign


class Delayed(Probe):
    """Reward 1 at the second of two steps: Q = gamma, then 1. Fails if discounting is wrong."""

    length = 2

    def reward(self, number: float) -> float:
        return float(self.time == 1)


class Action(Probe):
    """The reward peaks at +0.5 (or at action 1). Fails if the policy step is wrong."""

    def reward(self, number: float) -> float:
        return number if self.discrete else 1.0 - (number - 0.5) ** 2


class Both(Probe):
    """The reward peaks at half the observed sign (or at the action of that sign)."""

    def reward(self, number: float) -> float:
        return self.sign * number if self.discrete else 1.0 - (number - 0.5 * self.sign) ** 2


class Identity(gymnasium.Env):
    """Ten one-hot observations, each with its own best action.

    The reward is 1 for the best of ten actions, or 1 minus the distance to it in Box(-1, 1).
    """

    def __init__(self, discrete: bool = False) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (10,), np.float32)
        self.action_space = spaces.Discrete(10) if discrete else spaces.Box(-1.0, 1.0, (1,))
        self.discrete = discrete

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.wanted = int(self.np_random.integers(10))
        return np.eye(10, dtype=np.float32)[self.wanted], {}

    def step(self, action: Any) -> Any:
        right = self.wanted if self.discrete else (self.wanted - 4.5) / 5
        away = abs(float(np.ravel(action)[0]) - right)
        reward = float(away == 0) if self.discrete else 1.0 - away
        return np.eye(10, dtype=np.float32)[self.wanted], reward, True, False, {}


class Ring(gymnasium.Env):
    """Four states in a ring, with reward 1 and a time limit of 8 steps.

    With gamma 0.98, every value is 50 if time limits bootstrap, which is correct. If they were
    treated as terminal, the value of the start state would be 7.20.
    """

    def __init__(self, discrete: bool = False) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (4,), np.float32)
        self.action_space = spaces.Discrete(2) if discrete else spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        return self._obs(), 1.0, False, self.time >= 8, {}

    def _obs(self) -> np.ndarray:
        return np.eye(4, dtype=np.float32)[self.time % 4]
