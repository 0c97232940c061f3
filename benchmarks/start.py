"""Measure the seconds before the first update, and the parts of solving CartPole-v1 with PPO.

    python benchmarks/start.py              # five times each, about two minutes

`run_sac` is the time from the start of `python examples/run_sac.py` to its first record, after
1 000 random steps and the first burst of 50 updates. `ppo` is the task of `solve.py` with the
settings of the zoo, seeds 0 to 4, divided into its parts. Each runs on one core, first with an
empty compilation cache (cold), then with the cache that this run filled (warm). The output has
medians.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRIPT = ("examples/run_sac.py", "--steps", "1000", "--steps-per-epoch", "1000")
PARTS = ("imports", "init", "first rollout and update", "other ones", "evaluations", "total")


def spawn(words: tuple[str, ...], core: int, cache: str) -> tuple[float, str]:
    """Run Python on one core; return the seconds until it ended, and its output."""
    began = time.time()
    done = subprocess.run(
        [sys.executable, *words],
        env=os.environ | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": cache, "BEGAN": str(began)},
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return time.time() - began, done.stdout


def time_ppo(seed: int) -> list[float]:
    """Solve CartPole-v1; return the seconds of each part, from the start of this process."""
    began = float(os.environ["BEGAN"])
    import dataclasses
    import functools

    import gymnasium

    import purerl
    from benchmarks.solve import EPISODES, TASKS, Verdict
    from benchmarks.worker_purerl_solve import SETTINGS
    from purerl.algos import ppo as algo
    from purerl.loops import gym as loop
    from purerl.spaces import EnvSpec

    purerl.setup()
    env_fn = functools.partial(gymnasium.make, "CartPole-v1")
    (spec, schedule), task = SETTINGS["ppo-cartpole-zoo"], TASKS["ppo-cartpole"]
    imports = time.time()
    carry = loop.start(
        algo,
        algo.Spec(EnvSpec.of(env_fn()), **spec),
        env_fn,
        dataclasses.replace(algo.SCHEDULE, **schedule),
        seed,
    )
    init, verdict, tests, due = time.time(), Verdict(task), 0.0, task.every
    carry, _ = loop.advance(carry)
    first = time.time()
    while carry.steps < task.budget:
        carry, _ = loop.advance(carry)
        if carry.steps >= due:
            due, asked = due + task.every, time.time()
            found = loop.evaluate(algo, carry.learner.params, env_fn, seed, due, EPISODES)
            tests += time.time() - asked
            if verdict.stop(carry.steps, statistics.fmean(found["test_returns"])):
                break
    ended = time.time()
    others = ended - first - tests
    return [imports - began, init - imports, first - init, others, tests, ended - began]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds")
    text = "number of the core for all processes"
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help=text)
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part is not None:
        print(*time_ppo(args.part))
        return
    script: dict[str, list[float]] = {"cold": [], "warm": []}
    solve: dict[str, list[list[float]]] = {"cold": [], "warm": []}
    for seed in range(args.seeds):
        with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as other:
            for state in ("cold", "warm"):
                words = (*SCRIPT, "--num-test-episodes", "0", "--seed", str(seed))
                script[state].append(spawn(words, args.core, cache)[0])
                out = spawn(("benchmarks/start.py", "--part", str(seed)), args.core, other)[1]
                solve[state].append([float(x) for x in out.split()[-len(PARTS) :]])
    for state, seconds in script.items():
        print(f"run_sac {state}: {min(seconds):.2f} / {statistics.median(seconds):.2f}")
    for state, rows in solve.items():
        medians = [statistics.median(column) for column in zip(*rows, strict=True)]
        print(
            f"ppo {state}:", ", ".join(f"{n} {s:.2f}" for n, s in zip(PARTS, medians, strict=True))
        )


if __name__ == "__main__":
    main()
