"""`--dry-run`: measure the needs of a run by building it and training it for a moment.

Only compiled programs are written, into their cache.
"""

import dataclasses
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium
import jax
import numpy as np

from purerl import errors
from purerl.buffers.replay import free_memory
from purerl.loops import gym as loop
from purerl.runs.console import format_size, print_lines
from purerl.runs.settings import environments
from purerl.runs.settings.config import Config
from purerl.runs.training.train import check_memory, start_carry
from purerl.schedules import OffPolicySchedule

ROWS = 20_000  # of replay memory while measuring
SECONDS = 1.0  # duration of the measurement


def report_needs(made: Sequence[Config], env_fn: Callable[[], Any] | None, ranks: int) -> int:
    """Print spaces, networks, memory, speed and time needed; return the exit code.

    Args:
        made: configurations that differ in their seeds alone.
        env_fn: function that makes the environment; None for the id in the configuration.
        ranks: number of ranks of the runs; the measurement uses one.
    """
    config = made[0]
    check_memory(config, ranks)
    env_fn = env_fn or environments.make_env_fn(config.env)
    env = config.spec.env
    print_lines(f"{config.algo} on {config.env}: nothing is kept of this")
    print_lines(f"observations  {env.obs_shape} {np.dtype(env.obs_dtype).name}")
    print_lines(f"actions       {env.action}")
    schedule = _shorten(config.schedule)
    began = time.monotonic()
    carry = start_carry(dataclasses.replace(config, schedule=schedule), env_fn, print_lines)
    try:
        print_lines("\n".join(_describe_networks(carry.learner.params)))
        carry, _ = loop.advance(carry)  # compiles
        while not carry.updates:
            carry, _ = loop.advance(carry)
        print_lines(f"built and compiled in {time.monotonic() - began:.1f} s")
        print_lines("\n".join(_describe_memory(config, carry, ranks)))
        carry, rate, line = _measure_speed(carry)
        print_lines(line)
        print_lines("\n".join(_describe_time(made, env_fn, carry, rate, ranks)))
    finally:
        carry.envs.close()
    return errors.DONE


def estimate_replay_bytes(config: Config) -> int:
    """Return the size of a run's replay memory over all ranks; 0 on-policy."""
    if not isinstance(config.schedule, OffPolicySchedule):
        return 0
    row = sum(np.asarray(x).nbytes for x in config.spec.env.example())
    return row * config.schedule.replay_size


def format_duration(seconds: float) -> str:
    """Return a duration with its units.

    Example:
        >>> format_duration(3.21), format_duration(754), format_duration(9000)
        ('3.2 s', '12 min 34 s', '2 h 30 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _shorten(schedule: Any) -> Any:
    """Return a schedule that learns from its first moments on, and does not end."""
    steps = schedule.steps_per_epoch * 1_000_000
    if not isinstance(schedule, OffPolicySchedule):
        return dataclasses.replace(schedule, steps=steps)
    least = -(-schedule.batch_size // schedule.num_envs) * schedule.num_envs
    rows = min(schedule.replay_size, max(ROWS, least))
    return dataclasses.replace(
        schedule, steps=steps, start_steps=0, update_after=least, replay_size=rows
    )


def _describe_networks(params: Any) -> Iterator[str]:
    """Yield a line with shapes and number of parameters of each network."""
    total = 0
    for field in dataclasses.fields(params):
        leaves = jax.tree.leaves(getattr(params, field.name))
        if field.name == "spec" or not leaves:
            continue
        number = sum(np.size(leaf) for leaf in leaves)
        total += number
        shapes = " ".join("x".join(map(str, np.shape(x))) for x in leaves if np.ndim(x) > 1)
        yield f"{field.name:<13} {number:>9,} parameters  {shapes}".rstrip()
    yield f"{'in all':<13} {total:>9,} parameters"


def _describe_memory(config: Config, carry: loop.Carry, ranks: int) -> Iterator[str]:
    """Yield lines about the memory of the runs."""
    learner = sum(x.nbytes for x in jax.tree.leaves(carry.learner) if hasattr(x, "nbytes"))
    short = sum(x.nbytes for x in jax.tree.leaves(carry.buffer))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    process = peak * (1 if sys.platform == "darwin" else 1024) - short
    replay, free = estimate_replay_bytes(config), free_memory()
    total = process * ranks + replay
    parts = (format_size(number) for number in (learner, replay, total))
    line = "memory        learner {}, replay {}, about {} in all".format(*parts)
    yield line if free is None else f"{line}, of {format_size(free)} that are free"
    if free is not None and total > free:
        yield "              THAT IS MORE THAN IS FREE: lower --replay-size or --num-cpu"


def _measure_speed(carry: loop.Carry) -> tuple[loop.Carry, float, str]:
    """Learn for a moment; return the carry, environment steps per second, and a line."""
    steps, updates, began = carry.steps, carry.updates, time.monotonic()
    while time.monotonic() - began < SECONDS or carry.steps == steps:
        carry, _ = loop.advance(carry)
    seconds = time.monotonic() - began
    rate = (carry.steps - steps) / seconds
    updated = (carry.updates - updates) / seconds
    often = f"{updated:,.0f}" if updated > 10 else f"{updated:.1f}"
    return carry, rate, f"speed         {rate:,.0f} environment steps/s with {often} updates/s"


def _describe_time(
    made: Sequence[Config], env_fn: Callable[[], Any], carry: loop.Carry, rate: float, ranks: int
) -> Iterator[str]:
    """Yield lines about the time that the runs need."""
    schedule = made[0].schedule
    seconds = schedule.steps / ranks / rate
    line = f"{schedule.steps:,} steps"
    if schedule.num_test_episodes:
        most, each = _measure_episode(made[0], env_fn, carry)
        epochs = -(-schedule.steps // schedule.steps_per_epoch)
        testing = epochs * schedule.num_test_episodes * most * each / ranks
        seconds += testing
        line += f", {format_duration(testing)} of it for test episodes of {most:,} steps"
    line = f"time needed   about {format_duration(seconds)} for {line}"
    if ranks > 1:
        line += f", if each of {ranks} ranks has a core of its own; measured on one"
    yield line
    if len(made) > 1:
        yield f"              about {format_duration(seconds * len(made))} for {len(made)} seeds"


def _measure_episode(
    config: Config, env_fn: Callable[[], Any], carry: loop.Carry
) -> tuple[int, float]:
    """Return the length of a test episode, its limit if it has one, and seconds per step."""
    own = config.schedule.max_ep_len
    limit = own or getattr(gymnasium.registry.get(config.env), "max_episode_steps", None)
    args = (carry.algo, carry.learner.params, env_fn, config.seed)
    for number in range(2):  # the first one compiles
        began = time.monotonic()
        played = loop.evaluate(*args, number, 1, max_ep_len=min(limit or 200, 200))
    length = played["test_lengths"][0]
    return limit or length, (time.monotonic() - began) / length
