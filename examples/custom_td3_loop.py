"""A custom training loop around the three functions of TD3.

    python examples/custom_td3_loop.py
    python examples/custom_td3_loop.py --num-cpu 2

By default: Pendulum-v1, 10 000 steps with one update each, under a minute on one core. The mean
return of the last ten episodes, with exploration noise, is -180 to -320 with seeds 0 to 2. Each
rank has its own environment and replay buffer; `update` averages the gradients of all ranks.
"""

import functools

import gymnasium
import jax
import numpy as np
from common import begin, say

from purerl import mpi, rng
from purerl.algos import td3
from purerl.buffers import replay
from purerl.spaces import EnvSpec
from purerl.types import Metrics, Transition


@functools.partial(jax.jit, donate_argnums=(0, 1))
def learn(
    state: td3.State, buffer: replay.Replay, row: Transition, key: jax.Array
) -> tuple[td3.State, replay.Replay, Metrics]:
    """Store one transition and do one update, both in place because the arguments are donated."""
    buffer = replay.add(buffer, row)
    state, info = td3.update(state, replay.sample(buffer, key, batch_size=64))
    return state, buffer, info


def main(steps: int = 10_000, seed: int = 0) -> float:
    """Train; return the mean return of this rank's last ten episodes."""
    env, rank = gymnasium.make("Pendulum-v1"), mpi.proc_id()
    env.action_space.seed(rng.host_seed(seed, rank, "random"))
    spec = td3.Spec(EnvSpec.of(env), hidden=(64, 64), gamma=0.95)
    state = td3.init(rng.stream(seed, rank, "init"), spec)
    buffer = replay.init(spec.env.example(), capacity=steps)
    keys = jax.random.split(rng.stream(seed, rank, "loop"), (steps, 2))
    returns, score, (obs, _) = [], 0.0, env.reset(seed=rng.host_seed(seed, rank, "env"))
    for step in range(steps):
        act = env.action_space.sample()  # the first 1 000 actions are random
        if step >= 1_000:
            act = np.asarray(td3.act(state.params, obs, keys[step, 0]))
        next_obs, rew, terminated, truncated, _ = env.step(act)
        row = Transition(obs, act, rew, next_obs, terminated, truncated)
        row = jax.tree.map(lambda x: np.asarray(x)[None], row)  # as a block of one row
        state, buffer, info = learn(state, buffer, row, keys[step, 1])
        obs, score = next_obs, score + float(rew)
        if terminated or truncated:  # both end an episode; only `terminated` stops bootstrapping
            returns.append(score)
            say(f"step {step + 1:>6,}  return {score:>8.1f}  loss_q {float(info['loss_q']):.3f}")
            obs, score = env.reset()[0], 0.0
    return float(np.mean(returns[-10:]))


if __name__ == "__main__":
    say(f"return of the last episodes: {main(*begin(__doc__)):.1f}")
