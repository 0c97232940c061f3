"""The screen of a run: plain lines, and a progress bar on a terminal."""

import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

from purerl.errors import OutputClosed
from purerl.runs.console import format_clock, is_terminal, silence, write_lines, write_text

BAR = 24  # characters
PAUSE = 0.2  # least seconds between two drawings of the bar


class Screen:
    """Screen that prints lines at once and, on a terminal, a progress bar below them.

    If a line cannot be written, the run continues: the screen is silent from then on, and `lost` is
    the reason. With `quiet`, nothing is written. The default stream is stdout.
    """

    def __init__(self, stream: TextIO | None = None, quiet: bool = False) -> None:
        self.stream = sys.stdout if stream is None else stream
        self.quiet = quiet or self.stream is None or getattr(self.stream, "closed", False)
        self.live = not self.quiet and is_terminal(self.stream)
        self.lost = ""
        self.row_is_open = False  # a line was begun and not yet ended
        self._drawn = -PAUSE  # time of the last drawing
        self._first: tuple[float, int] | None = None  # time and step of the first drawing

    def say(self, line: str) -> None:
        """Write a line; control characters, which files may contain, become `?`."""
        if not self.quiet:
            self._replace_bar(write_lines, line)

    def begin_row(self, text: str) -> None:
        """Write a line that `end_row` will end."""
        self.row_is_open = True
        if not self.quiet:
            self._replace_bar(write_text, text)

    def end_row(self, text: str) -> None:
        """Write the rest of the line that `begin_row` began."""
        self.row_is_open = False
        if not self.quiet:
            self._write(write_lines, text)

    def progress(self, step: int, total: int) -> None:
        """Draw the bar, if the stream is a terminal."""
        now = time.monotonic()
        if not self.live or self.row_is_open or now - self._drawn < PAUSE:
            return
        try:
            self._draw(now, step, total)
        except Exception as error:  # whatever it is, the run is worth more than the bar
            self.live = False
            self.say(f"\nwarning: the progress bar failed, and is not drawn any more: {error!r}")

    def _draw(self, now: float, step: int, total: int) -> None:
        self._drawn = now
        self._first = began, first = self._first or (now, step)
        rate = (step - first) / max(now - began, 1e-9)
        done = int(BAR * step / total)
        text = f"{'█' * done}{'░' * (BAR - done)} {step:,} of {total:,}"
        if step > first:
            text += f"   {rate:,.0f} steps/s   {format_clock((total - step) / rate)} left"
        text = text[: shutil.get_terminal_size().columns - 1]  # a second line would not be erased
        self._replace_bar(write_text, text)

    def end(self) -> None:
        """Remove the bar."""
        if self.live:
            self._replace_bar(write_text, "")

    def _replace_bar(self, write: Callable[[TextIO, str], None], text: str) -> None:
        """Write a text in place of the bar."""
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
