"""Curves as text."""

from purerl.runs.analysis.plots import plot
from purerl.runs.analysis.terminal import draw_sparklines
from tests.runs.analysis.made_tables import ours, seeds


def test_a_curve_is_a_sparkline_between_its_ends(tmp_path):
    ours(tmp_path / "a_s0", range(8), "a")
    ours(tmp_path / "b_s0", [7] * 4, "b")
    curves = plot(tmp_path)
    first, a, b, last = draw_sparklines(curves, width=48).splitlines()
    assert first.split() == ["curve", "seeds", "from", "to", "at", "the", "end", "±", "std"]
    marks = a.split()[2]
    assert len(marks) == 48
    assert list(dict.fromkeys(marks)) == list("▁▂▃▄▅▆▇█")
    assert b[14:62] == "█" * 21 + " " * 27  # up to step 400 of 800
    assert a.split()[3:] == ["100", "800", "7"]
    assert last == "return of training episodes: 0 to 7"
    assert "_.-=+*#@" in "".join(dict.fromkeys(draw_sparklines(curves[:1], "ascii")))


def test_a_line_ends_with_the_deviation_of_several_seeds(tmp_path):
    seeds(tmp_path, "a", [1, 3])
    line = draw_sparklines(plot(tmp_path, y="EpRet")).splitlines()[1]
    assert line.split()[3:] == ["100", "300", "2", "1"]
