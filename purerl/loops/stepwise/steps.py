"""Take one step of one environment, then update and choose the next action in one call."""

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl.buffers import replay, return_replay
from purerl.compiler import jit_fast
from purerl.errors import AdvanceStopped
from purerl.loops import acting, adapters, faults, offpolicy, records
from purerl.loops.carry import Carry, OffPolicyCarry
from purerl.loops.hindsight import relabel
from purerl.loops.hindsight.rewards import has_clipped_targets
from purerl.loops.stepwise.packing import Layout, Packed, pack, unpack
from purerl.types import Rows

AHEAD = 256  # updates whose indices are drawn at once; drawing them takes a tenth of an update


def applies(carry: OffPolicyCarry) -> bool:
    """Return whether the next advance is one step of one environment and one update.

    Several environments, ranks and devices, vector environments, goals, and the steps before the
    first update are left to `offpolicy.advance`.
    """
    schedule = carry.schedule
    return (
        schedule.update_every == schedule.updates_per_burst == 1
        and carry.steps + 1 >= schedule.update_after
        and schedule.devices == 1
        and isinstance(carry.envs, adapters.SingleEnvs)
        and carry.relabelling is None
    )


def advance(carry: OffPolicyCarry, should_stop: Callable[[], bool] | None = None) -> OffPolicyCarry:
    """Take one step, add the transition to the replay buffer, and update once.

    The random streams are those of `offpolicy.advance`, so batches, noise and actions are the same.
    Learner, replay buffer and tally stay packed until somebody reads them.
    """
    if should_stop and should_stop():
        raise AdvanceStopped
    packed, envs = carry.pack(), carry.get_gym_envs()
    layout, added = packed.layout, packed.added + 1
    capacity, clips_targets = _inspect(layout)
    step = envs.step(carry.obs, _choose_action(carry, packed))
    faults.check_rows(step.rows, _FIRST, carry.steps, 1)
    if clips_targets:
        faults.check_sparse(step.rows.rew, carry.steps)
    drawn = _draw(carry, capacity, added)
    key = acting.get_key(carry, carry.calls + 1)
    arrays, act, finite = _compiled_learn()(
        carry.algo, layout, packed.arrays, step.rows, *drawn, step.obs, key
    )
    packed.delete_tree()
    packed = Packed(layout, arrays, added, np.asarray(act))
    envs.calls = carry.calls + 1
    carry = carry.replace(
        learner=packed,
        tally=packed,
        buffer=packed,
        obs=step.obs,
        steps=carry.steps + 1,
        calls=carry.calls + 1,
        updates=carry.updates + 1,
        **records.count_episodes(carry, step),
    )
    records.check_learner(carry, 1, np.asarray(finite))
    return carry


def set_next_act(carry: Carry, act: np.ndarray) -> None:
    """Set the next actions of a carry, which an update has computed before a snapshot."""
    if isinstance(carry, OffPolicyCarry) and applies(carry):
        carry.pack().act = act


def _choose_action(carry: OffPolicyCarry, packed: Packed) -> np.ndarray:
    """Return a random action at the start, later the one that the last update computed."""
    if carry.steps < carry.schedule.start_steps:
        words = acting.pack_key_words(carry, carry.calls)
        return np.asarray(acting.draw_random_actions(carry.envs.spec, 1, words))
    if packed.act is not None:
        return packed.act
    return acting.act(carry, carry.learner.params, carry.obs, carry.calls)


_FIRST = np.zeros(1, np.int64)  # environment of each row, for error messages


@functools.lru_cache(maxsize=8)
def _inspect(layout: Layout) -> tuple[int, bool]:
    """Return the capacity of the replay buffer, and whether targets are clipped."""
    tree = jax.tree.unflatten(layout.structure, layout.shapes)
    return tree["buffer"].data.rew[0], has_clipped_targets(tree["learner"].params.spec)


@functools.cache
def _compiled_learn() -> Any:
    return jit_fast(_learn, static_argnums=(0, 1), donate_argnums=2)


def _learn(
    algo: ModuleType,
    layout: Layout,
    arrays: Any,
    rows: Rows,
    index: jax.Array,
    key: jax.Array,
    obs: jax.Array,
    act_key: jax.Array,
) -> tuple[Any, jax.Array, jax.Array]:
    """Add rows to the replay buffer, update on the rows at the indices, and act on `obs`."""
    tree = unpack(layout, arrays)
    rows = jax.tree.map(lambda x, old: jnp.asarray(x, old.dtype), rows, tree["buffer"].data)
    buffer = return_replay.add(tree["buffer"], rows)
    batch = return_replay.take(buffer, index, jax.random.wrap_key_data(key))
    batch = offpolicy.add_noise(algo, tree["learner"], batch)
    batches = jax.tree.map(lambda x: x[None], batch)
    learner, info = jax.lax.scan(algo.update, tree["learner"], batches)
    info = offpolicy.add_scale(info, buffer)
    learner, tally, finite = offpolicy.finish_burst(1, learner, tree["tally"], info)
    act = algo.act(learner.params, obs, jax.random.wrap_key_data(act_key))
    return pack(layout, {"learner": learner, "tally": tally, "buffer": buffer}), act, finite


def _draw(carry: OffPolicyCarry, capacity: int, added: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices and the key of a batch: those that a burst of one update draws.

    Args:
        carry: The carry before the update.
        capacity: Capacity of the replay buffer.
        added: Number of rows that were added to it before the update.
    """
    first, i = carry.updates - carry.updates % AHEAD, carry.updates % AHEAD
    rows = min(added - i, capacity)  # constant, so that each block is drawn once
    batch_size = carry.schedule.batch_size
    index, keys = _draw_ahead(carry.seed, carry.rank, first, rows, capacity, batch_size)
    return index[i], keys[i]


@functools.lru_cache(maxsize=4)
def _draw_ahead(
    seed: int, rank: int, first: int, rows: int, capacity: int, batch_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the indices and keys of `AHEAD` updates; the first samples from `rows` rows."""
    words = np.array([seed, rank, first >> 32, first & 0xFFFFFFFF], np.uint32)
    index, keys = _compiled_draw(capacity, batch_size, words, np.int32(rows))
    return np.asarray(index), np.asarray(keys)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _compiled_draw(capacity: int, batch_size: int, words: jax.Array, rows: jax.Array) -> Any:
    def one(i: jax.Array) -> tuple[jax.Array, jax.Array]:
        stored = (rows + i).clip(1, capacity)
        ring = replay.Replay(jax.ShapeDtypeStruct((capacity,), jnp.int32), stored, stored)
        (key,) = relabel.split_key(words.at[3].add(i.astype(jnp.uint32)), 1)
        index, key = replay.draw_indices(ring, key, batch_size)
        return index, jax.random.key_data(key)

    return jax.vmap(one)(jnp.arange(AHEAD))
