"""Training on Pendulum in one compiled program, for the rewards of exercises with a replay buffer.

The networks have one hidden layer. Actions are in [-1, 1], and rewards are divided by 10.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from purerl.buffers import replay
from purerl.envs.classic.pendulum import Pendulum
from purerl.types import Transition

ENV = Pendulum()
START, BATCH, HIDDEN, NOISE = 1_000, 64, 64, 0.1  # random steps, rows of a batch, units, noise
PART = 1_000  # steps between two reports, five episodes


def init_layers(key: jax.Array, inputs: int, outputs: int) -> dict[str, jax.Array]:
    """Return the parameters of a network with one hidden layer, with a small last layer."""
    keys = jax.random.split(key)
    return {
        "w1": jax.random.normal(keys[0], (inputs, HIDDEN)) / inputs**0.5,
        "b1": jnp.zeros(HIDDEN),
        "w2": 0.1 * jax.random.normal(keys[1], (HIDDEN, outputs)) / HIDDEN**0.5,
        "b2": jnp.zeros(outputs),
    }


def choose(condition: jax.Array, new: Any, old: Any) -> Any:
    """Return the new tree where a condition holds, and otherwise the old one."""
    return jax.tree.map(lambda one, other: jnp.where(condition, one, other), new, old)


def train_on_pendulum(
    state: Any,
    act: Callable[[Any, jax.Array], jax.Array],
    update: Callable[[Any, Any, jax.Array], Any],
    report: Callable[[str], None],
    steps: int,
) -> float:
    """Train a learner, report the mean return of each 1,000 steps, and return the last one.

    Args:
        state: The learner's state.
        act: Function of the state and observations `[B, 3]` that returns actions `[B, 1]`.
        update: Function of the state, a batch and a number of the step that returns a new state.
        report: Function that receives each line.
        steps: Number of environment steps; after the first 1,000, one update for each.
    """

    def step(carry: Any, number: jax.Array) -> tuple[Any, jax.Array]:
        state, buffer, place, obs = carry
        keys = jax.random.split(jax.random.fold_in(jax.random.key(0), number), 4)
        tried = act(state, obs[None])[0] + NOISE * jax.random.normal(keys[0], (1,))
        tried = jnp.where(number < START, jax.random.uniform(keys[1], (1,), minval=-1.0), tried)
        tried = jnp.clip(tried, -1.0, 1.0)
        place, next_obs, rew, terminated, _ = ENV.step(keys[0], place, 2.0 * tried, ENV.params)
        truncated = (number + 1) % ENV.max_steps == 0
        row = Transition(obs, tried, 0.1 * rew, next_obs, terminated, truncated)
        buffer = replay.add(buffer, jax.tree.map(lambda x: x[None], row))
        batch = replay.sample(buffer, keys[2], BATCH)
        learning = number >= START
        state = jax.lax.cond(learning, lambda: update(state, batch, number), lambda: state)
        fresh = ENV.reset(keys[3], ENV.params)
        place, obs = choose(truncated, fresh, (place, next_obs))
        return (state, buffer, place, obs), rew

    buffer = replay.init(ENV.spec.example(), steps)
    carry = (state, buffer, *ENV.reset(jax.random.key(1), ENV.params))
    part, mean = jax.jit(lambda *x: jax.lax.scan(step, *x)), 0.0
    for first in range(0, steps, PART):
        carry, rews = part(carry, jnp.arange(first, first + PART))
        mean = float(rews.sum()) * ENV.max_steps / PART
        report(f"step {first + PART:6,}  mean return {mean:8.1f}")
    return mean
