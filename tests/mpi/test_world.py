"""Processes become ranks, or end with an error that names the reason."""

import types

import pytest

from purerl.mpi import world
from tests.mpi.launch import python, ranks

MODULE = ("-m", "tests.mpi.faults")
SAY = "from purerl import mpi; print(mpi.proc_id())"


def test_one_process_never_imports_mpi4py():
    code = "import sys, purerl; purerl.setup(); from purerl import mpi; mpi.fork(1); mpi.init();"
    done = python("-c", code + "print(mpi.num_procs(), 'mpi4py' in sys.modules)")
    assert done.out == "1 False\n", done.err


def test_a_launcher_that_does_not_match_the_library_is_reported():
    done = python("-c", SAY, PMI_SIZE="2")  # as if mpiexec of another MPI had started it
    assert "started 2 ranks (PMI_SIZE=2), but the library of this Python, MPICH" in done.err
    assert "PURERL_MPI=0" in done.err
    assert python("-c", SAY, PMI_SIZE="2", PURERL_MPI="0").out == "0\n"


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"MPI4PY_RC_THREAD_LEVEL": "serialized"}, "must give MPI_THREAD_MULTIPLE, but MPICH"),
        (
            {"PURERL_MPI_TIMEOUT": "nan"},
            "PURERL_MPI_TIMEOUT must be a number of seconds above 0, got 'nan",
        ),
    ],
)
def test_settings_that_ranks_cannot_use_are_reported(env, message):
    done = ranks(2, "-c", SAY, **env)
    assert done.code != 0
    assert message in done.err
    assert done.nobody_left()


def comm(size, *others):
    return types.SimpleNamespace(size=size, allgather=lambda mine: [mine, *others])


def test_all_ranks_use_the_smallest_share_of_cores(monkeypatch):
    monkeypatch.setattr(world, "list_cpus", lambda: set(range(8)))
    assert world._share_cores(comm(3, 8, 8), comm(1)) == 8
    assert world._share_cores(comm(3, 8, 2), comm(2)) == 2
    assert world._share_cores(comm(3, 8, 8), comm(2)) == 4
