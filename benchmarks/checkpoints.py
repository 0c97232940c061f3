"""Seconds of a checkpoint of a full replay memory, beside a raw write of the same bytes.

python benchmarks/checkpoints.py [--rows 1000000] [--repeats 5]

The rows are HalfCheetah's (17 observations, 6 actions, 166 bytes). Measured are the first
checkpoint, which writes all of them; one after 10,000 more steps, which writes what is new; reading
it back with every hash verified; and putting it into a run that was just started. The raw write is
one `write` and one `fsync` of as many bytes, before and after.
"""

import argparse
import dataclasses
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

import purerl
from purerl.algos import td3
from purerl.loops import gym as loop
from purerl.loops import snapshot
from purerl.runs.record import checkpoint
from purerl.schedules import OffPolicySchedule
from purerl.spaces import EnvSpec

NEW = 10_000  # steps between two checkpoints
ABOUT = {"algorithm": "td3"}


class Sized(gymnasium.Env[Any, Any]):
    """HalfCheetah's spaces and nothing behind them."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (17,))
        self.action_space = gymnasium.spaces.Box(-1, 1, (6,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Start an episode."""
        return np.zeros(17, np.float32), {}

    def step(self, action: Any) -> Any:
        """Return zeros, and go on for ever."""
        return np.zeros(17, np.float32), 0.0, False, False, {}


def start(rows: int) -> loop.Carry:
    schedule = OffPolicySchedule(steps=10 * rows, replay_size=rows, num_test_episodes=0)
    return loop.start(td3, td3.Spec(EnvSpec.of(Sized())), Sized, schedule, 0)


def filled(carry: loop.Carry, steps: int) -> loop.Carry:
    """Return the carry of a run that made so many steps, with random numbers in its memory."""
    assert carry.buffer
    rng = np.random.default_rng(0)
    data = carry.buffer.data
    rows = type(data)(*(_random(rng, x.shape, x.dtype) for x in data))
    rows = jax.block_until_ready(_on_device(rows))
    buffer = dataclasses.replace(
        carry.buffer,
        data=rows,
        position=jnp.int32(steps % len(rows.rew)),
        stored=jnp.int32(min(steps, len(rows.rew))),
    )
    return dataclasses.replace(carry, buffer=buffer, steps=steps)


@jax.jit
def _on_device(rows: Any) -> Any:
    """Return rows as a program's output, which the host can read where they are."""
    return jax.tree.map(lambda x: x[::-1], rows)


def _random(rng: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return rng.standard_normal(shape, dtype) if dtype.kind == "f" else rng.random(shape) < 0.01


def raw(folder: Path, size: int) -> float:
    """Return the seconds of writing and syncing as many bytes."""
    content = os.urandom(size)
    try:
        return seconds(lambda: _write(folder / "raw", content))
    finally:
        (folder / "raw").unlink()


def _write(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def seconds(step: Callable[[], Any]) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def once(folder: Path, rows: int, carry: loop.Carry) -> dict[str, float]:
    """Measure each thing one time, in a new folder."""
    segments: list[Any] = [()]

    def save(at: loop.Carry) -> None:
        segments[0] = checkpoint.save(folder, at, ABOUT, segments[0])

    first = raw(folder, 170 * rows)
    found = {"first_s": seconds(lambda: save(carry)), "first_mb": size(folder) / 1e6}
    found["first_raw_s"] = (first + raw(folder, size(folder))) / 2
    before = size(folder)
    later = filled(carry, rows + NEW)
    following = raw(folder, 5_000_000)
    found["next_s"] = seconds(lambda: save(later))
    found["next_mb"] = (size(folder) - before) / 1e6
    found["next_raw_s"] = (following + raw(folder, size(folder) - before)) / 2
    loaded: list[Any] = []
    found["load_s"] = seconds(lambda: loaded.append(checkpoint.load(folder, ABOUT, 0)))
    fresh = start(rows)
    found["thaw_s"] = seconds(lambda: snapshot.thaw(fresh, loaded[0].frozen))
    found["restore_s"] = found["load_s"] + found["thaw_s"]
    found["first_ratio"] = found["first_s"] / found["first_raw_s"]
    found["next_ratio"] = found["next_s"] / found["next_raw_s"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="on the disk to measure (default: /tmp)")
    args = parser.parse_args()
    purerl.setup()
    carry = filled(start(args.rows), args.rows)
    results = []
    for _ in range(args.repeats):
        folder = Path(tempfile.mkdtemp(dir=args.folder))
        try:
            results.append(once(folder, args.rows, carry))
        finally:
            shutil.rmtree(folder)
    for name in results[0]:
        values = [result[name] for result in results]
        line = {"median": statistics.median(values), "least": min(values), "most": max(values)}
        print(json.dumps({"figure": name} | {k: round(v, 4) for k, v in line.items()}))


if __name__ == "__main__":
    main()
