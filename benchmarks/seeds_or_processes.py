"""Compare k seeds in one program with k processes, two at a time on two cores.

    python benchmarks/seeds_or_processes.py         # all cases three times, about two hours
    python benchmarks/seeds_or_processes.py jax: --seeds 8 --times 1
    python benchmarks/seeds_or_processes.py --steps 400 --seeds 2 --times 1    # a quick trial

The seconds are those of whole commands, `purerl train ... --seed 0 1 2`, from start to end, with
imports and compilation. Each measurement begins with an empty cache of compiled programs, which its
processes share. The contenders take turns, and each has both cores:

- `processes`: a process for each seed, two at a time
- `together`: one process with all seeds, which uses one core
- `halves`: two processes with half of the seeds each

The table has medians, and the ratio of `processes` to each of the others: above 1, they are faster.
"""

import argparse
import concurrent.futures
import itertools
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
# environment -> algorithm, steps of each seed, settings
TASKS = {
    "CartPole-v1": ("ppo", 50_000, "--num-envs 4 --rollout-steps 512 --minibatch-size 128"),
    "Pendulum-v1": ("sac", 10_000, "--num-test-episodes 0"),
}
MORE = {"ppo": "--train-pi-iters 4 --train-v-iters 4"}
COMMON = "--preset none --hidden 64,64 --save-freq none"
CONTENDERS = ("processes", "together", "halves")


def run_command(env: str, seeds: tuple[int, ...], steps: int | None, core: int, home: str) -> None:
    """Train seeds by one command on one core; print its output if it fails."""
    algo, usual, settings = TASKS[env.removeprefix("jax:")]
    words = ["train", algo, "--env", env, "--steps", str(steps or usual), "--data-dir", home]
    words += f"{COMMON} {settings} {MORE.get(algo, '')} --seed".split()
    words += [*map(str, seeds), *(["--together"] if len(seeds) > 1 else [])]
    done = subprocess.run(
        [sys.executable, "-m", "purerl", *words],
        env=os.environ | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": home},
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        sys.exit(done.stdout)


def measure(contender: str, env: str, k: int, steps: int | None) -> float:
    """Return the seconds that a contender needs for `k` seeds."""
    seeds = tuple(range(k))
    parts = {"processes": k, "together": 1, "halves": 2}[contender]
    groups = [seeds[i * k // parts : (i + 1) * k // parts] for i in range(parts)]
    cores: queue.SimpleQueue[int] = queue.SimpleQueue()
    for core in sorted(os.sched_getaffinity(0))[:2]:
        cores.put(core)

    def run(group: tuple[int, ...]) -> None:
        core = cores.get()
        run_command(env, group, steps, core, home)
        cores.put(core)

    with tempfile.TemporaryDirectory() as home, concurrent.futures.ThreadPoolExecutor(2) as pool:
        began = time.monotonic()
        list(pool.map(run, groups))
        return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("select", nargs="?", default="", help="part of an environment's name")
    parser.add_argument("--seeds", type=int, nargs="+", default=[2, 8, 32], metavar="K")
    parser.add_argument("--steps", type=int, help="steps of each seed (50000 and 10000)")
    parser.add_argument("--times", type=int, default=3, help="measurements of each case")
    args = parser.parse_args()
    print(f"{'environment':16} {'k':>3}", *(f"{name:>10}" for name in CONTENDERS), "  ratios")
    envs = [f"{loop}{name}" for name in TASKS for loop in ("jax:", "")]
    for env, k in itertools.product((x for x in envs if args.select in x), args.seeds):
        taken: dict[str, list[float]] = {name: [] for name in CONTENDERS}
        for _, name in itertools.product(range(args.times), CONTENDERS):
            taken[name].append(measure(name, env, k, args.steps))
        seconds = {name: statistics.median(x) for name, x in taken.items()}
        ratios = " ".join(f"{seconds['processes'] / seconds[x]:6.2f}" for x in CONTENDERS[1:])
        print(f"{env:16} {k:3}", *(f"{x:10.1f}" for x in seconds.values()), ratios, flush=True)


if __name__ == "__main__":
    main()
