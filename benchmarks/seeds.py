"""Measure several seeds in one program against the same seeds one after the other.

    python benchmarks/seeds.py
    python benchmarks/seeds.py dqn td3 --seeds 2 8 32 --rounds 9

Both take turns in one process with one thread. The output has the processor time of a step of one
seed, as the minimum over rounds of 1,024 steps, and the ratio of both. Networks are 2 x 64.
Compilation is not included.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import gymnasium

import purerl
from purerl import algos
from purerl.loops import gym as loop
from purerl.schedules import OffPolicySchedule, OnPolicySchedule
from purerl.spaces import EnvSpec

STEPS = 1_024
ENVS = {"td3": "Pendulum-v1", "sac": "Pendulum-v1", "dqn": "CartPole-v1", "ppo": "CartPole-v1"}
PPO = {"train_pi_iters": 4, "train_v_iters": 4, "minibatch_size": 128}


def make_starter(name: str) -> Callable[..., Any]:
    """Return `start` for an algorithm without its last argument."""
    algo = algos.load(name)

    def env_fn() -> Any:
        return gymnasium.make(ENVS[name])

    settings: dict[str, Any] = PPO if name == "ppo" else {}
    spec = algo.Spec(EnvSpec.of(env_fn()), hidden=(64, 64), **settings)
    schedule: Any = OffPolicySchedule(
        steps=10**9, steps_per_epoch=1_000, start_steps=100, update_after=100, replay_size=100_000
    )
    if name == "ppo":
        schedule = OnPolicySchedule(
            steps=10**9, num_envs=4, rollout_steps=512, steps_per_epoch=5_120
        )
    return lambda **seeds: loop.start(algo, spec, env_fn, schedule, **seeds)


def time_steps(carry: Any) -> tuple[Any, float]:
    """Advance a carry, or those of several seeds; return them and the processor time per step."""

    def count() -> int:
        return int((carry.carries[0] if isinstance(carry, loop.Together) else carry).steps)

    first, began = count(), time.process_time()
    while count() < first + STEPS:
        carry, _ = loop.advance(carry)
    return carry, (time.process_time() - began) / (count() - first)


def compare(name: str, seeds: int, rounds: int) -> None:
    """Print the times of one algorithm."""
    start = make_starter(name)
    carries = [start(seeds=range(seeds)), start(seed=0)]
    carries = [time_steps(carry)[0] for carry in carries]  # compile
    times: list[list[float]] = [[], []]
    for _ in range(rounds):
        for i in (0, 1):
            carries[i], seconds = time_steps(carries[i])
            times[i].append(seconds * 1e6)
    together, alone = min(times[0]) / seeds, min(times[1])
    print(
        f"{name:<5} {seeds:>3} {together:>9.1f} {alone:>9.1f} {alone / together:>7.2f}", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("algos", nargs="*", help=f"algorithms (default: all of {', '.join(ENVS)})")
    parser.add_argument("--seeds", nargs="+", type=int, default=[2, 8, 32], help="numbers of seeds")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each contender")
    args = parser.parse_args()
    purerl.setup(threads=1)
    print("algo    k  together     alone   ratio   (us per step of one seed)")
    for name in args.algos or ENVS:
        for number in args.seeds:
            compare(name, number, args.rounds)


if __name__ == "__main__":
    main()
