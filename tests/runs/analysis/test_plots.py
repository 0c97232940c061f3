"""Learning curves: their notes, smoothing, common x, and bands over seeds."""

import math

import numpy as np
import pytest

from purerl.errors import ConfigError
from purerl.runs.analysis import figures, plots
from purerl.runs.analysis.plots import plot
from tests.runs.analysis.made_tables import (
    read_texts,
    replace_nan,
    write_foreign_run,
    write_run,
    write_seeds,
)


def test_plot_returns_a_curve_per_column_and_condition(tmp_path, capsys):
    for seed, returns in enumerate(([1, 2, 3, 4], [3, 4, 5, 6])):
        write_run(tmp_path / "a" / f"a_s{seed}", returns, seed=seed)
    write_run(tmp_path / "b" / "b_s0", [0, 0, 9, 9], "b", test=[7, 7, 7, 7])
    curves = plot([tmp_path / "a", tmp_path / "b"], y=["Performance", "Epoch"], smooth=3)
    assert [(c.label, c.panel, c.yname, c.seeds) for c in curves] == [
        ("a", "Performance", "AverageEpRet", 2),
        ("b", "Performance", "AverageTestEpRet", 1),
        ("a", "Epoch", "Epoch", 2),
        ("b", "Epoch", "Epoch", 1),
    ]
    assert curves[0].x.tolist() == [100, 200, 300, 400]
    assert curves[0].y.tolist() == [2.5, 3, 4, 4.5]
    assert curves[0].low.tolist() == [1.5, 2, 3, 3.5]
    assert curves[0].high.tolist() == [3.5, 4, 5, 5.5]
    said = capsys.readouterr().err
    assert "Performance stands for different columns: a: AverageEpRet; b: AverageTest" in said
    write_run(tmp_path / "b" / "b_s1", [5], "b", 1)
    curves = plot(tmp_path / "b")
    assert curves[0].yname == "AverageTestEpRet, AverageEpRet"
    assert "b: AverageTestEpRet, AverageEpRet." in capsys.readouterr().err
    (tmp_path / "b" / "b_s1" / "progress.txt").unlink()
    assert [c.label for c in plot([tmp_path], count=True, y="Epoch")] == ["a_s0", "a_s1", "b_s0"]
    with pytest.raises(ValueError, match="smooth must be an integer of at least 1, got 0"):
        plot(tmp_path, smooth=0)
    with pytest.raises(ValueError, match="estimator must be one of max, mean, median, min"):
        plot(tmp_path, estimator="mode")


def test_a_run_without_the_column_is_left_out_and_named(tmp_path, capsys):
    write_seeds(tmp_path, "a", [1, 2])
    write_foreign_run(tmp_path / "c_s0", "Epoch\tTotalEnvInteracts\tLoss\n1\t100\tnan\n")
    assert [c.label for c in plot(tmp_path)] == ["a"]
    assert f"{tmp_path}/c_s0 has no numbers for steps and Performance" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="c_s0 has no numbers for steps and Loss"):
        plot(tmp_path, y="Loss")


def test_a_column_that_only_a_dropped_run_has_cannot_be_drawn(tmp_path):
    write_run(tmp_path / "a_s0", [1, 2, 3], "a")
    write_run(tmp_path / "a_s0-2", [1, 2], "a", test=[5, 5])
    with pytest.raises(ConfigError, match="no run has a column 'AverageTestEpRet'"):
        plot(tmp_path, y="AverageTestEpRet", out=tmp_path / "x.svg")
    (curve,) = plot(tmp_path, y="AverageTestEpRet", count=True)
    assert curve.label == "a_s0-2"


def test_a_seed_that_is_not_on_the_curve_is_named_and_not_counted(tmp_path, capsys):
    for seed, first in enumerate((3.1, 0.1, 0.1)):  # the first one compiled
        rows = (f"{i}\t{i}\t{100 * i}\t{first + 0.2 * i}\n" for i in range(1, 5))
        text = "Epoch\tAverageEpRet\tTotalEnvInteracts\tTime\n" + "".join(rows)
        write_foreign_run(tmp_path / "a" / f"a_s{seed}", text, exp_name="a", seed=seed)
    (curve,) = plot(tmp_path, x="time", out=tmp_path / "x.svg")
    assert (curve.seeds, len(curve.ends), float(curve.x[-1])) == (2, 3, 0.9)
    assert "a (2 of 3 seeds)" in read_texts(tmp_path / "x.svg")
    said = capsys.readouterr().err
    assert "a: 1 of 3 seeds are not on the curve, because most of the others have no values" in said
    assert "(Time; the first run of a process starts by compiling).\n" in said
    assert figures.draw_sparklines([curve]).splitlines()[1].split()[:4] == ["a", "2", "of", "3"]
    (curve,) = plot([tmp_path / "a" / "a_s0", tmp_path / "a" / "a_s1"], x="time")
    assert curve.seeds == 2
    words = figures.draw_sparklines([curve], width=48).splitlines()[1].split()
    assert words[:4] == ["a", "2", "▁▂▃▄▅▆▇█", "▁▂▃▄▅▆▇█"]  # nothing between the two
    (curve,) = plot(tmp_path, x="steps")
    assert curve.seeds == 3


def test_seeds_that_end_early_are_named_and_one_seed_has_no_band(tmp_path, capsys):
    for seed, returns in enumerate(([1, 2, 3, 4], [3, 4])):
        write_run(tmp_path / f"a_s{seed}", returns, seed=seed)
    write_run(tmp_path / "b_s0", [1] * 100, "b", 0)
    write_run(tmp_path / "b_s1", [1] * 96, "b", 1)  # nearly as long
    a, b = plot(tmp_path, out=tmp_path / "x.png")
    assert replace_nan(a.y) == [2, 3, 3, 4]
    assert replace_nan(a.low) == [1, 2, None, None]
    assert replace_nan(a.high) == [3, 4, None, None]
    assert (a.ends, b.ends) == ((400, 200), (10_000, 9_600))
    said = "a: 1 of 2 seeds end before 400 (TotalEnvInteracts), the first at 200.\n"
    assert capsys.readouterr().err == said


def test_every_column_of_every_environment_has_a_panel(tmp_path, capsys):
    write_seeds(tmp_path, "a", [1, 2])
    write_seeds(tmp_path, "b", [3, 4], env="Ant-v5")
    curves = plot(tmp_path, y=["EpRet", "Time"], out=tmp_path / "x.svg")
    assert not capsys.readouterr().err
    keys = [(one.label, one.panel, one.env) for one in curves]
    assert keys == [
        ("a", "EpRet", "CartPole-v1"), ("b", "EpRet", "Ant-v5"),
        ("a", "Time", "CartPole-v1"), ("b", "Time", "Ant-v5"),
    ]  # fmt: skip
    assert [len(group) for group in figures.group_panels(curves)] == [1, 1, 1, 1]
    assert read_texts(tmp_path / "x.svg").count("Ant-v5") == 2
    headings = [line for line in figures.draw_sparklines(curves).splitlines() if ": " in line]
    assert [text.partition(", ")[0] for text in headings] == ["CartPole-v1", "Ant-v5"] * 2


def test_runs_of_a_condition_in_two_environments_are_not_averaged(tmp_path):
    write_run(tmp_path / "x" / "a_s0", [1], "a")
    write_run(tmp_path / "y" / "a_s0", [3], "a", env="Ant-v5")
    curves = plot([tmp_path], y="EpRet", legend=["both"])
    assert sorted((one.env, one.y[-1]) for one in curves) == [("Ant-v5", 3), ("CartPole-v1", 1)]


NAN = math.nan


def band(*parts, **options):
    pairs = [tuple(np.array(z, float) for z in part) for part in parts]
    *found, _ = plots.estimate_band(pairs, **options)
    return [replace_nan(z) for z in found]


# Each expected row is Spinning Up's np.convolve(x, ones(n), "same") / np.convolve(ones, ones(n),
# "same"). For a width above the length of the table, that expression returns too many values.
@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (1, [1.0, 2.0, 3.0, 4.0, 10.0]),
        (2, [1.0, 1.5, 2.5, 3.5, 7.0]),
        (3, [1.5, 2.0, 3.0, 17 / 3, 7.0]),
        (5, [2.0, 2.5, 4.0, 4.75, 17 / 3]),
        (9, [4.0, 4.0, 4.0, 4.0, 4.0]),
    ],
)
def test_smoothing_is_a_centred_moving_average(width, expected):
    y = np.array([1.0, 2.0, 3.0, 4.0, 10.0])
    np.testing.assert_allclose(plots.smooth_rows(y, width), expected)
    if width <= 5:
        ones = np.ones(width)
        theirs = np.convolve(y, ones, "same") / np.convolve(np.ones(5), ones, "same")
        np.testing.assert_allclose(plots.smooth_rows(y, width), theirs)


def test_smoothing_ignores_missing_values():
    y = np.array([NAN, 2.0, NAN, NAN, NAN, 6.0])
    assert replace_nan(plots.smooth_rows(y, 3)) == [2.0, 2.0, 2.0, None, 6.0, 6.0]
    assert replace_nan(plots.smooth_rows(y, 1)) == [None, 2.0, None, None, None, 6.0]


def test_the_band_is_one_standard_deviation_of_the_seeds():
    x = [10, 20, 30]
    parts = [(x, [1, 4, NAN]), (x, [3, 4, 5]), (x, [8, 10, NAN])]
    # population: the deviations of 1, 3, 8 are -3, -1, 4, so std = sqrt(26 / 3)
    got_x, y, std, counts = band(*parts)
    assert got_x == [10, 20]  # at 30 only one of three seeds has a value
    assert y == [4.0, 6.0]
    assert counts == [3, 3]
    np.testing.assert_allclose(std, [math.sqrt(26 / 3), math.sqrt(8)])
    for estimator, expected in (("median", [3, 4]), ("max", [8, 10]), ("min", [1, 4])):
        assert band(*parts, estimator=estimator)[1] == expected


def test_seeds_with_different_x_are_interpolated_but_not_extended():
    x, y, _, counts = band(([0, 10, 20], [0, 10, 20]), ([5, 15], [100, 200]))
    assert x == [0, 5, 10, 15, 20]
    assert y == [0, 52.5, 80, 107.5, 20]  # at both ends one seed, which is half of them
    assert counts == [1, 2, 2, 2, 1]
    # Three seeds without a common x: one value is drawn at each.
    found = band(([1], [1]), ([2], [2]), ([3], [3]))
    assert found == [
        [1, 1.5, 2, 2.5, 3], [1, None, 2, None, 3], [None] * 5, [1, 0, 1, 0, 1],
    ]  # fmt: skip
    long = np.arange(3000.0)
    assert len(plots.estimate_band([(long, long), (long, long)])[0]) == 3000
    (x, y, std, *_) = plots.estimate_band([(long, long), (long + 0.5, long + 0.5)])
    assert len(x) == plots.POINTS
    np.testing.assert_allclose(y, x, atol=1e-9)
    np.testing.assert_allclose(std[1:-1], 0, atol=1e-9)
    assert replace_nan(std[[0, -1]]) == [None, None]  # only one seed has a value there


def test_the_line_breaks_between_seeds_that_do_not_overlap():
    early, late = ([0, 1], [5, 6]), ([3, 4], [9, 8])
    x, y, std, counts, drawn = plots.estimate_band(
        [tuple(map(np.array, one)) for one in (early, late)]
    )
    assert (replace_nan(x), replace_nan(y)) == ([0, 1, 2, 3, 4], [5, 6, None, 9, 8])
    assert (replace_nan(std), counts.tolist(), drawn) == ([None] * 5, [1, 1, 0, 1, 1], 2)
    touching = ([0, 1], [5, 6]), ([1, 2], [6, 7])
    assert band(*touching)[:2] == [[0, 1, 2], [5, 6, 7]]
    # A missing value between two values of a seed is bridged, alone or beside another seed.
    missing = ([0, 1, 2], [5, NAN, 7])
    assert band(missing)[1] == [5, 6, 7]
    assert band(missing, ([0, 1, 2], [5, 8, 7]))[1] == [5, 7, 7]


def test_rows_are_sorted_and_the_last_row_of_equal_x_counts(tmp_path):
    text = "Epoch\tAverageEpRet\tTotalEnvInteracts\n1\t5\t200\n2\t6\t100\n3\t7\t200\n4\t8\t\n"
    (curve,) = plot(write_foreign_run(tmp_path / "run", text + "5\t\t200\n"))
    assert (curve.x.tolist(), curve.y.tolist()) == ([100, 200], [6, 7])


def test_the_line_breaks_where_fewer_than_half_of_the_seeds_have_a_value():
    early, late, always = ([0, 1], [1, 1]), ([3, 4], [2, 2]), ([0, 1, 2, 3, 4], [3, 3, 9, 3, 3])
    x, y, *_ = band(early, early, late, late, always)
    assert x == [0, 1, 2, 3, 4]
    assert y == [pytest.approx(5 / 3)] * 2 + [None] + [pytest.approx(7 / 3)] * 2


def test_the_smoothing_window_may_be_wider_than_the_table():
    y = np.array([1.0, 2.0, 6.0])
    assert plots.smooth_rows(y, 4).tolist() == [1.5, 3, 3]
    for width in (5, 6, 2**31 - 1):
        assert plots.smooth_rows(y, width).tolist() == [3, 3, 3]
