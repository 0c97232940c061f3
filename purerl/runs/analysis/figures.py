"""Curves as a picture (matplotlib, without a display), as sparklines, and as a table."""

import importlib.util
import io
import math
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from purerl.errors import ConfigError
from purerl.runs.analysis.curves import Curve
from purerl.runs.analysis.tables import RETURNS
from purerl.runs.console import align_columns, clean_text, make_labels
from purerl.runs.record import files

# Okabe and Ito's colours, which colour-blind people can tell apart, without yellow: too pale.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
STYLES: tuple[Any, ...] = ("-", "--", ":", "-.")
NAMES = {
    "TotalEnvInteracts": "environment steps",
    "Epoch": "epoch",
    "Updates": "updates",
    "AverageTestEpRet": "test return",
    "AverageEpRet": "return of training episodes",
    "EpRet": "return of training episodes",
    "EpLen": "length of episodes (steps)",
    "TestEpLen": "length of test episodes (steps)",
}
UNITS = ((7200.0, 3600.0, "hours"), (300.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))
LEGEND_INSIDE = 5  # curves at most, with labels of at most so many characters
LEGEND_WIDTH = 34
LEGEND_WRAP = 48  # characters in a line
LEGEND_ROWS = 20
LEGEND_MOST = 60  # a picture has a size; more curves than looks cannot be told apart anyway
SETTINGS: dict[Any, Any] = {
    "text.parse_math": False,  # a label is no formula
    "text.usetex": False,
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "font.size": 10,
    "svg.hashsalt": "purerl",  # equal curves are equal files
}
BLOCKS = "▁▂▃▄▅▆▇█"
LETTERS = "_.-=+*#@"


def has_matplotlib() -> bool:
    """Say whether a picture can be drawn."""
    return importlib.util.find_spec("matplotlib") is not None


def draw_figure(
    curves: Sequence[Curve], panels: Sequence[str], out: Path, caption: str, numbers: bool = True
) -> None:
    """Draw curves, one panel for each y; the file is replaced when the picture is complete.

    Args:
        curves: panel by panel, in the order of `panels`.
        panels: what was asked for as y; each curve names the one it belongs to.
        out: .png, .pdf or .svg.
        caption: what estimate and band are.
        numbers: name the number of seeds of each curve.
    """
    kind = out.suffix.lower().lstrip(".")
    if kind not in ("png", "pdf", "svg"):
        raise ConfigError(f"a picture must end in .png, .pdf or .svg, got {str(out)!r}.")
    if not has_matplotlib():
        raise ConfigError("a picture needs matplotlib: pip install 'purerl[plot]'")
    import matplotlib
    from matplotlib.figure import Figure

    looks = {label: i for i, label in enumerate(dict.fromkeys(c.label for c in curves))}
    across = min(len(panels), 2)
    down = math.ceil(len(panels) / across)
    content = io.BytesIO()
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()  # a user's settings may ask for LaTeX, or white on white
        matplotlib.rcParams.update(SETTINGS)
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing", category=UserWarning)
        texts, columns = _texts(curves, numbers)
        beside = columns * (1.0 + 0.075 * _widest(texts))  # inches, for a legend there
        size = (6.4 * across + beside, 0.6 + 3.6 * down)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(down, across, squeeze=False).ravel()
        for panel, ax in zip(panels, axes, strict=False):
            _panel(ax, [c for c in curves if c.panel == panel], looks)
        for ax in axes[len(panels) :]:
            ax.remove()
        _legend(figure, axes[0], texts, columns)
        if len(looks) > len(texts):
            named = f"the first {len(texts)} of {len(looks)} curves are named"
            caption = f"{caption}, {named}" if caption else named
        if caption:
            figure.supxlabel(caption, fontsize=8, color="0.35")
        metadata = {"Date": None} if kind == "svg" else {}
        figure.savefig(content, format=kind, dpi=150, bbox_inches="tight", metadata=metadata)
    files.make_folder(out.parent)
    files.replace_file(out, content.getvalue())


def _panel(ax: Any, curves: Sequence[Curve], looks: dict[str, int]) -> None:
    """Draw the curves of one y."""
    from matplotlib.ticker import MaxNLocator

    scale, unit = 1.0, ""
    if curves[0].xname == "Time":
        longest = max(float(c.x[-1]) for c in curves)
        scale, unit = next((s, u) for least, s, u in UNITS if longest >= least)
    for curve in curves:
        colour, style = _look(looks[curve.label])
        x = curve.x / scale
        alone = {"marker": "o", "markersize": 4, "markevery": _alone(curve.y)}
        ax.plot(x, curve.y, style, color=colour, linewidth=1.6, **alone)
        if curve.seeds > 1:
            ax.fill_between(x, curve.low, curve.high, color=colour, alpha=0.16, linewidth=0)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
        axis.set_major_formatter(lambda value, _: format_number(value))
    name = curves[0].xname
    ax.set_xlabel(f"time ({unit})" if unit else _name(name))
    ax.set_ylabel(_yname(curves))


def _alone(y: np.ndarray) -> list[int]:
    """Return the indices of values that no line leads to."""
    there = np.concatenate([[False], np.isfinite(y), [False]])
    return np.flatnonzero(there[1:-1] & ~there[:-2] & ~there[2:]).tolist()


def _look(i: int) -> tuple[str, Any]:
    return COLOURS[i % len(COLOURS)], STYLES[i // len(COLOURS) % len(STYLES)]


def _yname(curves: Sequence[Curve]) -> str:
    kinds = {name for c in curves for name in c.yname.split(", ")}
    if len(kinds) == 1:
        return _name(curves[0].yname)
    return "return" if kinds <= set(RETURNS) else clean_text(curves[0].panel, 40)


def _name(column: str) -> str:
    return NAMES.get(column, clean_text(column, 40))


def _texts(curves: Sequence[Curve], numbers: bool) -> tuple[list[str], int]:
    """Return the words of the legend, and its columns beside the panels: 0 if it fits inside."""
    most = {c.label: c for c in sorted(curves, key=lambda c: c.seeds)}
    texts = []
    for label, text in _labels(curves).items():
        number = f" ({format_seeds(most[label])} seed{'s' * (len(most[label].ends) > 1)})" * numbers
        texts.append("\n".join(textwrap.wrap(text, LEGEND_WRAP)) + number)
    texts = texts[:LEGEND_MOST]
    rows = sum(text.count("\n") + 1 for text in texts)
    inside = rows <= LEGEND_INSIDE and _widest(texts) <= LEGEND_WIDTH
    return texts, 0 if inside else math.ceil(rows / LEGEND_ROWS)


def _labels(curves: Sequence[Curve]) -> dict[str, str]:
    """Return how each label is shown."""
    labels = list(dict.fromkeys(c.label for c in curves))
    return dict(zip(labels, make_labels(labels, LEGEND_WRAP), strict=True))


def _widest(texts: Sequence[str]) -> int:
    return max(len(line) for text in texts for line in text.split("\n"))


def _legend(figure: Any, ax: Any, texts: Sequence[str], columns: int) -> None:
    """Name the curves: inside a panel where there is room, else beside the panels."""
    from matplotlib.lines import Line2D

    handles = []
    for i in range(len(texts)):
        colour, style = _look(i)
        handles.append(Line2D([], [], color=colour, linestyle=style, linewidth=1.6))
    looks: dict[str, Any] = {"fontsize": 9, "handlelength": 3}
    if columns:
        figure.legend(handles, texts, loc="outside right upper", ncols=columns, **looks)
    else:
        ax.legend(handles, texts, loc="best", framealpha=0.7, **looks)


def format_number(value: float) -> str:
    """Return a number as an axis shows it.

    Example:
        >>> [thousands(x) for x in (0.0, 0.25, 500.0, 1500.0, -2e6)]
        ['0', '0.25', '500', '1.5k', '-2M']
    """
    for least, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if least * 0.9999999 <= abs(value) < 1e12:
            return f"{value / least:.8g}{letter}"
    return f"{value:.8g}"


def format_seeds(curve: Curve) -> str:
    """Return how many seeds a curve is of; `2 of 3` where one has no value anywhere on it."""
    number = len(curve.ends)
    return str(number) if curve.seeds == number else f"{curve.seeds} of {number}"


def format_table(curves: Sequence[Curve]) -> str:
    """Return where each curve ends."""
    rows, labels = (
        [("curve", "seeds", "x", "at the end", "y", "at the end", "± std")],
        _labels(curves),
    )
    for c in curves:
        last = _last(c)
        std = "" if c.counts[last] < 2 else f"{c.high[last] - c.y[last]:.4g}"
        x = f"{c.x[last]:,.0f}" if c.x[last] % 1 == 0 else f"{c.x[last]:,.6g}"
        rows.append(
            (labels[c.label], format_seeds(c), c.xname, x, c.yname, f"{c.y[last]:.6g}", std)
        )
    return align_columns(rows)


def draw_sparklines(curves: Sequence[Curve], encoding: str | None = None, width: int = 48) -> str:
    """Return a line per curve, from the lowest to the highest value of its column, broken as it is.

    Args:
        curves: as `plot` returns them.
        encoding: of the terminal; where it has no blocks, letters stand for them.
        width: of a curve, in characters.
    """
    marks = BLOCKS
    try:
        marks.encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        marks = LETTERS
    rows = [("curve", "seeds", "", "from", "to", "at the end")]
    lines, labels = [], _labels(curves)
    for panel in dict.fromkeys(c.panel for c in curves):
        group = [c for c in curves if c.panel == panel]
        every = np.concatenate([c.y[np.isfinite(c.y)] for c in group] or [np.zeros(1)])
        low, high = (every.min(), every.max()) if len(every) else (0.0, 0.0)
        xs = (min(c.x[0] for c in group), max(c.x[-1] for c in group))
        lines.append(f"{_yname(group)}: {low:.6g} to {high:.6g}")
        for c in group:
            mark = "".join(_mark(y, low, high, marks) for y in _interpolate(c, xs, width))
            label, last = labels[c.label], _last(c)
            ends = (format_number(c.x[0]), format_number(c.x[-1]), f"{c.y[last]:.6g}")
            rows.append((label, format_seeds(c), mark, *ends))
    return align_columns(rows) + "\n" + "\n".join(lines)


def _last(curve: Curve) -> int:
    """Return the index of the last value there is."""
    there = np.flatnonzero(np.isfinite(curve.y))
    return int(there[-1]) if len(there) else -1


def _interpolate(curve: Curve, xs: tuple[float, float], width: int) -> np.ndarray:
    grid = np.linspace(*xs, width)
    return np.interp(grid, curve.x, curve.y, left=np.nan, right=np.nan)


def _mark(y: float, low: float, high: float, marks: str) -> str:
    if not math.isfinite(y):
        return " "
    return marks[min(int((y - low) / max(high - low, 1e-300) * len(marks)), len(marks) - 1)]
