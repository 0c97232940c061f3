"""Run one of two processes that `jax.distributed` connects, with a batch split between them.

python -m tests.mpi.distributed PORT PROCESS
mpiexec -n 2 python -m tests.mpi.distributed PORT
"""

import sys

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from purerl import mpi
from tests.cases import CASES


def main() -> None:
    port = int(sys.argv[1])
    process = int(sys.argv[2]) if len(sys.argv) > 2 else mpi.proc_id()
    jax.distributed.initialize(f"localhost:{port}", num_processes=2, process_id=process)
    mesh = Mesh(np.array(jax.devices()), (mpi.AXIS,))
    rows, everywhere = NamedSharding(mesh, P(mpi.AXIS)), NamedSharding(mesh, P())
    for name in ("sac", "td3", "ppo-box", "trpo-discrete"):
        case = CASES[name]
        state = case.algo.init(jax.random.key(0), case.spec())
        batch = case.noisy(8)
        wanted, info = case.algo.update(state, batch)
        mine = jax.tree.map(lambda x: x[4 * process : 4 * process + 4], batch)
        split = jax.tree.map(lambda x: jax.make_array_from_process_local_data(rows, x), mine)
        new, found = mpi.shard_update(case.algo.update, mesh)(
            jax.device_put(state, everywhere), split
        )
        for a, b in zip(
            jax.tree.leaves((wanted, info)), jax.tree.leaves((new, found)), strict=True
        ):
            np.testing.assert_allclose(a, b.addressable_data(0), rtol=2e-4, atol=3e-5)
        print(f"{name} agrees in process {process}", flush=True)


if __name__ == "__main__":
    main()
