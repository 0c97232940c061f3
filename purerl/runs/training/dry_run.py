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
from purerl.runs.training.epochs import list_carries
from purerl.runs.training.requirements import check_memory, check_together
from purerl.runs.training.restoring import start_carry
from purerl.schedules import OffPolicySchedule, SequenceSchedule

ROWS = 20_000  # most rows of the replay buffer while measuring
SECONDS = 1.0  # duration of the measurement


def report_needs(
    made: Sequence[Config], env_fn: Callable[[], Any] | None, ranks: int, together: bool = False
) -> None:
    """Print networks, memory, speed and time of runs that differ only in their seeds.

    The measurement uses one rank. Without `env_fn`, the configuration's id makes the environment.
    With `together`, one program trains all runs.
    """
    made, rounded = zip(*(configs.settle(config, ranks) for config in made), strict=True)
    config, seeds = made[0], [one.seed for one in made] if together else []
    if together:
        check_together(made)
    check_memory(config, ranks, max(1, len(seeds)))
    env_fn = environments.choose_training_env(env_fn, config.env, config.options.wrapper)
    env = config.spec.env
    print_lines(f"{config.algo} on {config.env}: dry run, nothing is saved")
    for line in filter(None, [configs.describe_torso(config.spec), rounded[0]]):
        print_lines(line)
    print_lines(f"observations  {env.obs_shape} {np.dtype(env.obs_dtype).name}")
    print_lines(f"actions       {env.action}")
    began = time.monotonic()
    short = dataclasses.replace(config, schedule=_shorten(config.schedule))
    carry, loop = start_carry(short, env_fn, print_lines, seeds), choose_loop(env_fn)
    every_envs = [one.envs for one in list_carries(carry)]
    try:
        print_lines("\n".join(_describe_parameters(list_carries(carry)[0].learner.params)))
        while not list_carries(carry)[0].updates:
            carry, _ = loop.advance(carry)
        print_lines(f"built and compiled in {time.monotonic() - began:.1f} s")
        print_lines("\n".join(_describe_memory(config, carry, ranks)))
        now = before = list_carries(carry)[0]
        began = time.monotonic()
        while (seconds := time.monotonic() - began) < SECONDS or now.steps == before.steps:
            carry, _ = loop.advance(carry)
            now = list_carries(carry)[0]
        rate = (now.steps - before.steps) / seconds
        updates = len(every_envs) * (now.updates - before.updates) / seconds
        updated = f"{updates:,.0f}" if updates > 10 else f"{updates:.1f}"
        steps = f"{len(every_envs) * rate:,.0f} environment steps/s"
        print_lines(f"speed         {steps} with {updated} updates/s")
        one = loop.split(carry)[0] if len(seeds) > 1 else carry
        print_lines("\n".join(_describe_time(made, env_fn, one, rate, ranks, together)))
    finally:
        for envs in every_envs:
            envs.close()


def _describe_parameters(params: Any) -> Iterator[str]:
    """Yield lines about the networks."""
    parameters = 0
    for name in (field.name for field in dataclasses.fields(params) if field.name != "spec"):
        if leaves := jax.tree.leaves(getattr(params, name)):
            number = sum(np.size(leaf) for leaf in leaves)
            parameters += number
            shapes = " ".join("x".join(map(str, np.shape(x))) for x in leaves if np.ndim(x) > 1)
            yield f"{name:<13} {number:>9,} parameters  {shapes}".rstrip()
    yield f"{'total':<13} {parameters:>9,} parameters"


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


def _describe_memory(config: Config, carry: Any, ranks: int) -> Iterator[str]:
    """Yield lines about the memory of the runs."""
    data, seeds = getattr(carry, "data", carry), len(list_carries(carry))
    learner = sum(x.nbytes for x in jax.tree.leaves(data.learner) if hasattr(x, "nbytes"))
    short = sum(x.nbytes for x in jax.tree.leaves(data.buffer))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    process = peak * (1 if sys.platform == "darwin" else 1024) - short
    needs = devices.estimate_memory(config.spec.env, config.schedule.resolve(ranks), (), ranks)
    replay, free = needs.get("replay_size", 0) * ranks * seeds, free_memory()
    total = process * ranks + replay * (1 if seeds == 1 else 2)  # they are joined once
    room = "" if free is None else f"; {format_size(free)} are free"
    line = f"memory        learner {format_size(learner)}, replay buffer {format_size(replay)}"
    yield f"{line}, about {format_size(total)} in total{room}"
    if free is not None and total > free:
        yield "              NOT ENOUGH FREE MEMORY: lower --replay-size or --num-cpu"


def _describe_time(
    made: Sequence[Config],
    env_fn: Any,
    carry: Carry,
    rate: float,
    ranks: int,
    together: bool = False,
) -> Iterator[str]:
    """Yield lines about the time that the runs need; `rate` is that of one of them."""
    schedule = made[0].schedule
    seconds = schedule.steps / ranks / rate
    line = f"{schedule.steps:,} steps"
    if schedule.num_test_episodes:
        testing, most = _measure_tests(made[0], env_fn, carry, ranks)
        testing *= len(made) if together else 1  # one seed after the other
        seconds += testing
        line += f", including {format_duration(testing)} for test episodes of {most:,} steps"
    line = f"time needed   about {format_duration(seconds)} for {line}"
    if ranks > 1:
        line += f", if each of the {ranks} ranks has its own core; measured on one rank"
    yield line
    if len(made) > 1:
        every = format_duration(seconds * (1 if together else len(made)))
        yield f"              about {every} for {len(made)} seeds"


def _measure_tests(config: Config, env_fn: Any, carry: Carry, ranks: int) -> tuple[float, int]:
    """Return the seconds that all test episodes of a run may need, and their largest length.

    Environments in JAX play the episodes of an evaluation at the same time, others in turn.
    """
    schedule, in_jax = config.schedule, is_jax_env(env_fn)
    known = env_fn if in_jax else gymnasium.registry.get(register_env(config.env))
    limit = getattr(known, "max_episode_steps", getattr(known, "max_steps", None))
    limit = schedule.max_ep_len or limit
    episodes = -(-schedule.num_test_episodes // ranks)  # of the rank that plays most of them
    at_once = episodes if in_jax else 1
    for number in range(2):  # the first one compiles
        began = time.monotonic()
        args = (carry.algo, carry.learner.params, env_fn, carry.seed, number, at_once)
        played = choose_loop(env_fn).evaluate(*args, max_ep_len=min(limit or 200, 200))
    length = max(played["test_lengths"])
    most, each = limit or length, (time.monotonic() - began) / length
    epochs = -(-schedule.steps // schedule.steps_per_epoch)
    return epochs * episodes / at_once * most * each, most
