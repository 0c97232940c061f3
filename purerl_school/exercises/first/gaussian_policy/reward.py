"""Reward of exercise 1.2: your policy learns to walk to a goal."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

EPISODES, STEPS = 128, 10  # episodes per iteration, steps per episode
ITERATIONS, PARTS = 100, 5  # iterations per part


def reward(answer: Callable[..., Any], report: Callable[[str], None]) -> float:
    """Train by policy gradient, report the mean return, and return the last one."""
    report("Training: a point should walk to a goal in the plane, in 10 steps.")
    report("The reward of a step is minus its distance from the goal.")
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.01))
    keys = jax.random.split(jax.random.key(0), 3)
    params = {
        "w1": jax.random.normal(keys[0], (2, 32)) / 2**0.5,
        "b1": jnp.zeros(32),
        "w2": jax.random.normal(keys[1], (32, 2)) / 32,
        "b2": jnp.zeros(2),
        "log_std": jnp.full(2, -0.5),
    }

    def play(params: Any, key: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        key_start, key_acts = jax.random.split(key)

        def step(place: jax.Array, key: jax.Array) -> tuple[jax.Array, Any]:
            act, logp, entropy = answer(params, place, key)
            place = jax.lax.stop_gradient(place + 0.5 * jnp.clip(act, -1.0, 1.0))
            return place, (logp, entropy, -jnp.linalg.norm(place, axis=1))

        start = jax.random.normal(key_start, (EPISODES, 2))
        return jax.lax.scan(step, start, jax.random.split(key_acts, STEPS))[1]

    def loss(params: Any, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        logp, entropy, rew = play(params, key)  # [T, N]
        to_go = jnp.cumsum(rew[::-1], axis=0)[::-1]
        adv = to_go - to_go.mean(axis=1, keepdims=True)
        return -(logp * adv + 0.001 * entropy).mean(), rew.sum(axis=0).mean()

    def iterate(carry: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        params, opt_state = carry
        grads, ret = jax.grad(loss, has_aux=True)(params, key)
        updates, opt_state = tx.update(grads, opt_state, params)
        return (optax.apply_updates(params, updates), opt_state), ret

    carry, part = (params, tx.init(params)), jax.jit(lambda *x: jax.lax.scan(iterate, *x))
    for number in range(PARTS):
        carry, rets = part(carry, jax.random.split(jax.random.key(number + 1), ITERATIONS))
        report(f"iteration {(number + 1) * ITERATIONS:4}  return {float(rets[-1]):7.2f}")
    report("A point that stands still gets about -12.5, and a very good policy about -1.5.")
    return float(rets[-1])
