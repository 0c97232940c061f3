"""The logger without reinforcement learning: a classifier of two interleaved half circles.

    python examples/logger_outside_rl.py
    python examples/logger_outside_rl.py --num-cpu 2
    python examples/logger_outside_rl.py data/moons

The script makes its own data. Five epochs of 100 gradient steps take a few seconds on one core and
reach an accuracy of 0.99 or more. With a folder as argument, the script writes `progress.txt`,
`metrics.jsonl`, `config.json` and the parameters there. If the folder exists, it writes to a new
one beside it: `data/moons-2`. Each rank samples its own data, and the
gradients of all ranks are averaged.
"""

import argparse
import itertools
from pathlib import Path
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


def sample_points(rng: np.random.Generator, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Sample points of two half circles; return them and the half circle (0 or 1) of each."""
    angle, label = rng.uniform(0, np.pi, number), rng.integers(0, 2, number)
    x = np.where(label, 1 - np.cos(angle), np.cos(angle))
    y = np.where(label, 0.5 - np.sin(angle), np.sin(angle))
    points = np.stack([x, y], axis=1) + 0.1 * rng.standard_normal((number, 2))
    return points.astype(np.float32), label.astype(np.float32)


def loss(params: Any, points: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the cross-entropy, and the accuracy."""
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


def find_free_folder(folder: str) -> str:
    """Return the folder, or the first of `folder-2`, `folder-3`, ... if it exists."""
    names = (f"{folder}-{number}" if number > 1 else folder for number in itertools.count(1))
    return next(name for name in names if not Path(name).exists())


def main(folder: str | None, seed: int = 0) -> None:
    """Train, and log every epoch."""
    if folder is not None and mpi.is_root():
        folder = find_free_folder(folder)  # an EpochLogger overwrites no files
    logger = EpochLogger(folder, exp_name="moons")
    logger.save_config({"sizes": NET.sizes, "lr": 3e-3, "seed": seed})
    rng = np.random.default_rng([seed, mpi.proc_id()])
    params = mpi.sync(NET.init(jax.random.key(seed), jnp.zeros((1, 2))))
    opt_state = TX.init(params)
    for epoch in range(1, 6):
        for _ in range(100):
            params, opt_state, value, right = update(params, opt_state, *sample_points(rng, 32))
            logger.store(Loss=value, Acc=right)  # collect values of an epoch ...
        logger.log_tabular("Epoch", epoch)  # ... then log their mean, or more, as columns
        logger.log_tabular("Acc", with_min_and_max=True)
        logger.log_tabular("Loss", average_only=True)
        logger.log_tabular("TotalGradientSteps", 100 * epoch)
        logger.dump_tabular()
    logger.save_state(params)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", help="folder for the logs (default: no logs on disk)")
    parser.add_argument("--num-cpu", "--num_cpu", "--cpu", type=int, help="number of MPI ranks (1)")
    args = parser.parse_args()
    mpi.fork(args.num_cpu)
    purerl.setup()
    main(args.folder)
