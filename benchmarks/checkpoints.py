"""Time a checkpoint of a full replay buffer, and compare it with a raw write of as many bytes.

python benchmarks/checkpoints.py [--rows 1000000] [--repeats 5]

The rows have HalfCheetah's shapes (17 observations, 6 actions, 166 bytes). Four steps are timed:

- the first checkpoint, which writes all rows
- a checkpoint after 10,000 more steps, which writes the new rows
- reading a checkpoint, with every hash verified
- filling the carry of a new run

The raw write is one `write` and one `fsync` of as many bytes, before and after each checkpoint.
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
from purerl.loops.carry import OffPolicyCarry
from purerl.runs.record import checkpoint
from purerl.schedules import OffPolicySchedule
from purerl.spaces import EnvSpec

NEW = 10_000  # steps between two checkpoints
ABOUT = {"algorithm": "td3"}


class Sized(gymnasium.Env[Any, Any]):
    """Environment with HalfCheetah's spaces, which returns zeros."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (17,))
        self.action_space = gymnasium.spaces.Box(-1, 1, (6,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Start an episode."""
        return np.zeros(17, np.float32), {}

    def step(self, action: Any) -> Any:
        """Return zeros; an episode never ends."""
        return np.zeros(17, np.float32), 0.0, False, False, {}


def start_carry(rows: int) -> loop.Carry:
    schedule = OffPolicySchedule(steps=10 * rows, replay_size=rows, num_test_episodes=0)
    return loop.start(td3, td3.Spec(EnvSpec.of(Sized())), Sized, schedule, 0)


def fill_carry(carry: loop.Carry, steps: int) -> loop.Carry:
    """Return the carry of a run after `steps` steps, with random numbers in its replay buffer."""
    assert isinstance(carry, OffPolicyCarry)
    rng = np.random.default_rng(0)
    data = carry.buffer.data
    rows = jax.tree.map(lambda x: _draw(rng, x.shape, x.dtype), data)
    rows = jax.block_until_ready(_copy_to_device(rows))
    buffer = dataclasses.replace(
        carry.buffer,
        data=rows,
        position=jnp.int32(steps % len(rows.rew)),
        stored=jnp.int32(min(steps, len(rows.rew))),
    )
    return dataclasses.replace(carry, buffer=buffer, steps=steps)


@jax.jit
def _copy_to_device(rows: Any) -> Any:
    """Return rows as the output of a program, which the host can read without a copy."""
    return jax.tree.map(lambda x: x[::-1], rows)


def _draw(rng: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return rng.standard_normal(shape, dtype) if dtype.kind == "f" else rng.random(shape) < 0.01


def time_raw_write(folder: Path, size: int) -> float:
    """Return the seconds for writing and syncing `size` bytes."""
    content = os.urandom(size)
    try:
        return time_call(lambda: _write(folder / "raw", content))
    finally:
        (folder / "raw").unlink()


def _write(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def time_call(step: Callable[[], Any]) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def measure_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure_once(folder: Path, rows: int, carry: loop.Carry) -> dict[str, float]:
    """Time each step once, in a new folder."""
    segments: list[Any] = [()]

    def save(at: loop.Carry) -> None:
        segments[0] = checkpoint.save(folder, at, ABOUT, segments[0])

    first = time_raw_write(folder, 170 * rows)
    found = {"first_s": time_call(lambda: save(carry)), "first_mb": measure_size(folder) / 1e6}
    found["first_raw_s"] = (first + time_raw_write(folder, measure_size(folder))) / 2
    before = measure_size(folder)
    later = fill_carry(carry, rows + NEW)
    following = time_raw_write(folder, 5_000_000)
    found["next_s"] = time_call(lambda: save(later))
    found["next_mb"] = (measure_size(folder) - before) / 1e6
    found["next_raw_s"] = (following + time_raw_write(folder, measure_size(folder) - before)) / 2
    loaded: list[Any] = []
    found["load_s"] = time_call(lambda: loaded.append(checkpoint.load(folder, ABOUT, 0)))
    fresh = start_carry(rows)
    found["thaw_s"] = time_call(lambda: snapshot.thaw(fresh, loaded[0].frozen))
    found["restore_s"] = found["load_s"] + found["thaw_s"]
    found["first_ratio"] = found["first_s"] / found["first_raw_s"]
    found["next_ratio"] = found["next_s"] / found["next_raw_s"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the replay buffer")
    parser.add_argument("--repeats", type=int, default=5, help="number of measurements")
    text = "folder on the disk to measure (default: the folder for temporary files)"
    parser.add_argument("--folder", type=Path, help=text)
    args = parser.parse_args()
    purerl.setup()
    carry = fill_carry(start_carry(args.rows), args.rows)
    results = []
    for _ in range(args.repeats):
        folder = Path(tempfile.mkdtemp(dir=args.folder))
        try:
            results.append(measure_once(folder, args.rows, carry))
        finally:
            shutil.rmtree(folder)
    for name in results[0]:
        values = [result[name] for result in results]
        line = {"median": statistics.median(values), "least": min(values), "most": max(values)}
        print(json.dumps({"figure": name} | {k: round(v, 4) for k, v in line.items()}))


if __name__ == "__main__":
    main()
