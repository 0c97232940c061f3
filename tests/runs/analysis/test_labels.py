"""Names of curves and axes."""

import pytest

from purerl.runs.analysis import terminal
from purerl.runs.analysis.plots import plot
from purerl.runs.console import make_labels
from tests.runs.analysis.made_tables import drawn, ours


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


def test_labels_of_files_are_drawn_as_plain_text(tmp_path):
    names = ["$x^$", "_leading", "long-" * 60, "bell\x07\x1b[31m", "\\frac{1}{2} %s <b>&", "字"]
    for i, name in enumerate(names):
        ours(tmp_path / f"{i}_s0", [1.0, i], name)
    out = tmp_path / "x.svg"
    plot(tmp_path, out=out)
    text = drawn(out)
    shown = ["$x^$", "_leading", f"{'long-' * 15}long…", "bell??[31m", "\\frac{1}{2} %s <b>&", "字"]
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
    lines = terminal.draw_sparklines(curves).splitlines()[1:-1]
    assert [line.split()[0] for line in lines] == shown
