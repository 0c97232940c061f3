"""The logger without any reinforcement learning: a classifier of two interleaved half circles.

    python examples/logger_outside_rl.py
    python examples/logger_outside_rl.py --num-cpu 2
    python examples/logger_outside_rl.py data/moons

The data are made here. Five epochs of 100 gradient steps, a few seconds on one core, an accuracy of
0.99 or more; with a folder as argument `progress.txt`, `metrics.jsonl`, `config.json` and the
parameters are written there. On several ranks each draws its own data, and gradients are averaged.
"""

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import purerl
from purerl import mpi
from purerl.nets import MLP
from purerl.runs.record.logger import EpochLogger

NET = MLP((64, 64, 1))
TX = optax.chain(mpi.pmean_grads(), optax.adam(3e-3))


def moons(rng: np.random.Generator, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points of two half circles, and which of them each belongs to."""
    angle, label = rng.uniform(0, np.pi, number), rng.integers(0, 2, number)
    x = np.where(label, 1 - np.cos(angle), np.cos(angle))
    y = np.where(label, 0.5 - np.sin(angle), np.sin(angle))
    points = np.stack([x, y], axis=1) + 0.1 * rng.standard_normal((number, 2))
    return points.astype(np.float32), label.astype(np.float32)


def loss(params: Any, points: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the cross-entropy, and the share of points that are classified correctly."""
    logits: Any = NET.apply(params, points)
    logits = logits[:, 0]
    right = ((logits > 0) == (labels > 0.5)).mean()
    return optax.sigmoid_binary_cross_entropy(logits, labels).mean(), right


@jax.jit
def update(params: Any, opt_state: Any, points: Any, labels: Any) -> tuple[Any, ...]:
    """Do one gradient step."""
    (value, right), grads = jax.value_and_grad(loss, has_aux=True)(params, points, labels)
    step, opt_state = TX.update(grads, opt_state)
    return optax.apply_updates(params, step), opt_state, value, right


def main(folder: str | None, seed: int = 0) -> None:
    """Train, and log every epoch."""
    logger = EpochLogger(folder, exp_name="moons")
    logger.save_config({"sizes": NET.sizes, "lr": 3e-3, "seed": seed})
    rng = np.random.default_rng([seed, mpi.proc_id()])
    params = mpi.sync(NET.init(jax.random.key(seed), jnp.zeros((1, 2))))
    opt_state = TX.init(params)
    for epoch in range(1, 6):
        for _ in range(100):
            params, opt_state, value, right = update(params, opt_state, *moons(rng, 32))
            logger.store(Loss=value, Acc=right)
        logger.log_tabular("Epoch", epoch)
        logger.log_tabular("Acc", with_min_and_max=True)
        logger.log_tabular("Loss", average_only=True)
        logger.log_tabular("TotalGradientSteps", 100 * epoch)
        logger.dump_tabular()
    logger.save_state(params)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", help="where to write; nowhere without it")
    parser.add_argument("--num-cpu", "--num_cpu", "--cpu", type=int, help="MPI ranks")
    args = parser.parse_args()
    mpi.fork(args.num_cpu)
    purerl.setup()
    main(args.folder)
