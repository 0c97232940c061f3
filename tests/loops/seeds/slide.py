"""A point that actions push and noise moves, as in `tests/loops/scan/drift.py`, in NumPy."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from purerl.loops import gym as loop
from purerl.spaces import Box
from tests.loops.scan.drift import make_case


class Slide(gymnasium.Env):
    """An episode ends when the point is far away, and is cut after 7 steps."""

    def __init__(self, action: Any) -> None:
        self.observation_space = spaces.Box(-9, 9, (3,), np.float32)
        self.is_box = isinstance(action, Box)
        if isinstance(action, Box):
            self.action_space = spaces.Box(np.float32(action.low), np.float32(action.high))
        else:
            self.action_space = spaces.Discrete(action.n, start=action.start)
        self.faults = []  # errors to raise in the next steps, or None

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time, self.place = 0, self.np_random.normal(size=3).astype(np.float32) * 0.3
        return self.place, {}

    def step(self, action: Any) -> Any:
        if self.faults and (error := self.faults.pop(0)):
            raise error
        push = action.sum() - 1.0 if self.is_box else action - 2.0
        noise = self.np_random.normal(size=3).astype(np.float32)
        self.place = self.place + np.float32(0.2 * push) + np.float32(0.3) * noise
        self.time += 1
        far = bool(np.abs(self.place).max() > 1.2)
        return self.place, 1.0 - float(np.abs(self.place).sum()), far, self.time == 7, {}


def make_args(name: str, **changes: Any) -> tuple[Any, Any, Any, Any]:
    """Return the first arguments of `start` for a case of `tests/loops/scan/drift.py`."""
    algo, spec, env, schedule = make_case(name, **changes)
    return algo, spec, lambda: Slide(env.action), schedule


def finish(carry: Any, until: int | None = None) -> tuple[Any, list[Any]]:
    """Advance a carry, or carries of several seeds, to the end or to a step; close nothing."""
    first = carry.carries[0] if isinstance(carry, loop.Together) else carry
    until, steps, records = until or first.schedule.steps, first.steps, []
    while steps < until:
        carry, record = loop.advance(carry)
        steps = (carry.carries[0] if isinstance(carry, loop.Together) else carry).steps
        records += [record] if record else []
    return carry, records
