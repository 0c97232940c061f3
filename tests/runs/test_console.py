"""Terminal output: clean text, unique labels, aligned columns, closed streams."""

import io
import os
import subprocess

import pytest

from purerl.errors import OutputClosed
from purerl.runs import console


def test_a_text_from_a_file_is_one_short_line_without_control_characters():
    assert console.clean_text("a\x1b[31m\n", 5) == "a?[3…"
    assert console.clean_text("plain") == "plain"


def test_labels_lose_the_parts_that_all_share_and_stay_different():
    long = ["bench_ant_gamma0.9_s0", "bench_ant_gamma0.99_s0"]
    assert console.make_labels(long, 20) == ["…_gamma0.9_…", "…_gamma0.99_…"]
    assert console.make_labels(long) == long
    several = ["sac (env=ant, lr=1)", "sac (env=ant, lr=2)"]
    assert console.make_labels(several, 5) == ["…, lr=1)", "…, lr=2)"]
    assert console.make_labels(["a", "a", "a"]) == ["a", "a-2", "a-3"]
    assert console.make_labels(["abcdef", "abcxyz"], most=4) == ["abc…", "abc…-2"]


def test_columns_are_as_wide_as_their_widest_cell():
    rows = [("a", "b"), ("字字", "c"), ("e\u0301x", "")]
    assert console.align_columns(rows) == "a     b\n字字  c\ne\u0301x"
    assert console.measure_width("字字") == 4


def test_sizes_and_durations_have_units():
    sizes = [console.format_size(n) for n in (999, 123_456_789, 2.5e9)]
    assert sizes == ["999 B", "123 MB", "2.5 GB"]
    assert [console.format_clock(s) for s in (7, 61.6, 3_723)] == ["0:07", "1:02", "1:02:03"]


def test_characters_that_an_encoding_lacks_become_question_marks():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    console.write_lines(stream, "grün\nb\x07")
    assert stream.buffer.getvalue() == b"gr?n\nb?\n"


class Tee:
    """The least that a replaced `sys.stdout` offers, in notebooks for example."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_a_stream_needs_only_write_and_flush(monkeypatch):
    tee = Tee()
    monkeypatch.setattr("sys.stdout", tee)
    console.print_lines("grün\x07")
    assert tee.text == "grün?\n"
    assert console.get_encoding(tee) == "utf-8"
    assert not console.is_terminal(tee)
    console.silence(tee)


def test_words_that_a_terminal_would_change_are_quoted_for_bash():
    words = ["a b", "it's", "a\tb", "x\ny'z\\", "caf\udce9", "字"]
    line = console.quote_words(words)
    assert line == r"""'a b' 'it'"'"'s' 'a	b' $'x\x0ay\x27z\x5c' $'caf\xe9' '字'"""
    printed = subprocess.check_output(["bash", "-c", f"printf '%s\\0' {line}"])
    assert printed.split(b"\0")[:-1] == [os.fsencode(word) for word in words]
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    console.write_lines(stream, line)
    assert stream.buffer.getvalue().decode() == f"{line}\n"


def test_a_closed_output_is_an_error_or_ignored(monkeypatch):
    closed = io.StringIO()
    closed.close()
    with pytest.raises(OutputClosed):
        console.write_text(closed, "a")
    monkeypatch.setattr("sys.stdout", closed)
    monkeypatch.setattr("sys.stderr", closed)
    console.print_warning("a")
    console.Screen().say("a")
