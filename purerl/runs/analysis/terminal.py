"""Show curves as text: a sparkline and the last value of each."""

from collections.abc import Sequence

import numpy as np

from purerl.runs.analysis import labels
from purerl.runs.analysis.curves import Curve
from purerl.runs.console import align_columns

BLOCKS = "▁▂▃▄▅▆▇█"
LETTERS = "_.-=+*#@"


def draw_sparklines(curves: Sequence[Curve], encoding: str | None = None, width: int = 32) -> str:
    """Return a line per curve, from the lowest to the highest value of its panel.

    Args:
        curves: learning curves.
        encoding: encoding of the terminal; letters replace blocks that it cannot show.
        width: characters of a curve.
    """
    marks = BLOCKS
    try:
        marks.encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        marks = LETTERS
    rows, ranges = [("curve", "seeds", "", "from", "to", "at the end", "± std")], []
    for panel in dict.fromkeys(curve.panel for curve in curves):
        group = [curve for curve in curves if curve.panel == panel]
        grid = np.linspace(min(c.x[0] for c in group), max(c.x[-1] for c in group), width)
        low, high = min(np.nanmin(c.y) for c in group), max(np.nanmax(c.y) for c in group)
        ranges.append(f"{labels.name_y(group)}: {low:.6g} to {high:.6g}")
        for c in group:
            y = np.interp(grid, c.x, c.y, left=np.nan, right=np.nan)
            levels = np.minimum((y - low) / max(high - low, 1e-300) * len(marks), len(marks) - 1)
            picture = "".join(" " if np.isnan(level) else marks[int(level)] for level in levels)
            ends = (labels.format_number(c.x[0]), labels.format_number(c.x[-1]))
            std = f"{c.high[-1] - c.y[-1]:.4g}" if c.counts[-1] > 1 else ""
            seeds = labels.format_seeds(c)
            rows.append((c.label, seeds, picture, *ends, f"{c.y[-1]:.6g}", std))
    return "\n".join([align_columns(rows), *ranges])
