"""Play episodes with a policy: returns, lengths, and how precisely their mean is known."""

import dataclasses
import math
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from purerl import errors
from purerl.loops import gym as loop
from purerl.runs.record import safe_files

if TYPE_CHECKING:
    from purerl.runs.policy.run import Run


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Episodes of a policy, and the statistics of their returns.

    Example:
        >>> found = Evaluation((1.0, 2.0, 6.0), (10, 20, 60))
        >>> found.mean, found.min, found.max, found.mean_length
        (3.0, 1.0, 6.0, 30.0)
        >>> [round(x, 3) for x in found.ci95]
        [-3.572, 9.572]
    """

    returns: tuple[float, ...]
    lengths: tuple[int, ...]

    @property
    def mean(self) -> float:
        """Mean return."""
        return statistics.fmean(self.returns)

    @property
    def std(self) -> float:
        """Standard deviation of these returns, divided by their number as in `progress.txt`."""
        return statistics.pstdev(self.returns)

    @property
    def min(self) -> float:
        """Lowest return."""
        return min(self.returns)

    @property
    def max(self) -> float:
        """Highest return."""
        return max(self.returns)

    @property
    def mean_length(self) -> float:
        """Mean length in steps."""
        return statistics.fmean(self.lengths)

    @property
    def ci95(self) -> tuple[float, float]:
        """Student's 95 % confidence interval of the mean return; infinite for one episode."""
        number = len(self.returns)
        if number == 1:
            return -math.inf, math.inf
        from scipy.special import stdtrit  # start-up time: only this needs SciPy

        half = float(stdtrit(number - 1, 0.975)) * statistics.stdev(self.returns)
        half /= math.sqrt(number)
        return self.mean - half, self.mean + half

    def to_json(self) -> dict[str, Any]:
        """Return statistics and episodes as JSON values, with no interval for one episode."""
        names = ("mean", "std", "min", "max", "mean_length")
        found: dict[str, Any] = {name: getattr(self, name) for name in names}
        found["ci95"] = list(self.ci95) if len(self.returns) > 1 else None
        return found | {"returns": list(self.returns), "lengths": list(self.lengths)}


def play_episodes(
    run: "Run",
    env_fn: Any,
    episodes: int = 1,
    seed: int = 10_000,
    deterministic: bool = True,
    max_ep_len: int | None = None,
) -> Evaluation:
    """Play episodes of a run's policy; the arguments are those of `Run.evaluate`."""
    if max_ep_len is None:
        max_ep_len = run.config.schedule.max_ep_len
    try:
        record = loop.evaluate(
            run.algo, run.params, env_fn, seed, 0, episodes, max_ep_len or None, deterministic
        )
    except errors.ConfigError:
        raise
    except ValueError as error:
        raise errors.ConfigError(str(error)) from error
    return Evaluation(tuple(record["test_returns"]), tuple(record["test_lengths"]))


def reserve_path(folder: Path, stem: str, suffix: str) -> Path:
    """Create an empty file with the first free name of `stem-1.json`, `stem-2.json`, ..."""
    for number in range(1, 1_000_000):
        path = folder / f"{stem}-{number}{suffix}"
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            continue
        except OSError as error:
            raise safe_files.explain_os_error(error, path) from error
        return path
    raise errors.StorageError(f"{folder} is full: {stem}-999999{suffix} exists.")
