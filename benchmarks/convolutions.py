"""Measure an update of DQN with `nets.NatureCNN`, alone and in the burst of the loop.

python benchmarks/convolutions.py [--rounds 10]

Batches have 32 rows of 84x84x4 pixels, stored as uint8, and XLA has one thread. The same network
with `jax.lax.conv_general_dilated` is measured for comparison. Cases alternate, and each number is
the smallest CPU time of one update in milliseconds.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import purerl
from purerl.algos import dqn
from purerl.buffers import replay
from purerl.loops import offpolicy
from purerl.loops.devices import init_tally
from purerl.nets import cnn
from purerl.spaces import Discrete, EnvSpec
from purerl.types import Transition

SHAPE, ROWS, BATCH, UPDATES = (84, 84, 4), 2_000, 32, 10


def convolve_with_lax(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    """Convolve with JAX's own function, which XLA differentiates."""
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def make_rows(number: int) -> Transition:
    """Return random transitions."""
    rng = np.random.default_rng(0)
    obs, next_obs = rng.integers(0, 256, (2, number, *SHAPE), np.uint8)
    act, rew = rng.integers(0, 6, number, np.int32), rng.normal(size=number).astype(np.float32)
    return Transition(obs, act, rew, next_obs, np.zeros(number, bool), np.zeros(number, bool))


def make_cases(activation: str, buffer: replay.Replay) -> tuple[Callable[..., Any], ...]:
    """Return functions that do one update alone, and a burst of updates, both compiled.

    Equal specs share a compilation, so each case has its own `activation`.
    """
    spec = dqn.Spec(EnvSpec(SHAPE, Discrete(6), "uint8"), torso="nature_cnn", activation=activation)
    learner = jax.jit(dqn.init, static_argnums=1)(jax.random.key(0), spec)
    batch = replay.sample(buffer, jax.random.key(1), BATCH)
    tally = init_tally(len(offpolicy.list_metrics(dqn, learner, buffer, BATCH)), 1)
    block, words = make_rows(50), np.zeros(4, np.uint32)
    carry = [jax.tree.map(np.array, learner), buffer, tally]

    def alone() -> None:
        jax.block_until_ready(dqn.update(learner, batch))

    def burst() -> None:
        fixed: Any = (*carry, block, np.int32(50), words)
        *carry[:], _ = jax.block_until_ready(offpolicy.run_burst(dqn, UPDATES, BATCH, 1, *fixed))

    alone()
    burst()
    return alone, burst


def measure(function: Callable[[], Any]) -> float:
    """Return the CPU time of a call in milliseconds."""
    start = time.process_time()
    function()
    return 1e3 * (time.process_time() - start)


def main() -> None:
    """Measure both networks and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    purerl.setup(threads=1, cache=False)
    rows = make_rows(ROWS)

    def fill() -> replay.Replay:
        return jax.jit(replay.add)(replay.init(jax.tree.map(lambda x: x[0], rows), ROWS), rows)

    cases, own = {"purerl": make_cases("relu", fill())}, cnn.convolve
    vars(cnn)["convolve"] = convolve_with_lax
    cases["lax"] = make_cases("leaky_relu", fill())
    cnn.convolve = own
    times: dict[str, list[list[float]]] = {name: [[], []] for name in cases}
    for _ in range(rounds):
        for name, (alone, burst) in cases.items():
            times[name][0] += [measure(alone) for _ in range(UPDATES)]
            times[name][1].append(measure(burst) / UPDATES)
    print("convolution   update alone   update in the burst   ratio")
    for name, found in times.items():
        one, many = map(min, found)
        print(f"{name:<13} {one:>9.1f} ms {many:>18.1f} ms {many / one:>7.2f}")


if __name__ == "__main__":
    main()
