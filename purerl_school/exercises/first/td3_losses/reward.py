"""Reward of exercise 1.3: TD3 with your losses swings up a pendulum."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from purerl_school.exercises.first.td3_losses.solution import actor
from purerl_school.exercises.pendulum import choose, init_layers, train_on_pendulum

STEPS, POLYAK, DELAY = 10_000, 0.99, 2


def reward(answer: Callable[..., Any], report: Callable[[str], None]) -> float:
    """Train TD3 on Pendulum, report the mean return, and return the last one."""
    report("Training: a weak motor should swing a pendulum up, and keep it upright.")
    tx = optax.adam(2e-3)
    keys = jax.random.split(jax.random.key(0), 3)
    online = {
        "actor": init_layers(keys[0], 3, 1),
        "critic": tuple(init_layers(key, 4, 1) for key in keys[1:]),
    }

    def act(state: Any, obs: jax.Array) -> jax.Array:
        return actor(state[0]["actor"], obs)

    def update(state: Any, batch: Any, number: jax.Array) -> Any:
        online, target, opt_state = state
        noise = jax.random.normal(batch.key, batch.act.shape)

        def loss(online: Any) -> jax.Array:
            loss_q, loss_pi = answer(online | target, batch, noise)
            return loss_q + loss_pi

        steps, moved = tx.update(jax.grad(loss)(online), opt_state)
        new = optax.apply_updates(online, steps)
        due = number % DELAY == 0  # of the policy and the targets
        new |= {"actor": choose(due, new["actor"], online["actor"])}
        followed = {f"target_{name}": new[name] for name in new}
        averaged = optax.incremental_update(followed, target, 1.0 - POLYAK)
        return new, choose(due, averaged, target), moved

    target = {f"target_{name}": jax.tree.map(jnp.copy, online[name]) for name in online}
    state = (online, target, tx.init(online))
    last = train_on_pendulum(state, act, update, report, STEPS)
    report("Random actions get about -1,200, and the best policies about -150.")
    return last
