"""Compare both loops on the same environments and settings: steps per second on one core.

    python -m benchmarks.loops
    python -m benchmarks.loops ppo --windows 9

Gymnasium's environment and its equal in JAX take turns in one process with one thread, window by
window. The settings are those of the comparison with Rejax (`SCAN` in worker_purerl.py). The output
has the best and the median of the windows, and the ratio of both. Compilation is not included.
"""

import argparse
import dataclasses
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import gymnasium

import purerl
from benchmarks.worker_purerl import SCAN
from purerl import algos
from purerl.envs import names
from purerl.loops import gym, scan
from purerl.schedules import OffPolicySchedule
from purerl.spaces import EnvSpec

ENVS = {"ppo": "CartPole-v1", "dqn": "CartPole-v1", "sac": "Pendulum-v1", "td3": "Pendulum-v1"}
STEPS = {"ppo": 40_960, "dqn": 10_000, "sac": 2_000, "td3": 4_000}


def make_windows(name: str) -> list[Callable[[], float]]:
    """Return for each loop a function that returns the steps per second of a window."""
    algo, (_, settings, schedule) = algos.load(name), SCAN[name]
    length = {"steps": 10**5 * STEPS[name], "steps_per_epoch": STEPS[name]}
    if isinstance(schedule, OffPolicySchedule):
        length |= {"start_steps": 1_000, "update_after": 1_000}
    schedule = dataclasses.replace(schedule, num_test_episodes=0, **length)

    def env_fn() -> Any:
        return gymnasium.make(ENVS[name])

    windows = []
    for loop, env in ((gym, env_fn), (scan, names.make(f"jax:{ENVS[name]}"))):
        spec = algo.Spec(EnvSpec.of(env_fn()), **settings)
        windows.append(_count_steps(loop, loop.start(algo, spec, env, schedule, 0), STEPS[name]))
    return windows


def _count_steps(loop: Any, carry: Any, steps: int) -> Callable[[], float]:
    def window() -> float:
        nonlocal carry
        first, began = carry.steps, time.perf_counter()
        while carry.steps < first + steps:
            carry, _ = loop.advance(carry)
        return (carry.steps - first) / (time.perf_counter() - began)

    return window


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("algos", nargs="*", default=list(ENVS), metavar="ALGO")
    parser.add_argument("--windows", type=int, default=7)
    args = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    purerl.setup()
    print(f"{'':20} {'Gymnasium':>17} {'JAX':>19}  ratio   (best / median)")
    for name in args.algos:
        windows = make_windows(name)
        speeds: list[list[float]] = [[], []]
        for window in windows:
            window()  # compile
        for _ in range(args.windows):
            for i, window in enumerate(windows):
                speeds[i].append(window())
        (best, middle), (best_jax, middle_jax) = ((max(x), statistics.median(x)) for x in speeds)
        print(
            f"{name:4} {ENVS[name]:15} {best:8.0f} / {middle:6.0f} {best_jax:9.0f} /"
            f" {middle_jax:7.0f}  {best_jax / best:.1f} / {middle_jax / middle:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
