"""On-policy: one rollout of all environments, then one update on it.

With a schedule of sequences, a random number of updates on sequences from the replay buffer follow.
"""

import dataclasses
import functools
from collections.abc import Callable
from contextlib import nullcontext
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl import algos, mpi, rng
from purerl.buffers import replay
from purerl.compiler import jit_fast, jit_quickly
from purerl.loops import acting, faults, records
from purerl.loops.carry import OnPolicyCarry, SequenceCarry
from purerl.loops.devices import map_program
from purerl.loops.metrics import list_names, merge_tallies, tally_values
from purerl.schedules import ResolvedOnPolicySchedule, ResolvedSequenceSchedule
from purerl.types import (
    AnyRollout,
    PolicyBatch,
    SequenceBatch,
    list_leaves,
    make_rollout,
    map_rows,
)

RolloutCarry = OnPolicyCarry | SequenceCarry


def advance(carry: RolloutCarry, should_stop: Callable[[], bool] | None = None) -> RolloutCarry:
    """Collect one rollout and learn from it; raise `AdvanceStopped` if any rank shall stop."""
    schedule = carry.schedule
    with acting.stop_together(carry, should_stop) if carry.ranks > 1 else nullcontext():
        carry, rollout = collect(carry, schedule.rollout_length, should_stop)
    words, new = acting.pack_key_words(carry, carry.updates), dict[str, Any]()
    if isinstance(carry, SequenceCarry):
        new["learner"], new["buffer"], new["tally"], counted = learn_and_replay(
            carry.algo,
            schedule.devices,
            plan_replay(carry.schedule, carry.ranks),
            carry.learner,
            carry.buffer,
            carry.tally,
            rollout,
            words,
        )
        updates, finite = np.asarray(counted).tolist()
    else:
        new["learner"], new["tally"], finite = learn(
            carry.algo, schedule.devices, carry.learner, carry.tally, rollout, words
        )
        updates = 1
    new |= {"steps": carry.steps + schedule.rollout_steps, "updates": carry.updates + updates}
    carry = dataclasses.replace(carry, **new)
    records.check_learner(carry, updates, finite)
    return carry


def learn(
    algo: ModuleType, devices: int, learner: Any, tally: jax.Array, rollout: AnyRollout, words: Any
) -> tuple[Any, jax.Array, jax.Array]:
    """Prepare a rollout and update on it, in one compiled program.

    The learner and the tally are donated.

    The result equals `prepare` and `update` with the key
    `stream(seed, rank, "update", updates done before)`. Each of several devices prepares the whole
    rollout, and updates on its part of the rows. With a leading axis of seeds in all arguments, the
    program trains several seeds.

    Args:
        algo: A module of `purerl.algos`.
        devices: Number of devices.
        learner: State of the algorithm.
        tally: Statistics of the metrics since the last record.
        rollout: Transitions `[T, N, ...]`.
        words: Seed, rank and number of updates done before, from `acting.pack_key_words`.

    Returns:
        The learner, the tally, and whether the learner and the metrics are finite.
    """
    args = (learner, tally, rollout, words)
    result: tuple[Any, jax.Array, jax.Array] = _compiled_learn()(algo, devices, *args)
    return result


@functools.cache
def _compiled_learn() -> Any:
    return jit_fast(_split_learn, static_argnums=(0, 1), donate_argnums=(2, 3))


def _split_learn(algo: ModuleType, devices: int, *args: Any) -> Any:
    body = functools.partial(_learn, algo, devices)
    return map_program(body, devices, args[-1].ndim > 1)(*args)


def _learn(
    algo: ModuleType,
    devices: int,
    learner: Any,
    tally: jax.Array,
    rollout: AnyRollout,
    words: jax.Array,
) -> tuple[Any, jax.Array, jax.Array]:
    learner, tally = learn_once(algo, devices, learner, tally, rollout, words)
    return learner, tally, is_finite(learner, tally)


def learn_once(
    algo: ModuleType,
    devices: int,
    learner: Any,
    tally: jax.Array,
    rollout: AnyRollout,
    words: jax.Array,
) -> tuple[Any, jax.Array]:
    """Do the work of `learn` inside of a compiled program; return the learner and the tally."""
    batch = algo.prepare(learner.params, rollout)
    return _update(algo, devices, learner, tally, _add_key(batch, words))


def _add_key(batch: Any, words: jax.Array) -> Any:
    """Return the batch of a rollout with the key of its update."""
    return batch._replace(key=rng.stream(words[0], words[1], "update", words[2:]))


def is_finite(learner: Any, tally: jax.Array) -> jax.Array:
    """Return whether the learner and the metrics are finite, as a boolean on the device."""
    return records.are_all_finite((records.list_numbers(learner), tally[1]))


def _update(
    algo: ModuleType, devices: int, learner: Any, tally: jax.Array, batch: Any
) -> tuple[Any, jax.Array]:
    """Update once on this device's part of a batch, and tally the metrics."""
    learner, info = algo.update(learner, batch if devices == 1 else mpi.own_rows(batch))
    if devices > 1:
        info = mpi.pmean(info)
    if "val" in info and isinstance(batch, PolicyBatch):
        info |= {"val": batch.val}  # values of all steps of the rollout, before the update
    return learner, merge_tallies(tally, tally_values(info))


class ReplayPlan(NamedTuple):
    """Replay of sequences by a compiled program; each plan is another program."""

    ratio: float  # mean number of updates
    start: int  # sequences on each rank from which on updates are replayed
    sequences: int  # sequences of a batch on each rank


def plan_replay(schedule: ResolvedSequenceSchedule, ranks: int) -> ReplayPlan:
    """Return the plan of a schedule for each of a number of ranks."""
    start = schedule.replay_start // (ranks * schedule.rollout_length)
    return ReplayPlan(schedule.replay_ratio, start, schedule.num_envs)


def learn_and_replay(
    algo: ModuleType,
    devices: int,
    plan: ReplayPlan,
    learner: Any,
    buffer: replay.Replay,
    tally: jax.Array,
    rollout: AnyRollout,
    words: Any,
) -> tuple[Any, replay.Replay, jax.Array, jax.Array]:
    """Learn from a rollout, store it, and update on sampled sequences: one compiled program.

    The first update equals that of `learn`. `count_replays` more updates follow, on the batches of
    `draw_sequences`. All numbers of updates share one compilation. The learner, the buffer and the
    tally are donated. With a leading axis of seeds in all arguments, the program trains several
    seeds.

    Args:
        algo: A module of `purerl.algos` whose `prepare` returns a `SequenceBatch`.
        devices: Number of devices, which split the sequences of each batch.
        plan: How sequences are replayed.
        learner: State of the algorithm.
        buffer: The replay buffer, with one sequence per row.
        tally: Statistics of the metrics since the last record.
        rollout: Transitions `[T, N, ...]`.
        words: Seed, rank and number of updates done before, from `acting.pack_key_words`.

    Returns:
        The learner, the buffer, the tally, and two integers: the number of updates, and whether the
        learner and the metrics are finite.
    """
    args = (learner, buffer, tally, rollout, words)
    result: tuple[Any, replay.Replay, jax.Array, jax.Array] = _compiled_replay()(
        algo, devices, plan, *args
    )
    return result


@functools.cache
def _compiled_replay() -> Any:
    return jit_fast(_split_replay, static_argnums=(0, 1, 2), donate_argnums=(3, 4, 5))


def _split_replay(algo: ModuleType, devices: int, plan: ReplayPlan, *args: Any) -> Any:
    def body(*args: Any) -> Any:
        learner, buffer, tally, updates = replay_once(algo, devices, plan, *args)
        finite = is_finite(learner, tally).astype(jnp.int32)
        return learner, buffer, tally, jnp.stack([updates, finite])

    return map_program(body, devices, args[-1].ndim > 1)(*args)


def replay_once(
    algo: ModuleType,
    devices: int,
    plan: ReplayPlan,
    learner: Any,
    buffer: replay.Replay,
    tally: jax.Array,
    rollout: AnyRollout,
    words: jax.Array,
) -> tuple[Any, replay.Replay, jax.Array, jax.Array]:
    """Do the work of `learn_and_replay` inside of a compiled program.

    Returns:
        The learner, the buffer, the tally, and the number of updates.
    """
    batch = algo.prepare(learner.params, rollout)
    buffer = replay.add(buffer, batch)
    learner, tally = _update(algo, devices, learner, tally, _add_key(batch, words))
    number = count_replays(plan, buffer, words)

    def update(i: jax.Array, state: tuple[Any, jax.Array]) -> tuple[Any, jax.Array]:
        return _update(algo, devices, *state, draw_sequences(plan, buffer, words, i))

    learner, tally = jax.lax.fori_loop(0, number, update, (learner, tally))
    return learner, buffer, tally, 1 + number


def count_replays(plan: ReplayPlan, buffer: replay.Replay, words: Any) -> jax.Array:
    """Draw the number of replayed updates after a rollout; 0 before there are enough sequences."""
    key = rng.stream(words[0], words[1], "replays", words[2:])
    number = jax.random.poisson(key, plan.ratio, (), jnp.int32)
    return jnp.where(buffer.stored >= plan.start, number, 0)


def draw_sequences(plan: ReplayPlan, buffer: replay.Replay, words: Any, i: Any) -> Any:
    """Sample the batch of replayed update number `i` after a rollout."""
    key = rng.stream(words[0], words[1], "sample", words[2:])
    return replay.sample(buffer, jax.random.fold_in(key, i), plan.sequences)


@jit_quickly(static_argnums=(0, 1))
def init(algo: ModuleType, spec: Any, words: jax.Array) -> Any:
    """Make a learner, in one program."""
    return algo.init(rng.stream(words[0], words[1], "init"), spec)


def list_metrics(
    algo: ModuleType, learner: Any, schedule: ResolvedOnPolicySchedule
) -> tuple[str, ...]:
    """List the metrics of `update`; raise the error of `update` if the rollout does not fit."""
    devices = schedule.devices

    def metrics(learner: Any, rollout: AnyRollout) -> Any:
        batch = algo.prepare(learner.params, rollout)
        if devices > 1:  # each device gets a part of the rows, without the rollout
            batch = batch._replace(rollout=None) if isinstance(batch, PolicyBatch) else batch
            batch = jax.tree.map(lambda x: x[: len(x) // devices], batch)
        return algo.update(learner, batch._replace(key=jax.random.key(0)))[1]

    return list_names(jax.eval_shape(metrics, learner, _allocate(algo, learner, schedule)))


def _allocate(algo: ModuleType, learner: Any, schedule: ResolvedOnPolicySchedule) -> AnyRollout:
    """Return a rollout of the shapes of a schedule, with any content."""
    row = algos.make_row(algo, learner.params.spec)
    shape = (schedule.rollout_length, schedule.num_envs)
    return make_rollout(records.allocate_rows(row, *shape))


def make_buffer(
    algo: ModuleType, learner: Any, schedule: ResolvedSequenceSchedule, ranks: int
) -> replay.Replay:
    """Make an empty replay buffer for this rank's sequences."""
    rollout = _allocate(algo, learner, schedule)
    shapes = jax.eval_shape(algo.prepare, learner.params, rollout)
    if not isinstance(shapes, SequenceBatch):
        raise ValueError(
            f"prepare of {algos.get_name(algo)} must return a purerl.types.SequenceBatch, because "
            f"its SCHEDULE is a SequenceSchedule, got {type(shapes)}."
        )
    example = jax.tree.map(lambda x: np.zeros(x.shape[1:], x.dtype), shapes)
    return replay.init(example, schedule.replay_size // (ranks * schedule.rollout_length))


def collect(
    carry: RolloutCarry, length: int, should_stop: Callable[[], bool] | None = None
) -> tuple[RolloutCarry, AnyRollout]:
    """Step the environments until each has `length` rows, or `should_stop` returns True.

    A vector environment in NEXT_STEP mode spends steps on resets, so its columns fill unevenly.
    Further steps of a full column count in their episode, but the rollout does not contain them.
    """
    result: tuple[RolloutCarry, AnyRollout]
    result = acting.act_alone(carry, step_envs(carry, length), should_stop)
    return result


def step_envs(carry: RolloutCarry, length: int) -> acting.Steps:
    """Do the work of `collect` with actions from outside; the carry may lack its arrays."""
    schedule, envs = carry.schedule, carry.get_gym_envs()
    number, most = schedule.num_envs, 2 * length + 1  # every other call may only start an episode
    stage = map_rows(lambda x: np.empty((most, number, *x.shape[1:]), x.dtype), carry.surplus)
    arrays = list_leaves(stage)
    valid = np.ones((most, number), bool)
    episodes, obs, calls, t = records.Episodes(carry), carry.obs, carry.calls, 0
    while t < length or valid[:t].sum(axis=0).min() < length:
        act = yield obs, calls, False
        step = envs.step(obs, act)
        obs, calls = step.obs, calls + 1
        episodes.add(step)
        for rows, new in zip(arrays, list_leaves(step.rows), strict=True):
            rows[t] = new
        if step.valid is not None:
            valid[t] = step.valid
        t += 1
    stage = map_rows(lambda rows: _take_valid(rows[:t], valid[:t], length), stage)
    flat = map_rows(lambda rows: rows.reshape(-1, *rows.shape[2:]), stage)
    faults.check_rows(flat, np.tile(np.arange(number), length), carry.steps, carry.ranks)
    if not schedule.continue_episodes:
        obs = envs.reset()
        episodes.drop()
    envs.calls = calls
    carry = dataclasses.replace(carry, obs=obs, calls=calls, **episodes.to_fields())
    return carry, make_rollout(stage)


def _take_valid(rows: np.ndarray, valid: np.ndarray, length: int) -> np.ndarray:
    """Return the first `length` valid rows of each environment."""
    if valid.all():
        return rows[:length]
    first = np.argsort(~valid, axis=0, kind="stable")[:length]
    return np.take_along_axis(rows, first.reshape(*first.shape, *[1] * (rows.ndim - 2)), axis=0)
