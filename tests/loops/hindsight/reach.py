"""A small environment with goals, whose reward functions are in NumPy or in JAX."""

from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from purerl.algos import td3
from purerl.loops import gym as loop
from purerl.schedules import OffPolicySchedule
from purerl.spaces import EnvSpec

NEAR = np.float32(0.5)


def box(size: int) -> spaces.Box:
    return spaces.Box(-100, 100, (size,), np.float64)


class Reach(gymnasium.Env):
    """Walk on a line to a point. The second entry of a goal is the number of the episode.

    Args:
        who: Number of the environment, in observations.
        limit: Steps of an episode.
        terminates: Whether success ends an episode.
        success: Name in `info`.
    """

    def __init__(
        self, who: int = 0, limit: int = 7, terminates: bool = False, success: str = "is_success"
    ) -> None:
        parts = {"observation": box(3), "achieved_goal": box(2), "desired_goal": box(2)}
        self.observation_space = spaces.Dict(parts)
        self.action_space = spaces.Box(-1, 1, (1,))
        self.who, self.limit, self.terminates, self.success = who, limit, terminates, success
        self.episode, self.actions = -1, []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.episode = seed or 0
        self.time, self.place = 0, 0.0
        self.goal = np.array([self.np_random.integers(-2, 3), self.episode % 1000], float)
        return self.obs(), {}

    def step(self, action: Any) -> Any:
        self.actions.append(action)
        self.time, self.place = self.time + 1, self.place + float(action[0])
        obs = self.obs()
        goals = np.float32(obs["achieved_goal"]), np.float32(self.goal)
        reward = float(self.compute_reward(*goals, {}))
        ends = self.terminates and reward == 0.0
        return obs, reward, ends, self.time == self.limit, {self.success: reward == 0.0}

    def obs(self) -> dict[str, np.ndarray]:
        achieved = np.array([self.place, self.goal[1]])
        now = np.array([self.who, self.time, self.place], float)
        return {"observation": now, "achieved_goal": achieved, "desired_goal": self.goal.copy()}

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -np.float32(np.abs(achieved[..., 0] - desired[..., 0]) > NEAR)

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        """Take one goal only, as the robots of gymnasium-robotics do."""
        return bool(self.terminates and np.abs(achieved - desired)[0] <= NEAR)


class JaxReach(Reach):
    """The same with reward functions in JAX."""

    @staticmethod
    def jax_compute_reward(achieved: Any, desired: Any, info: Any) -> Any:
        return -jnp.float32(jnp.abs(achieved[..., 0] - desired[..., 0]) > NEAR)

    def jax_compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        near = jnp.abs(achieved[..., 0] - desired[..., 0]) <= NEAR
        return near & self.terminates


def make_vector(mode: AutoresetMode, number: int = 2, **options: Any) -> Any:
    return lambda: SyncVectorEnv(
        [lambda i=i: Reach(i, **options) for i in range(number)], autoreset_mode=mode
    )


def schedule(**changes: Any) -> OffPolicySchedule:
    fields = {
        "steps": 120,
        "steps_per_epoch": 60,
        "start_steps": 12,
        "update_after": 24,
        "update_every": 12,
        "updates_per_burst": 3,
        "batch_size": 16,
        "replay_size": 60,
        "num_envs": 2,
        "num_test_episodes": 0,
    }
    return OffPolicySchedule(**(fields | changes))


def start(env_fn: Any = Reach, seed: int = 0, algo: Any = td3, **changes: Any) -> loop.Carry:
    spec = algo.Spec(EnvSpec.of(Reach()), hidden=(8,))
    return loop.start(algo, spec, env_fn, schedule(**changes), seed)


def finish(carry: loop.Carry, until: int | None = None) -> tuple[loop.Carry, list[Any]]:
    records = []
    while carry.steps < (until or carry.schedule.steps):
        carry, record = loop.advance(carry)
        records += [record] if record else []
    return carry, records
