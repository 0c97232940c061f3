"""A scripted environment, whose numbers are all known in advance, and TD3 on it."""

import itertools
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from purerl.algos import td3
from purerl.loops import gym as loop
from purerl.schedules import OffPolicySchedule
from purerl.spaces import EnvSpec
from purerl.types import Transition

ENDS = ("terminated", "truncated", "both")


class Script(gymnasium.Env):
    """Environment number `who`.

    Its observations are (who, episode, step). Episode lengths and ends follow a fixed order.
    """

    def __init__(self, who: int = 0, lengths: tuple[int, ...] = (3, 1, 4)) -> None:
        self.observation_space = spaces.Box(-1e6, 1e6, (3,), np.float64)
        self.action_space = spaces.Box(np.float32([-2.0, 0.0]), np.float32([2.0, 1.0]))
        self.who, self.lengths, self.episode = who, lengths, -1
        self.steps, self.seeds, self.actions = 0, [], []
        self.careless = True  # return the same array each time
        self.state = np.zeros(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.episode, self.time = self.episode + 1, 0
        return self.obs(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.actions.append(np.array(action))
        self.time, self.steps = self.time + 1, self.steps + 1
        obs = self.obs()
        end = ENDS[self.episode % 3] if self.time == self.length else ""
        reward = 100.0 * self.episode + self.time
        return obs, reward, end in ("terminated", "both"), end in ("truncated", "both"), {}

    def obs(self) -> np.ndarray:
        self.state[:] = self.who, self.episode, self.time
        return self.state if self.careless else self.state.copy()

    @property
    def length(self) -> int:
        return self.lengths[(self.episode + self.who) % len(self.lengths)]


def expect_rows(
    who: int, number: int, lengths: tuple[int, ...] = (3, 1, 4)
) -> list[tuple[Any, ...]]:
    """Return the first `number` transitions of an environment: obs, rew, next_obs and flags."""
    rows: list[tuple[Any, ...]] = []
    for episode in itertools.count():
        length, end = lengths[(episode + who) % len(lengths)], ENDS[episode % 3]
        for time in range(length):
            last = time + 1 == length
            flags = (last and end != "truncated", last and end != "terminated")
            obs, after = (who, episode, time), (who, episode, time + 1)
            rows.append((obs, 100.0 * episode + time + 1, after, *flags))
            if len(rows) == number:
                return rows


def make_singles(number: int, **kwargs: Any) -> Any:
    """Return an `env_fn` for `number` single environments, and the list of its environments."""
    made: list[Script] = []

    def env_fn() -> Script:
        made.append(Script(len(made) % number, **kwargs))
        return made[-1]

    return env_fn, made


def make_vector(number: int, mode: AutoresetMode, **kwargs: Any) -> Any:
    """Return an `env_fn` for one vector environment, and the list of its environments."""
    made: list[Script] = []

    def env_fn() -> SyncVectorEnv:
        made.clear()
        made.extend(Script(i, **kwargs) for i in range(number))
        for env in made:  # SyncVectorEnv keeps the final observation without copying it
            env.careless = False
        return SyncVectorEnv([lambda e=e: e for e in made], autoreset_mode=mode)

    return env_fn, made


WAYS = {
    "one": (1, make_singles(1)),
    "three": (3, make_singles(3)),
    "next_step": (3, make_vector(3, AutoresetMode.NEXT_STEP)),
    "same_step": (3, make_vector(3, AutoresetMode.SAME_STEP)),
    "disabled": (3, make_vector(3, AutoresetMode.DISABLED)),
}
SMALL = {"hidden": (8,)}


def schedule(**changes: Any) -> OffPolicySchedule:
    fields = {
        "steps": 60,
        "steps_per_epoch": 30,
        "start_steps": 12,
        "update_after": 18,
        "update_every": 6,
        "batch_size": 4,
        "replay_size": 1_000,
        "num_test_episodes": 0,
    }
    return OffPolicySchedule(**(fields | changes))


def start(env_fn: Any, seed: int = 0, spec: Any = None, **changes: Any) -> loop.Carry:
    spec = spec or td3.Spec(EnvSpec.of(Script()), **SMALL)
    return loop.start(td3, spec, env_fn, schedule(**changes), seed)


def finish(carry: loop.Carry) -> tuple[loop.Carry, list[Any]]:
    records = []
    while carry.steps < carry.schedule.steps:
        carry, record = loop.advance(carry)
        records += [record] if record else []
    return carry, records


def read_buffer(carry: loop.Carry) -> dict[int, list[tuple[Any, ...]]]:
    """Return the rows of the replay buffer in order, by environment."""
    data, rows = jax.tree.map(np.asarray, carry.buffer.data), {}
    for i in range(int(carry.buffer.stored)):
        row = Transition(*(leaf[i] for leaf in data))
        ints = lambda x: tuple(int(v) for v in x)
        flags = (bool(row.terminated), bool(row.truncated))
        entry = (ints(row.obs), float(row.rew), ints(row.next_obs), *flags)
        rows.setdefault(int(row.obs[0]), []).append(entry)
    return rows
