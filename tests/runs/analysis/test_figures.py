"""Curves with bands, as numbers, as pictures and in the terminal."""

import html
import math
import resource
import struct
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from purerl.cli.commands.plot import main, plot
from purerl.errors import ConfigError
from purerl.runs.analysis import curves as bands
from purerl.runs.analysis import figures
from purerl.runs.console import make_labels
from tests.mpi.launch import python
from tests.runs.analysis.made_tables import foreign, ours, seeds

NAN = math.nan


def drawn(path):
    """The texts of a picture: matplotlib puts each into a comment beside its shapes."""
    parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))
    comments = ET.fromstring(path.read_text(), parser).iter(ET.Comment)
    return [html.unescape(c.text.strip()) for c in comments]


def numbers(array):
    return [None if math.isnan(x) else x for x in array.tolist()]


# Each expected row is Spinning Up's np.convolve(x, ones(n), "same") / np.convolve(ones, ones(n),
# "same"), but for the widths above the length, where that returns too many.
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
def test_smoothing_is_a_centred_mean_of_what_is_there(width, expected):
    y = np.array([1.0, 2.0, 3.0, 4.0, 10.0])
    np.testing.assert_allclose(bands.smooth(y, width), expected)
    if width <= 5:
        ones = np.ones(width)
        theirs = np.convolve(y, ones, "same") / np.convolve(np.ones(5), ones, "same")
        np.testing.assert_allclose(bands.smooth(y, width), theirs)


def test_what_is_missing_has_no_weight():
    y = np.array([NAN, 2.0, NAN, NAN, NAN, 6.0])
    assert numbers(bands.smooth(y, 3)) == [2.0, 2.0, 2.0, None, 6.0, 6.0]
    assert numbers(bands.smooth(y, 1)) == [None, 2.0, None, None, None, 6.0]


def band(*parts, **options):
    pairs = [tuple(np.array(z, float) for z in part) for part in parts]
    *found, _ = bands.estimate_band(pairs, **options)
    return [numbers(z) for z in found]


def test_the_band_is_one_standard_deviation_of_the_seeds():
    x = [10, 20, 30]
    parts = [(x, [1, 4, NAN]), (x, [3, 4, 5]), (x, [8, 10, NAN])]
    # population: the deviations of 1, 3, 8 are -3, -1, 4, so std = sqrt(26 / 3)
    got_x, y, std, counts = band(*parts)
    assert got_x == [10, 20]  # at 30 one of three is left
    assert y == [4.0, 6.0]
    assert counts == [3, 3]
    np.testing.assert_allclose(std, [math.sqrt(26 / 3), math.sqrt(8)])
    for estimator, expected in (("median", [3, 4]), ("max", [8, 10]), ("min", [1, 4])):
        assert band(*parts, estimator=estimator)[1] == expected


def test_seeds_with_other_x_are_interpolated_where_they_are():
    x, y, _, counts = band(([0, 10, 20], [0, 10, 20]), ([5, 15], [100, 200]))
    assert x == [0, 5, 10, 15, 20]
    assert y == [0, 52.5, 80, 107.5, 20]  # alone at the ends: half of the seeds
    assert counts == [1, 2, 2, 2, 1]
    # three seeds that are never there together: better than nothing
    found = band(([1], [1]), ([2], [2]), ([3], [3]))
    assert found == [
        [1, 1.5, 2, 2.5, 3], [1, None, 2, None, 3], [None] * 5, [1, 0, 1, 0, 1],
    ]  # fmt: skip
    long = np.arange(3000.0)
    assert len(bands.estimate_band([(long, long), (long, long)])[0]) == 3000
    (x, y, std, *_) = bands.estimate_band([(long, long), (long + 0.5, long + 0.5)])
    assert len(x) == bands.POINTS
    np.testing.assert_allclose(y, x, atol=1e-9)
    np.testing.assert_allclose(std[1:-1], 0, atol=1e-9)
    assert numbers(std[[0, -1]]) == [None, None]  # of one seed


def test_no_line_leads_from_seeds_to_others_that_begin_where_they_end():
    early, late = ([0, 1], [5, 6]), ([3, 4], [9, 8])
    x, y, std, counts, drawn = bands.estimate_band(
        [tuple(map(np.array, one)) for one in (early, late)]
    )
    assert (numbers(x), numbers(y)) == ([0, 1, 2, 3, 4], [5, 6, None, 9, 8])
    assert (numbers(std), counts.tolist(), drawn) == ([None] * 5, [1, 1, 0, 1, 1], 2)
    touching = ([0, 1], [5, 6]), ([1, 2], [6, 7])
    assert band(*touching)[:2] == [[0, 1, 2], [5, 6, 7]]
    # What one seed has not measured in between is bridged, whether the others have the same x ...
    missing = ([0, 1, 2], [5, NAN, 7])
    assert band(missing)[1] == [5, 6, 7]
    assert band(missing, ([0, 1, 2], [5, 8, 7]))[1] == [5, 7, 7]
    assert figures._alone(np.array([1.0, NAN, 2.0, 3.0, NAN, 4.0])) == [0, 5]


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
    assert figures.format_table([curve]).splitlines()[1].split()[:4] == ["a", "2", "of", "3"]
    (curve,) = plot([tmp_path / "a" / "a_s0", tmp_path / "a" / "a_s1"], x="time")
    assert curve.seeds == 2
    words = figures.draw_sparklines([curve]).splitlines()[1].split()
    assert words[:4] == ["a", "2", "▁▂▃▄▅▆▇█", "▁▂▃▄▅▆▇█"]  # nothing between the two
    (curve,) = plot(tmp_path, x="steps")
    assert curve.seeds == 3


def test_rows_are_sorted_and_the_last_of_an_x_counts(tmp_path):
    text = "Epoch\tAverageEpRet\tTotalEnvInteracts\n1\t5\t200\n2\t6\t100\n3\t7\t200\n4\t8\t\n"
    (curve,) = plot(foreign(tmp_path / "run", text + "5\t\t200\n"))
    assert (curve.x.tolist(), curve.y.tolist()) == ([100, 200], [6, 7])


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


def test_labels_of_files_are_drawn_as_plain_text(tmp_path):
    names = ["$x^$", "_leading", "long-" * 60, "bell\x07\x1b[31m", "\\frac{1}{2} %s <b>&", "字"]
    for i, name in enumerate(names):
        ours(tmp_path / f"{i}_s0", [1.0, i], name)
    out = tmp_path / "x.svg"
    plot(tmp_path, out=out)
    text = drawn(out)
    assert "long-" * 9 in text  # the first of two lines
    shown = ["$x^$", "_leading", f"{'long-' * 6}long…", "bell??[31m", "\\frac{1}{2} %s <b>&", "字"]
    for label in shown:
        assert f"{label} (1 seed)" in text
    assert "environment steps" in text
    assert "return of training episodes" in text


def test_long_labels_show_in_what_they_differ_and_single_runs_no_number(tmp_path):
    grid = f"bench_halfcheetah-v5_steps-per-epoch{'5' * 40}"
    for gamma in (0.9, 0.99):
        for seed in range(2):
            name = f"{grid}_gam{gamma}_ac-hid64-64"
            ours(tmp_path / name / f"{name}_s{seed}", [gamma, seed], name, seed, gamma=gamma)
    curves = plot(tmp_path, out=tmp_path / "x.svg")
    assert [c.label for c in curves] == ["…_gam0.9_…", "…_gam0.99_…"]
    curves = plot(tmp_path, out=tmp_path / "y.svg", count=True)
    assert len({c.label for c in curves}) == 4
    shown = [f"…_gam{gamma}_…_s{seed}" for gamma in (0.9, 0.99) for seed in range(2)]
    assert [c.label for c in curves] == shown
    assert [t for t in drawn(tmp_path / "y.svg") if "gam" in t or "seed" in t] == shown
    assert [line.split()[0] for line in figures.format_table(curves).splitlines()[1:]] == shown


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
def test_parts_that_all_labels_share_are_left_out_of_long_ones(texts, wanted, expected):
    assert make_labels(texts, wanted) == expected


def test_pictures_have_a_panel_for_each_y_and_a_colour_or_style_for_each_condition(tmp_path):
    for i in range(12):
        seeds(tmp_path, f"c{i}", [i, i + 1])
    out = tmp_path / "x.svg"
    plot(tmp_path, y=["Performance", "Epoch", "EpRet"], x="time", smooth=2, out=out)
    text = drawn(out)
    assert text.count("time (seconds)") == 3
    assert [t for t in text if t.endswith("(2 seeds)")] == [f"c{i} (2 seeds)" for i in range(12)]
    assert "mean over seeds, band ± 1 std, smoothed over 2 rows" in text
    assert len({figures._look(i) for i in range(28)}) == 28
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


def test_the_command_draws_a_picture_and_says_where(tmp_path, monkeypatch, capsys):
    seeds(tmp_path, "a", [1, 2])
    monkeypatch.chdir(tmp_path)
    assert main(["a", "--data-dir", str(tmp_path)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[1].split() == ["a", "2", "TotalEnvInteracts", "300", "AverageEpRet", "1.5", "0.5"]
    assert said[-1] == "picture: purerl-plot.png"
    head = (tmp_path / "purerl-plot.png").read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert min(struct.unpack(">II", head[16:])) > 400
    old = ["a/", "-x", "Epoch", "--value", "EpRet", "-s", "2", "-l", "A", "--est", "max"]
    for name in ("b.pdf", "b.svg", "new/er/B.PNG"):
        assert main([*old, "--out", name]) == 0
        assert (tmp_path / name).stat().st_size > 3000
    assert "max over seeds, band ± 1 std, smoothed over 2 rows" in drawn(tmp_path / "b.svg")
    assert not list(tmp_path.glob(".*"))


def test_without_a_picture_there_are_sparklines(tmp_path, capsys):
    ours(tmp_path / "a_s0", range(8), "a")
    ours(tmp_path / "b_s0", [7] * 4, "b")
    assert main([str(tmp_path), "--ascii"]) == 0
    first, a, b, last = capsys.readouterr().out.splitlines()
    assert first.split() == ["curve", "seeds", "from", "to", "at", "the", "end"]
    marks = a.split()[2]
    assert len(marks) == 48
    assert list(dict.fromkeys(marks)) == list("▁▂▃▄▅▆▇█")
    assert b[14:62] == "█" * 21 + " " * 27  # up to step 400 of 800
    assert a.split()[3:] == ["100", "800", "7"]
    assert last == "return of training episodes: 0 to 7"
    (curve, _) = plot(tmp_path)
    assert "_.-=+*#@" in "".join(dict.fromkeys(figures.draw_sparklines([curve], "ascii")))
    done = python("-m", "purerl", "plot", str(tmp_path), "--ascii", PYTHONIOENCODING="ascii")
    assert (done.code, done.err) == (0, "")


def test_without_matplotlib_it_says_what_to_install(tmp_path, monkeypatch, capsys):
    seeds(tmp_path, "a", [1, 2])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(figures.importlib.util, "find_spec", lambda name: None)
    assert main(["a"]) == 0
    said = capsys.readouterr()
    assert said.err == "a picture needs matplotlib: pip install 'purerl[plot]'\n"
    assert "█" in said.out or "▁" in said.out
    assert not list(tmp_path.glob("*.png"))
    assert main(["a", "--out", "x.png"]) == 2  # asked for by name, and not there
    with pytest.raises(ConfigError, match="pip install"):
        plot(tmp_path, out=tmp_path / "x.png")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nothing"], 2, "purerl plot: no runs at 'nothing'"),
        (["a", "-y", "Loss"], 2, "purerl plot: no run has a column 'Loss'"),
        (["a", "--out", "x.txt"], 2, "--out must end in .png, .pdf, .svg, got 'x.txt'"),
        (["a", "--out", "a/a_CartPole-v1_s0/progress.txt/x.png"], 5, "could not be written"),
        (["a", "-l", "A", "B"], 2, "legend must have one word per path (1)"),
    ],
)
def test_mistakes_are_a_line_and_a_code(tmp_path, monkeypatch, capsys, words, code, message):
    seeds(tmp_path, "a", [1, 2])
    monkeypatch.chdir(tmp_path)
    assert main(words) == code
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1
    assert not list(tmp_path.glob("*.png"))


def test_smooth_must_be_a_count(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["a", "--smooth", "0"])
    assert caught.value.code == 2
    assert "expected an integer of at least 1, got '0'" in capsys.readouterr().err


def test_help_is_quick_and_needs_neither_jax_nor_numpy():
    probe = "import sys; from purerl.__main__ import main\ntry:\n    main(sys.argv[1:])\n"
    probe += "except SystemExit as end:\n    assert end.code == 0\n"
    probe += "heavy = {'jax', 'gymnasium', 'flax', 'numpy', 'matplotlib'} & set(sys.modules)\n"
    probe += "assert not heavy, heavy"
    for command in ("plot", "compare"):
        done = python("-c", probe, command, "--help")
        assert done.code == 0, done.err
        assert f"usage: purerl {command}" in done.out

    def seconds(*words):
        """Of computing, which other work on the machine does not lengthen."""
        began = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert python(*words).code == 0
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime

    bare = min(seconds("-c", "pass") for _ in range(3))
    for command in ("plot", "compare"):
        assert min(seconds("-m", "purerl", command, "--help") for _ in range(3)) - bare < 0.3


def test_drawing_and_comparing_need_no_jax(tmp_path):
    seeds(tmp_path, "a", [1, 2])
    probe = "import sys; from purerl.__main__ import main; code = main(sys.argv[1:]);"
    probe += "assert not {'jax', 'gymnasium', 'flax'} & set(sys.modules); sys.exit(code)"
    for words in (
        ("plot", str(tmp_path), "--out", f"{tmp_path}/x.png"),
        ("compare", str(tmp_path)),
    ):
        done = python("-c", probe, *words)
        assert done.code == 0, done.err
