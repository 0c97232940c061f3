"""Draw curves with matplotlib, without a display."""

import importlib.util
import io
import itertools
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from purerl.errors import ConfigError
from purerl.runs.analysis import labels
from purerl.runs.analysis.curves import Curve
from purerl.runs.record import files

MISSING = "a picture needs matplotlib: pip install 'purerl[plot]'"
# Okabe and Ito's colours, which colour-blind people can tell apart, without yellow: too pale.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
LINES = ("-", "--", ":", "-.")
UNITS = ((7200.0, 3600.0, "hours"), (300.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))
LEGEND_INSIDE = 5  # curves in a legend inside a panel, at most, and characters of each
LEGEND_WIDTH = 34
LEGEND_ROWS = 20  # curves in each column of a legend beside the panels
LEGEND_MOST = 60  # curves in a legend; with more of them looks repeat
SETTINGS: dict[str, Any] = {
    "text.parse_math": False,  # labels are plain text
    "text.usetex": False,
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "font.size": 10,
    "lines.linewidth": 1.6,
    "svg.hashsalt": "purerl",  # equal curves give equal files
}


def has_matplotlib() -> bool:
    """Return whether a picture can be drawn."""
    return importlib.util.find_spec("matplotlib") is not None


def check_picture(out: Path) -> None:
    """Refuse a picture that cannot be drawn."""
    if out.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise ConfigError(f"out must end in .png, .pdf or .svg, got {str(out)!r}.")
    if not has_matplotlib():
        raise ConfigError(MISSING)


def draw_figure(
    curves: Sequence[Curve], panels: Sequence[str], out: Path, caption: str, numbers: bool = True
) -> None:
    """Draw curves, one panel for each y, and replace the file once the picture is complete.

    Args:
        curves: learning curves, each with the name of its panel.
        panels: the y of each panel.
        out: a file that `check_picture` accepts.
        caption: text below the panels.
        numbers: whether the legend has the number of seeds of each curve.
    """
    from cycler import cycler
    from matplotlib import style
    from matplotlib.figure import Figure

    looks = itertools.cycle(cycler(linestyle=LINES) * cycler(color=COLOURS))
    styles = dict(zip(dict.fromkeys(curve.label for curve in curves), looks, strict=False))
    texts = _write_legend(curves, numbers)
    if len(styles) > len(texts):
        more = f"the first {len(texts)} of {len(styles)} curves are named"
        caption = ", ".join(filter(None, [caption, more]))
    down, across = math.ceil(len(panels) / 2), min(len(panels), 2)
    kind, content = out.suffix.lower()[1:], io.BytesIO()
    # A user's own settings may ask for LaTeX, or white on white.
    with style.context(["default", SETTINGS]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing", category=UserWarning)
        figure = Figure(figsize=(6.4 * across, 0.6 + 3.6 * down), layout="constrained")
        axes = figure.subplots(down, across, squeeze=False).ravel()
        for panel, ax in zip(panels, axes, strict=False):
            _draw_panel(ax, [curve for curve in curves if curve.panel == panel], styles)
        for ax in axes[len(panels) :]:
            ax.remove()
        _draw_legend(figure, axes[0], texts, list(styles.values()))
        figure.supxlabel(caption, fontsize=8, color="0.35")
        metadata = {"Date": None} if kind == "svg" else {}
        figure.savefig(content, format=kind, dpi=150, bbox_inches="tight", metadata=metadata)
    files.make_folder(out.parent)
    files.replace_file(out, content.getvalue())


def _draw_panel(ax: Any, curves: Sequence[Curve], styles: dict[str, dict[str, Any]]) -> None:
    """Draw the curves of one y."""
    name, scale = labels.name_column(curves[0].xname), 1.0
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
        axis.set_major_formatter(lambda value, _: labels.format_number(value))
    ax.set(xlabel=name, ylabel=labels.name_y(curves))


def find_single(y: np.ndarray) -> list[int]:
    """Return the indices of values without a neighbour, to which no line leads."""
    there = np.pad(np.isfinite(y), 1)
    return np.flatnonzero(there[1:-1] & ~there[:-2] & ~there[2:]).tolist()


def _write_legend(curves: Sequence[Curve], numbers: bool) -> list[str]:
    """Return a text for each label, with the most seeds of its curves."""
    texts: dict[str, str] = {curve.label: curve.label for curve in curves}
    for c in sorted(curves, key=lambda curve: curve.seeds) if numbers else ():
        seeds = f"{labels.format_seeds(c)} seed{'s' * (len(c.ends) > 1)}"
        texts[c.label] = f"{c.label} ({seeds})"
    return list(texts.values())[:LEGEND_MOST]


def _draw_legend(
    figure: Any, ax: Any, texts: Sequence[str], looks: Sequence[dict[str, Any]]
) -> None:
    """Name the curves inside a panel if there is room, else beside the panels."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **look) for look in looks[: len(texts)]]
    size: dict[str, Any] = {"fontsize": 9, "handlelength": 3}
    if len(texts) <= LEGEND_INSIDE and max(map(len, texts)) <= LEGEND_WIDTH:
        ax.legend(handles, texts, loc="best", framealpha=0.7, **size)
    else:  # outside of the figure, which bbox_inches="tight" then extends
        columns = math.ceil(len(texts) / LEGEND_ROWS)
        corner = {"loc": "upper left", "bbox_to_anchor": (1, 1)}
        figure.legend(handles, texts, ncols=columns, **corner, **size)
