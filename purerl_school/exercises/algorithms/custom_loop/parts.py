"""Data of exercise 3.7: what changes from step to step, and what stays the same."""

from collections.abc import Callable
from typing import Any, NamedTuple


class Carry(NamedTuple):
    """Everything that changes from step to step."""

    learner: Any
    buffer: Any
    env_state: Any
    obs: Any  # for which the next action is chosen
    steps: int  # environment steps done
    updates: int  # updates done


class Parts(NamedTuple):
    """Everything that stays the same: pure functions, and the times of updates."""

    act: Callable[..., Any]  # learner, obs, steps done before -> act
    random_act: Callable[..., Any]  # steps done before -> act
    env_reset: Callable[..., Any]  # env_state -> env_state, obs
    env_step: Callable[..., Any]  # env_state, act -> env_state, next_obs, rew, two flags
    add: Callable[..., Any]  # buffer, Transition -> buffer
    update: Callable[..., Any]  # learner, buffer, updates done before -> learner
    start_steps: int  # first steps, with random actions
    update_after: int  # steps before the first update
    update_every: int  # steps between two bursts, and updates of a burst
