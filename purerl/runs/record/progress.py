"""What a run says of each epoch: columns in Spinning Up's names, and a line for the screen."""

import csv
import io
import math
import os
import statistics
import time
from pathlib import Path
from typing import Any

import jax

from purerl.loops.carry import Carry, OffPolicyCarry, Record
from purerl.runs.record import files, safe_files
from purerl.runs.record.logger import Logger, append_text, undo_on_error
from purerl.runs.training.progress_bar import format_clock
from purerl.spaces import Box, Discrete

# Our metrics -> Spinning Up's columns. What is not here keeps its words: delta_loss_v, DeltaLossV.
COLUMNS = {
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


def name_column(metric: str) -> str:
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


def make_row(record: Record, seconds: float) -> dict[str, Any]:
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
        name_column(name): value
        for name, value in record.items()
        if name not in known and not isinstance(value, list) and _is_shown(name)
    }
    return found | {"Updates": record["updates"], "Time": round(seconds, 3)}


def _is_shown(metric: str) -> bool:
    """Say whether a metric has a column: means have, and the spread of losses, values, log pi."""
    name = metric.rpartition("_")[0] if metric.endswith(SPREAD) else ""
    return not name or name in AVERAGED or name.startswith("loss_")


def describe_sizes(carry: Carry) -> str:
    """Return what a run is made of: spaces, parameters, memory."""
    env = carry.learner.params.spec.env
    leaves = jax.tree.leaves(carry.learner.params)
    text = f"observations {env.obs_shape} {env.obs_dtype}, actions {_describe_action(env.action)}, "
    text += f"{sum(x.size for x in leaves):,} parameters"
    if isinstance(carry, OffPolicyCarry):
        rows = jax.tree.leaves(carry.buffer.data)
        size = sum(x.nbytes for x in rows) / 1e6
        text += f", replay memory of {len(rows[0]):,} rows = {size:,.0f} MB"
    return text


def _describe_action(action: Box | Discrete) -> str:
    if isinstance(action, Discrete):
        return f"one of {action.n}"
    low, high = min(action.low), max(action.high)
    return f"{action.shape} in [{low:g}, {high:g}]"


class Logs:
    """The logs of a run in its folder: begun, or cut back to where a checkpoint was made.

    Args:
        run: the folder.
        notes: of the checkpoint that is gone on from; empty for a new run.
    """

    def __init__(self, run: Path, notes: dict[str, Any]) -> None:
        self.run = run
        self.began = time.monotonic() - notes.get("seconds", 0.0)
        self.shown: tuple[str, ...] = ()  # cells of the header above
        self.lines = 0  # since
        rows, episodes = notes.get("rows", 0), notes.get("episodes", 0)
        # What is counted is what is there: somebody may have taken rows away.
        self.rows = max(0, _cut(run / "progress.txt", 1 + rows) - 1)
        self.objects = _cut(run / "metrics.jsonl", notes.get("objects", rows))
        self.episodes = max(0, _cut(run / "episodes.csv", 1 + episodes) - 1)
        if not (run / "episodes.csv").exists():
            append_text(run / "episodes.csv", "epoch,step,kind,return,length\n")
        self.logger = Logger(run, quiet=True, resume=True)
        self.last = (time.monotonic(), notes.get("step", 0))
        self.waiting: list[tuple[Record, dict[str, Any]]] = []  # for space on the disk

    def add(self, record: Record, total: int) -> tuple[dict[str, Any], list[str]]:
        """Take the record of an epoch, to be written by `write`.

        Returns:
            Its row, and lines for the screen.
        """
        now = time.monotonic()
        found = make_row(record, now - self.began)
        self.waiting.append((record, found))
        lines = self._lines(record, total, now)
        self.last = (now, record["steps"])
        return found, lines

    def write(self) -> None:
        """Write what waits, each epoch all or not at all."""
        while self.waiting:
            record, found = self.waiting[0]
            text, number = _episodes(record)
            with undo_on_error(self.run / "episodes.csv"):
                append_text(self.run / "episodes.csv", text)
                self.logger.row = dict(found)
                self.logger.dump_tabular()
            self.rows += 1
            self.objects += 1
            self.episodes += number
            del self.waiting[0]

    def _lines(self, record: Record, total: int, now: float) -> list[str]:
        rate = (record["steps"] - self.last[1]) / max(now - self.last[0], 1e-9)
        left = (total - record["steps"]) / max(rate, 1e-9)
        cells = {"step": f"{record['steps']:,}"}
        for name, key in (("return", "ep_returns"), ("test", "test_returns")):
            if key in record:
                cells[name] = f"{_mean(record[key]):.1f}"
        cells["length"] = f"{_mean(record['ep_lengths']):.0f}"
        cells |= {name: _short(record[name]) for name in SHOWN if name in record}
        cells |= {"steps/s": f"{rate:,.0f}", "left": format_clock(left)}
        line = " ".join(f"{value:>10}" for value in cells.values())
        if tuple(cells) == self.shown and self.lines < HEADER_EVERY:
            self.lines += 1
            return [line]
        self.shown, self.lines = tuple(cells), 1
        return [" ".join(f"{name:>10}" for name in cells), line]

    def notes(self) -> dict[str, Any]:
        """Return what a checkpoint must remember of the logs."""
        return {
            "rows": self.rows,
            "objects": self.objects,
            "episodes": self.episodes,
            "seconds": time.monotonic() - self.began,
            "step": self.last[1],
        }


def _short(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 1e5 else f"{value:.2e}"


def _episodes(record: Record) -> tuple[str, int]:
    """Return the episodes of a record as lines of CSV, and how many there are."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    rows = [
        [record["epoch"], record["steps"], kind, value, length]
        for kind, what in (("train", "ep"), ("test", "test"))
        for value, length in zip(
            record.get(f"{what}_returns", ()), record.get(f"{what}_lengths", ()), strict=True
        )
    ]
    writer.writerows(rows)
    return text.getvalue(), len(rows)


def _cut(path: Path, lines: int) -> int:
    """Leave the first lines of a file, what came after is done again; return how many are left."""
    if not path.exists():
        return 0
    with safe_files.open_file(path) as file:
        kept: list[bytes] = []
        while len(kept) < lines and (line := file.readline(2**20)).endswith(b"\n"):
            kept.append(line)
        more = file.seek(0, os.SEEK_END) > sum(map(len, kept))
    if not kept:
        path.unlink()  # it is begun with its header again
    elif more:
        files.replace_file(path, b"".join(kept))
    return len(kept)


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
