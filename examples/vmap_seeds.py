"""Eight TD3 learners in one program, on ordinary Gymnasium environments.

    python examples/vmap_seeds.py

All learners act in one compiled call per step, and learn in one compiled call per burst: the loop
applies `jax.vmap` to `act` and `update`. They differ only in their seed. Each has its own
environment and replay buffer, and ends like a single run of its seed, up to rounding.

By default: Pendulum-v1, 10 000 steps for each learner, a quarter of a minute on one core. Six of
the eight learners then return more than -200 in ten test episodes.
"""

import sys

import gymnasium
import numpy as np

import purerl
from purerl import errors, mpi
from purerl.algos import td3
from purerl.cli import options, values
from purerl.loops import gym as loop
from purerl.schedules import OffPolicySchedule
from purerl.spaces import EnvSpec

SEEDS = 8


def make_env() -> gymnasium.Env:
    return gymnasium.make("Pendulum-v1")


def main(steps: int = 10_000, seed: int = 0) -> list[float]:
    """Train; return the mean test return of each learner."""
    spec = td3.Spec(EnvSpec.of(make_env()), hidden=(64, 64), gamma=0.95)
    schedule = OffPolicySchedule(
        steps=steps, steps_per_epoch=1_000, batch_size=64, replay_size=steps, num_test_episodes=10
    )
    together = loop.start(td3, spec, make_env, schedule, seeds=range(seed, seed + SEEDS))
    while together.carries[0].steps < steps:
        together, records = loop.advance(together)
        if records:  # one for each learner
            returns = [round(np.mean(record["ep_returns"])) for record in records]
            print(f"step {records[0]['steps']:>6,}  returns {returns}")
    scores = []
    for carry in loop.split(together):  # one carry for each learner
        scores.append(float(np.mean(loop.evaluate_epoch(carry, make_env)["test_returns"])))
        carry.envs.close()
    return scores


if __name__ == "__main__":
    parser = options.Parser("", __doc__, prog="vmap_seeds.py")
    text = "environment steps of each learner (10000)"
    parser.add_argument("--steps", type=values.parse_integer, default=10_000, help=text)
    text = "seed of the first learner; the others have the next ones (0)"
    parser.add_argument("--seed", type=values.parse_seed, default=0, help=text)
    args = parser.parse_args()
    if mpi.num_procs() > 1:
        if mpi.is_root():
            parser.error("this script runs in one process. Start it without mpiexec.")
        sys.exit(errors.USAGE)
    purerl.setup()
    print("test returns:", np.round(main(args.steps, args.seed), 1).tolist())
