"""Solution of exercise 3.7: one step of a custom loop."""

from purerl.types import Transition
from purerl_school.exercises.algorithms.custom_loop.parts import Carry, Parts


def advance(parts: Parts, carry: Carry) -> Carry:
    """Make one step in the environment, store it, and do the updates that are due.

    Args:
        parts: Functions and numbers of the loop.
        carry: State of the loop, which does not change.

    Returns:
        The next state of the loop.
    """
    if carry.steps < parts.start_steps:
        act = parts.random_act(carry.steps)
    else:
        act = parts.act(carry.learner, carry.obs, carry.steps)
    env_state, next_obs, rew, terminated, truncated = parts.env_step(carry.env_state, act)
    row = Transition(carry.obs, act, rew, next_obs, terminated, truncated)
    buffer = parts.add(carry.buffer, row)
    obs, steps = next_obs, carry.steps + 1
    if terminated or truncated:
        env_state, obs = parts.env_reset(env_state)
    learner, updates = carry.learner, carry.updates
    if steps >= parts.update_after and steps % parts.update_every == 0:
        for _ in range(parts.update_every):
            learner = parts.update(learner, buffer, updates)
            updates += 1
    return Carry(learner, buffer, env_state, obs, steps, updates)
