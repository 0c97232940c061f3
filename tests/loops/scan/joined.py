"""Train on ranks of two devices each, or of one, and save what rank 0 has learned.

mpiexec -n 2 python -m tests.loops.scan.joined DEVICES FILE ALGORITHM...

Several devices of several ranks are connected by `jax.distributed`. Such runs
are resumed in the middle too, and must end with the same bits.
"""

import sys

import chex
import jax
import numpy as np

import purerl
from purerl import mpi
from purerl.loops import scan, snapshot
from tests.loops.scan.drift import make_case


def main() -> None:
    number, file, names = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    purerl.setup(threads=1, devices=number)
    saved = {}
    for name in names:
        changes = {"start_steps": 16} if name == "dqn" else {}
        args = make_case(name, devices=number, steps=192, steps_per_epoch=64, **changes)
        carry, records = scan.start(*args, seed=3), []
        carry.envs.pace.target = 0.0  # every program as short as possible
        while carry.steps < 96:
            carry, record = scan.advance(carry)
            records += [record] if record else []
        again = snapshot.thaw(scan.start(*args, seed=3), snapshot.freeze(carry))[0]
        end, others = advance_to_end(carry)
        if number > 1:
            chex.assert_trees_all_equal((end, others), advance_to_end(again))
        saved |= {f"{name}{path}": x for path, x in end.learner.items()}
        for i, record in enumerate(records + others):
            saved |= {f"{name}.{i}.{k}": np.asarray(v) for k, v in record.items()}
    if mpi.is_root():
        np.savez(file, **saved)
    print(f"{jax.device_count()} devices, rank {mpi.proc_id()}", flush=True)


def advance_to_end(carry):
    """Return the snapshot at the end of a run, and its records."""
    records = []
    while carry.steps < carry.schedule.steps:
        carry, record = scan.advance(carry)
        records += [record] if record else []
    return snapshot.freeze(carry), records


if __name__ == "__main__":
    main()
