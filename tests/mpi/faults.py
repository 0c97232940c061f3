"""A job in which rank 1 does something wrong: run by `test_failures.py`.

mpiexec -n 2 python -m tests.mpi.faults KIND
python -m tests.mpi.faults KIND --fork
"""

import atexit
import dataclasses
import os
import signal
import sys
import threading
import time
from typing import Any

import gymnasium
import jax
import numpy as np

import purerl
from purerl import mpi
from purerl.algos import vpg
from purerl.loops import gym as loop
from purerl.schedules import OnPolicySchedule
from purerl.spaces import EnvSpec


def now() -> None:
    """Say when the fault happens."""
    sys.stdout.write(f"fault at {time.time()}\n")
    sys.stdout.flush()
    time.sleep(0.1)  # for the launcher to forward it


class Faulty(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment that fails in its 30th step on rank 1."""

    kind, steps = "", 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        if mpi.proc_id() == 1 and self.steps == 30:
            if self.kind == "env":
                now()
                raise ArithmeticError("boom in step")
            if self.kind == "stuck":
                now()
                while True:
                    time.sleep(0.01)
        return super().step(action)


def train(kind: str) -> None:
    """Train a little; the fault is in an environment, in the settings, or in a state."""

    def env_fn() -> Any:
        env = Faulty(gymnasium.make("CartPole-v1"))
        env.kind = kind
        return env

    hidden = (8 + mpi.proc_id(),) if kind == "config" else (8,)
    spec = vpg.Spec(EnvSpec.of(env_fn()), hidden=hidden, train_v_iters=2)
    if kind == "config":
        now()
    carry = loop.start(vpg, spec, env_fn, OnPolicySchedule(steps=400, steps_per_epoch=100), 0)
    if kind == "drift" and mpi.proc_id() == 1:
        now()
        params = jax.tree.map(lambda x: x + 1e-6, carry.learner.params)
        carry = dataclasses.replace(
            carry, learner=dataclasses.replace(carry.learner, params=params)
        )
    for _ in loop.finish(carry, env_fn):
        pass


def average(kind: str) -> None:
    """Average until rank 1 does something else."""
    mean = jax.jit(mpi.pmean)
    if kind == "apart":
        signal.signal(signal.SIGTERM, lambda *what: None)
    if kind == "threadexit":
        thread = threading.Thread(target=sys.exit)
        thread.start()
        thread.join()
    for i in range(100 if kind in ("leave", "threadexit") else 200):
        if i == 99 and mpi.proc_id() == 1 and kind == "leave":
            now()
            atexit.register(time.sleep, 60)  # stuck after its last average
        if i == 100 and mpi.proc_id() == 1:
            now()
            wrong(kind)
        mean(np.ones(10, np.float32))
        time.sleep(0.005)


def wrong(kind: str) -> None:
    if kind == "raise":
        raise ArithmeticError("boom on one rank")
    if kind == "interrupt":
        raise KeyboardInterrupt
    if kind == "thread":
        threading.Thread(target=lambda: [].pop()).start()
        time.sleep(60)
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "exit0":
        raise SystemExit(0)
    if kind == "exit3":
        sys.exit(3)
    if kind == "osexit0":
        os._exit(0)
    if kind == "apart":
        mpi.allgather(0)
    if kind == "branch":  # with PURERL_MPI_CHECK=1
        jax.jit(mpi.psum)(np.ones(3, np.float32))
    if kind == "callback":
        jax.jit(lambda x: jax.pure_callback(lambda _: [].pop(), x, x))(np.float32(1.0))


if __name__ == "__main__":
    if "--fork" in sys.argv:
        mpi.fork(2)
    purerl.setup()
    if sys.argv[1] in ("env", "stuck", "config", "drift"):
        train(sys.argv[1])
    else:
        average(sys.argv[1])
