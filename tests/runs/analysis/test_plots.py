"""Curves of runs, and notes about them."""

import pytest

from purerl.errors import ConfigError
from purerl.runs.analysis import terminal
from purerl.runs.analysis.plots import plot
from tests.runs.analysis.made_tables import drawn, foreign, numbers, ours, seeds


def test_plot_returns_a_curve_per_column_and_condition(tmp_path, capsys):
    for seed, returns in enumerate(([1, 2, 3, 4], [3, 4, 5, 6])):
        ours(tmp_path / "a" / f"a_s{seed}", returns, seed=seed)
    ours(tmp_path / "b" / "b_s0", [0, 0, 9, 9], "b", test=[7, 7, 7, 7])
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
    assert "Performance is not the same column everywhere: a: AverageEpRet; b: Average" in said
    ours(tmp_path / "b" / "b_s1", [5], "b", 1)
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
    seeds(tmp_path, "a", [1, 2])
    foreign(tmp_path / "c_s0", "Epoch\tTotalEnvInteracts\tLoss\n1\t100\tnan\n")
    assert [c.label for c in plot(tmp_path)] == ["a"]
    assert f"{tmp_path}/c_s0 has no numbers for steps and Performance" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="c_s0 has no numbers for steps and Loss"):
        plot(tmp_path, y="Loss")


def test_a_seed_that_is_nowhere_on_the_curve_is_counted_out_and_named(tmp_path, capsys):
    for seed, first in enumerate((3.1, 0.1, 0.1)):  # the first one compiled
        rows = (f"{i}\t{i}\t{100 * i}\t{first + 0.2 * i}\n" for i in range(1, 5))
        text = "Epoch\tAverageEpRet\tTotalEnvInteracts\tTime\n" + "".join(rows)
        foreign(tmp_path / "a" / f"a_s{seed}", text, exp_name="a", seed=seed)
    (curve,) = plot(tmp_path, x="time", out=tmp_path / "x.svg")
    assert (curve.seeds, len(curve.ends), float(curve.x[-1])) == (2, 3, 0.9)
    assert "a (2 of 3 seeds)" in drawn(tmp_path / "x.svg")
    said = capsys.readouterr().err
    assert "a: 1 of 3 seeds are nowhere on the curve: most of the others have no values" in said
    assert "(Time; the first run of a process begins with compiling).\n" in said
    assert terminal.draw_sparklines([curve]).splitlines()[1].split()[:4] == ["a", "2", "of", "3"]
    (curve,) = plot([tmp_path / "a" / "a_s0", tmp_path / "a" / "a_s1"], x="time")
    assert curve.seeds == 2
    words = terminal.draw_sparklines([curve], width=48).splitlines()[1].split()
    assert words[:4] == ["a", "2", "▁▂▃▄▅▆▇█", "▁▂▃▄▅▆▇█"]  # nothing between the two
    (curve,) = plot(tmp_path, x="steps")
    assert curve.seeds == 3


def test_seeds_that_end_early_are_named_and_no_band_is_drawn_of_one_seed(tmp_path, capsys):
    for seed, returns in enumerate(([1, 2, 3, 4], [3, 4])):
        ours(tmp_path / f"a_s{seed}", returns, seed=seed)
    ours(tmp_path / "b_s0", [1] * 100, "b", 0)
    ours(tmp_path / "b_s1", [1] * 96, "b", 1)  # nearly as long
    a, b = plot(tmp_path, out=tmp_path / "x.png")
    assert numbers(a.y) == [2, 3, 3, 4]
    assert numbers(a.low) == [1, 2, None, None]
    assert numbers(a.high) == [3, 4, None, None]
    assert (a.ends, b.ends) == ((400, 200), (10_000, 9_600))
    said = "a: 1 of 2 seeds end before 400 (TotalEnvInteracts), the first at 200.\n"
    assert capsys.readouterr().err == said


def test_several_environments_on_one_axis_are_named(tmp_path, capsys):
    seeds(tmp_path, "a", [1, 2])
    plot(tmp_path)
    assert not capsys.readouterr().err
    seeds(tmp_path, "b", [1, 2], env="Ant-v5")
    plot(tmp_path)
    assert capsys.readouterr().err == (
        "curves of several environments share an axis: CartPole-v1, Ant-v5.\n"
    )
