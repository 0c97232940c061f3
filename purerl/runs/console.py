"""Terminal output: clean text in the terminal's encoding, and a screen with a live line."""

import contextlib
import itertools
import math
import os
import re
import shlex
import shutil
import sys
import time
import unicodedata
from collections.abc import Callable, Sequence
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


def print_warning(text: str) -> None:
    """Print lines on standard error; if it is closed, discard all later output and continue."""
    try:
        write_lines(sys.stderr, text)
    except OutputClosed:
        silence(sys.stderr)


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


class Screen:
    """Screen that prints lines at once and, on a terminal, draws a live line below them.

    If a line cannot be written, the program continues: the screen is silent from then on, and
    `lost` is the reason. With `quiet`, nothing is written. The default stream is stdout.
    """

    def __init__(self, stream: TextIO | None = None, quiet: bool = False) -> None:
        self.stream = sys.stdout if stream is None else stream
        self.quiet = quiet or self.stream is None or getattr(self.stream, "closed", False)
        self.live = not self.quiet and is_terminal(self.stream)
        self.lost = ""
        self.row_is_open = False  # a line was begun and not yet ended
        self._drawn = -math.inf  # time of the last drawing

    def say(self, line: str) -> None:
        """Write a line; control characters, which files may contain, become `?`."""
        if not self.quiet:
            self._replace_live_line(write_lines, line)

    def begin_row(self, text: str) -> None:
        """Write a line that `end_row` will end."""
        self.row_is_open = True
        if not self.quiet:
            self._replace_live_line(write_text, text)

    def end_row(self, text: str) -> None:
        """Write the rest of the line that `begin_row` began."""
        self.row_is_open = False
        if not self.quiet:
            self._write(write_lines, text)

    def draw(self, make: Callable[[float], str], pause: float, failed: str) -> None:
        """Draw the live line, unless it was drawn less than `pause` seconds ago.

        `make` returns the line and receives the time. If it raises an error, `failed` is the
        warning, and no live line is drawn any more.
        """
        now = time.monotonic()
        if not self.live or self.row_is_open or now - self._drawn < pause:
            return
        self._drawn = now
        try:
            text = make(now)
        except Exception as error:  # whatever it is, the run is worth more than the line
            self.live = False
            self.say(f"\nwarning: {failed}: {error!r}")
            return
        text = text[: shutil.get_terminal_size().columns - 1]  # a second line would not be erased
        self._replace_live_line(write_text, text)

    def end(self) -> None:
        """Remove the live line."""
        if self.live:
            self._replace_live_line(write_text, "")

    def _replace_live_line(self, write: Callable[[TextIO, str], None], text: str) -> None:
        """Write a text in place of the live line."""
        if self.live:
            self._write(write_text, "\r\x1b[K")
        if not self.quiet:
            self._write(write, text)

    def _write(self, write: Callable[[TextIO, str], None], text: str) -> None:
        """Write a text; if that fails, be silent from now on."""
        try:
            write(self.stream, text)
        except Exception as error:  # a custom stream may raise anything
            why = error.strerror or str(error) if isinstance(error, OutputClosed) else repr(error)
            self.lost, self.quiet, self.live = why, True, False
            if self.stream is sys.stdout:
                silence(self.stream)


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
