"""PPO with an environment written in JAX: each epoch, steps and update, is one compiled call.

    python examples/custom_ppo_jax.py
    python examples/custom_ppo_jax.py --num-cpu 2

`act`, `prepare`, `update` and the rollout block are pure functions, so `lax.scan` can contain them.
Here they run with eight cart-poles that follow the equations of CartPole-v1.

By default: 200 000 steps in eight seconds on one core. Half of the time is compilation. Then the
pole stays up, with seeds 0 to 2.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from common import begin, say

from purerl import mpi, rng
from purerl.algos import ppo
from purerl.buffers import rollout
from purerl.spaces import Discrete, EnvSpec
from purerl.types import Metrics, Transition

ENVS, LENGTH, LIMIT = 8, 512, 500  # LENGTH > LIMIT: an episode ends in every rollout


class Cart(NamedTuple):
    """State of a pole on a cart."""

    obs: jax.Array  # position, speed, angle, angular speed
    steps: jax.Array  # steps of the episode so far


def reset(key: jax.Array) -> Cart:
    """Start an episode close to an upright pole at rest."""
    return Cart(jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05), jnp.int32(0))


def step(cart: Cart, act: jax.Array, key: jax.Array) -> tuple[Cart, Transition]:
    """Push the cart for 20 ms; if the episode ends, return the start of the next one."""
    _, v, angle, turn = cart.obs
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    pushed = (20.0 * act - 10.0 + 0.05 * turn**2 * sin) / 1.1
    twist = (9.8 * sin - cos * pushed) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
    speed = jnp.stack([v, pushed - 0.05 * twist * cos / 1.1, turn, twist])
    obs, steps = cart.obs + 0.02 * speed, cart.steps + 1
    fell = (jnp.abs(obs[0]) > 2.4) | (jnp.abs(obs[2]) > jnp.pi / 15)
    late = ~fell & (steps >= LIMIT)
    # A fall terminates the episode, a time limit truncates it. The row contains the true successor.
    row = Transition(cart.obs, act, jnp.float32(1.0), obs, fell, late)
    return jax.tree.map(
        functools.partial(jnp.where, fell | late), reset(key), Cart(obs, steps)
    ), row


@functools.partial(jax.jit, donate_argnums=(0, 1))
def epoch(state: ppo.State, carts: Cart, key: jax.Array) -> tuple[ppo.State, Cart, Metrics]:
    """Collect a rollout and update the learner with it."""

    def collect_step(carry: tuple[Cart, rollout.Block], key: jax.Array) -> tuple[Any, jax.Array]:
        carts, block = carry
        key_act, key_reset = jax.random.split(key)
        act = ppo.act(state.params, carts.obs, key_act)
        after, rows = jax.vmap(step)(carts, act, jax.random.split(key_reset, ENVS))
        ended = rows.terminated | rows.truncated
        return (after, rollout.add(block, rows)), jnp.where(ended, carts.steps + 1, 0)

    key_steps, key_update = jax.random.split(key)
    block = rollout.init(state.params.spec.env.example(), LENGTH, ENVS)
    keys = jax.random.split(key_steps, LENGTH)
    (carts, block), lengths = jax.lax.scan(collect_step, (carts, block), keys)
    batch = ppo.prepare(state.params, rollout.get(block))
    state, info = ppo.update(state, batch._replace(key=key_update))
    # Every step has reward 1, so the return of an episode is its length.
    return state, carts, info | {"return": lengths.sum() / (lengths > 0).sum()}


def main(steps: int = 200_000, seed: int = 0) -> float:
    """Train; return the mean return of the episodes in the last epoch."""
    rank = mpi.proc_id()
    spec = ppo.Spec(
        EnvSpec((4,), Discrete(2)), train_pi_iters=10, train_v_iters=10, minibatch_size=256
    )
    state = ppo.init(rng.stream(seed, rank, "init"), spec)
    carts = jax.vmap(reset)(jax.random.split(rng.stream(seed, rank, "env"), ENVS))
    score = 0.0
    for number in range(-(-steps // (ENVS * LENGTH))):
        state, carts, info = epoch(state, carts, rng.stream(seed, rank, "epoch", number))
        score = float(info["return"])
        if number % 5 == 4:
            done = (number + 1) * ENVS * LENGTH
            say(f"step {done:>8,}  return {score:>6.1f}  kl {float(info['kl']):.4f}")
    return score


if __name__ == "__main__":
    steps, seed = begin(__doc__, 200_000)
    say(f"return of the last episodes: {main(steps, seed):.1f}")
