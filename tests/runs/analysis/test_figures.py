"""Figures, sparklines, and the labels in both."""

import itertools
import math

import matplotlib
import numpy as np
import pytest

from purerl.runs.analysis import figures
from purerl.runs.analysis.plots import plot
from purerl.runs.console import make_labels
from tests.runs.analysis.made_tables import read_texts, write_run, write_seeds


def test_a_figure_has_one_panel_per_y_and_one_style_per_condition(tmp_path):
    for i in range(12):
        write_seeds(tmp_path, f"c{i}", [i, i + 1])
    out = tmp_path / "x.svg"
    plot(tmp_path, y=["Performance", "Epoch", "EpRet"], x="time", smooth=2, out=out)
    text = read_texts(out)
    assert text.count("time (seconds)") == 3
    assert [t for t in text if t.endswith("(2 seeds)")] == [f"c{i} (2 seeds)" for i in range(12)]
    assert "mean over seeds, band ± 1 std, smoothed over 2 rows" in text
    again = tmp_path / "again.svg"
    plot(tmp_path, y=["Performance", "Epoch", "EpRet"], x="time", smooth=2, out=again)
    assert again.read_bytes() == out.read_bytes()


def test_a_hundred_curves_are_drawn_and_the_legend_names_sixty(tmp_path):
    for i in range(100):
        write_run(tmp_path / f"c{i}_s0", [i, i + 1], f"c{i}")
    out = tmp_path / "x.svg"
    plot(tmp_path, out=out)
    text = read_texts(out)
    assert [t for t in text if t.endswith("(1 seed)")] == [f"c{i} (1 seed)" for i in range(60)]
    assert "legend: the first 60 of 100 curves" in text


def test_lines_and_bands_are_drawn_at_the_values_of_the_curves(tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    lines, filled = [], []
    monkeypatch.setattr(Axes, "fill_between", lambda _, *a, **k: filled.append(a))
    real = Axes.plot
    monkeypatch.setattr(Axes, "plot", lambda s, *a, **k: lines.append(a[:2]) or real(s, *a, **k))
    for seed in range(2):
        write_run(tmp_path / "a" / f"a_s{seed}", [1 + seed, 5 + seed], seed=seed)
    write_run(tmp_path / "b_s0", [7], "b")
    first, _ = plot(tmp_path, out=tmp_path / "x.png")
    assert [(x.tolist(), y.tolist()) for x, y in lines] == [([100, 200], [1.5, 5.5]), ([100], [7])]
    assert len(filled) == 1  # one seed has no band
    for got, expected in zip(filled[0], (first.x, first.low, first.high), strict=True):
        assert got.tolist() == expected.tolist()


def test_axes_have_short_numbers():
    shown = [figures.format_number(x) for x in (0.0, 0.25, 500.0, 1500.0, -2e6)]
    assert shown == ["0", "0.25", "500", "1.5k", "-2M"]


def test_a_value_without_neighbours_is_drawn_as_a_dot():
    assert figures.find_single(np.array([1.0, math.nan, 2.0, 3.0, math.nan, 4.0])) == [0, 5]


def test_the_line_style_changes_from_the_eighth_curve_on(tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    looks = []
    real = Axes.plot
    monkeypatch.setattr(Axes, "plot", lambda s, *a, **k: looks.append(k) or real(s, *a, **k))
    for i in range(28):
        write_run(tmp_path / f"c{i}_s0", [i, i + 1], f"c{i}")
    plot(tmp_path, out=tmp_path / "x.png")
    assert len({(look["color"], look["linestyle"]) for look in looks}) == 28
    assert [look["linestyle"] for look in looks[:8]] == ["-"] * 7 + ["--"]
    assert all(one["color"] == two["color"] for one, two in itertools.pairwise(looks[::7]))


def test_the_matplotlib_settings_of_a_user_do_not_change_the_picture(tmp_path):
    write_seeds(tmp_path, "a", [1, 2])
    plot(tmp_path, out=tmp_path / "x.svg")
    with matplotlib.rc_context({"text.usetex": True, "axes.facecolor": "black"}):
        plot(tmp_path, out=tmp_path / "y.svg")
    assert (tmp_path / "x.svg").read_bytes() == (tmp_path / "y.svg").read_bytes()


@pytest.mark.parametrize(
    ("texts", "wanted", "expected"),
    [
        (["a_b_c", "a_b_d"], 4, ["…_c", "…_d"]),
        (["a_b_c", "a_b_d"], 5, ["a_b_c", "a_b_d"]),
        (["n (lr=1, hidden=[8, 8], b_c=2)", "n (lr=1, hidden=[8, 9], b_c=2)"], 9,
         ["…, hidden=[8, 8], …", "…, hidden=[8, 9], …"]),
        (["n (b_c=1)", "n (b_c=2)"], 5, ["… (b_c=1)", "… (b_c=2)"]),
        (["ppo_x", "ppo_x_s1"], 5, ["ppo_x", "…_s1"]),
        (["same-long", "same-long"], 4, ["same-long", "same-long-2"]),
        (["y" * 90, "y" * 91], 48, ["y" * 79 + "…", "y" * 79 + "…-2"]),
        ([], 5, []),
    ],
)  # fmt: skip
def test_long_labels_lose_the_parts_that_all_labels_share(texts, wanted, expected):
    assert make_labels(texts, wanted) == expected


def test_labels_from_files_are_drawn_as_plain_text(tmp_path):
    names = ["$x^$", "_leading", "long-" * 60, "bell\x07\x1b[31m", "\\frac{1}{2} %s <b>&", "字"]
    for i, name in enumerate(names):
        write_run(tmp_path / f"{i}_s0", [1.0, i], name)
    out = tmp_path / "x.svg"
    plot(tmp_path, out=out)
    text = read_texts(out)
    shown = ["$x^$", "_leading", f"{'long-' * 15}long…", "bell??[31m", "\\frac{1}{2} %s <b>&", "字"]
    for label in shown:
        assert f"{label} (1 seed)" in text
    assert "environment steps" in text
    assert "return of training episodes" in text


def test_long_labels_show_differences_and_single_runs_show_no_seed_count(tmp_path):
    grid = f"bench_halfcheetah-v5_steps-per-epoch{'5' * 40}"
    for gamma in (0.9, 0.99):
        for seed in range(2):
            name = f"{grid}_gam{gamma}_ac-hid64-64"
            write_run(tmp_path / name / f"{name}_s{seed}", [gamma, seed], name, seed, gamma=gamma)
    curves = plot(tmp_path, out=tmp_path / "x.svg")
    assert [c.label for c in curves] == ["…_gam0.9_…", "…_gam0.99_…"]
    curves = plot(tmp_path, out=tmp_path / "y.svg", count=True)
    assert len({c.label for c in curves}) == 4
    shown = [f"…_gam{gamma}_…_s{seed}" for gamma in (0.9, 0.99) for seed in range(2)]
    assert [c.label for c in curves] == shown
    assert [t for t in read_texts(tmp_path / "y.svg") if "gam" in t or "seed" in t] == shown
    lines = figures.draw_sparklines(curves).splitlines()[1:-1]
    assert [line.split()[0] for line in lines] == shown


def test_a_curve_is_a_sparkline_between_its_ends(tmp_path):
    write_run(tmp_path / "a_s0", range(8), "a")
    write_run(tmp_path / "b_s0", [7] * 4, "b")
    curves = plot(tmp_path)
    first, a, b, last = figures.draw_sparklines(curves, width=48).splitlines()
    assert first.split() == ["curve", "seeds", "from", "to", "at", "the", "end", "±", "std"]
    marks = a.split()[2]
    assert len(marks) == 48
    assert list(dict.fromkeys(marks)) == list("▁▂▃▄▅▆▇█")
    assert b[14:62] == "█" * 21 + " " * 27  # up to step 400 of 800
    assert a.split()[3:] == ["100", "800", "7"]
    assert last == "CartPole-v1, return of training episodes: 0 to 7"
    assert "_.-=+*#@" in "".join(dict.fromkeys(figures.draw_sparklines(curves[:1], "ascii")))


def test_a_sparkline_ends_with_the_standard_deviation_over_seeds(tmp_path):
    write_seeds(tmp_path, "a", [1, 3])
    line = figures.draw_sparklines(plot(tmp_path, y="EpRet")).splitlines()[1]
    assert line.split()[3:] == ["100", "300", "2", "1"]
