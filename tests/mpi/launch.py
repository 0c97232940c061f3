"""Start Python under mpiexec, as a user does, and leave no process running."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
MPIEXEC = str(Path(sys.executable).parent / "mpiexec")
LIMIT = 1800  # seconds after which a job counts as stuck; no test measures time


class Done(NamedTuple):
    """The result of a job."""

    code: int
    out: str
    err: str
    ended: float  # by time.time()
    mark: str

    def nobody_left(self) -> bool:
        """Wait for the processes of the job; return whether all of them end."""
        return all_end(self.mark)


def living(mark: str) -> list[int]:
    """List the processes with a mark in their environment variables.

    The ranks are found in this way because they are in other sessions than the launcher.
    """
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # the process has ended, or belongs to another user
            continue
    return found


def all_end(mark: str) -> bool:
    """Wait until all processes with a mark have ended; return False if that takes too long."""
    limit = time.monotonic() + LIMIT / 10
    while living(mark):
        if time.monotonic() > limit:
            return False
        time.sleep(0.05)
    return True


def end(mark: str) -> None:
    """Kill all processes of a job."""
    for number in living(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def clean(**changes: str) -> dict[str, str]:
    """Return the environment variables without those of launchers and of this process's setup."""
    launchers = ("PMI", "OMPI_", "PRTE_", "HYD", "MPI_", "PURERL_MPI", "SLURM", "NPROC")
    env = {k: v for k, v in os.environ.items() if not k.startswith(launchers)}
    return env | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"} | changes


def run(*words: str, **env: str) -> Done:
    """Run a command; kill all of its processes at the time limit."""
    mark = f"PURERL_TEST_JOB={uuid.uuid4().hex}"
    name, _, value = mark.partition("=")
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean(**env) | {name: value},
        cwd=ROOT,
    )
    try:
        out, err = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        end(mark)
        out, err = process.communicate()
        raise AssertionError(f"{words} did not end in {LIMIT} s:\n{out}\n{err}") from None
    return Done(process.returncode, out, err, time.time(), mark)


def python(*words: str, **env: str) -> Done:
    """Run Python in one process."""
    return run(sys.executable, *words, **env)


def ranks(number: int, *words: str, **env: str) -> Done:
    """Run Python on several ranks."""
    return run(MPIEXEC, "-n", str(number), sys.executable, *words, **env)
