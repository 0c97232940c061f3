"""Returns of on-policy algorithms for different lengths of a rollout, with default settings.

    python benchmarks/rollouts.py ppo CartPole-v1 1000 --seed 0

Append rows to docs/measurements/results/rollouts.csv: after 20k, 50k, 100k and 200k steps, the
mean return of the last 20 training episodes, and the mean of 10 test episodes.
"""

import argparse
import csv
import dataclasses
import statistics
from pathlib import Path
from typing import Any

import gymnasium

import purerl
from purerl import algos
from purerl.loops import gym as loop
from purerl.spaces import EnvSpec

FILE = Path(__file__).parents[1] / "docs" / "measurements" / "results" / "rollouts.csv"
MARKS = (20_000, 50_000, 100_000, 200_000)


def main() -> None:
    """Train once, and append a row at each mark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("algo", choices=("ppo", "vpg", "trpo", "reinforce"))
    parser.add_argument("env")
    parser.add_argument("rollout", type=int)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    purerl.setup()
    algo = algos.load(args.algo)

    def env_fn() -> Any:
        return gymnasium.make(args.env)

    spec = algo.Spec(EnvSpec.of(env_fn()))
    total = -(-MARKS[-1] // args.rollout) * args.rollout
    schedule = dataclasses.replace(algo.SCHEDULE, steps=total, steps_per_epoch=args.rollout)
    carry = loop.start(algo, spec, env_fn, schedule, args.seed)
    marks = [*MARKS]
    recent: list[float] = []
    while carry.steps < total:
        carry, record = loop.advance(carry)
        if record is None:
            continue
        recent = (recent + record["ep_returns"])[-20:]
        if carry.steps < marks[0]:
            continue
        params, epoch = carry.learner.params, record["epoch"]
        tests = loop.evaluate(algo, params, env_fn, args.seed, epoch, 10)["test_returns"]
        means = [round(statistics.fmean(returns), 1) for returns in (recent, tests)]
        with FILE.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow(
                (args.algo, args.env, args.rollout, args.seed, marks.pop(0), *means)
            )
    carry.envs.close()


if __name__ == "__main__":
    main()
