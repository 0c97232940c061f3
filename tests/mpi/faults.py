"""Run a job in which rank 1 fails; `test_watchdog.py` and `test_launch.py` start it.

mpiexec -n 2 python -m tests.mpi.faults KIND
python -m tests.mpi.faults KIND --fork

Most kinds exchange values on the host, without JAX, because that starts in half a second.
"""

import atexit
import os
import signal
import sys
import threading
import time
from typing import Any

from purerl import mpi
from purerl.mpi import world


def announce() -> None:
    """Print the time of the fault."""
    sys.stdout.write(f"fault at {time.time()}\n")
    sys.stdout.flush()
    time.sleep(0.1)  # until the launcher has forwarded the line


def wait_in_step() -> None:
    """Make rank 1 stay here forever, and rank 0 wait one second for it.

    The limit is set after a barrier, so that a slow start does not count as a fault.
    """
    exchange()
    assert world.get_world().limit == 1000.0, "PURERL_MPI_TIMEOUT of the test"
    world.get_world().limit = 1.0
    if mpi.proc_id() == 1:
        announce()
        while True:
            time.sleep(0.01)


def exchange() -> None:
    """Wait for all ranks, on the host."""
    world.get_world().outside(lambda comm: comm.allgather(0))


def fail_on_host(kind: str) -> None:
    """Exchange values on the host until rank 1 fails."""
    if kind == "apart":
        signal.signal(signal.SIGTERM, lambda *what: None)
    if kind == "threadexit":
        thread = threading.Thread(target=sys.exit)
        thread.start()
        thread.join()
    for i in range(4 if kind == "threadexit" else 8):
        if i == 4 and kind == "stuck":
            wait_in_step()
        if i == 4 and kind == "leave":
            exchange()
            world.get_world().limit = 1.0
            if mpi.proc_id() == 1:
                announce()
                atexit.register(time.sleep, 1000)  # stuck after its last exchange
            return
        if i == 4 and mpi.proc_id() == 1:
            announce()
            do_wrong(kind)
        exchange()


def do_wrong(kind: str) -> None:
    """Fail in the way that `kind` names."""
    if kind == "raise":
        raise ArithmeticError("boom on one rank")
    if kind == "interrupt":
        raise KeyboardInterrupt
    if kind == "thread":
        threading.Thread(target=lambda: [].pop()).start()
        time.sleep(1000)
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "exit0":
        raise SystemExit(0)
    if kind == "exit3":
        sys.exit(3)
    if kind == "osexit0":
        os._exit(0)
    if kind == "sleep":
        time.sleep(1000)
    if kind == "apart":  # in another collective than rank 0
        world.get_world().inside(lambda comm: comm.allgather(0))


def fail_in_program(kind: str) -> None:
    """Average in compiled programs until rank 1 fails."""
    import jax
    import numpy as np

    mean, x = jax.jit(mpi.pmean), np.ones(10, np.float32)
    for i in range(8):
        if i == 4 and mpi.proc_id() == 1:
            announce()
            if kind == "branch":  # with PURERL_MPI_CHECK=1
                jax.jit(mpi.psum)(np.ones(3, np.float32))
            if kind == "callback":
                jax.jit(lambda x: jax.pure_callback(lambda _: [].pop(), x, x))(np.float32(1.0))
            if kind == "program":
                raise ArithmeticError("boom while the other rank averages")
        mean(x).block_until_ready()


def fail_in_training(kind: str) -> None:
    """Train a few steps with a fault in an environment, in the settings, or in a state."""
    import dataclasses

    import gymnasium
    import jax

    from purerl.algos import vpg
    from purerl.loops import gym as loop
    from purerl.schedules import OnPolicySchedule
    from purerl.spaces import EnvSpec

    class Faulty(gymnasium.Wrapper[Any, Any, Any, Any]):
        """An environment that fails in its 5th step on rank 1."""

        steps = 0

        def step(self, action: Any) -> Any:
            self.steps += 1
            if kind == "env" and mpi.proc_id() == 1 and self.steps == 5:
                announce()
                raise ArithmeticError("boom in step")
            return super().step(action)

    def env_fn() -> Any:
        return Faulty(gymnasium.make("CartPole-v1"))

    hidden = (4 + mpi.proc_id(),) if kind == "config" else (4,)
    spec = vpg.Spec(EnvSpec.of(env_fn()), hidden=hidden, train_v_iters=1)
    if kind == "config":
        announce()
    carry = loop.start(vpg, spec, env_fn, OnPolicySchedule(steps=40, steps_per_epoch=20), 0)
    if kind == "drift" and mpi.proc_id() == 1:
        announce()
        params = jax.tree.map(lambda x: x + 1e-6, carry.learner.params)
        carry = dataclasses.replace(
            carry, learner=dataclasses.replace(carry.learner, params=params)
        )
    for _ in loop.finish(carry, env_fn):
        pass


def main() -> None:
    """Run one kind of fault."""
    kind = sys.argv[1]
    if "--fork" in sys.argv:
        mpi.fork(2)
    if kind in ("env", "config", "drift", "callback", "branch", "program"):
        import purerl

        purerl.setup()
        (fail_in_training if kind in ("env", "config", "drift") else fail_in_program)(kind)
    else:
        mpi.init()
        fail_on_host(kind)


if __name__ == "__main__":
    main()
