"""Names of axes, numbers and seeds, as pictures and the terminal show them."""

from collections.abc import Sequence

from purerl.runs.analysis.curves import Curve
from purerl.runs.analysis.tables import RETURNS
from purerl.runs.console import clean_text

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


def name_column(column: str) -> str:
    """Return the name of a column on an axis."""
    return NAMES.get(column, clean_text(column, 40))


def name_y(curves: Sequence[Curve]) -> str:
    """Return the name of the y axis of curves that share a panel."""
    columns = {column for curve in curves for column in curve.yname.split(", ")}
    if len(columns) == 1:
        return name_column(curves[0].yname)
    return "return" if columns <= set(RETURNS) else clean_text(curves[0].panel, 40)


def format_number(value: float) -> str:
    """Return a number as an axis shows it.

    Example:
        >>> [format_number(x) for x in (0.0, 0.25, 500.0, 1500.0, -2e6)]
        ['0', '0.25', '500', '1.5k', '-2M']
    """
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if unit * 0.9999999 <= abs(value) < 1e12:
            return f"{value / unit:.8g}{letter}"
    return f"{value:.8g}"


def format_seeds(curve: Curve) -> str:
    """Return the number of seeds of a curve, such as `2 of 3` if one is nowhere on it."""
    number = len(curve.ends)
    return str(number) if curve.seeds == number else f"{curve.seeds} of {number}"
