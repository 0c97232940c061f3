"""Draw curves with matplotlib, which needs no display, or as text in the terminal."""

import importlib
import io
import itertools
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from purerl.runs.analysis.tables import RETURNS
from purerl.runs.console import align_columns, clean_text
from purerl.runs.record import files, machine

# Colours of Okabe and Ito, which colour-blind people can tell apart, without the pale yellow.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
LINES = ("-", "--", ":", "-.")
UNITS = ((7200.0, 3600.0, "hours"), (300.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))
Styles = dict[str, dict[str, Any]]  # colour and line style by label
LEGEND_INSIDE = 5  # maximum number of curves in a legend inside a panel
LEGEND_WIDTH = 34  # maximum number of characters of their labels
LEGEND_ROWS = 20  # curves in each column of a legend beside the panels
LEGEND_MOST = 60  # maximum number of curves in a legend; with more, colours and styles repeat
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
SETTINGS: dict[str, Any] = {
    "text.parse_math": False,  # labels are plain text
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "lines.linewidth": 1.6,
    "svg.hashsalt": "purerl",  # equal curves give equal files
}


class Curve(NamedTuple):
    """Learning curve of a condition, with a band of one standard deviation to each side."""

    label: str
    panel: str  # y as given to `plot`
    xname: str  # column of x; several names if seeds differ
    yname: str  # column of y, likewise
    x: np.ndarray
    y: np.ndarray  # NaN where the line is broken
    low: np.ndarray  # lower end of the band; NaN where fewer than two seeds have a value
    high: np.ndarray  # upper end of the band, likewise
    seeds: int  # number of seeds with a value somewhere on the line
    counts: np.ndarray  # number of seeds with a value at each x
    ends: tuple[float, ...]  # x of the last value of each seed, even if it is not on the line
    env: str = ""  # environment of its runs; empty if unknown


def group_panels(curves: Sequence[Curve]) -> list[list[Curve]]:
    """Return the curves of each panel: one panel for each column and environment."""
    keys = dict.fromkeys((curve.panel, curve.env) for curve in curves)
    return [[one for one in curves if (one.panel, one.env) == key] for key in keys]


def explain_missing() -> str:
    """Return why matplotlib cannot be used and what to do; empty if it can be used."""
    if command := machine.explain_missing("plot"):
        return f"a picture needs matplotlib: {command}"
    try:
        importlib.import_module("matplotlib.figure")
    except Exception as error:  # a broken installation may raise anything
        why = clean_text(" ".join(str(error).split()), 200)
        return f"matplotlib is installed but cannot be imported ({why}). Install it again."
    return ""


def draw_figure(curves: Sequence[Curve], out: Path, caption: list[str], numbers: bool) -> None:
    """Draw curves in their panels and replace the file; `numbers` adds seeds to the legend."""
    from cycler import cycler
    from matplotlib import style
    from matplotlib.figure import Figure

    looks = itertools.cycle(cycler(linestyle=LINES) * cycler(color=COLOURS))
    styles = dict(zip(dict.fromkeys(curve.label for curve in curves), looks, strict=False))
    if len(styles) > LEGEND_MOST:
        caption = [*caption, f"legend: the first {LEGEND_MOST} of {len(styles)} curves"]
    panels = group_panels(curves)
    down, across = math.ceil(len(panels) / 2), min(len(panels), 2)
    kind, content = out.suffix.lower()[1:], io.BytesIO()
    # Ignore the user's matplotlib settings, which may require LaTeX or draw white on white.
    with style.context(["default", SETTINGS]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing", category=UserWarning)
        figure = Figure(figsize=(6.4 * across, 0.6 + 3.6 * down), layout="constrained")
        axes = figure.subplots(down, across, squeeze=False).ravel()
        for group, ax in zip(panels, axes, strict=False):
            _draw_panel(ax, group, styles)
        for ax in axes[len(panels) :]:
            ax.remove()
        _draw_legend(figure, curves, styles, numbers)
        figure.supxlabel(", ".join(caption), fontsize=8, color="0.35")
        metadata = {"Date": None} if kind == "svg" else {}
        figure.savefig(content, format=kind, dpi=150, bbox_inches="tight", metadata=metadata)
    files.make_folder(out.parent)
    files.replace_file(out, content.getvalue())


def _draw_panel(ax: Any, curves: Sequence[Curve], styles: Styles) -> None:
    """Draw the curves of one panel."""
    name, scale = NAMES.get(curves[0].xname, clean_text(curves[0].xname, 40)), 1.0
    if curves[0].xname == "Time":
        longest = max(curve.x[-1] for curve in curves)
        scale, unit = next((scale, unit) for least, scale, unit in UNITS if longest >= least)
        name = f"time ({unit})"
    for curve in curves:
        x, look = curve.x / scale, styles[curve.label]
        dots = {"marker": "o", "markersize": 4, "markevery": find_single(curve.y)}
        ax.plot(x, curve.y, **look, **dots)
        if curve.seeds > 1:
            ax.fill_between(x, curve.low, curve.high, color=look["color"], alpha=0.16, linewidth=0)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(lambda value, _: format_number(value))
    ax.set(xlabel=name, ylabel=_name_y(curves), title=curves[0].env)


def find_single(y: np.ndarray) -> list[int]:
    """Return the indices of values that no line connects to a neighbour."""
    finite = np.pad(np.isfinite(y), 1)
    return np.flatnonzero(finite[1:-1] & ~finite[:-2] & ~finite[2:]).tolist()


def _draw_legend(figure: Any, curves: Sequence[Curve], styles: Styles, numbers: bool) -> None:
    """Draw the legend inside the first panel if there is room, else beside the panels."""
    from matplotlib.lines import Line2D

    names = {label: label for label in styles}
    for c in sorted(curves, key=lambda curve: curve.seeds) if numbers else ():
        names[c.label] = f"{c.label} ({_format_seeds(c)} seed{'s' * (len(c.ends) > 1)})"
    texts = list(names.values())[:LEGEND_MOST]
    handles = [Line2D([], [], **look) for look in styles.values()][:LEGEND_MOST]
    size: dict[str, Any] = {"fontsize": 9, "handlelength": 3}
    if len(texts) <= LEGEND_INSIDE and max(map(len, texts)) <= LEGEND_WIDTH:
        figure.axes[0].legend(handles, texts, loc="best", framealpha=0.7, **size)
    else:  # outside of the figure, which bbox_inches="tight" extends
        columns = math.ceil(len(texts) / LEGEND_ROWS)
        corner = {"loc": "upper left", "bbox_to_anchor": (1, 1)}
        figure.legend(handles, texts, ncols=columns, **corner, **size)


def draw_sparklines(curves: Sequence[Curve], encoding: str | None = None, width: int = 32) -> str:
    """Return curves as lines of block characters, or of ASCII if the encoding has no blocks."""
    marks = "▁▂▃▄▅▆▇█"
    try:
        marks.encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        marks = "_.-=+*#@"
    rows = [("curve", "seeds", "", "from", "to", "at the end", "± std")]
    headings: dict[int, str] = {}  # row before which each is printed
    for group in group_panels(curves):
        grid = np.linspace(min(c.x[0] for c in group), max(c.x[-1] for c in group), width)
        low, high = min(np.nanmin(c.y) for c in group), max(np.nanmax(c.y) for c in group)
        where = f"{group[0].env}, " if group[0].env else ""
        headings[len(rows)] = f"{where}{_name_y(group)}: {low:.6g} to {high:.6g}"
        for c in group:
            y = np.interp(grid, c.x, c.y, left=np.nan, right=np.nan)
            levels = np.minimum((y - low) / max(high - low, 1e-300) * len(marks), len(marks) - 1)
            picture = "".join(" " if np.isnan(level) else marks[int(level)] for level in levels)
            ends = (format_number(c.x[0]), format_number(c.x[-1]))
            std = f"{c.high[-1] - c.y[-1]:.4g}" if c.counts[-1] > 1 else ""
            rows.append((c.label, _format_seeds(c), picture, *ends, f"{c.y[-1]:.6g}", std))
    lines = align_columns(rows).split("\n")
    for row, heading in reversed(headings.items()):
        lines.insert(row if len(headings) > 1 else len(lines), heading)
    return "\n".join(lines)


def _name_y(curves: Sequence[Curve]) -> str:
    """Return the name of the y axis of curves that share a panel."""
    columns = {column for curve in curves for column in curve.yname.split(", ")}
    if len(columns) == 1:
        return NAMES.get(curves[0].yname, clean_text(curves[0].yname, 40))
    return "return" if columns <= set(RETURNS) else clean_text(curves[0].panel, 40)


def format_number(value: float) -> str:
    """Return a number as an axis shows it, such as 1.5k or -2M."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if unit * 0.9999999 <= abs(value) < 1e12:
            return f"{value / unit:.8g}{letter}"
    return f"{value:.8g}"


def _format_seeds(curve: Curve) -> str:
    """Return the number of seeds of a curve, such as `2 of 3` if one is not on the curve."""
    number = len(curve.ends)
    return str(number) if curve.seeds == number else f"{curve.seeds} of {number}"
