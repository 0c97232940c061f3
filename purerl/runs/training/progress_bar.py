"""The screen of a run: plain lines, and a progress bar on a terminal."""

from purerl.runs import console
from purerl.runs.console import format_clock

BAR = 24  # characters
PAUSE = 0.2  # least seconds between two drawings of the bar


class Screen(console.Screen):
    """Screen with a progress bar as its live line."""

    _first: tuple[float, int] | None = None  # time and step of the first drawing

    def progress(self, step: int, total: int) -> None:
        """Draw the bar, if the stream is a terminal."""
        failed = "the progress bar failed, and is not drawn any more"
        self.draw(lambda now: self._format_bar(now, step, total), PAUSE, failed)

    def _format_bar(self, now: float, step: int, total: int) -> str:
        self._first = began, first = self._first or (now, step)
        rate = (step - first) / max(now - began, 1e-9)
        done = int(BAR * step / total)
        text = f"{'█' * done}{'░' * (BAR - done)} {step:,} of {total:,}"
        if step > first:
            text += f"   {rate:,.0f} steps/s   {format_clock((total - step) / rate)} left"
        return text
