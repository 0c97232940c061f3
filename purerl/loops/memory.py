"""What a run will need of memory, compared with what is free before any of it is taken."""

from typing import Any

import jax

from purerl import mpi
from purerl.buffers import replay
from purerl.types import EnvSpec, OffPolicySchedule, OnPolicySchedule

COPIES = 3  # of a learner beside its gradients, of a rollout on its way to the device


def check(
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
    copies = _copies(schedule, ranks)
    needs = {k: copies * x for k, x in needed(env, schedule, learner, ranks).items()}
    total, free = sum(needs.values()), replay.free_memory()
    if free is None or total <= free:
        return
    name = max(needs, key=needs.__getitem__)
    value = f" = {getattr(schedule, name):,}" if hasattr(schedule, name) else ""
    raise ValueError(
        f"this run needs about {total / 2**30:,.1f} GiB and {free / 2**30:,.1f} GiB are free. "
        f"{name}{value} takes {needs[name] / 2**30:,.1f} GiB of it; lower that."
    )


def _copies(schedule: OffPolicySchedule | OnPolicySchedule, ranks: int) -> int:
    """Return how often what a rank needs is taken from the same memory."""
    if jax.local_devices()[0].platform != "cpu":  # each device has its own
        return 1
    return schedule.devices * (ranks if mpi.num_procs() == 1 else mpi.num_local())


def needed(
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
