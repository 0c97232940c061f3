"""A custom program: each epoch of PPO, with its environments and its update, is one compiled call.

    python examples/custom_ppo_jax.py
    python examples/custom_ppo_jax.py --num-cpu 2

`act`, `prepare`, `update`, the rollout block and the environments are pure functions, so `lax.scan`
can contain them. `purerl.loops.scan` is a loop of this kind for all algorithms.

By default: 200 000 steps in eight seconds on one core. Half of the time is compilation. Then the
pole stays up, with seeds 0 to 2.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from common import begin, say

from purerl import mpi, rng
from purerl.algos import ppo
from purerl.buffers import rollout
from purerl.envs import episodes
from purerl.envs.classic.cartpole import CartPole
from purerl.envs.episodes import Episodes
from purerl.types import Metrics

ENV, ENVS, LENGTH = CartPole(), 8, 512  # more steps than an episode: one ends in every rollout


@functools.partial(jax.jit, donate_argnums=(0, 1))
def epoch(
    state: ppo.State, playing: Episodes, words: jax.Array, key: jax.Array
) -> tuple[ppo.State, Episodes, Metrics]:
    """Collect a rollout and update the learner with it; `words` are seed and rank."""

    seed, rank = words

    def step(carry: Any, key: jax.Array) -> Any:
        playing, block = carry
        act = ppo.act(state.params, playing.obs, key)
        playing, result = episodes.step(ENV, ENV.params, seed, rank, ENV.max_steps, playing, act)
        block = rollout.add(block, result.transition)
        return (playing, block), (result.ended, result.ret)

    key_steps, key_update = jax.random.split(key)
    block = rollout.init(state.params.spec.env.example(), LENGTH, ENVS)
    keys = jax.random.split(key_steps, LENGTH)
    (playing, block), (ended, returns) = jax.lax.scan(step, (playing, block), keys)
    batch = ppo.prepare(state.params, rollout.get(block))
    state, info = ppo.update(state, batch._replace(key=key_update))
    return state, playing, info | {"return": jnp.mean(returns, where=ended)}


def main(steps: int = 200_000, seed: int = 0) -> float:
    """Train; return the mean return of the episodes in the last epoch."""
    rank = mpi.proc_id()
    words = np.array([seed, rank], np.uint32)
    spec = ppo.Spec(ENV.spec, train_pi_iters=10, train_v_iters=10, minibatch_size=256)
    state = ppo.init(rng.stream(seed, rank, "init"), spec)
    playing = episodes.reset(ENV, ENV.params, words[0], words[1], ENVS)
    playing = jax.tree.map(jnp.copy, playing)  # state and observation are the same array
    score = 0.0
    for number in range(-(-steps // (ENVS * LENGTH))):
        key = rng.stream(seed, rank, "epoch", number)
        state, playing, info = epoch(state, playing, words, key)
        score = float(info["return"])
        if number % 5 == 4:
            done = (number + 1) * ENVS * LENGTH
            say(f"step {done:>8,}  return {score:>6.1f}  kl {float(info['kl']):.4f}")
    return score


if __name__ == "__main__":
    steps, seed = begin(__doc__, 200_000)
    say(f"return of the last episodes: {main(steps, seed):.1f}")
