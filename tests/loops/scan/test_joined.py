"""Ranks of two devices each: the same run as ranks of one device, except for rounding."""

import numpy as np
import pytest

from tests.mpi.launch import ranks

SPREADS = ("_std", "_min", "_max")


@pytest.mark.mpi
@pytest.mark.parametrize(
    "names", [("dqn", "ppo"), pytest.param(("acer",), marks=pytest.mark.complete)]
)
def test_two_ranks_of_two_devices_train_like_two_ranks(names, tmp_path):
    saved = []
    for number in ("1", "2"):
        file = tmp_path / f"{number}.npz"
        done = ranks(2, "-m", "tests.loops.scan.joined", number, str(file), *names)
        assert done.code == 0, done.err[-3000:]
        assert done.out.count(f"{'14'[int(number) - 1]} devices, rank") == 2
        saved.append(dict(np.load(file)))
    one, two = saved
    assert one.keys() == two.keys()
    assert any("ep_returns" in name and len(x) for name, x in one.items())
    for name, x in one.items():
        # Spreads of metrics, but not of values, are those of averages over the ranks.
        if ".val" in name or not name.endswith(SPREADS):
            np.testing.assert_allclose(two[name], x, rtol=2e-3, atol=2e-5, err_msg=name)
