"""Eight TD3 learners in one jitted update, on ordinary Gymnasium environments.

    python examples/vmap_seeds.py

Every function of an algorithm works under `jax.vmap`. Here it maps over eight learners that differ
only in their seed. Each has its own environment and replay buffer.

By default: Pendulum-v1, 10 000 steps for each learner, a quarter of a minute on one core. Five of
the eight learners return more than -200 in their last ten episodes, with exploration noise.
"""

import functools
import sys

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

import purerl
from purerl import errors, mpi, rng
from purerl.algos import td3
from purerl.buffers import replay
from purerl.cli import options, values
from purerl.spaces import EnvSpec
from purerl.types import Metrics, Transition

SEEDS, START, BURST, BATCH = 8, 1_000, 50, 64  # learners, random steps, updates, rows of a batch


@functools.partial(jax.jit, donate_argnums=(0, 1))
def learn(
    states: td3.State, buffers: replay.Replay, blocks: Transition, key: jax.Array
) -> tuple[td3.State, replay.Replay, Metrics]:
    """Store a block of 50 transitions and do 50 updates for each learner."""

    def learn_one(
        state: td3.State, buffer: replay.Replay, block: Transition, key: jax.Array
    ) -> tuple[td3.State, replay.Replay, Metrics]:
        buffer = replay.add(buffer, block)
        batches = jax.vmap(lambda k: replay.sample(buffer, k, BATCH))(jax.random.split(key, BURST))
        state, info = jax.lax.scan(td3.update, state, batches)
        return state, buffer, info

    return jax.vmap(learn_one)(states, buffers, blocks, jax.random.split(key, SEEDS))


def main(steps: int = 10_000, seed: int = 0) -> np.ndarray:
    """Train; return the mean return of each learner's last ten episodes."""
    envs = gymnasium.make_vec("Pendulum-v1", SEEDS, vectorization_mode="sync")
    spec = td3.Spec(EnvSpec.of(envs), hidden=(64, 64), gamma=0.95)
    states = jax.vmap(lambda k: td3.init(k, spec))(
        jax.random.split(rng.stream(seed, 0, "init"), SEEDS)
    )
    example = jax.tree.map(lambda x: jnp.zeros((SEEDS, *x.shape), x.dtype), spec.env.example())
    buffers = jax.vmap(lambda row: replay.init(row, steps))(example)
    envs.action_space.seed(seed)
    act = jax.jit(jax.vmap(td3.act))
    returns, score, rows, fresh = [], np.zeros(SEEDS), [], False
    obs, _ = envs.reset(seed=seed)
    for step in range(steps):
        if step < START:
            actions = envs.action_space.sample()
        else:
            keys = jax.random.split(rng.stream(seed, 0, "act", step), SEEDS)
            actions = np.asarray(act(states.params, obs, keys))
        next_obs, rew, terminated, truncated, _ = envs.step(actions)
        # All episodes of Pendulum end together; the step after the end only starts the next ones.
        if not fresh:
            rows.append(
                Transition(obs, actions, rew.astype(np.float32), next_obs, terminated, truncated)
            )
            score = score + rew
        obs, fresh = next_obs, bool(truncated.any())
        if fresh:
            returns.append(score)
            score = np.zeros(SEEDS)
        if len(rows) == BURST:
            blocks = Transition(*(np.stack(field, axis=1) for field in zip(*rows, strict=True)))
            rows = []
            states, buffers, _ = learn(states, buffers, blocks, rng.stream(seed, 0, "sample", step))
        if (step + 1) % 1_000 == 0:
            print(f"step {step + 1:>6,}  returns {np.round(returns[-1]).astype(int).tolist()}")
    return np.mean(returns[-10:], axis=0)


if __name__ == "__main__":
    parser = options.Parser("", __doc__, prog="vmap_seeds.py")
    text = "environment steps of each learner (10000)"
    parser.add_argument("--steps", type=values.parse_integer, default=10_000, help=text)
    text = "seed from which all eight learners are derived (0)"
    parser.add_argument("--seed", type=values.parse_seed, default=0, help=text)
    args = parser.parse_args()
    if mpi.num_procs() > 1:
        if mpi.is_root():
            parser.error("this script runs in one process. Start it without mpiexec.")
        sys.exit(errors.USAGE)
    purerl.setup()
    print("returns of the last episodes:", np.round(main(args.steps, args.seed), 1).tolist())
