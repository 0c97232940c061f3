"""Statistics of evaluation episodes, and names of result files."""

import contextlib
import itertools
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from purerl.runs.record import safe_files


class Evaluation(NamedTuple):
    """Returns and lengths of evaluation episodes, with their statistics."""

    mean: float
    std: float  # divides by the number of episodes, as in `progress.txt`
    min: float
    max: float
    mean_length: float  # in steps
    ci95: tuple[float, float]  # 95% Student's t interval of `mean`; infinite for one episode
    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    success: float | None = None  # share of episodes that ended in success, if that is known

    def to_json(self) -> dict[str, Any]:
        """Return all fields as JSON values; `ci95` is None for one episode."""
        return self._asdict() | {"ci95": self.ci95 if len(self.returns) > 1 else None}

    def describe_success(self) -> str:
        """Return the success rate with the comma before it, if it is known."""
        return "" if self.success is None else f", success {self.success:.2f}"


def summarise_episodes(
    returns: Sequence[float], lengths: Sequence[int], successes: Sequence[float] = ()
) -> Evaluation:
    """Compute statistics of the returns and lengths of episodes.

    Example:
        >>> result = summarise_episodes([1.0, 2.0, 6.0], [10, 20, 60])
        >>> result.mean, result.min, result.max, result.mean_length
        (3.0, 1.0, 6.0, 30.0)
        >>> [round(x, 3) for x in result.ci95]
        [-3.572, 9.572]
    """
    mean, number, half = statistics.fmean(returns), len(returns), math.inf
    if number > 1:
        from scipy.special import stdtrit  # start-up time: only this needs SciPy

        half = float(stdtrit(number - 1, 0.975)) * statistics.stdev(returns) / math.sqrt(number)
    spread = (statistics.pstdev(returns), min(returns), max(returns))
    values = (mean, *spread, statistics.fmean(lengths), (mean - half, mean + half))
    rate = statistics.fmean(successes) if successes else None
    return Evaluation(*values, tuple(returns), tuple(lengths), rate)


def reserve_path(folder: Path, stem: str, suffix: str) -> Path:
    """Create an empty file under the first unused name of `stem-1.json`, `stem-2.json`, ..."""
    for number in itertools.count(1):
        path = folder / f"{stem}-{number}{suffix}"
        with safe_files.explain_errors(path), contextlib.suppress(FileExistsError):
            path.touch(exist_ok=False)
            break
    return path
