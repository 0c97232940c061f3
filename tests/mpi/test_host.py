"""Statistics on one process; `checks.py` has several ranks."""

import numpy as np
import pytest

from purerl import mpi
from purerl.errors import ConfigError
from purerl.mpi.host import run_on_all, run_on_root
from tests.mpi.launch import ranks


def test_statistics_are_those_of_the_population():
    assert mpi.statistics(np.arange(1, 11)) == pytest.approx((5.5, 8.25**0.5))
    assert mpi.statistics([3.0], min_max=True) == (3.0, 0.0, 3.0, 3.0)
    with pytest.raises(ValueError, match="at least one number"):
        mpi.statistics([])


CHECK = """
from purerl import mpi
from purerl.errors import StorageError
from purerl.mpi.host import run_on_all, run_on_root
rank = mpi.proc_id()
assert run_on_all(lambda: rank) == [0, 1]
assert run_on_root(lambda: rank + 5) == 5
assert run_on_root(lambda: rank + 5, shared=False) == (None if rank else 5)
def fail(who):
    if rank == who:
        raise StorageError(28, f"disk of rank {rank}")
for step, who in ((run_on_root, 0), (run_on_all, 1)):
    try:
        step(lambda: fail(who))
    except StorageError as error:
        assert str(error) == f"disk of rank {who}"
    else:
        raise AssertionError(step)
"""


def test_on_one_process_run_on_all_only_calls_the_function():
    assert run_on_all(lambda: 3) == [3]
    assert run_on_root(lambda: 3) == run_on_root(lambda: 3, shared=False) == 3
    with pytest.raises(ConfigError):
        run_on_root(lambda: (_ for _ in ()).throw(ConfigError("x")))


def test_results_and_errors_reach_all_ranks():
    done = ranks(2, "-c", CHECK)
    assert done.code == 0, done.err
