"""What a person sees of a run: plain lines, and on a terminal how far it has come."""

import sys
import time
from typing import TextIO

from purerl.runs.plain import encodable, put

BAR = 24  # characters
PAUSE = 0.2  # seconds between two pictures of the bar


class Screen:
    """Lines at once; on a terminal also a bar, on a last line that is drawn over.

    Args:
        stream: where to write; None for the standard output.
        quiet: write nothing.
    """

    def __init__(self, stream: TextIO | None = None, quiet: bool = False) -> None:
        self.stream = sys.stdout if stream is None else stream
        self.quiet = quiet
        self.live = not quiet and self.stream.isatty()
        self._drawn = -PAUSE  # when
        self._first: tuple[float, int] | None = None  # time and step of the first picture

    def say(self, line: str) -> None:
        """Write a line; control characters, which may come out of files, are shown as `?`."""
        if not self.quiet:
            self.stream.write(self._wiped())
            put(self.stream, line)

    def progress(self, step: int, total: int) -> None:
        """Draw how far the run has come, where there is a terminal."""
        now = time.monotonic()
        if not self.live or now - self._drawn < PAUSE:
            return
        self._drawn = now
        if self._first is None:
            self._first = (now, step)
        began, first = self._first
        rate = (step - first) / max(now - began, 1e-9)
        done = int(BAR * step / total)
        text = f"{'█' * done}{'░' * (BAR - done)} {step:,} of {total:,}"
        if step > first:
            text += f"   {rate:,.0f} steps/s   {clock((total - step) / rate)} left"
        self.stream.write(self._wiped() + encodable(self.stream, text))
        self.stream.flush()

    def end(self) -> None:
        """Take the bar away."""
        self.stream.write(self._wiped())
        self.stream.flush()

    def _wiped(self) -> str:
        return "\r\x1b[K" if self.live else ""


def clock(seconds: float) -> str:
    """Return a duration as `0:07` or `1:02:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
