"""Terminal output: text without control characters, in the terminal's encoding."""

import contextlib
import itertools
import os
import re
import shlex
import sys
import unicodedata
from collections.abc import Sequence
from typing import TextIO

from purerl.errors import OutputClosed

# Separators of a label: `name (key=value, other_key=value)`, `grid_ant_gam0-9_s0`.
_SEPARATORS = re.compile(r"( \(|, (?=\w+=)|: |/|_(?![A-Za-z_]*=))")


def clean_text(text: str, limit: int = 80) -> str:
    """Return a text from a file as one short line, with `?` for control characters."""
    shown = "".join(c if c.isprintable() else "?" for c in text)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def make_labels(texts: Sequence[str], wanted: int = 80, most: int = 80) -> list[str]:
    """Return a clean label for each text, all different, cut after `most` characters.

    If a text is longer than `wanted`, `…` replaces the parts that all share: `…_gamma0.9_…`.
    """
    shown = [clean_text(text, 10_000) for text in texts]
    if len(set(shown)) > 1 and max(map(len, shown)) > wanted:
        parts = [_SEPARATORS.split(text) for text in shown]
        shared = set.intersection(*(set(words[::2]) for words in parts))
        shown = [_elide(words, shared) for words in parts]
    labels: list[str] = []
    for label in (clean_text(text, most) for text in shown):
        numbered = (f"{label}-{number}" for number in itertools.count(2))
        labels.append(next(x for x in itertools.chain([label], numbered) if x not in labels))
    return labels


def _elide(parts: list[str], shared: set[str]) -> str:
    """Join words and separators; write `…` for each sequence of shared words."""
    dots = "".join("…" if part in shared else part for part in parts)
    shorter = re.sub(r"…([ (,:/_]+…)+", "…", dots)
    return "".join(parts) if shorter == "…" else shorter


def quote_words(words: Sequence[str]) -> str:
    """Return a command line for a shell that stays the same on a terminal.

    Words with control characters, or with bytes that are not UTF-8, become `$'...'` of bash.
    """
    return " ".join(_quote(word) for word in words)


def _quote(word: str) -> str:
    if word.replace("\t", " ").isprintable():
        return shlex.quote(word)
    plain = {*range(32, 127)} - {ord("'"), ord("\\")}
    escaped = (chr(b) if b in plain else f"\\x{b:02x}" for b in os.fsencode(word))
    return f"$'{''.join(escaped)}'"


def print_lines(text: str) -> None:
    """Print lines; characters that the terminal's encoding lacks become question marks."""
    write_lines(sys.stdout, text)


def try_print_lines(text: str, stream: TextIO | None = None) -> None:
    """Print lines; if the stream is closed, discard all later output and continue."""
    stream = stream or sys.stdout
    try:
        write_lines(stream, text)
    except OutputClosed:
        silence(stream)


def print_warning(text: str) -> None:
    """Print lines on standard error; ignore a closed stream."""
    try_print_lines(text, sys.stderr)


def write_lines(stream: TextIO, text: str) -> None:
    """Write lines without control characters but tabs, and flush the stream."""
    lines = [[clean_text(part, 10_000) for part in x.split("\t")] for x in text.split("\n")]
    write_text(stream, "\n".join("\t".join(parts) for parts in lines) + "\n")


def write_text(stream: TextIO, text: str) -> None:
    """Write a text and flush the stream; raise `OutputClosed` if that fails."""
    encoding = get_encoding(stream)
    try:
        stream.write(text.encode(encoding, "replace").decode(encoding))
        stream.flush()
    except (OSError, ValueError) as error:  # a ValueError if it is closed
        raise OutputClosed(*error.args) from error


def get_encoding(stream: TextIO) -> str:
    """Return the encoding of a stream; UTF-8 for one that only has `write` and `flush`."""
    return getattr(stream, "encoding", None) or "utf-8"


def is_terminal(stream: TextIO) -> bool:
    """Return whether a stream is a terminal; streams of notebooks may lack `isatty`."""
    return bool(getattr(stream, "isatty", bool)())


def silence(stream: TextIO) -> None:
    """Discard a stream's buffer, which Python would flush at exit, and all later output."""
    if not hasattr(stream, "fileno"):
        return
    with contextlib.suppress(OSError, ValueError):  # closed, or without a file descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def align_columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Return rows as lines with aligned columns, each as wide as its widest cell."""
    widths = [max(map(measure_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = (c + " " * (w - measure_width(c)) for c, w in zip(row, widths, strict=True))
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def measure_width(text: str) -> int:
    """Return the terminal columns of a text: two per Chinese character, none per accent."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def format_size(number: float) -> str:
    """Return a number of bytes with its unit: `999 B`, `123 MB`, `2.5 GB`."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= factor:
            value = number / factor
            return f"{value:.1f} {unit}" if value < 10 else f"{value:,.0f} {unit}"
    return f"{number:.0f} B"


def format_clock(seconds: float) -> str:
    """Return a duration as `0:07` or `1:02:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
