"""Measure the cost of averages over MPI ranks in bursts, and the speed of PPO on two ranks.

    make bench-mpi                               # both, about five minutes
    python benchmarks/ranks.py averages          # one of them
    python benchmarks/ranks.py ppo --repeats 9

`averages` runs bursts of 50 SAC updates on two ranks, in turns with and without their two averages
per update, and prints microseconds per update. `ppo` runs epochs of 4000 steps of HalfCheetah-v5
with Spinning Up's schedule and no early stop, in turns on one and on two ranks, and prints steps
per second. Each rank has one thread.
"""

import argparse
import functools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import purerl
from purerl import algos, mpi
from purerl.loops import offpolicy
from purerl.mpi import collective
from purerl.mpi.launch import find_launcher
from purerl.spaces import Box, EnvSpec
from purerl.types import Batch

HALFCHEETAH = EnvSpec((17,), Box((-1.0,) * 6, (1.0,) * 6))
UPDATES = 50


def make_batches(algo: Any, size: int) -> Batch:
    """Return 50 batches with HalfCheetah's shapes, with noise."""
    rng = np.random.default_rng(mpi.proc_id())
    floats = rng.standard_normal((UPDATES, size, 41), np.float32)
    none = np.zeros((UPDATES, size), bool)
    noise = rng.standard_normal((UPDATES, size, algo.NOISE_DRAWS, 6), np.float32)
    return Batch(
        floats[..., :17], np.tanh(floats[..., 17:23]), floats[..., 40], floats[..., 23:40], none,
        none, noise=noise,
    )  # fmt: skip


def skip_averages(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `function` without its averages."""

    def run(*args: Any) -> Any:
        kept, collective.reduce = collective.reduce, lambda op, tree: tree
        try:
            return function(*args)
        finally:
            collective.reduce = kept

    return run


def compare_averages(repeats: int) -> None:
    """Time bursts with and without averages on two ranks, for small and large networks."""
    algo = algos.load("sac")
    for hidden in ((64, 64), (256, 256)):
        spec = algo.Spec(HALFCHEETAH, hidden=hidden)
        update = algo.update.__wrapped__
        data = jax.device_put(make_batches(algo, 100))
        found: dict[str, list[float]] = {"without": [], "with": []}
        programs = {}
        for name, wrap in (("without", skip_averages), ("with", lambda f: f)):
            burst = jax.jit(functools.partial(_scan, update, name), donate_argnums=0)
            programs[name] = wrap(burst)
        for _ in range(repeats + 1):
            for name, program in programs.items():
                learner, _ = offpolicy.init(algo, spec, 10, np.zeros(2, np.uint32))
                mpi.psum(0)  # all ranks begin together
                began = time.perf_counter()
                jax.block_until_ready(program(learner, data))
                found[name].append((time.perf_counter() - began) * 1e6 / UPDATES)
        if mpi.is_root():
            report = {k: v[1:] for k, v in found.items()}  # the first call compiled
            low = {name: min(x) for name, x in report.items()}
            mid = {name: statistics.median(x) for name, x in report.items()}
            added = (low["with"] - low["without"], mid["with"] - mid["without"])
            print(
                f"SAC 2x{hidden[0]}, batch 100, {mpi.num_procs()} ranks, us per update (best, "
                f"median): without {low['without']:.0f} {mid['without']:.0f}, with averages "
                f"{low['with']:.0f} {mid['with']:.0f}, added {added[0]:.0f} {added[1]:.0f}, one "
                f"average {added[0] / 2:.0f} {added[1] / 2:.0f}",
                flush=True,
            )


def _scan(update: Callable[..., Any], name: str, learner: Any, data: Batch) -> Any:
    def step(learner: Any, batch: Batch) -> Any:
        return update(learner, batch)

    return jax.lax.scan(step, learner, data)[0]


def make_ppo_window() -> Callable[[], float]:
    """Return a function that runs one epoch of PPO and returns steps per second over all ranks."""
    import gymnasium

    from purerl.loops import gym as loop
    from purerl.schedules import OnPolicySchedule

    def env_fn() -> Any:
        return gymnasium.make("HalfCheetah-v5")

    algo = algos.load("ppo")
    spec = algo.Spec(EnvSpec.of(env_fn()), target_kl=None)
    state = [loop.start(algo, spec, env_fn, OnPolicySchedule(steps=4 * 10**8), 0)]

    def window() -> float:
        began = time.perf_counter()
        state[0], _ = loop.advance(state[0])
        return 4_000 / (time.perf_counter() - began)

    return window


def serve_ppo() -> None:
    """For each line that rank 0 reads, run an epoch and print its rate."""
    window = make_ppo_window()
    window()
    while True:
        if mpi.is_root():
            print("ready", flush=True)
            line = sys.stdin.readline()
        if not mpi.broadcast(mpi.is_root() and bool(line)):
            return
        rate = window()
        if mpi.is_root():
            print("rate", rate, flush=True)


def compare_ppo(repeats: int) -> None:
    """Time PPO on one and on two ranks, in turns."""
    workers: dict[int, Any] = {}
    rates: dict[int, list[float]] = {}
    for ranks in (1, 2):
        words = [] if ranks == 1 else [str(find_launcher()), "-n", str(ranks)]
        words += [sys.executable, __file__, "serve"]
        env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        workers[ranks] = subprocess.Popen(words, **pipes, text=True, env=env)
        rates[ranks] = []
        assert "ready" in workers[ranks].stdout.readline()
    for _ in range(repeats):
        for ranks, worker in workers.items():
            worker.stdin.write("go\n")
            worker.stdin.flush()
            rates[ranks].append(float(worker.stdout.readline().split()[1]))
            assert "ready" in worker.stdout.readline()
    for worker in workers.values():
        worker.stdin.close()
        worker.wait()
    for ranks, found in rates.items():
        best, middle = max(found), statistics.median(found)
        ratio = best / max(rates[1]), middle / statistics.median(rates[1])
        print(
            f"PPO HalfCheetah-v5, {ranks} rank(s): {best:.0f} best {middle:.0f} median steps/s, "
            f"x {ratio[0]:.2f} {ratio[1]:.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    text = "measurement (default: averages and ppo); serve is a worker of ppo"
    parser.add_argument("task", nargs="?", choices=("averages", "ppo", "serve"), help=text)
    parser.add_argument("--repeats", type=int, default=20, help="number of windows")
    args = parser.parse_args()
    if args.task in ("averages", "serve"):
        mpi.fork(2 if args.task == "averages" else None)
        purerl.setup()
        return compare_averages(args.repeats) if args.task == "averages" else serve_ppo()
    if args.task is None:
        subprocess.run([sys.executable, __file__, "averages"], check=True)
    return compare_ppo(args.repeats)


if __name__ == "__main__":
    main()
