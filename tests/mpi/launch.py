"""Start Python under mpiexec, as a user would, and leave no process behind."""

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
LIMIT = 1800  # seconds after which a job counts as hanging; no test is about time


class Done(NamedTuple):
    """The result of a job."""

    code: int
    out: str
    err: str
    ended: float  # by time.time()
    mark: str

    def nobody_left(self) -> bool:
        """Return whether all processes of the job end."""
        return all_end(self.mark)


def living(mark: str) -> list[int]:
    """List the processes with a mark in their environment; ranks have sessions of their own."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # it has ended, or is somebody else's
            continue
    return found


def all_end(mark: str) -> bool:
    """Wait until no process with a mark lives; return False if that takes too long."""
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
    """Return the environment without what a launcher or this process's setup put there."""
    launchers = ("PMI", "OMPI_", "PRTE_", "HYD", "MPI_", "PURERL_MPI", "SLURM", "NPROC")
    env = {k: v for k, v in os.environ.items() if not k.startswith(launchers)}
    return env | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"} | changes


def run(*words: str, **env: str) -> Done:
    """Run a command; all of its processes are killed at the time limit."""
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
    """Run Python alone."""
    return run(sys.executable, *words, **env)


def ranks(number: int, *words: str, **env: str) -> Done:
    """Run Python on several ranks."""
    return run(MPIEXEC, "-n", str(number), sys.executable, *words, **env)
