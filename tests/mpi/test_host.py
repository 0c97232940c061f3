"""Statistics on one process; `checks.py` has several ranks."""

import numpy as np
import pytest

from purerl import mpi


def test_statistics_are_those_of_the_population():
    assert mpi.statistics(np.arange(1, 11)) == pytest.approx((5.5, 8.25**0.5))
    assert mpi.statistics([3.0], min_max=True) == (3.0, 0.0, 3.0, 3.0)
    with pytest.raises(ValueError, match="at least one number"):
        mpi.statistics([])
