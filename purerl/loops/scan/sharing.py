"""Exchange rows, updates and faults between the devices of one program.

Each device steps its own environments. Everything else is as on one device: all of them have the
same learner and the same replay buffer, and draw the same actions and batches.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp

from purerl import mpi, rng
from purerl.envs.episodes import Episodes
from purerl.loops.devices import JOINED, OWN, SPLIT, WHOLE, map_over_devices, split_rows
from purerl.loops.hindsight import relabel
from purerl.loops.hindsight.relabel import Buffer
from purerl.loops.metrics import merge_tallies, tally_values
from purerl.loops.scan.stepping import Clock, Fault, World, find_first
from purerl.schedules import ResolvedSchedule
from purerl.types import Rows, map_rows


def check_devices(schedule: ResolvedSchedule) -> None:
    """Refuse environments that devices cannot share."""
    devices, number = schedule.devices, schedule.num_envs
    if number % devices:
        raise ValueError(
            f"num_envs must be a multiple of devices, which share environments in JAX, got "
            f"{number} environments and {devices} devices. Set "
            f"num_envs={-(-number // devices) * devices}, or devices=1."
        )


def split_episodes(episodes: Episodes, world: World) -> Episodes:
    """Give each device the episodes of its environments."""
    if world.devices == 1:
        return episodes
    number = world.num_envs * world.devices
    for path, x in jax.tree_util.tree_leaves_with_path(episodes):
        if x.shape[:1] != (number,):
            raise ValueError(
                f"episodes{jax.tree_util.keystr(path)} of shape {x.shape} is shared by all "
                f"{number} environments, so devices={world.devices} cannot split it. Set devices=1."
            )
    made: Episodes = split_rows(episodes, world.devices)
    return made


def run_on_devices(run: Callable[..., Any], outcome: Callable[..., Any], *args: Any) -> Any:
    """Run a program on all devices. Those of a rank have equal data, except for the episodes.

    Args:
        run: `run_bursts` or `run_rollouts` of `purerl.loops.scan.programs`.
        outcome: Class of its second result.
        *args: Its arguments.
    """
    static, data, devices = args[:4], args[4], args[1].devices

    def body(data: Any, params: Any, clock: Clock, times: Any) -> Any:
        rank = jax.lax.axis_index(mpi.RANK_AXIS).astype(jnp.uint32)
        return run(*static, data, params, clock._replace(rank=rank), times)

    buffer = jax.tree.map(lambda x: OWN if x.ndim else WHOLE, data.buffer)
    specs = type(data)(WHOLE, buffer, WHOLE, SPLIT)
    results = (specs, outcome(JOINED, OWN, WHOLE, WHOLE))
    return map_over_devices(body, devices, (specs, *[WHOLE] * 3), results)(*args[4:])


def act(algo: ModuleType, world: World, params: Any, obs: jax.Array, key: jax.Array) -> jax.Array:
    """Choose actions for this device's environments, as one call of `act` for all environments.

    The noise of the call depends on the number of its rows, so each device calls it for all of
    them. The rows of other environments do not matter.
    """
    if world.devices == 1:
        return algo.act(params, obs, key)
    return mpi.own_part(algo.act(params, jnp.concatenate([obs] * world.devices), key))


def allocate_rows(world: World, length: int, row: Rows) -> Rows:
    """Allocate rows `[length, N, ...]` like `row` for this device's environments."""
    return map_rows(lambda x: jnp.zeros((length, world.num_envs, *x.shape), x.dtype), row)


def store_rows(block: Rows, rows: Rows, t: Any) -> Rows:
    """Store the rows of one step in a block of several."""
    return jax.tree.map(lambda x, new: x.at[t].set(new), block, rows)


def add_rows(buffer: Buffer, block: Rows, steps: jax.Array) -> Buffer:
    """Add the rows of all devices from the first `steps` steps of a block to the replay buffer."""
    rows = mpi.all_parts(block, axis=1)
    flat = map_rows(lambda x: x.reshape(-1, *x.shape[2:]), rows)
    return relabel.add_rows(buffer, flat, steps * rows.rew.shape[1])


def learn_once(
    algo: ModuleType, learner: Any, tally: jax.Array, rollout: Any, words: jax.Array
) -> tuple[Any, jax.Array]:
    """Do the work of `onpolicy.learn_once`, on the rollout of this device's environments."""
    key = jax.random.fold_in(
        rng.stream(words[0], words[1], "update", words[2:]), jax.lax.axis_index(mpi.AXIS)
    )
    batch = algo.prepare(learner.params, rollout)._replace(key=key)
    learner, info = algo.update(learner, batch)
    info = mpi.pmean(info)
    if "val" in info:
        info |= {
            "val": mpi.all_parts(batch.val, over=mpi.find_axes())
        }  # before the update, as on one device
    return learner, merge_tallies(tally, tally_values(info))


def find_first_fault(world: World, fault: Fault) -> Fault:
    """Return the first fault of all devices; its place counts the rows of all of them."""
    step, env = fault.place // world.num_envs, fault.place % world.num_envs
    place = step * world.num_envs * world.devices + find_first(world) + env
    none = jnp.iinfo(jnp.int32).max
    place = jnp.where(fault.place < 0, none, place)
    found = mpi.all_parts(Fault(place[None], fault.row))
    first = found.place.argmin()
    place = jnp.where(found.place[first] == none, -1, found.place[first])
    return Fault(place[None], map_rows(lambda x: x[first][None], found.row))
