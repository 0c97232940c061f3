"""Compile programs for devices, copy data to them, and check that a run fits its machines."""

import functools
import importlib.metadata
import os
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from purerl import algos, mpi
from purerl.buffers import replay
from purerl.errors import ConfigError
from purerl.loops.metrics import make_empty_tally
from purerl.schedules import ResolvedSchedule
from purerl.spaces import EnvSpec

WHOLE = P()  # of arrays that are equal on all devices
OWN = P(mpi.RANK_AXIS)  # of arrays that each rank has on all of its devices
JOINED = P(None, mpi.RANK_AXIS)  # of arrays whose second axis joins those of all ranks
SPLIT = P((mpi.RANK_AXIS, mpi.AXIS))  # of arrays whose leading axis is split over devices


def map_program(
    body: Callable[..., Any], devices: int, has_seeds: bool, shared: int | None = None
) -> Callable[..., Any]:
    """Return a function that runs `body` on several devices, or for several seeds.

    With one device and one seed it is `body` itself.

    Args:
        body: The program for one device and one seed.
        devices: Number of devices. Each of them gets all arguments.
        has_seeds: Whether all arguments have a leading axis of seeds.
        shared: Index of an argument without this axis.
    """
    if has_seeds:

        def map_seeds(*args: Any) -> Any:
            axes = [None if i == shared else 0 for i in range(len(args))]
            return jax.vmap(body, axes)(*args)

        return map_seeds
    return map_over_devices(body, devices) if devices > 1 else body


def map_over_devices(
    body: Callable[..., Any], devices: int, in_specs: Any = WHOLE, out_specs: Any = WHOLE
) -> Callable[..., Any]:
    """Return a function that runs `body` on several devices.

    `body` runs with the axis `mpi.AXIS` bound, so `mpi.own_rows` and averages work in it. Each
    device gets all arguments, except for those that `in_specs` splits by `SPLIT`.
    """
    mesh = _make_mesh(devices)
    return jax.shard_map(body, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)


def replicate(tree: Any, devices: int) -> Any:
    """Copy a tree, which is equal on all ranks, to each device."""
    return tree if devices == 1 else jax.device_put(tree, NamedSharding(_make_mesh(devices), WHOLE))


def replicate_own(tree: Any, devices: int) -> Any:
    """Copy a tree of this rank to each of its devices; numbers without axes are equal on ranks."""
    if devices == 1 or mpi.num_procs() == 1:
        return replicate(tree, devices)
    return jax.tree.map(lambda x: _join_ranks(x, devices, OWN if x.ndim else WHOLE), tree)


def split_rows(tree: Any, devices: int) -> Any:
    """Split the leading axis of all arrays of a tree over the devices of this rank."""
    if devices == 1:
        return tree
    if mpi.num_procs() == 1:
        return jax.device_put(tree, NamedSharding(_make_mesh(devices), SPLIT))
    return jax.tree.map(lambda x: _join_ranks(x, devices, SPLIT), tree)


def _join_ranks(x: jax.Array, devices: int, spec: P) -> jax.Array:
    """Return an array over all ranks, whose part on this rank is `x`."""
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        joined = _join_ranks(jax.random.key_data(x), devices, spec)
        return jax.random.wrap_key_data(joined, impl=jax.random.key_impl(x))
    sharding = NamedSharding(_make_mesh(devices), spec)
    return jax.make_array_from_process_local_data(sharding, np.asarray(x))


def read_own(x: Any) -> np.ndarray:
    """Copy this rank's part of an array to the host; of typed keys, copy their data."""
    if isinstance(x, jax.Array) and not x.is_fully_addressable:
        parts = {shard.index[0].start or 0: shard.data for shard in x.addressable_shards}
        return np.concatenate([read_own(parts[start]) for start in sorted(parts)])
    is_key = jnp.issubdtype(jnp.result_type(x), jax.dtypes.prng_key)
    return np.array(jax.random.key_data(x) if is_key else x)


@functools.cache
def _make_mesh(devices: int) -> Mesh:
    """Make a mesh of the devices of this rank; with several ranks, of those of all ranks."""
    rows = [jax.local_devices()[:devices]]
    if mpi.num_procs() > 1:
        everyone = [
            [x for x in jax.devices() if x.process_index == i] for i in range(mpi.num_procs())
        ]
        rows = [own[:devices] for own in everyone]
    return Mesh(np.array(rows), (mpi.RANK_AXIS, mpi.AXIS))


def unreplicate(params: Any) -> Any:
    """Return the copy on the first device, for programs that run on one device."""
    leaves = jax.tree.leaves(params)
    if not leaves or not isinstance(leaves[0], jax.Array) or len(leaves[0].devices()) == 1:
        return params
    return jax.tree.map(lambda x: x.addressable_data(0), params)


def init_tally(number: int, devices: int) -> jax.Array:
    """Make an empty tally on the device."""
    return replicate(jax.device_put(make_empty_tally(number)), devices)


COPIES = 3  # copies of a learner that an update holds, with the gradients


def check_platform() -> None:
    """Start JAX; refuse a platform that it cannot start, usually from `JAX_PLATFORMS`."""
    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:  # an AssertionError without a text for cuda
        why = f": {str(error).partition(' (set JAX')[0].rstrip('.')}" if str(error) else ""
        platform = getattr(jax.config, "jax_platforms", None)
        raise ConfigError(
            f"JAX cannot start on the platform {platform!r}{why}. Set "
            f"JAX_PLATFORMS=cpu, or install JAX for this platform and its driver."
        ) from error


def check_memory(
    env: EnvSpec, schedule: ResolvedSchedule, learner: Any, ranks: int = 1, carries: int = 1
) -> None:
    """Refuse a run that does not fit into memory, and name the setting that takes most of it.

    The ranks of one host share its memory, and so do the devices of a CPU.

    Args:
        env: The spaces of the environment.
        schedule: The schedule of the run.
        learner: The learner's arrays, or their shapes as `jax.eval_shape` returns them.
        ranks: Number of ranks that divide the transitions. Before they are started, all of them
            count as ranks of this host.
        carries: Number of such runs in one process.
    """
    copies = carries * _count_copies(schedule, ranks)
    needs = {k: copies * x for k, x in estimate_memory(env, schedule, learner, ranks).items()}
    total, free = sum(needs.values()), replay.free_memory()
    if free is None or total <= free:
        return
    name = max(needs, key=needs.__getitem__)
    value = f" = {getattr(schedule, name):,}" if hasattr(schedule, name) else ""
    raise ValueError(
        f"this run needs about {total / 2**30:,.1f} GiB and {free / 2**30:,.1f} GiB are free. "
        f"{name}{value} takes {needs[name] / 2**30:,.1f} GiB of it. Lower {name}."
    )


def _count_copies(schedule: ResolvedSchedule, ranks: int) -> int:
    """Count the ranks and devices whose data share one memory."""
    if jax.local_devices()[0].platform != "cpu":  # each device has its own memory
        return 1
    return schedule.devices * (ranks if mpi.num_procs() == 1 else mpi.num_local())


def estimate_memory(
    env: EnvSpec, schedule: ResolvedSchedule, learner: Any, ranks: int = 1
) -> dict[str, int]:
    """Return setting -> bytes of memory that it costs on one rank and device."""
    row = sum(x.nbytes for x in env.example())
    if getattr(schedule, "her", False):  # achieved goal, environment, step, and four tables
        row += 4 * env.goal_size + 8 + 24
    leaves = [x for x in jax.tree.leaves(learner) if hasattr(x, "dtype")]
    needs = {"hidden": COPIES * sum(x.size * x.dtype.itemsize for x in leaves)}
    return needs | {name: row * rows for name, rows in schedule.count_rows(ranks).items()}


def check_world(
    algo: ModuleType, spec: Any, schedule: ResolvedSchedule, seed: int, in_jax: bool = False
) -> None:
    """Refuse more devices than JAX has, and ranks that were started with different settings.

    `in_jax` is whether environments are in JAX, which allows several devices on each rank.
    """
    there = jax.local_device_count()
    if schedule.devices > there:
        raise ValueError(
            f"devices is {schedule.devices} but JAX sees {there}. Lower devices, or on a CPU call "
            f"purerl.setup(devices={schedule.devices}) before the first computation."
        )
    if schedule.devices > 1 and mpi.num_procs() > 1 and not in_jax:
        raise ValueError(
            f"devices={schedule.devices} and {mpi.num_procs()} ranks do not go together, because "
            f"each device would call MPI. Set devices=1 and start one rank per device."
        )
    if schedule.devices > 1 and jax.process_count() < mpi.num_procs():
        raise ValueError(
            f"devices={schedule.devices} on {mpi.num_procs()} ranks needs jax.distributed between "
            f"them. Call purerl.setup(devices={schedule.devices}) before the first computation."
        )
    if mpi.num_procs() > 1:
        about = {
            "algorithm": algos.get_name(algo),
            "spec": re.sub(r" at 0x[0-9a-f]+", "", repr(spec)),
            "schedule": repr(schedule),
            "seed": str(seed),
            "threads": os.environ.get("NPROC", "all"),
        }
        packages = ("purerl", "jax", "jaxlib", "flax", "optax", "gymnasium", "numpy")
        about |= {name: importlib.metadata.version(name) for name in packages}
        mpi.assert_in_sync(about, "the settings that they were started with")
