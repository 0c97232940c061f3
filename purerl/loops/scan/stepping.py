"""Steps of environments inside a compiled program: rows, episodes that ended, numbers to refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl import checks, mpi
from purerl.compiler import jit_quickly
from purerl.envs import episodes as in_progress
from purerl.envs.episodes import Episodes
from purerl.envs.protocol import JaxEnv
from purerl.types import Rows, extend, list_leaves, map_rows


class Stored(NamedTuple):
    """A value of `info` as rows contain it."""

    name: str
    shape: tuple[int, ...]
    dtype: str


class World(NamedTuple):
    """Environments as a program sees them; each other world is another program."""

    env: JaxEnv
    num_envs: int  # of each device
    max_steps: int | None  # limit of an episode
    log: tuple[str, ...] = ()  # values of `info` to log from the last step of each episode
    store: tuple[Stored, ...] = ()  # values of `info` to store from every step
    goals: bool = False  # whether rows have what a goal replay buffer needs
    sparse: bool = False  # whether rewards must be -1 or 0
    devices: int = 1  # that run the program, each with environments of its own


class Clock(NamedTuple):
    """Counters of a run at the start of a program, from which its keys are derived."""

    seed: Any  # uint32
    rank: Any  # uint32
    calls: Any  # uint32 [2], words of the number of steps of each environment
    updates: Any  # uint32 [2], words of the number of updates


class Ends(NamedTuple):
    """Ends of episodes: for each step, whether it ended one, and which."""

    ended: jax.Array  # [..., N] bool
    returns: jax.Array  # [..., N] float32, where an episode ended
    lengths: jax.Array  # [..., N] int32
    infos: jax.Array  # [..., N, K] float32, the logged values of `info`


class Fault(NamedTuple):
    """The first row with a number to refuse."""

    place: jax.Array  # () int32, its number among the rows of the program; -1 without one
    row: Rows  # [1, ...]


def add_words(words: jax.Array, number: Any) -> jax.Array:
    """Add a number below 2**31 to a counter of two words, high then low."""
    low = words[1] + jnp.asarray(number).astype(jnp.uint32)
    return jnp.stack([words[0] + (low < words[1]), low])


@jit_quickly(static_argnums=0)
def reset(world: World, params: Any, words: jax.Array) -> Episodes:
    """Start the first episode of each environment; `words` are seed and rank."""
    return in_progress.reset(world.env, params, words[0], words[1], world.num_envs)


def find_first(world: World) -> Any:
    """Return the number of this device's first environment."""
    return jax.lax.axis_index(mpi.AXIS) * world.num_envs if world.devices > 1 else 0


def take_step(
    world: World, params: Any, clock: Clock, episodes: Episodes, act: jax.Array
) -> tuple[Episodes, Rows, Ends]:
    """Take one action in each environment.

    Args:
        world: The environments.
        params: Parameters of the environments.
        clock: Counters of the run; only seed and rank are used.
        episodes: The episodes in progress.
        act: Actions `[N, ...]`.

    Returns:
        The episodes in progress, a row of each environment, and the ends of episodes `[N]`.
    """
    began = episodes.length
    args = (world.env, params, clock.seed, clock.rank, world.max_steps)
    episodes, result = in_progress.step(*args, episodes, act, find_first(world))
    extra = {stored.name: _read_stored(world, result.info, stored) for stored in world.store}
    if world.goals:
        achieved = _find(result.info, "achieved_goal").astype(jnp.float32)
        env = find_first(world) + jnp.arange(world.num_envs, dtype=jnp.int32)
        extra = {"achieved_goal": achieved, "env": env, "step": began}
    infos = read_infos(world, result.info)
    ends = Ends(result.ended, result.ret, result.length, infos)
    return episodes, extend(result.transition, extra), ends


def read_infos(world: World, info: dict[str, Any]) -> jax.Array:
    """Return the values of `info` to log, `[N, K]`."""
    if not world.log:
        return jnp.zeros((world.num_envs, 0), jnp.float32)
    values = [_find(info, name, world.num_envs).astype(jnp.float32) for name in world.log]
    return jnp.stack(values, axis=1)


def _read_stored(world: World, info: dict[str, Any], stored: Stored) -> jax.Array:
    """Return a value of `info` in the shape and dtype in which the algorithm stores it."""
    found = _find(info, stored.name, world.num_envs, *stored.shape)
    if not jnp.can_cast(found.dtype, stored.dtype, "same_kind"):
        raise ValueError(
            f"info[{stored.name!r}] of step must be {stored.dtype}, because the algorithm stores "
            f"it, got {found.dtype}. Convert it in step."
        )
    return found.astype(stored.dtype)


def _find(info: dict[str, Any], name: str, *shape: int) -> jax.Array:
    """Return a value of `info`, of all environments; refuse another shape if one is given."""
    if name not in info:
        there = ", ".join(map(str, info)) or "nothing"
        raise ValueError(f"step of the environment must return info[{name!r}], got {there}.")
    if not isinstance(info[name], jax.Array):
        raise ValueError(f"info[{name!r}] of step must be an array, got {info[name]!r}.")
    if shape:
        checks.shape(f"info[{name!r}] of all environments", info[name], shape)
    return info[name]


def allocate_ends(world: World, most: int) -> Ends:
    """Allocate the ends of episodes of a program of at most `most` steps."""
    none = jnp.zeros((most, world.num_envs), jnp.float32)
    infos = jnp.zeros((most, world.num_envs, len(world.log)), jnp.float32)
    return Ends(none.astype(bool), none, none.astype(jnp.int32), infos)


def store_ends(table: Ends, first: Any, new: Ends) -> Ends:
    """Store the ends `[T, N]` of the steps from `first` on in a table of all steps."""

    def put(x: jax.Array, rows: jax.Array) -> jax.Array:
        return jax.lax.dynamic_update_slice_in_dim(x, rows, first, axis=0)

    return jax.tree.map(put, table, new)


def init_fault(row: Rows) -> Fault:
    """Return that there is no fault; `row` is an example."""
    return Fault(jnp.int32(-1), map_rows(lambda x: jnp.zeros((1, *x.shape), x.dtype), row))


def find_fault(world: World, fault: Fault, rows: Rows, first: Any) -> Fault:
    """Look for numbers to refuse in rows `[R, ...]`: those not finite, rewards not sparse.

    Args:
        world: The environments.
        fault: The fault so far.
        rows: New rows.
        first: Number of the first of them.
    """
    floats = [x for x in list_leaves(rows) if jnp.issubdtype(x.dtype, jnp.floating)]
    good = [jnp.isfinite(x).reshape(len(x), -1).all(axis=1) for x in floats]
    if world.sparse:
        good.append((rows.rew == 0) | (rows.rew == -1))
    bad = ~jnp.stack(good).all(axis=0)  # [R]

    row = bad.argmax()
    is_new = bad[row] & (fault.place < 0)
    place = jnp.where(is_new, (first + row).astype(jnp.int32), fault.place)
    old = list_leaves(fault.row)
    found = [
        jnp.where(is_new, x[row][None], y) for x, y in zip(list_leaves(rows), old, strict=True)
    ]
    return Fault(place, jax.tree.unflatten(jax.tree.structure(fault.row), found))


def draw_keys(derive: Callable[[jax.Array], jax.Array], words: jax.Array, number: int) -> jax.Array:
    """Return the keys of `number` successive values of a counter."""
    return jax.vmap(lambda i: derive(add_words(words, i)))(np.arange(number, dtype=np.uint32))
