"""The first carry of a run: learner, replay buffer and counters, for every kind of loop."""

import dataclasses
import warnings
from types import ModuleType
from typing import Any

import numpy as np

from purerl import algos, checks, mpi
from purerl.buffers.goals import make_example
from purerl.errors import CountsRounded
from purerl.loops import adapters, devices, offpolicy, onpolicy, records
from purerl.loops.carry import Carry, OffPolicyCarry, OnPolicyCarry, SequenceCarry
from purerl.loops.hindsight.rewards import Relabelling
from purerl.schedules import (
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
        learner, buffer = offpolicy.init(algo, spec, rows, words, goal_envs)
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
