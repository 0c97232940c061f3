"""`--dry-run`: estimate the memory and time that a run needs, by training it for a moment.

Nothing is written, except compiled programs in their cache.
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

from purerl.buffers.replay import free_memory
from purerl.envs.registration import register_env
from purerl.loops import choose_loop, devices
from purerl.loops.adapters.in_jax import is_jax_env
from purerl.loops.carry import Carry
from purerl.runs.console import format_size, print_lines
from purerl.runs.settings import config as configs
from purerl.runs.settings import environments
from purerl.runs.settings.config import Config
from purerl.runs.training.train import check_memory, start_carry
from purerl.schedules import OffPolicySchedule, SequenceSchedule

ROWS = 20_000  # most rows of the replay buffer while measuring
SECONDS = 1.0  # duration of the measurement


def report_needs(made: Sequence[Config], env_fn: Callable[[], Any] | None, ranks: int) -> None:
    """Print networks, memory, speed and time of runs that differ only in their seeds.

    The measurement uses one rank. Without `env_fn`, the configuration's id makes the environment.
    """
    made, rounded = zip(*(configs.settle(config, ranks) for config in made), strict=True)
    config = made[0]
    check_memory(config, ranks)
    env_fn = environments.choose_training_env(env_fn, config.env, config.options.wrapper)
    env = config.spec.env
    print_lines(f"{config.algo} on {config.env}: dry run, nothing is saved")
    for line in filter(None, [configs.describe_torso(config.spec), rounded[0]]):
        print_lines(line)
    print_lines(f"observations  {env.obs_shape} {np.dtype(env.obs_dtype).name}")
    print_lines(f"actions       {env.action}")
    began = time.monotonic()
    short = dataclasses.replace(config, schedule=_shorten(config.schedule))
    carry, loop = start_carry(short, env_fn, print_lines), choose_loop(env_fn)
    try:
        params, parameters = carry.learner.params, 0
        for name in (field.name for field in dataclasses.fields(params) if field.name != "spec"):
            if leaves := jax.tree.leaves(getattr(params, name)):
                number = sum(np.size(leaf) for leaf in leaves)
                parameters += number
                shapes = " ".join("x".join(map(str, np.shape(x))) for x in leaves if np.ndim(x) > 1)
                print_lines(f"{name:<13} {number:>9,} parameters  {shapes}".rstrip())
        print_lines(f"{'total':<13} {parameters:>9,} parameters")
        while not carry.updates:
            carry, _ = loop.advance(carry)
        print_lines(f"built and compiled in {time.monotonic() - began:.1f} s")
        print_lines("\n".join(_describe_memory(config, carry, ranks)))
        steps, updates, began = carry.steps, carry.updates, time.monotonic()
        while (seconds := time.monotonic() - began) < SECONDS or carry.steps == steps:
            carry, _ = loop.advance(carry)
        rate, update_rate = (carry.steps - steps) / seconds, (carry.updates - updates) / seconds
        updated = f"{update_rate:,.0f}" if update_rate > 10 else f"{update_rate:.1f}"
        print_lines(f"speed         {rate:,.0f} environment steps/s with {updated} updates/s")
        print_lines("\n".join(_describe_time(made, env_fn, carry, rate, ranks)))
    finally:
        carry.envs.close()


def format_duration(seconds: float) -> str:
    """Return a duration with its units: `3.2 s`, `12 min 34 s`, `2 h 30 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _shorten(schedule: Any) -> Any:
    """Return a schedule that updates as early as possible, with practically endless steps."""
    changes = {"steps": schedule.steps_per_epoch * 1_000_000}
    if isinstance(schedule, OffPolicySchedule):
        least = -(-schedule.batch_size // schedule.num_envs) * schedule.num_envs
        changes |= {"start_steps": 0, "update_after": least}
        changes["replay_size"] = min(schedule.replay_size, max(ROWS, least))
    if isinstance(schedule, SequenceSchedule):
        rollout = schedule.rollout_steps or ROWS
        size = min(schedule.replay_size, max(ROWS, rollout) // rollout * rollout)
        changes |= {"replay_start": rollout, "replay_size": size}
    return dataclasses.replace(schedule, **changes)


def _describe_memory(config: Config, carry: Carry, ranks: int) -> Iterator[str]:
    """Yield lines about the memory of the runs."""
    learner = sum(x.nbytes for x in jax.tree.leaves(carry.learner) if hasattr(x, "nbytes"))
    short = sum(x.nbytes for x in jax.tree.leaves(carry.buffer))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    process = peak * (1 if sys.platform == "darwin" else 1024) - short
    needs = devices.estimate_memory(config.spec.env, config.schedule.resolve(ranks), (), ranks)
    replay, free = needs.get("replay_size", 0) * ranks, free_memory()
    total = process * ranks + replay
    room = "" if free is None else f"; {format_size(free)} are free"
    line = f"memory        learner {format_size(learner)}, replay buffer {format_size(replay)}"
    yield f"{line}, about {format_size(total)} in total{room}"
    if free is not None and total > free:
        yield "              NOT ENOUGH FREE MEMORY: lower --replay-size or --num-cpu"


def _describe_time(
    made: Sequence[Config], env_fn: Any, carry: Carry, rate: float, ranks: int
) -> Iterator[str]:
    """Yield lines about the time that the runs need."""
    schedule = made[0].schedule
    seconds = schedule.steps / ranks / rate
    line = f"{schedule.steps:,} steps"
    if schedule.num_test_episodes:
        limit = schedule.max_ep_len
        known: Any = env_fn
        if not is_jax_env(env_fn):
            known = gymnasium.registry.get(register_env(made[0].env))
        limit = limit or getattr(known, "max_episode_steps", getattr(known, "max_steps", None))
        for number in range(2):  # the first one compiles
            began = time.monotonic()
            args = (carry.algo, carry.learner.params, env_fn, carry.seed, number, 1)
            played = choose_loop(env_fn).evaluate(*args, max_ep_len=min(limit or 200, 200))
        length = played["test_lengths"][0]
        most, each = limit or length, (time.monotonic() - began) / length
        epochs = -(-schedule.steps // schedule.steps_per_epoch)
        testing = epochs * schedule.num_test_episodes * most * each / ranks
        seconds += testing
        line += f", including {format_duration(testing)} for test episodes of {most:,} steps"
    line = f"time needed   about {format_duration(seconds)} for {line}"
    if ranks > 1:
        line += f", if each of the {ranks} ranks has its own core; measured on one rank"
    yield line
    if len(made) > 1:
        yield f"              about {format_duration(seconds * len(made))} for {len(made)} seeds"
