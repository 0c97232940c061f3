"""Read the tables of runs, and find columns in them.

Supported are `progress.txt` of purerl and Spinning Up, and `monitor.csv` of Stable-Baselines3.
Nothing that a file contains becomes a path or code. What is not a finite number becomes NaN.
"""

import array
import csv
import difflib
import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from purerl.errors import ConfigError, UnreadableTable
from purerl.runs.console import clean_text
from purerl.runs.record import files, status

PROGRESS = "progress.txt"
MONITOR = "monitor.csv"
LARGEST = 1e100  # the square of a larger number could overflow
MOST = 10**8  # cells of a table, 0.8 GB; a short row may stand for any number of them
RETURNS = ("AverageTestEpRet", "AverageEpRet", "EpRet")
ALIASES = {"steps": ("TotalEnvInteracts",), "performance": RETURNS, "return": RETURNS}


class RunTable(NamedTuple):
    """The table of a run, with the name, seed and settings of the run."""

    path: Path
    typed: int  # index of the path on the command line that led to it
    name: str
    seed: int | None
    settings: dict[str, str]  # the rest of the configuration, flat: env, spec.gamma, ...
    columns: dict[str, np.ndarray]
    origin: str = ""  # the parent folder, if the same seed is in another folder as well


def read_run(paths: Sequence[Path], typed: int, notes: list[str]) -> RunTable:
    """Read a run from its table, or from the monitors of its environments.

    Args:
        paths: files in one folder.
        typed: index of the path on the command line.
        notes: list that gets a line if the configuration cannot be read.

    Raises:
        UnreadableTable: A file cannot be read as a table, or has no rows.
    """
    folder = paths[0].parent
    config: dict[str, Any] = {}
    if paths[0].name.endswith(".csv"):
        columns, config["env"] = _read_monitors(paths)
    else:
        columns = _read_progress(paths[0])
        try:
            if (folder / "config.json").exists():
                config = status.read_json(folder / "config.json")
        except (ConfigError, OSError) as error:
            notes.append(f"without its configuration: {error}")
    last = folder.resolve().name
    found = re.fullmatch(r"(.+?)[-_](?:s|seed[-_]?)(\d{1,10})(?:-\d+)?", last)
    base, number = found.groups() if found else (last, None)
    name = next((config[k] for k in ("name", "exp_name") if isinstance(config.get(k), str)), base)
    seed = config.get("seed", None if number is None else int(number))
    known = seed if isinstance(seed, int) else None
    return RunTable(folder, typed, name, known, _flatten(config), columns)


def _flatten(config: dict[str, Any]) -> dict[str, str]:
    """Return the settings of a purerl run; of another run the environment, if it is named."""
    env = config.get("env", config.get("env_name"))
    settings = {"env": env} if isinstance(env, str) and env else {}
    if all(isinstance(config.get(part), dict) for part in ("spec", "schedule")):
        settings["algo"] = str(config.get("algo"))
        for part in ("spec", "schedule"):
            settings |= {f"{part}.{k}": json.dumps(v) for k, v in config[part].items()}
    return settings


def _read_progress(path: Path) -> dict[str, np.ndarray]:
    lines = filter(None, files.read_lines(path))
    columns = _read_columns(path, csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    if not len(next(iter(columns.values()))):
        raise UnreadableTable(f"{path} has no rows yet.")
    return columns


def _read_monitors(paths: Sequence[Path]) -> tuple[dict[str, np.ndarray], str]:
    """Read the episodes of all environments of a run, in the order in which they ended."""
    parts, starts, env = [], [], ""
    for path in paths:
        lines = filter(None, files.read_lines(path))
        try:
            about = json.loads(next(lines, "")[1:])  # behind a #
            start, env = float(about["t_start"]), str(about.get("env_id") or env)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            raise UnreadableTable(
                f"{path} is no table: its first line must be # and JSON."
            ) from None
        columns = _read_columns(path, csv.reader(lines))
        if not {"r", "l", "t"} <= set(columns):
            raise UnreadableTable(f"{path} is no table: its second line must name r, l and t.")
        if len(columns["r"]):
            parts.append(np.stack([columns["r"], columns["l"], columns["t"] + start]))
            starts.append(start)
    if not parts:
        raise UnreadableTable(f"{paths[0].parent} has no finished episode yet.")
    episodes = np.concatenate(parts, axis=1)
    reward, length, time = episodes[:, np.argsort(episodes[2], kind="stable")]
    steps, time = np.cumsum(length), time - min(starts)
    return {"EpRet": reward, "EpLen": length, "TotalEnvInteracts": steps, "Time": time}, env


def _read_columns(path: Path, rows: Iterator[list[str]]) -> dict[str, np.ndarray]:
    """Return the columns of a table by the names in its header; missing entries are NaN."""
    cells = array.array("d")
    try:
        names = next(rows, [])
        if len(names) < 2 or any(math.isfinite(_parse_number(name)) for name in names):
            raise UnreadableTable(f"{path} is no table: its header must be names of columns.")
        for number, row in enumerate(rows, 1):
            if len(row) > len(names):
                raise UnreadableTable(
                    f"{path} is no table: row {number} has {len(row)} entries, its header "
                    f"{len(names)}."
                )
            cells.extend(map(_parse_number, row))
            cells.extend([math.nan] * (len(names) - len(row)))
            if len(cells) > MOST:
                raise UnreadableTable(f"{path} has more than {MOST:,} cells.")
    except csv.Error as error:
        raise UnreadableTable(f"{path} is no table: {error}.") from error
    table = np.frombuffer(cells).reshape(-1, len(names)).T
    return dict(zip(names, np.ascontiguousarray(table), strict=True))


def _parse_number(word: str) -> float:
    """Return a number; NaN for other words and for numbers beyond `LARGEST`."""
    try:
        value = float(word)
    except ValueError:
        return math.nan
    return value if abs(value) <= LARGEST else math.nan


def find_column(run: RunTable, word: str) -> str:
    """Return the name of the column that a word means, or an empty string.

    An entry of `ALIASES` means the first of its columns that contains a number. Any other word is
    the name of a column, in any case, with or without Spinning Up's `Average`.
    """
    for name in ALIASES.get(word.lower(), ()):
        if name in run.columns and np.isfinite(run.columns[name]).any():
            return name
    if word in run.columns:
        return word
    wanted = (_simplify(word), f"average{_simplify(word)}")
    return next((name for name in run.columns if _simplify(name) in wanted), "")


def _simplify(name: str) -> str:
    return re.sub(r"[-_ ]", "", name).lower()


def select_runs(runs: Sequence[RunTable], words: Sequence[str]) -> tuple[list[RunTable], list[str]]:
    """Return the runs that have numbers for all words in some row, and a note for each other."""
    for word in words:
        if not any(find_column(run, word) for run in runs):
            known = dict.fromkeys(name for run in runs for name in run.columns)
            near = difflib.get_close_matches(word, known, 1)
            hint = f"Did you mean {clean_text(near[0])!r}? " if near else ""
            shown = ", ".join(map(clean_text, known))
            raise ConfigError(f"no run has a column {clean_text(word)!r}. {hint}There are {shown}.")
    usable, notes = [], []
    for run in runs:
        names = [find_column(run, word) for word in words]
        if all(names) and np.isfinite([run.columns[name] for name in names]).all(axis=0).any():
            usable.append(run)
        else:
            notes.append(f"left out: {run.path} has no numbers for {' and '.join(words)}.")
    if not usable:
        raise ConfigError(" ".join(notes))
    return usable, notes
