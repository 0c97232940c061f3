"""Compare the processor time of one update of several algorithms for continuous actions.

    python benchmarks/updates.py                 # sac and crossq
    python benchmarks/updates.py sac td3 crossq xqc --batch 256 --turns 12
    python benchmarks/updates.py sac td3 redq droq --batch 256 --turns 12

The algorithms take turns. Each turn is one program with 60 updates, which is a multiple of every
policy delay. Networks have their default layers: two of 256 units, in XQC four. Observations and
actions have the sizes of HalfCheetah, 17 and 6. The last column is the median over turns of the
ratio to the first algorithm.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import purerl
from purerl import algos
from purerl.compiler import jit_fast
from purerl.spaces import Box, EnvSpec
from purerl.types import Batch

ENV = EnvSpec((17,), Box((-1.0,) * 6, (1.0,) * 6))
UPDATES = 60
DROQ = {"ensemble": 2, "dropout": 0.01, "layer_norm": True}
SETTINGS: dict[str, dict[str, Any]] = {"sac": {"alpha": "auto"}, "droq": DROQ}


def draw_batches(size: int, draws: int) -> Batch:
    """Draw a batch of random numbers for each update of a turn."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(size=(UPDATES, size, *shape)).astype(np.float32)

    never = np.zeros((UPDATES, size), bool)
    rows = (normal(17), np.tanh(normal(6)), normal(), normal(17), never, never)
    return jax.device_put(Batch(*rows, noise=normal(draws, 6)))


def make_turn(name: str, size: int) -> Callable[[], Any]:
    """Return a function that does one turn with an algorithm; its program is compiled."""
    algo = algos.load("redq" if name == "droq" else name)
    spec = algo.Spec(ENV, **SETTINGS.get(name, {}))
    state = jax.jit(algo.init, static_argnums=1)(jax.random.key(0), spec)
    batches = draw_batches(size, algo.NOISE_DRAWS)
    run = jit_fast(lambda state, batches: jax.lax.scan(algo.update, state, batches)[0])
    jax.block_until_ready(run(state, batches))
    return lambda: jax.block_until_ready(run(state, batches))


def main() -> None:
    """Measure the algorithms of the command line in turns."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=["sac", "crossq"], metavar="ALGO")
    parser.add_argument("--batch", type=int, default=256, help="rows of a batch")
    parser.add_argument("--turns", type=int, default=12, help="turns of each algorithm")
    args = parser.parse_args()
    purerl.setup(threads=1)
    turns = {name: make_turn(name, args.batch) for name in args.names}
    times: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(args.turns):
        for name, turn in turns.items():
            began = time.process_time()
            turn()
            times[name].append(1e6 * (time.process_time() - began) / UPDATES)
    first = times[args.names[0]]
    for name, found in times.items():
        ratio = statistics.median(b / a for a, b in zip(first, found, strict=True))
        print(
            f"{name:8} {min(found):6.0f} µs per update at best, {ratio:.2f} times {args.names[0]}"
        )


if __name__ == "__main__":
    main()
