"""The stored curves of the labs, and their pictures."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from purerl.errors import ConfigError
from purerl_school.labs import pictures, planting

SVG = "{http://www.w3.org/2000/svg}"


def late(series):
    """Return the mean of the last third of a curve of one seed."""
    known = [v for v in series[len(series) * 2 // 3 :] if v is not None]
    return np.mean(known) if known else np.nan


def differs(right, planted):
    """Return whether no seed of one module reaches the range of the other's seeds."""
    a, b = [late(s) for s in right], [late(s) for s in planted]
    return not (max(a) >= min(b) and max(b) >= min(a))  # also if a metric is absent


@pytest.mark.parametrize("algo", planting.NAMES)
def test_labs_have_curves_with_the_metrics_and_seeds_of_the_right_module(algo):
    stored, number = pictures.read_curves(algo), len(planting.list_labs(algo))
    assert {*stored["curves"]} <= {"right", *map(str, range(1, number + 1))}
    right = stored["curves"]["right"]
    assert 15 <= len(stored["at"]) <= 60
    for metrics in stored["curves"].values():
        assert [*metrics] == [*right]
        assert {len(several) for several in metrics.values()} == {len(stored["seeds"])}
        for series in (series for several in metrics.values() for series in several):
            assert len(series) <= len(stored["at"])
    assert {"env", "steps", "command", "versions", "spec", "schedule"} <= {*stored}


@pytest.mark.complete
@pytest.mark.parametrize("algo", planting.NAMES)
def test_every_lab_has_curves(algo):
    for number in range(1, len(planting.list_labs(algo)) + 1):
        assert pictures.has_curves(algo, number), "run `python benchmarks/lab_curves.py`"


@pytest.mark.parametrize("algo", planting.NAMES)
def test_the_curves_show_what_the_difficulty_promises(algo):
    curves = pictures.read_curves(algo)["curves"]
    for number, lab in enumerate(planting.list_labs(algo), 1):
        if str(number) not in curves:
            continue  # test_every_lab_has_curves reports it
        right, planted = curves["right"], curves[str(number)]
        visible = {name for name in right if differs(right[name], planted[name])}
        if lab.level == 1:
            assert "return" in visible, number
        if lab.level == 2:
            assert visible - {"return"}, number


def test_a_picture_has_a_panel_for_each_metric_and_a_line_for_each_seed():
    stored, text = pictures.read_curves("ppo"), pictures.draw("ppo", 1)
    root = ElementTree.fromstring(text)
    titles = [x.text for x in root.iter(f"{SVG}text") if x.get("font-weight") == "bold"]
    names = [*stored["curves"]["right"]]
    assert titles[1:] == names
    lines = [x for x in root.iter(f"{SVG}path") if x.get("clip-path")]
    assert len(lines) == 2 * len(names) * len(stored["seeds"])
    assert {x.get("stroke") for x in lines} == {pictures.RIGHT, pictures.PLANTED}
    assert "nan" not in text
    assert "inf" not in text
    with pytest.raises(ConfigError, match="no curves of lab 99 of ppo"):
        pictures.draw("ppo", 99)


@pytest.mark.parametrize(
    ("right", "planted", "expected"),
    [
        ([[0.0, 10.0]], [[5.0]], (-0.5, 10.5)),
        ([[0.0, 10.0]], [[1000.0]], (-10.5, 220.5)),
        ([[0.0, 10.0]], [[-1000.0]], (-210.5, 20.5)),
        ([[0.0, None]], [[0.0]], (-1.0, 1.0)),
        ([[2.0, 2.0]], [[4.0]], (1.9, 4.1)),
        ([[]], [[]], (-0.05, 1.05)),
    ],
)
def test_an_axis_shows_the_right_curves_and_cuts_off_far_ones(right, planted, expected):
    np.testing.assert_allclose(pictures.choose_range(right, planted), expected)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 40_960, [0, 20_000, 40_000]),
        (-1500, -100, [-1500, -1000, -500]),
        (0.0, 0.012, [0.0, 0.005, 0.01]),
        (-0.05, 1.05, [0.0, 0.5, 1.0]),
    ],
)
def test_ticks_are_round_numbers_in_the_range(low, high, expected):
    np.testing.assert_allclose(pictures.choose_ticks(low, high), expected)


def test_a_missing_value_interrupts_a_line():
    assert pictures._join_points([(0, 1), None, (2, 3), (4, 5)]) == "M0.0 1.0M2.0 3.0L4.0 5.0"
    assert not re.search("L", pictures._join_points([None, (1, 1)]))
