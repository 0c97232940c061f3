"""What a run says of each epoch: columns in Spinning Up's names, and a line for the screen."""

import csv
import io
import math
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from purerl.loops.gym import Record
from purerl.runs import storage
from purerl.runs.log import Logger, append

# Our metrics -> Spinning Up's columns. What is not here keeps its words: delta_loss_v, DeltaLossV.
COLUMNS = {"q": "QVals", "q1": "Q1Vals", "q2": "Q2Vals", "val": "VVals", "logp": "LogPi"} | {"kl": "KL"}
    "q": "QVals",
    "q1": "Q1Vals",
    "q2": "Q2Vals",
    "val": "VVals",
    "logp": "LogPi",
    "kl": "KL",
}
AVERAGED = ("q", "q1", "q2", "val", "logp")  # Spinning Up's name of their mean: AverageQVals
SPREAD = ("_std", "_min", "_max")
SHOWN = ("loss_q", "q1", "q", "alpha", "epsilon", "loss_v", "kl", "entropy")  # where there are
HEADER_EVERY = 20  # lines


def printed(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def column(metric: str) -> str:
    """Return the column of a metric.

    Example:
        >>> column("loss_q"), column("loss_q_std"), column("q1"), column("q1_max")
        ('LossQ', 'StdLossQ', 'AverageQ1Vals', 'MaxQ1Vals')
    """
    prefix = "Average" if metric in AVERAGED else ""
    if metric.endswith(SPREAD):
        metric, _, kind = metric.rpartition("_")
        prefix = kind.capitalize()
    words = "".join(word.capitalize() for word in metric.split("_"))
    return prefix + COLUMNS.get(metric, words)


def row(record: Record, seconds: float) -> dict[str, Any]:
    """Return a record as a row of `progress.txt`."""
    found: dict[str, Any] = {"Epoch": record["epoch"]}
    found |= _statistics("EpRet", record["ep_returns"])
    found["EpLen"] = _mean(record["ep_lengths"])
    if "test_returns" in record:
        found |= _statistics("TestEpRet", record["test_returns"])
        found["TestEpLen"] = _mean(record["test_lengths"])
    found["TotalEnvInteracts"] = record["steps"]
    known = ("epoch", "steps", "updates")
    found |= {
        column(name): value
        for name, value in record.items()
        if name not in known and not isinstance(value, list) and _is_shown(name)
    }
    return found | {"Updates": record["updates"], "Time": round(seconds, 3)}


def _is_shown(metric: str) -> bool:
    """Say whether a metric has a column: means have, and the spread of losses, values, log pi."""
    name = metric.rpartition("_")[0] if metric.endswith(SPREAD) else ""
    return not name or name in AVERAGED or name.startswith("loss_")


class Logs:
    """The logs of a run in its folder: begun, or cut back to where a checkpoint was made.

    Args:
        run: the folder.
        notes: of the checkpoint that is gone on from; empty for a new run.
    """

    def __init__(self, run: Path, notes: dict[str, Any]) -> None:
        self.run = run
        self.rows, self.episodes = notes.get("rows", 0), notes.get("episodes", 0)
        self.began = time.monotonic() - notes.get("seconds", 0.0)
        self.lines = 0
        _cut(run / "progress.txt", 1 + self.rows)
        _cut(run / "metrics.jsonl", self.rows)
        _cut(run / "episodes.csv", 1 + self.episodes)
        if not (run / "episodes.csv").exists():
            append(run / "episodes.csv", "epoch,step,kind,return,length\n")
        self.logger = Logger(run, quiet=True, resume=True)
        self.last = (time.monotonic(), notes.get("step", 0))

    def add(self, record: Record, total: int) -> list[str]:
        """Write the rows of an epoch; return lines for the screen."""
        now = time.monotonic()
        for key, value in row(record, now - self.began).items():
            self.logger.log_tabular(key, value)
        self.logger.dump_tabular()
        self.rows += 1
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for kind, what in (("train", "ep"), ("test", "test")):
            pairs = zip(
                record.get(f"{what}_returns", ()), record.get(f"{what}_lengths", ()), strict=True
            )
            for value, length in pairs:
                writer.writerow([record["epoch"], record["steps"], kind, value, length])
                self.episodes += 1
        append(self.run / "episodes.csv", text.getvalue())
        lines = self._lines(record, total, now)
        append(self.run / "stdout.log", "".join(line + "\n" for line in lines))
        self.last = (now, record["steps"])
        return lines

    def _lines(self, record: Record, total: int, now: float) -> list[str]:
        rate = (record["steps"] - self.last[1]) / max(now - self.last[0], 1e-9)
        left = (total - record["steps"]) / max(rate, 1e-9)
        cells = {"step": f"{record['steps']:,}"}
        for name, key in (("return", "ep_returns"), ("test", "test_returns")):
            if key in record:
                cells[name] = f"{_mean(record[key]):.1f}"
        cells["length"] = f"{_mean(record['ep_lengths']):.0f}"
        cells |= {name: f"{record[name]:.3f}" for name in SHOWN if name in record}
        cells |= {"steps/s": f"{rate:,.0f}", "left": f"{left // 60:.0f}:{left % 60:02.0f}"}
        line = " ".join(f"{value:>10}" for value in cells.values())
        self.lines += 1
        if self.lines % HEADER_EVERY == 1:
            return [" ".join(f"{name:>10}" for name in cells), line]
        return [line]

    def notes(self) -> dict[str, Any]:
        """Return what a checkpoint must remember of the logs."""
        return {
            "rows": self.rows,
            "episodes": self.episodes,
            "seconds": time.monotonic() - self.began,
            "step": self.last[1],
        }


def _cut(path: Path, lines: int) -> None:
    """Leave the first lines of a file: what came after them is done again."""
    if path.exists():
        text = path.read_text().splitlines(keepends=True)
        if len(text) > lines or (text and not text[-1].endswith("\n")):
            storage.replace(path, "".join(text[:lines]).encode())


def _statistics(name: str, values: list[float]) -> dict[str, float]:
    none = math.nan
    return {
        f"Average{name}": _mean(values),
        f"Std{name}": statistics.pstdev(values) if values else none,
        f"Max{name}": max(values, default=none),
        f"Min{name}": min(values, default=none),
    }


def _mean(values: list[Any]) -> float:
    return statistics.fmean(values) if values else math.nan
