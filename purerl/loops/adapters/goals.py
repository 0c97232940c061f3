"""Observations with goals as vectors, and what their rows need besides transitions.

Gymnasium's goal environments return a dict of `observation`, `achieved_goal` and `desired_goal`.
Networks see the vector of observation and desired goal.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from purerl.errors import EnvFault
from purerl.spaces import GOAL_PARTS, EnvSpec


def flatten_obs(obs: Any, spec: EnvSpec, who: str = "obs") -> tuple[np.ndarray, np.ndarray]:
    """Return observation and desired goal as vectors `[..., O + G]`, and the achieved goal.

    `who` is the source of the observation, for error messages.
    """
    if not isinstance(obs, Mapping) or not all(name in obs for name in GOAL_PARTS):
        there = ", ".join(map(str, obs)) if isinstance(obs, Mapping) else repr(type(obs))
        raise EnvFault(f"{who} must be a dict of {', '.join(GOAL_PARTS)}, got {there}.")
    now, achieved, desired = (np.asarray(obs[name]) for name in GOAL_PARTS)
    size, goal = spec.obs_shape[0] - spec.goal_size, spec.goal_size
    for name, part, length in zip(
        GOAL_PARTS, (now, achieved, desired), (size, goal, goal), strict=True
    ):
        if part.shape != (*now.shape[:-1], length) or part.dtype.kind not in "biuf":
            raise EnvFault(
                f"{name} of {who} must have {length} numbers, as in the observation_space, got "
                f"{part.dtype} of shape {part.shape}."
            )
    flat = np.concatenate([now, desired], axis=-1, dtype=np.float32, casting="same_kind")
    return flat, achieved.astype(np.float32)


def make_extra(achieved: np.ndarray, steps: Any) -> dict[str, np.ndarray]:
    """Return the part of the rows `[N]` that a goal replay buffer needs besides transitions."""
    number = len(achieved)
    env = np.arange(number, dtype=np.int32)
    return {"achieved_goal": achieved, "env": env, "step": np.asarray(steps, np.int32)}
