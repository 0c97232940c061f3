"""Statistics of evaluation episodes, and names of result files."""

import json
import math

import pytest

from purerl.runs.policy.evaluation import reserve_path, summarise_episodes


def test_statistics_of_episodes_agree_with_a_textbook():
    # Student's 97.5 % quantiles for 2 and 9 degrees of freedom: 4.303 and 2.262 (any table)
    few = summarise_episodes((10.0, 12.0, 17.0), (1, 2, 6))
    assert (few.mean, few.min, few.max, few.mean_length) == (13.0, 10.0, 17.0, 3.0)
    assert few.std == pytest.approx(math.sqrt((9 + 1 + 16) / 3))
    half = 4.303 * math.sqrt(26 / 2) / math.sqrt(3)
    assert few.ci95 == pytest.approx((13 - half, 13 + half), abs=2e-3)
    many = summarise_episodes(tuple(float(i) for i in range(10)), (1,) * 10)
    half = 2.262 * math.sqrt(82.5 / 9 / 10)
    assert many.ci95 == pytest.approx((4.5 - half, 4.5 + half), abs=1e-3)
    one = summarise_episodes((3.0,), (4,))
    assert one.ci95 == (-math.inf, math.inf)
    assert (one.std, one.to_json()["ci95"]) == (0.0, None)
    assert json.loads(json.dumps(few.to_json(), allow_nan=False))["returns"] == [10.0, 12.0, 17.0]


def test_reserving_a_path_skips_names_that_exist(tmp_path):
    (tmp_path / "a-1.json").write_text("mine")
    assert reserve_path(tmp_path, "a", ".json") == tmp_path / "a-2.json"
    assert reserve_path(tmp_path, "a", ".json") == tmp_path / "a-3.json"
    assert (tmp_path / "a-1.json").read_text() == "mine"
