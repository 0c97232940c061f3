"""Stored learning curves of the labs, and their picture as SVG, which needs no other package."""

import json
import math
from collections.abc import Sequence
from importlib import resources
from typing import Any

from purerl.errors import ConfigError

RIGHT, PLANTED, INK, GREY = "#0072b2", "#d55e00", "#1f2933", "#6b7280"
WIDTH, HEIGHT, ACROSS = 250, 150, 3  # of a panel, and number of panels in a row
LEFT, TOP, GAP = 46, 24, 22  # margins inside a panel: numbers, title, numbers below
HEAD = 30  # height of the legend
FAR = 20  # ranges of the right curves at which other curves are cut off
Series = Sequence[float | None]  # None where a metric has no value


def read_curves(algo: str) -> dict[str, Any]:
    """Return the stored runs of an algorithm.

    `curves` maps `right` and the numbers of the labs to metrics, each with a list for each seed.
    `at` contains the environment steps of the points. The other entries say how to repeat the runs.
    """
    file = resources.files("purerl_school").joinpath("labs", "curves", f"{algo}.json")
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


def has_curves(algo: str, number: int) -> bool:
    """Return whether the runs of a lab are stored."""
    return str(number) in read_curves(algo)["curves"]


def draw(algo: str, number: int) -> str:
    """Return the picture of a lab: each metric of the planted copy beside that of the right one."""
    stored = read_curves(algo)
    if not has_curves(algo, number):
        raise ConfigError(f"purerl has no curves of lab {number} of {algo}. Choose another lab.")
    right, planted = stored["curves"]["right"], stored["curves"][str(number)]
    names = list(right)
    rows = math.ceil(len(names) / ACROSS)
    size = (ACROSS * WIDTH + 10, HEAD + rows * HEIGHT + 18)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" '
        f'width="{size[0]}" height="{size[1]}" font-family="Helvetica, Arial, sans-serif" '
        'font-size="11" role="img">',
        f"<title>Learning curves of {algo}, right and with the error of lab {number}</title>",
        f'<rect width="{size[0]}" height="{size[1]}" rx="8" fill="white"/>',
        _draw_legend(f"{algo} {number} on {stored['env'].removeprefix('jax:')}"),
    ]
    for i, name in enumerate(names):
        x, y = i % ACROSS * WIDTH, HEAD + i // ACROSS * HEIGHT
        panel = _draw_panel(f"p{i}", name, stored["at"], right[name], planted.get(name, []))
        parts.append(f'<g transform="translate({x} {y})">{panel}</g>')
    middle = f'x="{size[0] / 2:g}" y="{size[1] - 6}" text-anchor="middle"'
    parts.append(f'<text {middle} fill="{GREY}">environment steps; each line is one seed</text>')
    return "\n".join([*parts, "</svg>", ""])


def _draw_legend(title: str) -> str:
    text = f'<text x="14" y="20" font-size="13" font-weight="bold" fill="{INK}">{title}</text>'
    for x, colour, name in ((300, RIGHT, "right"), (390, PLANTED, "with the planted error")):
        text += f'<path d="M {x} 16 h 24" stroke="{colour}" stroke-width="3"/>'
        text += f'<text x="{x + 30}" y="20" font-size="12" fill="{INK}">{name}</text>'
    return text


def _draw_panel(
    clip: str, name: str, at: Sequence[int], right: list[Series], planted: list[Series]
) -> str:
    """Return the axes and lines of one metric; `clip` names its clip path."""
    low, high = choose_range(right, planted)
    width, height = WIDTH - LEFT - 12, HEIGHT - TOP - GAP

    def to_x(step: float) -> float:
        return LEFT + width * step / at[-1]

    def to_y(value: float) -> float:
        return TOP + height * (high - value) / (high - low)

    box = f'x="{LEFT}" y="{TOP}" width="{width}" height="{height}"'
    parts = [f'<clipPath id="{clip}"><rect {box}/></clipPath>']
    parts.append(f'<text x="{LEFT}" y="{TOP - 7}" font-weight="bold" fill="{INK}">{name}</text>')
    for value in choose_ticks(low, high):
        y = to_y(value)
        parts.append(f'<path d="M {LEFT} {y:.1f} h {width}" stroke="#e5e7eb"/>')
        text = f'x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end" fill="{GREY}"'
        parts.append(f"<text {text}>{value:g}</text>")
    for step in choose_ticks(0, at[-1]):
        text = f'x="{to_x(step):.1f}" y="{TOP + height + 14}" text-anchor="middle" fill="{GREY}"'
        parts.append(f"<text {text}>{f'{step / 1000:g}k' if step else 0}</text>")
    for colour, several in ((RIGHT, right), (PLANTED, planted)):
        for series in several:
            pairs = zip(at[: len(series)], series, strict=True)  # a run may end early
            points = [None if v is None else (to_x(step), to_y(v)) for step, v in pairs]
            style = f'fill="none" stroke="{colour}" stroke-width="1.6" clip-path="url(#{clip})"'
            parts.append(f'<path d="{_join_points(points)}" {style}/>')
    return "".join(parts)


def _join_points(points: list[tuple[float, float] | None]) -> str:
    """Return the path through points; None interrupts it."""
    text, pen = "", "M"
    for point in points:
        if point is not None:
            text += f"{pen}{point[0]:.1f} {max(min(point[1], 9999.0), -9999.0):.1f}"
        pen = "M" if point is None else "L"
    return text


def choose_range(right: list[Series], planted: list[Series]) -> tuple[float, float]:
    """Return the range of an axis. Curves that leave the right ones by far are cut off.

    Example:
        >>> choose_range([[0.0, 1.0]], [[0.5, 1000.0]])
        (-1.05, 22.05)
    """
    known, every = (
        [v for series in several for v in series if v is not None]
        for several in (right, [*right, *planted])
    )
    low, high = min(every, default=0.0), max(every, default=1.0)
    if known and (span := max(known) - min(known)) > 0:
        low, high = max(low, min(known) - FAR * span), min(high, max(known) + FAR * span)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin


def choose_ticks(low: float, high: float, most: int = 4) -> list[float]:
    """Return at most `most` round numbers in a range.

    Example:
        >>> choose_ticks(-0.2, 4.2)
        [0.0, 2.0, 4.0]
    """
    size = 10.0 ** math.floor(math.log10((high - low) / most))
    for factor in (1, 2, 5, 10, 20):
        step = factor * size
        count = math.floor(high / step) - math.ceil(low / step) + 1
        if count <= most:
            break
    return [step * (math.ceil(low / step) + i) for i in range(count)]
