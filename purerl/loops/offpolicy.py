"""Off-policy: add one block of transitions to the replay buffer, then run a burst of updates."""

import dataclasses
import functools
from collections.abc import Callable
from contextlib import nullcontext
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl import algos, mpi, rng
from purerl.buffers import goals, replay, return_replay
from purerl.compiler import jit_fast, jit_quickly
from purerl.loops import acting, faults, records
from purerl.loops.carry import OffPolicyCarry
from purerl.loops.devices import map_program
from purerl.loops.hindsight import relabel
from purerl.loops.hindsight.relabel import Buffer
from purerl.loops.hindsight.rewards import Relabelling, has_clipped_targets
from purerl.loops.metrics import list_names, merge_tallies, tally_values
from purerl.types import Rows, list_leaves, map_rows

BURST_BYTES = 2**29  # most bytes of the batches that are drawn before a burst


def advance(carry: OffPolicyCarry, should_stop: Callable[[], bool] | None = None) -> OffPolicyCarry:
    """Collect transitions up to the next border, and update if a burst is due there.

    Borders are the multiples of `update_every`, the ends of epochs and the end of the run. Raise
    `AdvanceStopped` if any rank shall stop.
    """
    schedule = carry.schedule
    border, number = plan_burst(carry)
    with acting.stop_together(carry, should_stop) if carry.ranks > 1 else nullcontext():
        carry, block, count = collect(carry, (border - carry.steps) // carry.ranks, should_stop)
    learner, buffer, tally, finite = run_burst(
        carry.algo,
        number,
        schedule.batch_size,
        schedule.devices,
        carry.learner,
        carry.buffer,
        carry.tally,
        block,
        count,
        acting.pack_key_words(carry, carry.updates),
        carry.relabelling,
    )
    done: dict[str, Any] = {"steps": border, "updates": carry.updates + number}
    carry = dataclasses.replace(carry, learner=learner, buffer=buffer, tally=tally, **done)
    records.check_learner(carry, number, finite)
    return carry


def plan_burst(carry: OffPolicyCarry) -> tuple[int, int]:
    """Return the next border and the number of updates that are due there."""
    schedule = carry.schedule
    every, epoch = schedule.update_every, schedule.steps_per_epoch
    border = min(carry.steps - carry.steps % n + n for n in (every, epoch))
    border = min(border, schedule.steps)
    learns = border % every == 0 and border >= schedule.update_after
    return border, schedule.updates_per_burst if learns else 0


def run_burst(
    algo: ModuleType,
    updates: int,
    batch_size: int,
    devices: int,
    learner: Any,
    buffer: Buffer,
    tally: jax.Array,
    block: Rows,
    count: Any,
    words: Any,
    relabelling: Relabelling | None = None,
) -> tuple[Any, Buffer, jax.Array, jax.Array]:
    """Add a block to the buffer, then sample and update `updates` times: one compiled program.

    The result equals `add`, and then `sample` and `update` in a loop with the keys
    `split(stream(seed, rank, "sample", updates done before), updates)`. The rows and the noise of
    all batches are drawn before the loop, unless they exceed `BURST_BYTES`. Several devices hold
    the same buffer, draw the same batches and split the rows of each batch. Their result differs
    from that of one device only by rounding.

    If the rewards of new goals are computed on the host, the burst is two programs: one draws all
    batches, the other learns from them. The batches are the same.

    The learner, the buffer and the tally are donated. Without updates only the buffer is donated.

    The program trains several seeds if all arguments but `count` have a leading axis of seeds.

    Args:
        algo: A module of `purerl.algos`.
        updates: Number of updates.
        batch_size: Rows of a batch, over all devices of this rank.
        devices: Number of devices.
        learner: State of the algorithm.
        buffer: The replay buffer.
        tally: Statistics of the metrics since the last record.
        block: New transitions, in a block of fixed size.
        count: Number of valid rows of the block.
        words: Seed, rank and number of updates done before, from `acting.pack_key_words`.
        relabelling: How goals are replaced, for a goal replay buffer.

    Returns:
        Learner, buffer and tally, and whether the learner and the metrics are finite.
    """
    static = (algo, updates, batch_size, devices, relabelling)
    if not updates:  # passing a learner through a program would cost up to 0.4 ms
        static = (*static[:4], None)
        buffer, finite = _compiled_burst()(*static, None, buffer, None, block, count, words)
        return learner, buffer, tally, finite
    if relabelling is not None and not relabelling.in_jax:
        how = (updates, batch_size, devices, relabelling)
        buffer, drawn = relabel.draw_batches(*how, buffer, block, count, words)
        outcome = relabel.compute_outcome(relabelling, drawn, learner.params.spec)
        learner, tally, finite = _compiled_learn()(algo, devices, learner, tally, drawn, *outcome)
        return learner, buffer, tally, finite
    result: tuple[Any, Buffer, jax.Array, jax.Array] = _compiled_burst()(
        *static, learner, buffer, tally, block, count, words
    )
    return result


@functools.cache
def _compiled_burst() -> Any:
    return jit_fast(_split_burst, static_argnums=(0, 1, 2, 3, 4), donate_argnums=(5, 6, 7))


@functools.cache
def _compiled_learn() -> Any:
    return jit_fast(_learn, static_argnums=(0, 1), donate_argnums=(2, 3))


def _split_burst(
    algo: ModuleType,
    updates: int,
    batch_size: int,
    devices: int,
    relabelling: Relabelling | None,
    *args: Any,
) -> Any:
    body = functools.partial(_burst, algo, updates, batch_size, devices, relabelling)
    return map_program(body, devices, args[-1].ndim > 1, shared=4)(*args)


def _learn(algo: ModuleType, devices: int, *args: Any) -> Any:
    """Scan `update` over drawn batches, with the rewards that were computed for them."""

    def body(learner: Any, tally: jax.Array, drawn: Any, rewards: Any, terminated: Any) -> Any:
        def complete(drawn: Any, rewards: Any, terminated: Any) -> Any:
            batch = goals.apply_outcome(drawn, rewards, terminated)
            batch = add_noise(algo, learner, batch)
            return batch if devices == 1 else mpi.own_rows(batch)

        batches = jax.vmap(complete)(drawn, rewards, terminated)
        learner, info = jax.lax.scan(algo.update, learner, batches)
        return finish_burst(devices, learner, tally, info)

    return map_program(body, devices, args[1].ndim > 2)(*args)


def _burst(
    algo: ModuleType,
    updates: int,
    batch_size: int,
    devices: int,
    relabelling: Relabelling | None,
    learner: Any,
    buffer: Buffer,
    tally: jax.Array,
    block: Rows,
    count: jax.Array,
    words: jax.Array,
) -> tuple[Any, ...]:
    buffer = relabel.add_rows(buffer, block, count)
    if not updates:
        return buffer, jnp.bool_(True)
    learner, info = learn_once(
        algo, updates, batch_size, devices, relabelling, learner, buffer, words
    )
    learner, tally, finite = finish_burst(devices, learner, tally, info)
    return learner, buffer, tally, finite


def learn_once(
    algo: ModuleType,
    updates: int,
    batch_size: int,
    devices: int,
    relabelling: Relabelling | None,
    learner: Any,
    buffer: Buffer,
    words: jax.Array,
) -> tuple[Any, Any]:
    """Sample and update `updates` times inside of a compiled program, as `run_burst` does.

    Returns:
        The learner, and the metrics of each update.
    """
    keys = relabel.split_key(words, updates)
    buffer = return_replay.merge_ranks(buffer)
    draw = functools.partial(draw_batch, algo, learner, buffer, batch_size, relabelling=relabelling)
    own = draw if devices == 1 else lambda key: mpi.own_rows(draw(key))
    row = sum(x.nbytes // x.shape[0] for x in jax.tree.leaves(buffer.data))
    result: tuple[Any, Any]
    if updates * batch_size * row <= BURST_BYTES:
        result = jax.lax.scan(algo.update, learner, jax.vmap(own)(keys))
    else:  # batches of images: gather them one by one
        result = jax.lax.scan(lambda x, key: algo.update(x, own(key)), learner, keys)
    return result[0], add_scale(result[1], buffer)


def add_scale(info: Any, buffer: Buffer) -> Any:
    """Add the number by which sampled rewards are divided to the metrics, if they are scaled."""
    scale = return_replay.read_scale(buffer)
    return info if scale is None else info | {"return_scale": scale[None]}


def finish_burst(devices: int, learner: Any, tally: jax.Array, info: Any) -> tuple[Any, ...]:
    """Add the metrics of the updates to the tally, and check that all numbers are finite."""
    if devices > 1:
        info = mpi.pmean(info)
    tally = merge_tallies(tally, tally_values(info))
    return learner, tally, records.are_all_finite((records.list_numbers(learner), tally[1]))


def draw_batch(
    algo: ModuleType,
    learner: Any,
    buffer: Buffer,
    batch_size: int,
    key: jax.Array,
    relabelling: Relabelling | None = None,
) -> Any:
    """Draw one batch, with the noise that `update` needs.

    Rewards of new goals must be functions in JAX if this is compiled.
    """
    if isinstance(buffer, goals.GoalReplay):
        batch = relabel.sample(buffer, key, batch_size, relabelling, learner.params.spec)
    else:
        batch = return_replay.sample(buffer, key, batch_size)
    return add_noise(algo, learner, batch)


def add_noise(algo: ModuleType, learner: Any, batch: Any) -> Any:
    """Return a batch with the noise that `update` needs."""
    if not algo.NOISE_DRAWS:
        return batch
    dim = learner.params.spec.env.act_dim
    return batch._replace(noise=rng.noise(batch, algo.NOISE_DRAWS, dim))


@jit_quickly(static_argnums=(0, 1, 2, 4, 5))
def init(
    algo: ModuleType,
    spec: Any,
    capacity: int,
    words: jax.Array,
    goal_envs: int = 0,
    returns: tuple[int, int, bool] | None = None,
) -> tuple[Any, Any]:
    """Make a learner and an empty replay buffer, in one program.

    Args:
        algo: A module of `purerl.algos`.
        spec: Settings of the algorithm.
        capacity: Rows of the replay buffer.
        words: Seed and rank.
        goal_envs: Number of environments of a goal replay buffer; 0 for another buffer.
        returns: The schedule's num_envs, n_step and scale_rewards, for a return replay buffer.
    """
    learner = algo.init(rng.stream(words[0], words[1], "init"), spec)
    if goal_envs:
        return learner, goals.init(goals.make_example(spec.env), capacity, goal_envs)
    row = algos.make_row(algo, spec)
    if returns:
        return learner, return_replay.init(row, capacity, spec.gamma, *returns)
    return learner, replay.init(row, capacity)


def list_metrics(
    algo: ModuleType, learner: Any, buffer: Buffer, batch_size: int
) -> tuple[str, ...]:
    """List the metrics of `update`, in the order of the tally."""

    def metrics(learner: Any, buffer: Buffer) -> Any:
        batch = draw_batch(algo, learner, buffer, batch_size, jax.random.key(0))
        return add_scale(algo.update(learner, batch)[1], buffer)

    return list_names(jax.eval_shape(metrics, learner, buffer))


def collect(
    carry: OffPolicyCarry, needed: int, should_stop: Callable[[], bool] | None = None
) -> tuple[OffPolicyCarry, Rows, np.int32]:
    """Step the environments until there are `needed` rows, or `should_stop` returns True.

    Returns:
        The carry, a block of fixed size, and the number of its valid rows.
    """
    result: tuple[OffPolicyCarry, Rows, np.int32]
    result = acting.act_alone(carry, step_envs(carry, needed), should_stop)
    return result


def step_envs(carry: OffPolicyCarry, needed: int) -> acting.Steps:
    """Do the work of `collect` with actions from outside; the carry may lack its arrays."""
    schedule, envs = carry.schedule, carry.get_gym_envs()
    size, number = schedule.update_every // carry.ranks, schedule.num_envs
    length = size + number
    stage = map_rows(lambda x: np.empty((length, *x.shape[1:]), x.dtype), carry.surplus)
    arrays = list_leaves(stage)
    who = np.empty(size + number, np.int64)  # environment of each row, for error messages
    kept = filled = len(carry.surplus.rew)
    for rows, old in zip(arrays, list_leaves(carry.surplus), strict=True):
        rows[:filled] = old
    everyone, episodes = np.arange(number), records.Episodes(carry)
    obs, calls = carry.obs, carry.calls
    while filled < needed:
        is_random = carry.steps + filled * carry.ranks < schedule.start_steps
        act = yield obs, calls, is_random
        step = envs.step(obs, act)
        obs, calls = step.obs, calls + 1
        episodes.add(step)
        real = slice(None) if step.valid is None else step.valid
        end = filled + (number if step.valid is None else int(step.valid.sum()))
        who[filled:end] = everyone[real]
        for rows, new in zip(arrays, list_leaves(step.rows), strict=True):
            rows[filled:end] = new[real]
        filled = end
    fresh = map_rows(lambda rows: rows[kept:filled], stage)
    faults.check_rows(fresh, who[kept:filled], carry.steps + kept * carry.ranks, carry.ranks)
    if has_clipped_targets(carry.learner.params.spec):
        faults.check_sparse(fresh.rew, carry.steps + kept * carry.ranks, carry.ranks)
    surplus = map_rows(lambda rows: rows[needed:filled].copy(), stage)
    envs.calls = calls
    carry = dataclasses.replace(
        carry, obs=obs, calls=calls, surplus=surplus, **episodes.to_fields()
    )
    return carry, map_rows(lambda rows: rows[:size], stage), np.int32(needed)
