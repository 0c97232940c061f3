"""Progress of a run, epoch by epoch: rows with Spinning Up's columns, and lines for the screen."""

import contextlib
import itertools
import math
import re
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from purerl.algos import ALGORITHMS
from purerl.loops.carry import Carry, OffPolicyCarry, Record, SequenceCarry
from purerl.loops.hindsight.rewards import SUCCESS
from purerl.loops.metrics import SPREAD
from purerl.runs.console import format_clock
from purerl.runs.record import checkpoint_folders, files, safe_files
from purerl.runs.record.files import append_text, undo_on_error
from purerl.runs.record.logger import EpochLogger
from purerl.schedules import ResolvedOnPolicySchedule, ResolvedSequenceSchedule
from purerl.spaces import Box, Discrete

# Metrics of the table of algorithms -> Spinning Up's columns, and those shown for each epoch.
COLUMNS = {metric: column for one in ALGORITHMS.values() for metric, column in one.columns.items()}
AVERAGED = {metric for metric, column in COLUMNS.items() if column.startswith("Average")}
SHOWN = dict.fromkeys(metric for one in ALGORITHMS.values() for metric in one.screen)
COUNTERS = ("epoch", "steps", "updates", "random_steps")
HEADER_EVERY = 20  # lines


def name_column(metric: str) -> str:
    """Return the column of a metric: Spinning Up's name, or else its own words in CamelCase.

    Example:
        >>> name_column("loss_q"), name_column("loss_q_std"), name_column("q1_max")
        ('LossQ', 'StdLossQ', 'MaxQ1Vals')
    """
    if metric.endswith(SPREAD):
        mean, _, kind = metric.rpartition("_")
        return kind.capitalize() + name_column(mean).removeprefix("Average")
    return COLUMNS.get(metric) or "".join(word.capitalize() for word in metric.split("_"))


def make_row(record: Record, seconds: float) -> dict[str, Any]:
    """Return a record as a row of `progress.txt`: means, and the spread of losses and values."""
    row: dict[str, Any] = {"Epoch": record["epoch"]}
    row |= _summarise("EpRet", record["ep_returns"])
    row["EpLen"] = _mean(record["ep_lengths"])
    if "test_returns" in record:
        row |= _summarise("TestEpRet", record["test_returns"])
        row["TestEpLen"] = _mean(record["test_lengths"])
    row |= {name_info_column(key): _mean(record[key]) for key in list_info(record)}
    row["TotalEnvInteracts"] = record["steps"]
    for name, value in record.items():
        mean = name.rpartition("_")[0] if name.endswith(SPREAD) else ""
        has_column = not mean or mean in AVERAGED or mean.startswith("loss_")
        if name not in COUNTERS and not isinstance(value, list) and has_column:
            row[name_column(name)] = value
    return row | {"Updates": record["updates"], "Time": round(seconds, 3)}


def list_info(record: Record, kinds: tuple[str, ...] = ("ep", "test")) -> list[str]:
    """List the keys of a record with the values of `log_info`."""
    usual = {f"{kind}_{what}" for kind in kinds for what in ("returns", "lengths")}
    return [key for key in record if key.partition("_")[0] in kinds and key not in usual]


def list_success(record: Record) -> list[str]:
    """List the keys of a record with the success of test episodes, or the key it would have."""
    return [f"test_{name}" for name in SUCCESS if {f"ep_{name}", f"test_{name}"} & record.keys()]


def list_logged_success(run: Path) -> tuple[str, ...]:
    """List the names of success in `info` that a run has logged: none or one."""
    columns = checkpoint_folders.read_header(run / "progress.txt")
    return tuple(name for name in SUCCESS if name_info_column(f"ep_{name}") in columns)[:1]


def name_info_column(key: str) -> str:
    """Return the column of values of `log_info`.

    Example:
        >>> name_info_column("ep_is_success"), name_info_column("test_is_success")
        ('EpIsSuccess', 'TestEpIsSuccess')
    """
    kind, _, name = key.partition("_")
    words = "".join(word[:1].upper() + word[1:] for word in re.split(r"[\s_/.-]+", name))
    return f"{'Ep' if kind == 'ep' else 'TestEp'}{words}"


def describe_sizes(carry: Carry) -> str:
    """Return the sizes of a run: spaces, parameters, memory."""
    env, action = carry.learner.params.spec.env, carry.learner.params.spec.env.action
    if isinstance(action, Discrete):
        actions = f"one of {action.n}"
    elif isinstance(action, Box):
        actions = f"{action.shape} in [{min(action.low):g}, {max(action.high):g}]"
    else:
        actions = " and ".join(f"one of {n}" for n in action.sizes)
    number = sum(x.size for x in jax.tree.leaves(carry.learner.params))
    text = f"observations {env.obs_shape} {env.obs_dtype}, actions {actions}, {number:,} parameters"
    if carry.buffer is not None:
        rows = jax.tree.leaves(carry.buffer.data)
        size, kind = sum(x.size * x.dtype.itemsize for x in rows) / 1e6, "rows"
        if isinstance(carry, SequenceCarry):
            kind = f"sequences of {carry.schedule.rollout_length} rows"
        text += f", replay buffer of {len(rows[0]):,} {kind} = {size:,.0f} MB"
        if isinstance(carry, OffPolicyCarry) and (how := carry.relabelling):
            text += f", goals in hindsight ({how.strategy}, k = {how.k:g})"
    return text


def describe_schedule(carry: Carry) -> str:
    """Return how often a run updates and prints a row, and how long its actions are random."""
    schedule = carry.schedule
    rows = f"a row every {schedule.steps_per_epoch:,} steps"
    if isinstance(schedule, ResolvedOnPolicySchedule):
        text = f"an update every {schedule.rollout_steps:,} steps"
        if isinstance(schedule, ResolvedSequenceSchedule) and schedule.replay_ratio:
            start = f"replay_start {schedule.replay_start:,}"
            text += f" and on average {schedule.replay_ratio:g} replayed ones after {start}"
            if schedule.replay_start > schedule.steps:
                text = f"warning: this run ends before its first replayed update ({start})"
        return f"{text}, {rows}"
    bursts = f"{schedule.updates_per_burst:,} updates every {schedule.update_every:,} steps, {rows}"
    if schedule.update_after > schedule.steps:
        after = f"{schedule.update_after:,}"
        bursts = f"warning: this run ends before its first update (update_after {after}); {rows}"
    if carry.steps >= schedule.start_steps:
        return bursts
    return f"{bursts}; (return) is of the first {schedule.start_steps:,} steps, which are random"


def format_test(records: Sequence[Record]) -> str:
    """Return the last cells of a row, with the space before them; empty without an evaluation."""
    if not records or any("test_returns" not in record for record in records):
        return ""
    cells = [f"{cell:>10}" for cell in _format_spread(records, "test_returns")]
    cells += [f"{_mean(_list_means(records, key)):>12.3f}" for key in list_success(records[0])]
    return "".join(f" {cell}" for cell in cells)


def _list_means(records: Sequence[Record], key: str) -> list[float]:
    """Return the mean of a list in each record, without empty lists."""
    return [_mean(record[key]) for record in records if record[key]]


def _format_spread(records: Sequence[Record], key: str) -> list[str]:
    """Return the mean over records; with several records also the least and the largest."""
    means = _list_means(records, key)
    shown = [_mean(means), min(means), max(means)] if len(records) > 1 else means
    return [f"{x:.1f}" for x in shown]


class Table:
    """Rows of the screen with the progress of a run, or of several that are trained together."""

    def __init__(self, step: int = 0) -> None:
        self.shown: tuple[str, ...] = ()  # cells of the header above
        self.lines = 0  # number of lines since that header
        self.last = (time.monotonic(), step)

    def format_row(self, records: Sequence[Record], total: int, is_tested: bool) -> list[str]:
        """Return the lines of an epoch, without the cells of `format_test`.

        The first line is a header if the columns are new, or after `HEADER_EVERY` lines.

        Args:
            records: The record of each run.
            total: Number of steps of a run.
            is_tested: Whether test episodes follow.
        """
        now, record, number = time.monotonic(), records[0], len(records)
        rate = (record["steps"] - self.last[1]) / max(now - self.last[0], 1e-9)
        left = (total - record["steps"]) / max(rate, 1e-9)
        self.last = (now, record["steps"])
        spread = ("return", "min", "max") if number > 1 else ("return",)
        cells = {"step": f"{record['steps']:,}"} | dict.fromkeys((*spread, "length"), "-")
        if lengths := _list_means(records, "ep_lengths"):
            returns = _format_spread(records, "ep_returns")
            if "random_steps" in record:  # these are not returns of the policy
                returns = [f"({cell})" for cell in returns]
            cells |= dict(zip(spread, returns, strict=True)) | {"length": f"{_mean(lengths):.0f}"}
        for key in list_info(record, ("ep",)):
            means = _list_means(records, key)
            cells[key.removeprefix("ep_")] = f"{_mean(means):.3f}" if means else "-"
        for name in SHOWN:
            if all(name in one for one in records):
                x = sum(one[name] for one in records) / number
                cells[name] = f"{x:{'.3f' if abs(x) < 1e5 else '.2e'}}"
        cells |= {"steps/s": f"{number * rate:,.0f}", "left": format_clock(left)}
        lines = [" ".join(f"{cell:>10}" for cell in line) for line in (cells, cells.values())]
        if is_tested:
            tests = [f"{name:>10}" for name in ("test", *spread[1:])]
            success = [f"{'test_success':>12}" for _ in list_success(record)]
            lines[0] = " ".join([lines[0], *tests, *success])
        is_new = tuple(cells) != self.shown or self.lines == HEADER_EVERY
        self.shown, self.lines = tuple(cells), 1 if is_new else self.lines + 1
        return lines if is_new else lines[1:]


class Logs:
    """The logs in a run's folder: new, or cut back to the rows counted in a checkpoint's notes."""

    def __init__(self, run: Path, notes: dict[str, Any]) -> None:
        self.run = run
        self.began = time.monotonic() - notes.get("seconds", 0.0)
        self.step = notes.get("step", 0)  # of the last record
        rows, episodes = notes.get("rows", 0), notes.get("episodes", 0)
        # Count the lines that exist, because somebody may have deleted some.
        _correct_header(run / "progress.txt", notes.get("columns", []))
        self.rows = max(0, _cut(run / "progress.txt", 1 + rows if rows else 0) - 1)
        self.objects = _cut(run / "metrics.jsonl", notes.get("objects", rows))
        self.episodes = max(0, _cut(run / "episodes.csv", 1 + episodes) - 1)
        if not (run / "episodes.csv").exists():
            append_text(run / "episodes.csv", "epoch,step,kind,return,length\n")
        self.logger = EpochLogger(run, quiet=True, resume=True)
        self.waiting: list[tuple[Record, dict[str, Any]]] = []  # not yet on disk

    def add(self, record: Record) -> dict[str, Any]:
        """Queue the record of an epoch for `write`; return its row."""
        row, self.step = make_row(record, time.monotonic() - self.began), record["steps"]
        self.waiting.append((record, row))
        return row

    def write(self) -> None:
        """Write the queued epochs, each completely or not at all."""
        while self.waiting:
            record, row = self.waiting[0]
            ended = [
                f"{record['epoch']},{record['steps']},{kind},{value},{length}\n"
                for kind, what in (("train", "ep"), ("test", "test"))
                for value, length in zip(
                    *(record.get(f"{what}_{x}", ()) for x in ("returns", "lengths")), strict=True
                )
            ]
            with undo_on_error(self.run / "episodes.csv"):
                append_text(self.run / "episodes.csv", "".join(ended))
                self.logger.row = dict(row)
                self.logger.dump_tabular()
            self.rows += 1
            self.objects += 1
            self.episodes += len(ended)
            del self.waiting[0]

    def notes(self) -> dict[str, Any]:
        """Return the state of the logs, which a checkpoint contains."""
        counts = {"rows": self.rows, "objects": self.objects, "episodes": self.episodes}
        table: dict[str, Any] = {"columns": self.logger.columns}
        return counts | table | {"seconds": time.monotonic() - self.began, "step": self.step}


def _cut(path: Path, lines: int) -> int:
    """Cut a file to at most its first `lines` complete lines; return their number."""
    if not path.exists():
        return 0
    with safe_files.open_file(path) as file:
        rows = iter(lambda: file.readline(files.MAX_LINE), b"")
        complete = itertools.takewhile(lambda row: row.endswith(b"\n"), rows)
        kept = list(itertools.islice(complete, lines))
    if not kept:
        path.unlink()  # `Logs` starts it again, with its header
    elif path.stat().st_size > sum(map(len, kept)):
        files.replace_file(path, b"".join(kept))
    return len(kept)


def _correct_header(table: Path, columns: list[str]) -> None:
    """Write the names of the columns into a table again if they were changed.

    The names are those at the checkpoint. Its rows have no cells beyond them, and later rows are
    deleted next.
    """
    header = checkpoint_folders.read_header(table)[: len(columns)]
    if not header or header == columns:
        return
    first, *rows = [line.split("\t")[: len(columns)] for line in files.read_lines(table)]
    with contextlib.suppress(ValueError):  # a header has words
        rows = [first, *rows] if [float(cell or 0) for cell in first] else rows
    lines = ["\t".join(row) + "\n" for row in (columns, *rows)]
    files.replace_file(table, "".join(lines).encode())


def _summarise(name: str, values: list[float]) -> dict[str, float]:
    """Return the columns of a list of values; NaN if it is empty."""
    std = statistics.pstdev(values) if values else math.nan
    high, low = max(values, default=math.nan), min(values, default=math.nan)
    columns = {"Average": _mean(values), "Std": std, "Max": high, "Min": low}
    return {f"{kind}{name}": value for kind, value in columns.items()}


def _mean(values: list[Any]) -> float:
    return statistics.fmean(values) if values else math.nan
