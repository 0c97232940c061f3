"""Measure the time until a task is solved, for purerl, SBX and SB3.

    make bench-solve                                        # everything, about forty minutes
    make bench-solve ARGS="sac-pendulum --seeds 0 1 2 --only purerl-zoo sbx"

Every run is a new process pinned to one core, and the contenders of a seed take turns. A worker
trains. After every fixed number of steps it plays 10 episodes of the deterministic policy, in
environments with other seeds. It stops when two evaluations in a row are over the bar, or when its
budget of steps is used up. A task is solved at the first of two evaluations in a row over the bar,
because a single one may be luck. The time is wall clock from the start of the process until this
script reads the evaluation. It includes the evaluations of all contenders.

purerl runs each seed twice: with an empty compilation cache (cold), and with the cache that this
run filled (warm). The peers keep no cache. The settings are in the workers:

- `zoo`: those of the peers
- `own`: those of purerl
- `sbx`: `zoo` with SBX's deviations from the paper
- `jax`: `zoo` with the environment in JAX, in one program
"""

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent


class Task(NamedTuple):
    """Environment, bar and budget, which all contenders share."""

    env: str
    bar: float  # mean return that an evaluation must reach
    every: int  # environment steps between evaluations
    budget: int  # environment steps
    ours: tuple[str, ...]  # settings that purerl runs with


TASKS = {
    "dqn-cartpole": Task("CartPole-v1", 475.0, 1_024, 50_000, ("zoo", "own")),
    "sac-pendulum": Task("Pendulum-v1", -200.0, 500, 20_000, ("zoo", "own")),
    "td3-pendulum": Task("Pendulum-v1", -200.0, 500, 20_000, ("zoo", "sbx", "own")),
    "ppo-cartpole": Task("CartPole-v1", 475.0, 1_024, 100_000, ("zoo", "jax")),
}
EPISODES = 10  # episodes of an evaluation

Evaluation = tuple[float, int, float]  # seconds since the start, environment steps, mean return


class Verdict:
    """Stopping rule of a worker, which also prints every evaluation."""

    def __init__(self, task: Task) -> None:
        self.task, self.above = task, 0

    def stop(self, steps: int, mean_return: float) -> bool:
        """Print an evaluation; return True at the second in a row over the bar."""
        print("eval", steps, mean_return, flush=True)
        self.above = self.above + 1 if mean_return >= self.task.bar else 0
        return self.above == 2


def play(task: str, contender: str, python: str, seed: int, cache: str, core: int) -> list[str]:
    """Run one process; return a line per evaluation, with the seconds since the start first."""
    who = "purerl" if contender.startswith("purerl") else "peer"
    threads = {"OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
    began = time.perf_counter()
    process = subprocess.Popen(
        [python, str(HERE / f"worker_{who}_solve.py"), task, contender, str(seed)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | threads | {"PYTHONPATH": str(HERE.parent), "XDG_CACHE_HOME": cache},
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    assert process.stdout
    lines = []
    for line in process.stdout:
        if line.startswith("eval"):
            lines.append(f"{time.perf_counter() - began} {line.removeprefix('eval')}")
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{contender} ended with code {process.returncode}. Run it by hand.")
    share = (used.ru_utime + used.ru_stime) / (time.perf_counter() - began)
    if share < 0.95:  # no contender sleeps, so another process used this core
        print(f"  {contender} seed {seed} had {share:.0%} of its core", flush=True)
    return lines


def parse(lines: list[str]) -> list[Evaluation]:
    """Read the evaluations of one run."""
    words = [line.split() for line in lines]
    return [(float(seconds), int(steps), float(value)) for seconds, steps, value in words]


def find_first_over(run: list[Evaluation], bar: float) -> Evaluation | None:
    """Return the first evaluation over the bar."""
    return next((one for one in run if one[2] >= bar), None)


def find_solution(run: list[Evaluation], bar: float) -> Evaluation | None:
    """Return the first of two evaluations in a row over the bar."""
    pairs = itertools.pairwise(run)
    return next((one for one, two in pairs if min(one[2], two[2]) >= bar), None)


def summarise(found: list[Evaluation | None]) -> str:
    """Return the median seconds, then seconds and steps of every seed; inf if not solved."""
    seconds = [one[0] if one else float("inf") for one in found]
    steps = [f"{one[1] / 1000:.1f}k" if one else "-" for one in found]
    each = ", ".join(f"{x:.1f}" for x in seconds)
    return f"{statistics.median(seconds):5.1f} s ({each}; {', '.join(steps)})"


def compare(name: str, seeds: list[int], only: list[str], peers: str, core: int) -> None:
    """Run every contender once per seed, in turns, and print times and steps."""
    task, runs = TASKS[name], dict[str, list[list[Evaluation]]]()

    def one(label: str, contender: str, python: str, seed: int, cache: str) -> None:
        run = parse(play(name, contender, python, seed, cache, core))
        runs.setdefault(label, []).append(run)
        print(f"  {label} seed {seed}: {summarise([find_solution(run, task.bar)])}", flush=True)

    for seed in seeds:
        for settings in task.ours:
            if only and f"purerl-{settings}" not in only:
                continue
            with tempfile.TemporaryDirectory() as cache:
                for state in ("cold", "warm"):
                    label = f"purerl {settings} {state}"
                    one(label, f"purerl-{settings}", sys.executable, seed, cache)
        for peer in ("sbx", "sb3"):
            if only and peer not in only:
                continue
            with tempfile.TemporaryDirectory() as cache:
                one(f"{peer} zoo", peer, peers, seed, cache)
    for label, found in runs.items():
        first = [find_first_over(run, task.bar) for run in found]
        twice = [find_solution(run, task.bar) for run in found]
        print(f"{name} {label:<16} first {summarise(first)}")
        print(f"{name} {label:<16} twice {summarise(twice)}")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    text = f"tasks (default: all): {', '.join(TASKS)}"
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=text)
    text = "seeds of the runs (default: 0 to 4)"
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], help=text)
    text = "contenders (default: all): purerl-SETTINGS, sbx, sb3"
    parser.add_argument("--only", nargs="+", default=[], help=text)
    text = "Python interpreter with SBX and SB3"
    parser.add_argument("--peers", default=".venv-peers/bin/python", help=text)
    text = "number of the core for all contenders"
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help=text)
    args = parser.parse_args()
    if unknown := set(args.tasks) - set(TASKS):
        parser.error(f"tasks must be of {', '.join(TASKS)}, got {', '.join(sorted(unknown))}")
    for name in args.tasks or TASKS:
        compare(name, args.seeds, args.only, args.peers, args.core)


if __name__ == "__main__":
    main()
