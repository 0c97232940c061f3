"""Compiled programs that step environments in JAX and learn from them, from one record to the next.

Each program donates its data. The number of steps is an argument, so that one compilation serves
all of them. The keys are those of the loop over Gymnasium environments: the same environments give
the same transitions, and the same transitions give the same parameters, up to rounding.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from purerl import mpi, rng
from purerl.buffers import replay, return_replay
from purerl.compiler import jit_fast
from purerl.envs import episodes as in_progress
from purerl.envs.episodes import Episodes
from purerl.loops import acting, offpolicy, onpolicy
from purerl.loops.hindsight import relabel
from purerl.loops.hindsight.relabel import Buffer
from purerl.loops.hindsight.rewards import Relabelling
from purerl.loops.metrics import merge_tallies, tally_values
from purerl.loops.onpolicy import ReplayPlan
from purerl.loops.scan import seeds, sharing, stepping
from purerl.loops.scan.stepping import Clock, Ends, Fault, World
from purerl.loops.seeds.together import Data
from purerl.types import Rows, make_rollout, map_rows


class Outcome(NamedTuple):
    """Results of a program for the host."""

    ends: Ends  # [most, N]; the rows after the last step are empty
    fault: Fault
    updates: jax.Array  # () int32, number of updates
    finite: jax.Array  # () bool, whether the learner and the metrics are finite


class BurstPlan(NamedTuple):
    """Settings of an off-policy program; each plan is another program."""

    every: int  # steps of each environment between two bursts
    updates: int  # of a burst
    batch_size: int
    relabelling: Relabelling | None


class BurstTimes(NamedTuple):
    """Times of random actions and of learning, in steps of each environment."""

    steps: Any  # to make
    phase: Any  # since the last burst was due
    random: Any  # with random actions
    quiet: Any  # after which updates begin
    place: Any  # next row of the replay buffer


@functools.cache
def compile_bursts(together: bool) -> Any:
    """Return the compiled `run_bursts`; `together` maps it over seeds."""
    run = (seeds.map_program if together else _map_devices)(run_bursts)
    return jit_fast(run, static_argnums=(0, 1, 2, 3), donate_argnums=4)


def run_bursts(
    algo: ModuleType,
    world: World,
    plan: BurstPlan,
    most: int,
    data: Data,
    params: Any,
    clock: Clock,
    times: BurstTimes,
) -> tuple[Data, Outcome]:
    """Collect transitions and learn from them in bursts.

    Args:
        algo: A module of `purerl.algos`.
        world: The environments.
        plan: How to learn.
        most: Largest number of steps of a program.
        data: Learner, replay buffer, tally and episodes.
        params: Parameters of the environments.
        clock: Counters at the start.
        times: When to act at random and to learn.
    """

    row = map_rows(lambda x: x[0], data.buffer.data)

    def collect(state: Any, learner: Any, border: jax.Array) -> Any:
        first, buffer, *rest = state

        def step(state: Any) -> Any:
            t, stored, episodes, ends, fault = state
            words = stepping.add_words(clock.calls, t)
            act = _act(algo, world, learner.params, clock, words, episodes.obs, t < times.random)
            episodes, rows, new = stepping.take_step(world, params, clock, episodes, act)
            ends = stepping.store_ends(ends, t, jax.tree.map(lambda x: x[None], new))
            fault = stepping.find_fault(world, fault, rows, t * world.num_envs)
            if world.devices == 1:
                stored = _add_rows(stored, rows, times.place + t * world.num_envs)
            else:
                stored = sharing.store_rows(stored, rows, t - first)
            return t + 1, stored, episodes, ends, fault

        stored = buffer if world.devices == 1 else sharing.allocate_rows(world, plan.every, row)
        end, stored, *rest = jax.lax.while_loop(
            lambda x: x[0] < border, step, (first, stored, *rest)
        )
        if world.devices > 1:
            stored = sharing.add_rows(buffer, stored, end - first)
        return end, stored, *rest

    def learn(learner: Any, buffer: Buffer, tally: jax.Array, updates: jax.Array) -> Any:
        words = stepping.add_words(clock.updates, updates)
        packed = jnp.stack([clock.seed, clock.rank, *words])
        how = (plan.updates, plan.batch_size, world.devices, plan.relabelling)
        learner, info = offpolicy.learn_once(algo, *how, learner, buffer, packed)
        info = mpi.pmean(info) if world.devices > 1 else info
        return learner, merge_tallies(tally, tally_values(info)), updates + plan.updates

    def burst(state: Any) -> Any:
        t, learner, buffer, tally, episodes, ends, fault, updates = state
        left = plan.every - (t + times.phase) % plan.every
        border = jnp.minimum(t + left, times.steps)
        state = (t, buffer, episodes, ends, fault)
        t, buffer, episodes, ends, fault = collect(state, learner, border)
        is_due = ((t + times.phase) % plan.every == 0) & (t >= times.quiet)
        learner, tally, updates = jax.lax.cond(
            is_due,
            lambda *args: learn(args[0], buffer, *args[1:]),
            lambda *args: args,
            *(learner, tally, updates),
        )
        return t, learner, buffer, tally, episodes, ends, fault, updates

    return _iterate(burst, times.steps, world, most, row, data)


def _iterate(
    step: Callable[[Any], Any], stop: Any, world: World, most: int, row: Rows, data: Data
) -> tuple[Data, Outcome]:
    """Call a step of a program, which begins with a counter, until the counter reaches `stop`."""
    zero = jnp.int32(0)
    start = (zero, *data, stepping.allocate_ends(world, most), stepping.init_fault(row), zero)
    end = jax.lax.while_loop(lambda state: state[0] < stop, step, start)
    _, learner, buffer, tally, episodes, ends, fault, updates = end
    finite = onpolicy.is_finite(learner, tally)
    if world.devices > 1:
        ends, fault = mpi.all_parts(ends, axis=1), sharing.find_first_fault(world, fault)
    return Data(learner, buffer, tally, episodes), Outcome(ends, fault, updates, finite)


def _act(
    algo: ModuleType,
    world: World,
    params: Any,
    clock: Clock,
    words: jax.Array,
    obs: jax.Array,
    is_random: Any,
) -> jax.Array:
    """Choose actions `[N, ...]`, exploring or random; `words` are those of the number of calls."""
    packed = jnp.stack([clock.seed, clock.rank, *words])
    number = world.num_envs * world.devices

    def explore() -> jax.Array:
        key = rng.stream(clock.seed, clock.rank, "act", words)
        return sharing.act(algo, world, params, obs, key)

    def choose_at_random() -> jax.Array:
        drawn = acting.random_actions(world.env.spec, number, packed)
        return drawn if world.devices == 1 else mpi.own_part(drawn)

    return jax.lax.cond(is_random, choose_at_random, explore)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def collect_rows(
    algo: ModuleType,
    world: World,
    length: int,
    learner: Any,
    episodes: Episodes,
    params: Any,
    clock: Clock,
    random: Any,
) -> Rows:
    """Collect the next rows `[length, N, ...]` without learning, and keep all arguments.

    The first `random` steps have random actions.
    """

    def step(episodes: Episodes, t: jax.Array) -> tuple[Episodes, Rows]:
        words = stepping.add_words(clock.calls, t)
        act = _act(algo, world, learner.params, clock, words, episodes.obs, t < random)
        episodes, rows, _ = stepping.take_step(world, params, clock, episodes, act)
        return episodes, rows

    rows: Rows
    _, rows = jax.lax.scan(step, episodes, jnp.arange(length, dtype=jnp.int32))
    return rows


def _add_rows(buffer: Buffer, rows: Rows, place: jax.Array) -> Buffer:
    """Add one row of each environment; the first goes to `place`, modulo the capacity.

    If the capacity is a multiple of their number, they are next to each other in the ring. Then
    they are copied as one block, several times as fast as row by row. `place` equals the position
    of the buffer, but under `vmap` it is one number for all seeds, which keeps the copy fast.
    """
    number, capacity = len(rows.rew), len(buffer.data.rew)
    if not isinstance(buffer, replay.Replay) or capacity % number:
        return relabel.add_rows(buffer, rows, None)

    def put(ring: jax.Array, new: jax.Array) -> jax.Array:
        return jax.lax.dynamic_update_slice_in_dim(ring, new, place % capacity, axis=0)

    data = jax.tree.map(put, buffer.data, rows)
    stored = jnp.minimum(buffer.stored + number, capacity)
    position = (buffer.position + number) % capacity
    buffer = dataclasses.replace(buffer, data=data, position=position, stored=stored)
    return return_replay.track_returns(buffer, rows)


class RolloutPlan(NamedTuple):
    """Settings of an on-policy program; each plan is another program."""

    length: int  # of a rollout, in steps of each environment
    continue_episodes: bool
    replayed: ReplayPlan | None  # of earlier sequences


@functools.cache
def compile_rollouts(together: bool) -> Any:
    """Return the compiled `run_rollouts`; `together` maps it over seeds."""
    run = (seeds.map_program if together else _map_devices)(run_rollouts)
    return jit_fast(run, static_argnums=(0, 1, 2, 3), donate_argnums=4)


def _map_devices(run: Callable[..., Any]) -> Callable[..., Any]:
    """Map a program over the devices of its world."""

    def run_all(*args: Any) -> Any:
        alone = args[1].devices == 1
        return run(*args) if alone else sharing.run_on_devices(run, Outcome, *args)

    return run_all


def run_rollouts(
    algo: ModuleType,
    world: World,
    plan: RolloutPlan,
    most: int,
    data: Data,
    params: Any,
    clock: Clock,
    rollouts: Any,
) -> tuple[Data, Outcome]:
    """Collect rollouts and learn from each.

    Args:
        algo: A module of `purerl.algos`.
        world: The environments.
        plan: How to collect and to learn.
        most: Largest number of steps of a program.
        data: Learner, replay buffer of sequences or None, tally and episodes.
        params: Parameters of the environments.
        clock: Counters at the start.
        rollouts: Number of rollouts.
    """

    def collect(k: jax.Array, learner: Any, episodes: Episodes) -> Any:
        def step(episodes: Episodes, key: jax.Array) -> Any:
            act = sharing.act(algo, world, learner.params, episodes.obs, key)
            episodes, rows, ends = stepping.take_step(world, params, clock, episodes, act)
            return episodes, (rows, ends)

        first = stepping.add_words(clock.calls, k * plan.length)
        keys = stepping.draw_keys(
            lambda words: rng.stream(clock.seed, clock.rank, "act", words), first, plan.length
        )
        return jax.lax.scan(step, episodes, keys)

    def learn(learner: Any, buffer: Any, tally: jax.Array, rollout: Any, updates: Any) -> Any:
        words = stepping.add_words(clock.updates, updates)
        packed = jnp.stack([clock.seed, clock.rank, *words])
        if plan.replayed is None:
            how = (learner, tally, rollout, packed)
            if world.devices > 1:
                learner, tally = sharing.learn_once(algo, *how)
            else:
                learner, tally = onpolicy.learn_once(algo, 1, *how)
            return learner, buffer, tally, updates + 1
        if world.devices > 1:
            rollout = mpi.all_parts(rollout, axis=1)
        args = (algo, world.devices, plan.replayed, learner, buffer, tally, rollout, packed)
        learner, buffer, tally, made = onpolicy.replay_once(*args)
        return learner, buffer, tally, updates + made

    def iterate(state: Any) -> Any:
        k, learner, buffer, tally, episodes, ends, fault, updates = state
        episodes, (rows, new) = collect(k, learner, episodes)
        ends = stepping.store_ends(ends, k * plan.length, new)
        flat = map_rows(lambda x: x.reshape(-1, *x.shape[2:]), rows)
        fault = stepping.find_fault(world, fault, flat, k * plan.length * world.num_envs)
        if not plan.continue_episodes:
            args = (world.env, params, clock.seed, clock.rank, episodes)
            episodes = in_progress.restart(*args, stepping.find_first(world))
        learned = learn(learner, buffer, tally, make_rollout(rows), updates)
        learner, buffer, tally, updates = learned
        return k + 1, learner, buffer, tally, episodes, ends, fault, updates

    shapes = jax.eval_shape(lambda: collect(jnp.int32(0), data.learner, data.episodes)[1][0])
    row = map_rows(lambda x: jnp.zeros(x.shape[2:], x.dtype), shapes)
    return _iterate(iterate, rollouts, world, most, row, data)
