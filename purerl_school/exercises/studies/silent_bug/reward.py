"""Reward of exercise 2.2: DDPG on Pendulum, with the bug and without it."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from purerl_school.exercises.pendulum import init_layers, train_on_pendulum
from purerl_school.exercises.studies.silent_bug import start

STEPS, POLYAK = 8_000, 0.99


def reward(answer: Callable[..., Any], report: Callable[[str], None]) -> tuple[float, float]:
    """Train twice, report the mean returns, and return the last one with the bug and without."""
    report("Training DDPG on Pendulum with the bug:")
    with_bug = train(start.critic_loss, report)
    report("Training DDPG on Pendulum with your loss:")
    without = train(answer, report)
    report(f"Last mean return: {with_bug:.0f} with the bug, {without:.0f} without it.")
    return with_bug, without


def train(critic_loss: Callable[..., Any], report: Callable[[str], None]) -> float:
    """Train DDPG with a loss of the critic, and return the last mean return."""
    tx = optax.adam(2e-3)
    keys = jax.random.split(jax.random.key(0))
    online = {"actor": init_layers(keys[0], 3, 1), "critic": init_layers(keys[1], 4, 1)}
    target = {f"target_{name}": jax.tree.map(jnp.copy, online[name]) for name in online}

    def act(state: Any, obs: jax.Array) -> jax.Array:
        return start.actor(state[0]["actor"], obs)

    def update(state: Any, batch: Any, number: jax.Array) -> Any:
        online, target, opt_state = state

        def loss(online: Any) -> jax.Array:
            frozen = jax.lax.stop_gradient(online["critic"])
            value = start.critic(frozen, batch.obs, start.actor(online["actor"], batch.obs))
            return critic_loss(online | target, batch) - value.mean()

        steps, opt_state = tx.update(jax.grad(loss)(online), opt_state)
        online = optax.apply_updates(online, steps)
        followed = {f"target_{name}": online[name] for name in online}
        return online, optax.incremental_update(followed, target, 1.0 - POLYAK), opt_state

    return train_on_pendulum((online, target, tx.init(online)), act, update, report, STEPS)
