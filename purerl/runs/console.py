"""Words from files, shown on a terminal: without control characters, in what it can show."""

import contextlib
import os
import re
import sys
import unicodedata
from collections.abc import Sequence
from typing import TextIO

from purerl.errors import OutputClosed

# Between the parts of a label: `name (key=value, other_key=value)`, `grid_ant_gam0-9_s0`.
_PARTS = re.compile(r"( \(|, (?=\w+=)|: |/|_(?![A-Za-z_]*=))")


def clean_text(text: str, limit: int = 80) -> str:
    """Return a text from a file as it may be shown: one line, no control characters, not long.

    Example:
        >>> plain("a\\x1b[31m\\n", 5)
        'a?[3…'
    """
    shown = "".join(c if c.isprintable() else "?" for c in text)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def make_labels(texts: Sequence[str], wanted: int = 80, most: int = 80) -> list[str]:
    """Return texts as they may be shown, all different, cut after `most` characters.

    Where one is longer than is wanted, all are without the parts that all of them share.

    Example:
        >>> apart(["bench_ant_gamma0.9_s0", "bench_ant_gamma0.99_s0"], 20)
        ['…_gamma0.9_…', '…_gamma0.99_…']
    """
    shown = [clean_text(text, 10_000) for text in texts]
    if len(set(shown)) > 1 and max(map(len, shown)) > wanted:
        parts = [_PARTS.split(text) for text in shown]
        shared = set.intersection(*(set(words[::2]) for words in parts))
        shown = [_without(words, shared) for words in parts]
    made: dict[str, None] = {}
    for text in shown:
        label = first = clean_text(text, most)
        number = 1
        while label in made:
            number += 1
            label = f"{first}-{number}"
        made[label] = None
    return list(made)


def _without(parts: list[str], shared: set[str]) -> str:
    """Return words and what is between them, with dots for the words that are shared."""
    made = ""
    for i in range(0, len(parts), 2):
        word, between = parts[i], parts[i - 1] if i else ""
        if word not in shared:
            made += between + word
        elif not made.endswith("…"):
            made += between + "…"
    return "".join(parts) if made == "…" else made


def print_lines(text: str) -> None:
    """Print lines; what the terminal's encoding lacks becomes a question mark."""
    write_lines(sys.stdout, text)


def try_print_lines(text: str) -> None:
    """Print lines of something that goes on where nobody takes them."""
    try:
        print_lines(text)
    except OutputClosed:
        silence(sys.stdout)


def print_warning(text: str) -> None:
    """Print lines on the error stream; where nobody takes them, the exit code says enough."""
    try:
        write_lines(sys.stderr, text)
    except OutputClosed:
        silence(sys.stderr)


def write_lines(stream: TextIO, text: str) -> None:
    """Write lines to a stream at once, as `printed` does."""
    lines = [clean_text(line, 10_000) for line in text.split("\n")]
    write_text(stream, replace_unencodable(stream, "\n".join(lines)) + "\n")


def write_text(stream: TextIO, text: str) -> None:
    """Write to a stream at once, or raise `Unshown`."""
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        raise OutputClosed(error.errno, error.strerror) from error
    except ValueError as error:  # it is closed
        raise OutputClosed(str(error)) from error


def silence(stream: TextIO) -> None:
    """Let what a stream still holds, and all that comes, go nowhere.

    Python writes what is left when it ends, and would end with an error of its own.
    """
    with contextlib.suppress(OSError, ValueError):  # closed, or no file of the system
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def replace_unencodable(stream: TextIO, text: str) -> str:
    """Return a text with a question mark for what the encoding of a stream lacks."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def align_columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Return rows as lines with columns, each as wide as it needs to be."""
    widths = [max(measure_width(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = (
        "  ".join(c + " " * (w - measure_width(c)) for c, w in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def measure_width(text: str) -> int:
    """Return how many columns of a terminal a text takes: Chinese signs two, accents none.

    Example:
        >>> width("abc"), width("\u5b57\u5b57"), width("e\u0301")
        (3, 4, 1)
    """
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def format_size(number: float) -> str:
    """Return a number of bytes in words.

    Example:
        >>> size(999), size(123_456_789), size(2.5e9)
        ('999 B', '123 MB', '2.5 GB')
    """
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= factor:
            value = number / factor
            return f"{value:.1f} {unit}" if value < 10 else f"{value:,.0f} {unit}"
    return f"{number:.0f} B"
