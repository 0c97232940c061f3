"""Start Python under mpiexec, as a user would, and never leave a process behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
MPIEXEC = str(Path(sys.executable).parent / "mpiexec")
LIMIT = 240  # seconds for a whole job


class Done(NamedTuple):
    """What a job left."""

    code: int
    out: str
    err: str
    ended: float  # by time.time()
    group: int

    def nobody_left(self) -> bool:
        """Say whether no process of the job's group lives."""
        for _ in range(30):
            try:
                os.killpg(self.group, 0)
            except ProcessLookupError:
                return True
            time.sleep(0.1)
        return False


def clean(**changes: str) -> dict[str, str]:
    """Return the environment without what a launcher or this process's setup put there."""
    launchers = ("PMI", "OMPI_", "PRTE_", "HYD", "MPI_", "PURERL_MPI", "SLURM", "NPROC")
    env = {k: v for k, v in os.environ.items() if not k.startswith(launchers)}
    return env | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"} | changes


def run(*words: str, **env: str) -> Done:
    """Run a command in a process group of its own, killed as a whole at the time limit."""
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean(**env),
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"{words} did not end in {LIMIT} s:\n{out}\n{err}") from None
    return Done(process.returncode, out, err, time.time(), process.pid)


def python(*words: str, **env: str) -> Done:
    """Run Python alone."""
    return run(sys.executable, *words, **env)


def ranks(number: int, *words: str, **env: str) -> Done:
    """Run Python on several ranks."""
    return run(MPIEXEC, "-n", str(number), sys.executable, *words, **env)
