"""Two and three ranks, for real: one job runs all of `checks.py`."""

import re

import pytest

from tests.mpi.launch import ROOT, Done, ranks

NAMES = re.findall(r"^def (check_\w+)", (ROOT / "tests" / "mpi" / "checks.py").read_text(), re.M)


@pytest.fixture(scope="module")
def two() -> Done:
    return ranks(2, "-m", "tests.mpi.checks")


@pytest.mark.parametrize("name", NAMES)
def test_on_two_ranks(two, name):
    assert two.out.count(f"ok {name}\n") == 2, two.err[-3000:]


def test_the_job_ends_well(two):
    assert two.code == 0, two.err[-3000:]
    assert two.nobody_left()


@pytest.mark.mpi
def test_on_three_ranks():
    done = ranks(3, "-m", "tests.mpi.checks")
    assert done.code == 0, done.err[-3000:]
    for name in NAMES:
        assert done.out.count(f"ok {name}\n") == 3
