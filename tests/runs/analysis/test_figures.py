"""Pictures of curves."""

import itertools
import math

import matplotlib
import numpy as np

from purerl.runs.analysis import figures
from purerl.runs.analysis.plots import plot
from tests.runs.analysis.made_tables import drawn, ours, seeds


def test_pictures_have_a_panel_for_each_y_and_a_colour_or_style_for_each_condition(tmp_path):
    for i in range(12):
        seeds(tmp_path, f"c{i}", [i, i + 1])
    out = tmp_path / "x.svg"
    plot(tmp_path, y=["Performance", "Epoch", "EpRet"], x="time", smooth=2, out=out)
    text = drawn(out)
    assert text.count("time (seconds)") == 3
    assert [t for t in text if t.endswith("(2 seeds)")] == [f"c{i} (2 seeds)" for i in range(12)]
    assert "mean over seeds, band ± 1 std, smoothed over 2 rows" in text
    again = tmp_path / "again.svg"
    plot(tmp_path, y=["Performance", "Epoch", "EpRet"], x="time", smooth=2, out=again)
    assert again.read_bytes() == out.read_bytes()


def test_a_hundred_curves_are_drawn_and_as_many_named_as_there_is_room_for(tmp_path):
    for i in range(100):
        ours(tmp_path / f"c{i}_s0", [i, i + 1], f"c{i}")
    out = tmp_path / "x.svg"
    plot(tmp_path, out=out)
    text = drawn(out)
    assert [t for t in text if t.endswith("(1 seed)")] == [f"c{i} (1 seed)" for i in range(60)]
    assert "the first 60 of 100 curves are named" in text


def test_the_curve_and_the_band_are_where_the_numbers_are(tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    lines, filled = [], []
    monkeypatch.setattr(Axes, "fill_between", lambda _, *a, **k: filled.append(a))
    real = Axes.plot
    monkeypatch.setattr(Axes, "plot", lambda s, *a, **k: lines.append(a[:2]) or real(s, *a, **k))
    for seed in range(2):
        ours(tmp_path / "a" / f"a_s{seed}", [1 + seed, 5 + seed], seed=seed)
    ours(tmp_path / "b_s0", [7], "b")
    first, _ = plot(tmp_path, out=tmp_path / "x.png")
    assert [(x.tolist(), y.tolist()) for x, y in lines] == [([100, 200], [1.5, 5.5]), ([100], [7])]
    assert len(filled) == 1  # one seed has no band
    for got, expected in zip(filled[0], (first.x, first.low, first.high), strict=True):
        assert got.tolist() == expected.tolist()


def test_a_value_that_no_line_leads_to_is_a_dot():
    assert figures.find_single(np.array([1.0, math.nan, 2.0, 3.0, math.nan, 4.0])) == [0, 5]


def test_the_line_style_changes_from_the_eighth_curve_on(tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    looks = []
    real = Axes.plot
    monkeypatch.setattr(Axes, "plot", lambda s, *a, **k: looks.append(k) or real(s, *a, **k))
    for i in range(28):
        ours(tmp_path / f"c{i}_s0", [i, i + 1], f"c{i}")
    plot(tmp_path, out=tmp_path / "x.png")
    assert len({(look["color"], look["linestyle"]) for look in looks}) == 28
    assert [look["linestyle"] for look in looks[:8]] == ["-"] * 7 + ["--"]
    assert all(one["color"] == two["color"] for one, two in itertools.pairwise(looks[::7]))


def test_the_settings_of_a_user_do_not_change_the_picture(tmp_path):
    seeds(tmp_path, "a", [1, 2])
    plot(tmp_path, out=tmp_path / "x.svg")
    with matplotlib.rc_context({"text.usetex": True, "axes.facecolor": "black"}):
        plot(tmp_path, out=tmp_path / "y.svg")
    assert (tmp_path / "x.svg").read_bytes() == (tmp_path / "y.svg").read_bytes()
