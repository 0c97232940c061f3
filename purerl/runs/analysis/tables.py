"""Find the runs at paths, read their tables, and find columns in them.

Supported are `progress.txt` of purerl and Spinning Up, and `monitor.csv` of Stable-Baselines3.
The content of a file is never used as a path or as code. A cell without a finite number is NaN.
"""

import array
import csv
import difflib
import glob
import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from purerl.errors import ConfigError, UnreadableTable
from purerl.runs.console import clean_text
from purerl.runs.record import checkpoint_folders, files, status

PROGRESS = "progress.txt"
MONITOR = "monitor.csv"
LARGEST = 1e100  # maximum size of a number; the square of a larger one could overflow
MOST = 10**8  # maximum number of cells of a table (0.8 GB), including the missing ones
RETURNS = ("AverageTestEpRet", "AverageEpRet", "EpRet")
ALIASES = {"steps": ("TotalEnvInteracts",), "performance": RETURNS, "return": RETURNS}


class RunTable(NamedTuple):
    """The table of a run, with the name, seed and settings of the run."""

    path: Path
    typed: int  # index of the path, among those given, that led to it
    name: str
    seed: int | None
    settings: dict[str, str]  # the rest of the configuration, flat: env, spec.gamma, ...
    columns: dict[str, np.ndarray]
    origin: str = ""  # parent folder, if the same seed is in another folder as well


def find_runs(
    paths: Sequence[str | os.PathLike[str]],
    data_dir: str | None = None,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> tuple[list[RunTable], list[str]]:
    """Return the runs at paths, each once, and notes about runs that cannot be read.

    A path that does not exist is looked up in `data_dir` (None for the user's data folder). Runs
    are dropped unless the path of their folder has all of `select` and none of `exclude` in it.
    """
    home = Path(os.path.expanduser(data_dir or status.read_user_defaults()["data_dir"]))
    runs, notes, seen = list[RunTable](), list[str](), set[str]()
    for number, path in enumerate(paths):
        for tables in _find_tables(os.fspath(path), home, notes):
            folder, key = str(tables[0].parent), os.path.realpath(tables[0])
            dropped = any(s in folder for s in exclude) or not all(s in folder for s in select)
            if dropped or key in seen:
                continue
            seen.add(key)
            try:
                runs.append(_read_run(tables, number, notes))
            except (UnreadableTable, OSError) as error:
                notes.append(f"left out: {error}")
    if not runs:
        raise ConfigError(" ".join(notes) or "select and exclude leave no run. Give fewer parts.")
    return runs, notes


def _find_tables(path: str, home: Path, notes: list[str]) -> list[list[Path]]:
    """Return the tables of each run at a path, in the first meaning of it that has any."""
    before = len(notes)
    for roots in _list_meanings(path, home):
        if found := [tables for root in roots for tables in _list_tables(root, notes)]:
            return found
    raise ConfigError(
        " ".join(dict.fromkeys(notes[before:]))
        or f"no runs at {clean_text(path)!r}: it has no {PROGRESS} or {MONITOR}, nor do folders "
        f"whose name begins with it, here or in {clean_text(str(home))}. See `purerl list runs`."
    )


def _list_meanings(typed: str, home: Path) -> Iterator[list[Path]]:
    """Yield the folders that a path may mean: first as it is, then as the beginning of a name."""
    path = Path(os.path.expanduser(typed))
    for place in (path, home / path) if typed else ():
        yield [place] if place.exists() else []
    start = "" if typed.endswith(os.sep) else path.name.rstrip("*")
    for folder in ((home / path).parent, path.parent) if start else ():
        found = folder.glob(f"{glob.escape(start)}*/")
        yield sorted(found, key=lambda each: _split_numbers(each.name))


def _list_tables(root: Path, notes: list[str]) -> Iterator[list[Path]]:
    """Yield the table of each run at or below a path; all monitors in a folder are one run."""
    if root.is_file():
        yield [root]
        return
    for folder, inner, names in os.walk(root, onerror=lambda e: notes.append(f"left out: {e}")):
        visible = (name for name in inner if name not in status.PARTS and name[0] != ".")
        inner[:] = sorted(visible, key=_split_numbers)
        if PROGRESS in names:
            yield [Path(folder, PROGRESS)]
        elif monitors := sorted(name for name in names if name.endswith(MONITOR)):
            yield [Path(folder, name) for name in monitors]
        elif "config.json" in names and {status.STATUS, status.OLD_STATUS} & set(names):
            notes.append(f"left out: {folder} has no finished epoch yet.")


def _split_numbers(name: str) -> list[str | int]:
    """Return a key that sorts c2 before c10."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"([0-9]+)", name))]


def _read_run(tables: Sequence[Path], typed: int, notes: list[str]) -> RunTable:
    """Read a run from its progress.txt, or from its `monitor.csv` files (Stable-Baselines3)."""
    folder, config = tables[0].parent, dict[str, Any]()
    if tables[0].name.endswith(".csv"):
        columns, config["env"] = _read_monitors(tables)
    else:
        checkpoint_folders.check_header(tables[0])
        lines = filter(None, files.read_lines(tables[0]))
        columns = _read_columns(tables[0], lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        if not len(next(iter(columns.values()))):
            raise UnreadableTable(f"{tables[0]} has no complete row yet.")
        try:
            if (folder / "config.json").exists():
                config = status.read_json(folder / "config.json")
        except (ConfigError, OSError) as error:
            notes.append(f"used without its configuration: {error}")
    last = folder.resolve().name
    found = re.fullmatch(r"(.+?)[-_](?:s|seed[-_]?)(\d{1,10})(?:-\d+)?", last)
    base, number = (found[1], int(found[2])) if found else (last, None)
    name = next((config[k] for k in ("name", "exp_name") if isinstance(config.get(k), str)), base)
    seed = config.get("seed", number)
    env = config.get("env", config.get("env_name"))
    settings = {"env": env} if isinstance(env, str) and env else {}
    parts = {part: config.get(part) for part in ("spec", "schedule")}
    if all(isinstance(entries, dict) for entries in parts.values()):  # purerl wrote it
        settings["algo"] = str(config.get("algo"))
        settings |= {f"{p}.{k}": json.dumps(v) for p in parts for k, v in config[p].items()}
    return RunTable(folder, typed, name, seed if isinstance(seed, int) else None, settings, columns)


def _read_monitors(paths: Sequence[Path]) -> tuple[dict[str, np.ndarray], str]:
    """Read the episodes of all environments of a run, in the order in which they ended."""
    parts, starts, env = [], [], ""
    for path in paths:
        lines = filter(None, files.read_lines(path))
        try:
            about = json.loads(next(lines, "")[1:])  # after the #
            start, env = float(about["t_start"]), str(about.get("env_id") or env)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            raise UnreadableTable(
                f"{path} is not a table: its first line must be # and JSON."
            ) from None
        columns = _read_columns(path, lines)
        if not {"r", "l", "t"} <= set(columns):
            raise UnreadableTable(f"{path} is not a table: its second line must name r, l and t.")
        if len(columns["r"]):
            parts.append(np.stack([columns["r"], columns["l"], columns["t"] + start]))
            starts.append(start)
    if not parts:
        raise UnreadableTable(f"{paths[0].parent} has no finished episode yet.")
    episodes = np.concatenate(parts, axis=1)
    reward, length, time = episodes[:, np.argsort(episodes[2], kind="stable")]
    steps, time = np.cumsum(length), time - min(starts)
    return {"EpRet": reward, "EpLen": length, "TotalEnvInteracts": steps, "Time": time}, env


def _read_columns(path: Path, lines: Iterator[str], **form: Any) -> dict[str, np.ndarray]:
    """Return the columns of a table by the names in its header; missing entries are NaN."""
    cells = array.array("d")
    rows = csv.reader(lines, **form)
    try:
        names = next(rows, [])
        if len(names) < 2 or any(math.isfinite(_parse_number(name)) for name in names):
            raise csv.Error("its first line must contain column names")
        for number, row in enumerate(rows, 1):
            if len(row) > len(names):
                raise csv.Error(f"row {number} has {len(row)} entries, the header {len(names)}")
            cells.extend(map(_parse_number, row))
            cells.extend([math.nan] * (len(names) - len(row)))
            if len(cells) > MOST:
                raise UnreadableTable(f"{path} is too large: it has more than {MOST:,} cells.")
    except csv.Error as error:
        raise UnreadableTable(f"{path} is not a table: {error}.") from error
    table = np.frombuffer(cells).reshape(-1, len(names)).T
    return dict(zip(names, np.ascontiguousarray(table), strict=True))


def _parse_number(word: str) -> float:
    """Return a number; NaN for other text and for numbers beyond `LARGEST`."""
    try:
        value = float(word)
    except ValueError:
        return math.nan
    return value if abs(value) <= LARGEST else math.nan


def find_column(run: RunTable, word: str) -> str:
    """Return the name of the column that a word stands for, or an empty string.

    A key of `ALIASES` stands for the first of its columns that contains a number. Any other word
    is the name of a column, in upper or lower case, with or without Spinning Up's `Average`.
    """
    for name in ALIASES.get(word.lower(), ()):
        if name in run.columns and np.isfinite(run.columns[name]).any():
            return name
    if word in run.columns:
        return word
    simple, *others = (re.sub(r"[-_ ]", "", name).lower() for name in (word, *run.columns))
    pairs = zip(run.columns, others, strict=True)
    return next((name for name, other in pairs if other in (simple, f"average{simple}")), "")


def select_runs(runs: Sequence[RunTable], words: Sequence[str], notes: list[str]) -> list[RunTable]:
    """Return the runs with a row that has numbers for all words, and note the other runs."""
    for word in words:
        if not any(find_column(run, word) for run in runs):
            known = dict.fromkeys(name for run in runs for name in run.columns)
            near = difflib.get_close_matches(word, known, 1)
            hint = f"Did you mean {clean_text(near[0])!r}? " if near else ""
            choice = f"{hint}Choose from {', '.join(map(clean_text, known))}."
            raise ConfigError(f"no run has a column {clean_text(word)!r}. {choice}")
    usable, unusable = [], []
    for run in runs:
        names = [find_column(run, word) for word in words]
        if all(names) and np.isfinite([run.columns[name] for name in names]).all(axis=0).any():
            usable.append(run)
        else:
            unusable.append(f"left out: {run.path} has no numbers for {' and '.join(words)}.")
    if not usable:
        raise ConfigError(" ".join(unusable))
    notes += unusable
    return usable
