"""On-policy: one rollout of all environments, then one update on it."""

import dataclasses
import functools
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from types import ModuleType
from typing import Any

import jax
import numpy as np

from purerl import algos, mpi, rng
from purerl.errors import AdvanceStopped, EpisodesCut
from purerl.loops import acting, adapters, faults, records
from purerl.loops.carry import OnPolicyCarry
from purerl.loops.devices import COMPILE_QUICKLY, jit_fast, map_over_devices, unreplicate
from purerl.loops.metrics import list_names, merge_tallies, tally_values
from purerl.schedules import ResolvedOnPolicySchedule
from purerl.types import AnyRollout, list_leaves, make_rollout, map_rows


def advance(carry: OnPolicyCarry, should_stop: Callable[[], bool] | None = None) -> OnPolicyCarry:
    """Collect one rollout and learn from it; raise `AdvanceStopped` if any rank shall stop."""
    schedule = carry.schedule
    with acting.stop_together(carry, should_stop) if carry.ranks > 1 else nullcontext():
        carry, rollout = collect(carry, schedule.rollout_length, should_stop)
    words = acting.pack_key_words(carry, carry.updates)
    learner, tally, finite = learn(
        carry.algo, schedule.devices, carry.learner, carry.tally, rollout, words
    )
    steps = carry.steps + schedule.rollout_steps
    done: dict[str, Any] = {"steps": steps, "updates": carry.updates + 1}
    carry = dataclasses.replace(carry, learner=learner, tally=tally, **done)
    records.check_learner(carry, 1, finite)
    return carry


def learn(
    algo: ModuleType, devices: int, learner: Any, tally: jax.Array, rollout: AnyRollout, words: Any
) -> tuple[Any, jax.Array, jax.Array]:
    """Prepare a rollout and update on it, in one compiled program.

    The learner and the tally are donated.

    The result equals `prepare` and `update` with the key
    `stream(seed, rank, "update", updates done before)`. Each of several devices prepares the whole
    rollout, and updates on its part of the rows.

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
    return jit_fast(static_argnums=(0, 1), donate_argnums=(2, 3))(_split_learn)


def _split_learn(algo: ModuleType, devices: int, *args: Any) -> Any:
    body = functools.partial(_learn, algo, devices)
    return (map_over_devices(body, devices) if devices > 1 else body)(*args)


def _learn(
    algo: ModuleType,
    devices: int,
    learner: Any,
    tally: jax.Array,
    rollout: AnyRollout,
    words: jax.Array,
) -> tuple[Any, jax.Array, jax.Array]:
    batch = algo.prepare(learner.params, rollout)
    key = rng.stream(words[0], words[1], "update", words[2:])
    batch = batch._replace(key=key)
    learner, info = algo.update(learner, batch if devices == 1 else mpi.own_rows(batch))
    if devices > 1:
        info = mpi.pmean(info)
    if "val" in info:
        info |= {"val": batch.val}  # values of all steps of the rollout, before the update
    tally = merge_tallies(tally, tally_values(info))
    return learner, tally, records.are_all_finite((records.list_numbers(learner), tally[1]))


@functools.partial(jax.jit, static_argnums=(0, 1), compiler_options=COMPILE_QUICKLY)
def init(algo: ModuleType, spec: Any, words: jax.Array) -> Any:
    """Make a learner, in one program."""
    return algo.init(rng.stream(words[0], words[1], "init"), spec)


def check_cut(schedule: ResolvedOnPolicySchedule, envs: adapters.Envs) -> None:
    """Refuse environments that cannot be reset, and warn of episodes longer than a rollout."""
    if schedule.continue_episodes:
        return
    length = schedule.rollout_length
    if not isinstance(envs, adapters.SingleEnvs):
        raise ValueError(
            "continue_episodes=False needs single environments, which the loop can reset, but "
            "env_fn returns a vector environment. Return a single one and set num_envs, or set "
            "continue_episodes=True."
        )
    own = faults.get_time_limit(envs.envs[0])
    limit = min((n for n in (own, schedule.max_ep_len) if n is not None), default=0)
    if limit > length:
        warnings.warn(
            f"episodes may have {limit:,} steps, but a rollout of one environment has {length:,}. "
            f"With continue_episodes=False the loop cuts longer episodes at the end of a rollout "
            f"and starts new ones. REINFORCE learns only from episodes that end, so it learns "
            f"nothing if all are cut. Raise rollout_steps or lower num_envs.",
            EpisodesCut,
            stacklevel=4,
        )


def list_metrics(
    algo: ModuleType, learner: Any, schedule: ResolvedOnPolicySchedule
) -> tuple[str, ...]:
    """List the metrics of `update`; raise the error of `update` if the rollout does not fit."""
    length, number, devices = schedule.rollout_length, schedule.num_envs, schedule.devices

    def metrics(learner: Any, rollout: AnyRollout) -> Any:
        batch = algo.prepare(learner.params, rollout)._replace(key=jax.random.key(0))
        if devices > 1:  # each device gets a part of the rows, without the rollout
            rows = length * number // devices
            parts = jax.tree.map(lambda x: x[:rows], batch._replace(key=None, rollout=None))
            batch = parts._replace(key=batch.key)
        return algo.update(learner, batch)[1]

    row = algos.make_row(algo, learner.params.spec)
    rollout = make_rollout(records.allocate_rows(row, length, number))
    return list_names(jax.eval_shape(metrics, learner, rollout))


def collect(
    carry: OnPolicyCarry, length: int, should_stop: Callable[[], bool] | None = None
) -> tuple[OnPolicyCarry, AnyRollout]:
    """Step the environments until each has `length` rows, or `should_stop` returns True.

    A vector environment in NEXT_STEP mode spends steps on resets, so its columns fill unevenly.
    Further steps of a full column count in their episode, but the rollout does not contain them.
    """
    schedule, envs = carry.schedule, carry.envs
    number, most = schedule.num_envs, 2 * length + 1  # every other call may only start an episode
    stage = map_rows(lambda x: np.empty((most, number, *x.shape[1:]), x.dtype), carry.surplus)
    arrays = list_leaves(stage)
    valid = np.ones((most, number), bool)
    params = unreplicate(carry.learner.params)
    episodes, obs, calls, t = records.Episodes(carry), carry.obs, carry.calls, 0
    while t < length or valid[:t].sum(axis=0).min() < length:
        if should_stop and should_stop():
            raise AdvanceStopped
        step = envs.step(obs, acting.act(carry, params, obs, calls))
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
    carry = dataclasses.replace(carry, obs=obs, calls=calls, **episodes.to_fields())
    return carry, make_rollout(stage)


def _take_valid(rows: np.ndarray, valid: np.ndarray, length: int) -> np.ndarray:
    """Return the first `length` valid rows of each environment."""
    if valid.all():
        return rows[:length]
    first = np.argsort(~valid, axis=0, kind="stable")[:length]
    return np.take_along_axis(rows, first.reshape(*first.shape, *[1] * (rows.ndim - 2)), axis=0)
