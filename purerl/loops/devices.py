"""Compile programs for devices, copy data to them, and check that a run fits into memory."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from purerl import mpi
from purerl.buffers import replay
from purerl.loops.metrics import empty_tally
from purerl.schedules import OffPolicySchedule, OnPolicySchedule
from purerl.spaces import EnvSpec


def jit_fast(**options: Any) -> Callable[[Any], Any]:
    """Return `jax.jit` with those of XLA's faster options that the installed version knows.

    Whole registers on CPUs that have them and fewer copies around a conditional make 3-7 % of a
    burst; the lower level of LLVM compiles half a second faster and runs as fast.
    """
    known: dict[str, Any] = {}
    for name, value in _FAST_OPTIONS.items():
        try:
            jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
        except jax.errors.JaxRuntimeError:
            continue
        known[name] = value
    return functools.partial(jax.jit, compiler_options=known, **options)


COMPILE_QUICKLY = {
    "xla_backend_optimization_level": 0
}  # for programs run rarely: halves their compile time


_FAST_OPTIONS = {
    "xla_cpu_prefer_vector_width": 512,
    "xla_cpu_copy_insertion_use_region_analysis": True,
    "xla_backend_optimization_level": 2,
}


def map_over_devices(body: Callable[..., Any], devices: int) -> Callable[..., Any]:
    """Return a function whose body runs on several devices, each with all of the arguments.

    The axis `mpi.AXIS` is bound in it, so that `mpi.own_rows` and averages work.
    """
    return jax.shard_map(body, mesh=_mesh(devices), in_specs=P(), out_specs=P(), check_vma=False)


def replicate(tree: Any, devices: int) -> Any:
    """Return a tree of which each device has a copy."""
    return tree if devices == 1 else jax.device_put(tree, NamedSharding(_mesh(devices), P()))


@functools.cache
def _mesh(devices: int) -> Mesh:
    return Mesh(np.array(jax.local_devices()[:devices]), (mpi.AXIS,))


def unreplicate(params: Any) -> Any:
    """Return the first device's copy, for programs that run on one device."""
    leaves = jax.tree.leaves(params)
    if not leaves or not isinstance(leaves[0], jax.Array) or len(leaves[0].devices()) == 1:
        return params
    return jax.tree.map(lambda x: x.addressable_data(0), params)


def init_tally(number: int, devices: int) -> jax.Array:
    """Return the tally of no update, on the device."""
    return replicate(jax.device_put(empty_tally(number)), devices)


COPIES = 3  # of a learner beside its gradients, of a rollout on its way to the device


def check_memory(
    env: EnvSpec, schedule: OffPolicySchedule | OnPolicySchedule, learner: Any, ranks: int = 1
) -> None:
    """Refuse a run that does not fit, naming its greatest part.

    Ranks of one host share its memory, and so do the copies of devices of a CPU.

    Args:
        env: of the run.
        schedule: with every None filled in.
        learner: its arrays, or their shapes as `jax.eval_shape` gives them.
        ranks: that divide the transitions; all on this host, if they have not been started yet.
    """
    copies = _count_copies(schedule, ranks)
    needs = {k: copies * x for k, x in estimate_memory(env, schedule, learner, ranks).items()}
    total, free = sum(needs.values()), replay.free_memory()
    if free is None or total <= free:
        return
    name = max(needs, key=needs.__getitem__)
    value = f" = {getattr(schedule, name):,}" if hasattr(schedule, name) else ""
    raise ValueError(
        f"this run needs about {total / 2**30:,.1f} GiB and {free / 2**30:,.1f} GiB are free. "
        f"{name}{value} takes {needs[name] / 2**30:,.1f} GiB of it; lower that."
    )


def _count_copies(schedule: OffPolicySchedule | OnPolicySchedule, ranks: int) -> int:
    """Return how often what a rank needs is taken from the same memory."""
    if jax.local_devices()[0].platform != "cpu":  # each device has its own
        return 1
    return schedule.devices * (ranks if mpi.num_procs() == 1 else mpi.num_local())


def estimate_memory(
    env: EnvSpec, schedule: OffPolicySchedule | OnPolicySchedule, learner: Any, ranks: int = 1
) -> dict[str, int]:
    """Return the bytes that the settings of a run take on one rank and device, by their names."""
    row = sum(x.nbytes for x in env.example())
    leaves = [x for x in jax.tree.leaves(learner) if hasattr(x, "dtype")]
    needs = {"hidden": COPIES * sum(x.size * x.dtype.itemsize for x in leaves)}
    if isinstance(schedule, OnPolicySchedule):
        return needs | {"steps_per_epoch": COPIES * row * (schedule.steps_per_epoch // ranks)}
    assert schedule.update_every
    assert schedule.updates_per_burst
    return needs | {
        "replay_size": row * (schedule.replay_size // ranks),
        "update_every": 2 * row * (schedule.update_every // ranks),
        "updates_per_burst": row * schedule.updates_per_burst * schedule.batch_size,
    }
