"""`purerl plot` from the command line."""

import importlib
import struct

import pytest

from purerl.cli.main import main
from purerl.errors import ConfigError
from purerl.runs.analysis.plots import plot
from purerl.runs.record import machine
from tests.mpi.launch import python
from tests.runs.analysis.made_tables import read_texts, write_run, write_seeds


def test_plot_writes_a_picture_and_prints_its_path(tmp_path, monkeypatch, capsys):
    write_seeds(tmp_path, "a", [1, 2])
    monkeypatch.chdir(tmp_path)
    assert main(["plot", "a", "--data-dir", str(tmp_path)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[1].split() == ["a", "2", "▁" * 32, "100", "300", "1.5", "0.5"]
    assert said[-1] == "picture: purerl-plot.png"
    head = (tmp_path / "purerl-plot.png").read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert min(struct.unpack(">II", head[16:])) > 400
    old = ["a/", "-x", "Epoch", "--value", "EpRet", "-s", "2", "-l", "A", "--est", "max"]
    for name in ("b.pdf", "b.svg", "new/er/B.PNG"):
        assert main(["plot", *old, "--out", name]) == 0
        assert (tmp_path / name).stat().st_size > 3000
    assert "max over seeds, band ± 1 std, smoothed over 2 rows" in read_texts(tmp_path / "b.svg")
    assert not list(tmp_path.glob(".*"))


def test_ascii_prints_sparklines_in_any_encoding(tmp_path, monkeypatch, capsys):
    write_run(tmp_path / "a_s0", range(8), "a")
    monkeypatch.chdir(tmp_path)
    assert main(["plot", ".", "--ascii"]) == 0
    assert "▁▂▃▄▅▆▇█" in "".join(dict.fromkeys(capsys.readouterr().out))
    assert not list(tmp_path.glob("*.png"))
    done = python("-m", "purerl", "plot", str(tmp_path), "--ascii", PYTHONIOENCODING="ascii")
    assert (done.code, done.err) == (0, "")
    assert "_.-=+*#@" in "".join(dict.fromkeys(done.out.splitlines()[1].split()[2]))


def test_without_matplotlib_the_message_names_the_package(tmp_path, monkeypatch, capsys):
    write_seeds(tmp_path, "a", [1, 2])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine.importlib.util, "find_spec", lambda name: None)
    assert main(["plot", "a"]) == 0
    said = capsys.readouterr()
    assert said.err == "a picture needs matplotlib: pip install 'purerl[plot]'\n"
    assert "█" in said.out or "▁" in said.out
    assert not list(tmp_path.glob("*.png"))
    assert main(["plot", "a", "--out", "x.png"]) == 2  # a requested file is an error
    with pytest.raises(ConfigError, match="pip install"):
        plot(tmp_path, out=tmp_path / "x.png")


def test_a_broken_matplotlib_is_reported_in_a_line_after_the_text(tmp_path, monkeypatch, capsys):
    load = importlib.import_module

    def load_or_fail(name):
        if name == "matplotlib.figure":
            raise RuntimeError("its fonts\nare missing")
        return load(name)

    write_seeds(tmp_path, "a", [1, 2])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib, "import_module", load_or_fail)
    assert main(["plot", "a"]) == 0
    said = capsys.readouterr()
    text = "matplotlib is installed but cannot be imported (its fonts are missing). Install it"
    assert said.err == f"{text} again.\n"
    assert "▁" in said.out
    assert main(["plot", "a", "--out", "x.png"]) == 2
    assert "its fonts are missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nothing"], 2, "purerl plot: no runs at 'nothing'"),
        (["a", "-y", "Loss"], 2, "purerl plot: no run has a column 'Loss'"),
        (["a", "--out", "x.txt"], 2, "out must end in .png, .pdf or .svg, got 'x.txt'"),
        (["a", "--out", "a/a_CartPole-v1_s0/progress.txt/x.png"], 5, "could not be written"),
        (["a", "-l", "A", "B"], 2, "legend must have one label per path (1)"),
    ],
)
def test_plot_reports_mistakes_in_one_line(tmp_path, monkeypatch, capsys, words, code, message):
    write_seeds(tmp_path, "a", [1, 2])
    monkeypatch.chdir(tmp_path)
    assert main(["plot", *words]) == code
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1
    assert not list(tmp_path.glob("*.png"))


def test_smooth_must_be_a_positive_integer(capsys):
    assert main(["plot", "a", "--smooth", "0"]) == 2
    assert "smooth must be an integer of at least 1, got 0" in capsys.readouterr().err


def test_help_needs_neither_jax_nor_numpy():
    probe = """
import sys
from purerl.__main__ import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert end.code == 0
heavy = {"jax", "gymnasium", "flax", "numpy", "scipy", "matplotlib"} & set(sys.modules)
assert not heavy, heavy
"""
    for command in ("plot", "compare"):
        done = python("-c", probe, command, "--help")
        assert done.code == 0, done.err
        assert f"usage: purerl {command}" in done.out


def test_drawing_and_comparing_need_no_jax(tmp_path):
    write_seeds(tmp_path, "a", [1, 2])
    probe = "import sys; from purerl.__main__ import main; code = main(sys.argv[1:]);"
    probe += "assert not {'jax', 'gymnasium', 'flax'} & set(sys.modules); sys.exit(code)"
    for words in (
        ("plot", str(tmp_path), "--out", f"{tmp_path}/x.png"),
        ("compare", str(tmp_path)),
    ):
        done = python("-c", probe, *words)
        assert done.code == 0, done.err
