"""The first carry of a run: environments, learner, replay buffer and counters."""

import dataclasses
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from purerl import algos, checks, mpi, rng
from purerl.buffers.goals import make_example
from purerl.errors import CountsRounded, EpisodesCut
from purerl.loops import adapters, devices, faults, offpolicy, onpolicy, records
from purerl.loops.carry import Carry, OffPolicyCarry, OnPolicyCarry, SequenceCarry
from purerl.loops.hindsight.rewards import Relabelling
from purerl.schedules import (
    ResolvedOffPolicySchedule,
    ResolvedOnPolicySchedule,
    ResolvedSchedule,
    ResolvedSequenceSchedule,
    Schedule,
    choose_her,
    describe_rounding,
)


def resolve_schedule(
    algo: ModuleType,
    spec: Any,
    schedule: Schedule,
    seed: int,
    copies: int = 1,
    in_jax: bool = False,
) -> ResolvedSchedule:
    """Fill in a schedule for this number of ranks, after checks of all arguments of a run.

    `copies` is the number of carries that the memory must hold, `in_jax` whether environments are
    in JAX.
    """
    checks.seed(seed)
    devices.check_platform()
    algos.check_settings(algo, spec, schedule)
    ranks = mpi.num_procs()
    resolved = choose_her(schedule, spec.env.goal_size).resolve(ranks)
    if rounded := describe_rounding(schedule, resolved):
        warnings.warn(rounded, CountsRounded, stacklevel=3)
    # Check on every rank before any rank allocates memory.
    devices.check_memory(spec.env, resolved, None, ranks, copies)
    devices.check_world(algo, spec, resolved, seed, in_jax)
    return resolved


def make_carry(
    algo: ModuleType,
    spec: Any,
    schedule: ResolvedSchedule,
    seed: int,
    envs: adapters.Envs,
    obs: Any,
    relabelling: Relabelling | None = None,
    **episodes: Any,
) -> Carry:
    """Build the first carry of a run; the class of the schedule decides its class.

    Args:
        algo: A module of `purerl.algos`.
        spec: Settings of the algorithm.
        schedule: Schedule of the run.
        seed: Seed of the run.
        envs: Adapter over the environments.
        obs: First observations `[N, ...]`.
        relabelling: How goals are replaced, for a goal replay buffer.
        **episodes: Fields of the carry for the episodes in progress, if they are not zeros.
    """
    ranks, rank, number = mpi.num_procs(), mpi.proc_id(), schedule.num_envs
    words = np.array([seed, rank], np.uint32)
    if isinstance(schedule, ResolvedOnPolicySchedule):
        learner = onpolicy.init(algo, spec, words)
        metrics = onpolicy.list_metrics(algo, learner, _divide_rollout(schedule, envs))
    else:
        goal_envs = number if relabelling else 0
        rows = schedule.replay_size // ranks
        how = (number, schedule.n_step, schedule.scale_rewards)
        returns = how if schedule.changes_rewards else None
        learner, buffer = offpolicy.init(algo, spec, rows, words, goal_envs, returns)
        metrics = offpolicy.list_metrics(algo, learner, buffer, schedule.batch_size)
    row = make_example(spec.env) if relabelling else algos.make_row(algo, spec)
    fields: dict[str, Any] = {
        **{"algo": algo, "seed": seed, "rank": rank, "ranks": ranks, "envs": envs},
        "obs": obs,
        "learner": devices.replicate(mpi.sync(learner), schedule.devices),
        "metrics": metrics,
        "tally": devices.init_tally(len(metrics), schedule.devices),
        "surplus": records.allocate_rows(row, 0),
        "ep_return": np.zeros(number),
        "ep_length": np.zeros(number, np.int64),
    }
    fields |= episodes
    if isinstance(schedule, ResolvedSequenceSchedule) and schedule.replay_ratio:
        buffer = onpolicy.make_buffer(algo, learner, schedule, ranks)
        buffer = devices.replicate_own(buffer, schedule.devices)
        return SequenceCarry(schedule=schedule, buffer=buffer, **fields)
    if isinstance(schedule, ResolvedOnPolicySchedule):
        return OnPolicyCarry(schedule=schedule, **fields)
    buffer = devices.replicate_own(buffer, schedule.devices)
    return OffPolicyCarry(schedule=schedule, buffer=buffer, relabelling=relabelling, **fields)


def _divide_rollout(
    schedule: ResolvedOnPolicySchedule, envs: adapters.Envs
) -> ResolvedOnPolicySchedule:
    """Return the schedule of a device that prepares the rollout of its own environments.

    The devices of environments of Gymnasium all get the whole rollout.
    """
    if not isinstance(envs, adapters.JaxEnvs):
        return schedule
    number = schedule.num_envs // schedule.devices
    return dataclasses.replace(schedule, num_envs=number, devices=1)


def list_makers(env_fn: Any, number: int) -> list[Callable[[], Any]]:
    """Return the function that makes the environments of each seed."""
    makers = [env_fn] * number if callable(env_fn) else env_fn
    if not isinstance(makers, list | tuple) or len(makers) != number:
        got = f"{len(makers)} of them" if isinstance(makers, list | tuple) else f"{makers!r}"
        raise ValueError(
            f"env_fn must be a function that makes an environment, such as lambda: "
            f"gymnasium.make(id), or a list with such a function for each of {number} seeds, got "
            f"{got}. Seeds cannot share an environment."
        )
    return list(makers)


def make_envs(
    algo: ModuleType,
    spec: Any,
    env_fn: Callable[[], Any],
    schedule: ResolvedSchedule,
    seed: int,
) -> adapters.GymEnvs:
    """Make the environments of one seed."""
    replays_goals = isinstance(schedule, ResolvedOffPolicySchedule) and schedule.her
    rank = mpi.proc_id()
    return adapters.make_envs(
        env_fn,
        schedule.num_envs,
        lambda i, episode: rng.host_seed(seed, rank, "env", i, episode),
        schedule.max_ep_len,
        adapters.InfoRequest(schedule.log_info, algos.find_stored_info(algo, spec), replays_goals),
    )


def check_wrappers(spec: Any, envs: adapters.GymEnvs, schedule: ResolvedSchedule) -> None:
    """Refuse or warn of wrappers and missing time limits."""
    if isinstance(envs, adapters.SingleEnvs):
        faults.check_env(envs.envs[0], spec, needs_limit=schedule.max_ep_len is None)
    else:
        faults.check_env(envs.env, spec, needs_limit=False)


def check_stride(schedule: ResolvedSchedule, envs: adapters.Envs) -> None:
    """Refuse n-step returns and scaled rewards if environments skip steps in the replay buffer."""
    changes = isinstance(schedule, ResolvedOffPolicySchedule) and schedule.changes_rewards
    if changes and getattr(envs, "mode", None) is AutoresetMode.NEXT_STEP:
        raise ValueError(
            "n_step and scale_rewards need a row of each environment from each step, but a vector "
            "environment of mode NEXT_STEP has none from the steps that reset it. Make it with "
            "autoreset_mode=AutoresetMode.SAME_STEP, or return a single environment and set "
            "num_envs."
        )


def check_cut(schedule: ResolvedOnPolicySchedule, envs: adapters.Envs) -> None:
    """Refuse environments that cannot be reset, and warn of episodes longer than a rollout."""
    if schedule.continue_episodes:
        return
    length = schedule.rollout_length
    if isinstance(envs, adapters.VectorEnvs):
        raise ValueError(
            "continue_episodes=False needs single environments, which the loop can reset, but "
            "env_fn returns a vector environment. Return a single one and set num_envs, or set "
            "continue_episodes=True."
        )
    if isinstance(envs, adapters.JaxEnvs):
        limit = envs.max_steps or 0
    else:
        own = faults.get_time_limit(envs.envs[0])
        limit = min((n for n in (own, schedule.max_ep_len) if n is not None), default=0)
    if limit > length:
        warnings.warn(
            f"episodes may have {limit:,} steps, but a rollout of one environment has {length:,}. "
            f"With continue_episodes=False the loop cuts longer episodes at the end of a rollout "
            f"and starts new ones. REINFORCE learns only from episodes that end, so it learns "
            f"nothing if all are cut. Raise rollout_steps or lower num_envs.",
            EpisodesCut,
            stacklevel=3,
        )


def check_spaces(spec: Any, envs: adapters.Envs) -> None:
    """Refuse environments with other spaces than the spec."""
    if envs.spec != spec.env:
        raise ValueError(
            f"spec.env must equal the spaces of the environment, {envs.spec}, got {spec.env}. Make "
            f"the spec with EnvSpec.of(env), or use the environment that it was made for."
        )
