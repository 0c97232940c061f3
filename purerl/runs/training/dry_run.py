"""`--dry-run`: what a run will need, found out by building it and training it for a moment.

Nothing is written but compiled programs into their cache.
"""

import dataclasses
import resource
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import jax
import numpy as np

from purerl.buffers.replay import free_memory
from purerl.loops import gym as loop
from purerl.runs.console import format_size, print_lines
from purerl.runs.settings import config as configs
from purerl.runs.settings.config import Config
from purerl.runs.training.train import check_memory, start_carry
from purerl.schedules import OffPolicySchedule

ROWS = 20_000  # of replay memory while measuring
SECONDS = 1.0  # of measuring, each


def report_needs(made: Sequence[Config], env_fn: Callable[[], Any] | None, ranks: int) -> int:
    """Print spaces, networks, memory, speed and the time that runs will take; return 0."""
    config = made[0]
    check_memory(config, ranks)
    env_fn = env_fn or configs.make_env_fn(config.env)
    print_lines(f"{config.algo} on {config.env}: nothing is kept of this")
    print_lines(
        f"observations  {config.spec.env.obs_shape} {np.dtype(config.spec.env.obs_dtype).name}"
    )
    print_lines(f"actions       {config.spec.env.action}")
    schedule = _short(config.schedule)
    began = time.monotonic()
    carry = start_carry(dataclasses.replace(config, schedule=schedule), env_fn, print_lines)
    try:
        for line in _networks(carry.learner.params):
            print_lines(line)
        carry, _ = loop.advance(carry)  # compiles
        if isinstance(schedule, OffPolicySchedule):
            while not carry.updates:
                carry, _ = loop.advance(carry)
        print_lines(f"built and compiled in {time.monotonic() - began:.1f} s")
        _memory(config, carry, ranks)
        carry, learning = _measure_speed(carry)
        _times(made, env_fn, carry, learning, ranks)
    finally:
        carry.envs.close()
    return 0


def estimate_replay_bytes(config: Config) -> int:
    """Return the size of a run's replay memory over all ranks; of none on-policy."""
    if not isinstance(config.schedule, OffPolicySchedule):
        return 0
    row = sum(np.asarray(x).nbytes for x in config.spec.env.example())
    return row * config.schedule.replay_size


def format_duration(seconds: float) -> str:
    """Return a time in words.

    Example:
        >>> duration(3.21), duration(754), duration(9000)
        ('3.2 s', '12 min 34 s', '2 h 30 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _short(schedule: Any) -> Any:
    """Return a schedule that learns from its first moments on, and does not end."""
    steps = schedule.steps_per_epoch * 1_000_000
    if not isinstance(schedule, OffPolicySchedule):
        return dataclasses.replace(schedule, steps=steps)
    least = -(-schedule.batch_size // schedule.num_envs) * schedule.num_envs
    rows = min(schedule.replay_size, max(ROWS, least))
    return dataclasses.replace(
        schedule, steps=steps, start_steps=0, update_after=least, replay_size=rows
    )


def _networks(params: Any) -> list[str]:
    """Return shapes and number of parameters of each network."""
    lines, total = [], 0
    for field in dataclasses.fields(params):
        leaves = jax.tree.leaves(getattr(params, field.name))
        if field.name == "spec" or not leaves:
            continue
        number = sum(np.size(leaf) for leaf in leaves)
        total += number
        shapes = " ".join("x".join(map(str, np.shape(x))) for x in leaves if np.ndim(x) > 1)
        lines.append(f"{field.name:<13} {number:>9,} parameters  {shapes}".rstrip())
    return [*lines, f"{'in all':<13} {total:>9,} parameters"]


def _memory(config: Config, carry: loop.Carry, ranks: int) -> None:
    """Print what the run will hold."""
    learner = sum(x.nbytes for x in jax.tree.leaves(carry.learner) if hasattr(x, "nbytes"))
    short = sum(x.nbytes for x in jax.tree.leaves(carry.buffer)) if carry.buffer else 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    process = peak * (1 if sys.platform == "darwin" else 1024) - short
    replay = estimate_replay_bytes(config)
    total = process * ranks + replay
    free = free_memory()
    there = "" if free is None else f", of {format_size(free)} that are free"
    parts = (format_size(number) for number in (learner, replay, total))
    line = "memory        learner {}, replay {}, about {} in all".format(*parts)
    print_lines(line + there)
    if free is not None and total > free:
        print_lines("              THAT IS MORE THAN IS FREE: lower --replay-size or --num-cpu")


def _measure_speed(carry: loop.Carry) -> tuple[loop.Carry, float]:
    """Print steps and updates a second while learning; return the first."""
    steps, updates, began = carry.steps, carry.updates, time.monotonic()
    while time.monotonic() - began < SECONDS or carry.steps == steps:
        carry, _ = loop.advance(carry)
    seconds = time.monotonic() - began
    rate = (carry.steps - steps) / seconds
    updated = (carry.updates - updates) / seconds
    often = f"{updated:,.0f}" if updated > 10 else f"{updated:.1f}"
    print_lines(f"speed         {rate:,.0f} environment steps/s with {often} updates/s")
    return carry, rate


def _times(
    made: Sequence[Config],
    env_fn: Callable[[], Any],
    carry: loop.Carry,
    rate: float,
    ranks: int,
) -> None:
    """Print how long it takes."""
    schedule = made[0].schedule
    seconds = schedule.steps / ranks / rate
    words = f"{schedule.steps:,} steps"
    if schedule.num_test_episodes:
        most, each = _episode(made[0], env_fn, carry)
        epochs = -(-schedule.steps // schedule.steps_per_epoch)
        testing = epochs * schedule.num_test_episodes * most * each / ranks
        seconds += testing
        words += f", {format_duration(testing)} of it for test episodes of {most:,} steps"
    line = f"time needed   about {format_duration(seconds)} for {words}"
    if ranks > 1:
        line += f", if each of {ranks} ranks has a core of its own; measured on one"
    print_lines(line)
    if len(made) > 1:
        print_lines(
            f"              about {format_duration(seconds * len(made))} for {len(made)} seeds"
        )


def _episode(config: Config, env_fn: Callable[[], Any], carry: loop.Carry) -> tuple[int, float]:
    """Return the length of a test episode, its limit where there is one, and seconds per step."""
    own = config.schedule.max_ep_len
    limit = own or getattr(gymnasium.registry.get(config.env), "max_episode_steps", None)
    args = (carry.algo, carry.learner.params, env_fn, config.seed)
    for number in range(2):  # the first one compiles
        began = time.monotonic()
        played = loop.evaluate(*args, number, 1, max_ep_len=min(limit or 200, 200))
    length = played["test_lengths"][0]
    return limit or length, (time.monotonic() - began) / length
