"""Measure memory and compilations over millions of steps of an environment that does nothing.

python benchmarks/memory.py [--steps 3000000]

It measures one off-policy run (td3, few updates) and one on-policy run (vpg). The first tenth of
the steps is a warm-up. Afterwards the resident memory is read every 100,000 steps, a line is fitted
to it, and all compilations are counted.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np

import purerl
from purerl.algos import td3, vpg
from purerl.loops import gym as loop
from purerl.schedules import OffPolicySchedule, OnPolicySchedule
from purerl.spaces import EnvSpec

EVERY = 100_000  # steps between two readings


class Null(gymnasium.Env[Any, Any]):
    """The cheapest environment: one array, episodes of 1,000 steps."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-1, 1, (3,))
        self.action_space = gymnasium.spaces.Box(-1, 1, (1,))
        self.obs, self.time = np.zeros(3, np.float32), 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Start an episode."""
        self.time = 0
        return self.obs, {}

    def step(self, action: Any) -> Any:
        """Return the same observation; an episode has 1,000 steps."""
        self.time += 1
        return self.obs, 1.0, False, self.time == 1_000, {}


class Compilations:
    """Counter of the programs that XLA compiles, or reads from its cache, in this process."""

    def __init__(self) -> None:
        self.number = 0
        jax.monitoring.register_event_duration_secs_listener(self.count_event)

    def count_event(self, event: str, duration_secs: float, **_: str | int) -> None:
        """Count an event if it is a compilation."""
        self.number += event == "/jax/core/compile/backend_compile_duration"


def make_schedules(steps: int) -> dict[str, Any]:
    off = OffPolicySchedule(
        steps=steps,
        steps_per_epoch=10_000,
        start_steps=1_000,
        update_every=1_000,
        updates_per_burst=1,
        replay_size=100_000,
        num_test_episodes=0,
    )
    on = OnPolicySchedule(steps=steps, steps_per_epoch=10_000)
    return {"off-policy": (td3, off), "on-policy": (vpg, on)}


def measure(algo: Any, schedule: Any, count: Compilations) -> dict[str, Any]:
    """Run to the end; return memory and compilations after the warm-up."""
    spec = algo.Spec(EnvSpec.of(Null()), hidden=(8,))
    carry, readings, before = loop.start(algo, spec, Null, schedule, 0), [], 0
    while carry.steps < schedule.steps:
        carry, _ = loop.advance(carry)
        if carry.steps % EVERY == 0 and carry.steps >= schedule.steps // 10:
            before = before or count.number
            readings.append((carry.steps, read_resident_memory()))
    carry.envs.close()
    steps, megabytes = np.array(readings).T
    slope = float(np.polyfit(steps / 1e6, megabytes, 1)[0])
    return {
        "steps": int(steps[-1]),
        "readings": len(readings),
        "first_mb": round(float(megabytes[0]), 1),
        "last_mb": round(float(megabytes[-1]), 1),
        "mb_per_million_steps": round(slope, 3),
        "compilations_after_warm_up": count.number - before,
    }


def read_resident_memory() -> float:
    """Return the resident memory of this process in megabytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=3_000_000, help="steps of each run")
    parser.add_argument("--kind", choices=make_schedules(10_000), help="kind of run (default: all)")
    args = parser.parse_args()
    if args.kind is None:
        for name in make_schedules(args.steps):
            words = [sys.executable, __file__, "--kind", name, "--steps", str(args.steps)]
            subprocess.run(words, check=True)
        return
    purerl.setup()
    algo, schedule = make_schedules(args.steps)[args.kind]
    print(json.dumps({"kind": args.kind} | measure(algo, schedule, Compilations())))


if __name__ == "__main__":
    main()
