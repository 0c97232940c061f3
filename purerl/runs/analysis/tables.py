"""Find runs below folders, read their tables, find columns in them; no JAX.

Ours and Spinning Up's `progress.txt` are read, and Stable-Baselines3's `monitor.csv`. Nothing that
a file says becomes a path or code, and what is not finite or no number is NaN.
"""

import array
import csv
import difflib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from purerl.errors import ConfigError, UnreadableTable
from purerl.runs.console import clean_text
from purerl.runs.record import files as storage
from purerl.runs.record import status

TABLE = "progress.txt"
MONITOR = "monitor.csv"
LARGEST = 1e100
MOST = 10**8  # cells of a table, 0.8 GB; a short row may stand for any number of them
RETURNS = ("AverageTestEpRet", "AverageEpRet", "EpRet")
ALIASES = {
    "steps": ("TotalEnvInteracts",),
    "time": ("Time",),
    "updates": ("Updates",),
    "epoch": ("Epoch",),
    "performance": RETURNS,
    "return": RETURNS,
}


class RunTable(NamedTuple):
    """A run that was found."""

    path: Path
    typed: int  # which of the paths typed led to it
    name: str
    seed: int | None
    settings: dict[str, str]  # what else its configuration says, flat: env, spec.gamma, ...
    columns: dict[str, np.ndarray]
    origin: str = ""  # the folder it is in, where the same seed is in another one as well


# --- finding -------------------------------------------------------------------------------------


def find_runs(
    paths: Sequence[str | os.PathLike[str]],
    data_dir: str | None = None,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> tuple[list[RunTable], list[str]]:
    """Find and read runs.

    Args:
        paths: a run, a folder above runs, a table, or the beginning of a folder's name; where it is
            not there as typed it is looked for below `data_dir`.
        data_dir: where runs are kept; None for the user's.
        select: keep runs whose folder has all of these in its path.
        exclude: drop runs whose folder has any of these in its path.

    Returns:
        The runs, each once, and what to tell the user: a line for each that cannot be read.
    """
    home = Path(os.path.expanduser(data_dir or status.read_user_defaults()["data_dir"]))
    runs: list[RunTable] = []
    notes: list[str] = []
    seen: set[str] = set()
    for number, word in enumerate(paths):
        for files in _tables(os.fspath(word), home, notes):
            where, key = str(files[0].parent), os.path.realpath(files[0])
            dropped = any(s in where for s in exclude) or not all(s in where for s in select)
            if dropped or key in seen:
                continue
            seen.add(key)
            try:
                runs.append(read_run(files, number, notes))
            except (UnreadableTable, OSError) as error:
                notes.append(f"left out: {error}")
    if not runs:
        raise ConfigError(" ".join(notes) or "select and exclude leave none of the runs found.")
    return runs, notes


def _tables(word: str, home: Path, notes: list[str]) -> list[list[Path]]:
    """Return the tables that a word leads to, in the first of the places that has any."""
    before = len(notes)
    for roots in _places(word, home):
        found = [files for root in roots for files in _below(root, notes)]
        if found:
            return found
    if notes[before:]:
        raise ConfigError(" ".join(dict.fromkeys(notes[before:])))
    raise ConfigError(
        f"no runs at {clean_text(word)!r}: neither it nor a folder whose name begins so, here or "
        f"in {clean_text(str(home))}, has a {TABLE} or {MONITOR} below. `purerl list runs` shows "
        f"runs."
    )


def _places(word: str, home: Path) -> Iterator[list[Path]]:
    """Return what a word may mean, the likeliest first: as typed, then as the start of a name."""
    if not word:
        return
    path = Path(os.path.expanduser(word))
    for one in (path, home / path):
        yield [one] if one.exists() else []
    if word.endswith(os.sep):
        return
    begin = path.name.rstrip("*")
    for parent in ((home / path).parent, path.parent):
        if begin and parent.is_dir():
            found = (p for p in parent.iterdir() if p.name.startswith(begin) and p.is_dir())
            yield sorted(found, key=lambda p: _natural(p.name))


def _natural(name: str) -> list[str | int]:
    """Return a key that sorts c2 before c10."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"([0-9]+)", name))]


def _below(root: Path, notes: list[str]) -> Iterator[list[Path]]:
    """Return the table of each run at or below a path; several monitors are one run."""
    if root.is_file():
        yield [root]
        return
    for folder, inner, names in os.walk(root, onerror=lambda e: notes.append(f"left out: {e}")):
        inner[:] = sorted(
            (n for n in inner if n not in ("checkpoints", "replay") and n[0] != "."), key=_natural
        )
        monitors = sorted(name for name in names if name.endswith(MONITOR))
        if TABLE in names:
            yield [Path(folder, TABLE)]
        elif monitors:
            yield [Path(folder, name) for name in monitors]
        elif "config.json" in names and {"status.json", "manifest.json"} & {*names}:
            notes.append(f"left out: {folder} has no finished epoch yet.")


# --- reading -------------------------------------------------------------------------------------


def read_run(files: Sequence[Path], typed: int, notes: list[str]) -> RunTable:
    """Read a run from its table, or from the monitors of its environments.

    Args:
        files: in one folder.
        typed: the field of the run.
        notes: gets a line where the configuration cannot be read.

    Raises:
        Unreadable: naming the file, if it is no table or has no row.
    """
    folder = files[0].parent
    config: dict[str, Any] = {}
    if files[0].name.endswith(".csv"):
        columns, env = _monitors(files)
    else:
        columns, env = _progress(files[0]), ""
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
    settings = _settings(config)
    if env:
        settings.setdefault("env", env)
    return RunTable(folder, typed, name, seed if isinstance(seed, int) else None, settings, columns)


def _settings(config: dict[str, Any]) -> dict[str, str]:
    """Return what a run of ours depends on; of a foreign one the environment, if it is named."""
    env = config.get("env", config.get("env_name"))
    found = {"env": env} if isinstance(env, str) else {}
    if not isinstance(config.get("spec"), dict) or not isinstance(config.get("schedule"), dict):
        return found
    found["algo"] = str(config.get("algo"))
    for part in ("spec", "schedule"):
        found |= {f"{part}.{k}": json.dumps(v) for k, v in config[part].items()}
    return found


def _progress(path: Path) -> dict[str, np.ndarray]:
    rows = (line.split("\t") for line in _lines(path))
    names = next(rows, [])
    if len(names) < 2 or any(_number(word) == _number(word) for word in names):
        raise UnreadableTable(f"{path} is no table: its first line must be names between tabs.")
    columns = _columns(path, names, rows)
    if not len(columns[names[0]]):
        raise UnreadableTable(f"{path} has no rows yet.")
    return columns


def _monitors(paths: Sequence[Path]) -> tuple[dict[str, np.ndarray], str]:
    """Read the episodes of all environments of a run, in the order in which they ended."""
    parts, starts, env = [], [], ""
    for path in paths:
        lines = _lines(path)
        try:
            first = next(lines, "")
            about: Any = json.loads(first[1:]) if first.startswith("#") else None
            start, env = float(about["t_start"]), str(about.get("env_id") or env)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise UnreadableTable(
                f"{path} is no table: its first line must be # and JSON."
            ) from None
        columns = _episodes(path, lines)
        if len(columns["r"]):
            parts.append(np.stack([columns["r"], columns["l"], columns["t"] + start]))
            starts.append(start)
    if not parts:
        raise UnreadableTable(f"{paths[0].parent} has no finished episode yet.")
    every = np.concatenate(parts, axis=1)
    reward, length, time = every[:, np.argsort(every[2], kind="stable")]
    return {
        "EpRet": reward,
        "EpLen": length,
        "TotalEnvInteracts": np.cumsum(length),
        "Time": time - min(starts),
    }, env


def _episodes(path: Path, lines: Iterator[str]) -> dict[str, np.ndarray]:
    """Read the rows of a monitor below its first line."""
    rows = csv.reader(lines)
    try:
        names = next(rows, [])
        if not {"r", "l", "t"} <= set(names):
            raise UnreadableTable(f"{path} is no table: its second line must name r, l and t.")
        return _columns(path, names, rows)
    except csv.Error as error:
        raise UnreadableTable(f"{path} is no table: {error}.") from error


def _lines(path: Path) -> Iterator[str]:
    """Return the complete lines of a file that are not empty."""
    return (line for line in storage.read_lines(path) if line)


def _columns(path: Path, names: list[str], rows: Iterable[list[str]]) -> dict[str, np.ndarray]:
    """Return rows as columns; what is missing at the end of a row is NaN."""
    cells = array.array("d")
    for number, row in enumerate(rows, 1):
        if len(row) > len(names):
            raise UnreadableTable(
                f"{path} is no table: row {number} has {len(row)} entries, its header {len(names)}."
            )
        cells.extend([_number(word) for word in row])
        cells.extend([math.nan] * (len(names) - len(row)))
        if len(cells) > MOST:
            raise UnreadableTable(f"{path} has more than {MOST:,} cells.")
    table = np.frombuffer(cells).reshape(-1, len(names)).T
    return dict(zip(names, np.ascontiguousarray(table), strict=True))


def _number(word: str) -> float:
    """Return a number, or NaN; also for what is so large that its square overflows."""
    try:
        value = float(word)
    except ValueError:
        return math.nan
    return value if abs(value) <= LARGEST else math.nan


# --- columns -------------------------------------------------------------------------------------


def find_column(run: RunTable, word: str) -> str | None:
    """Return the column of a run that a word means, or None.

    A word is a column's name, with or without Spinning Up's `Average`, whatever its capitals; or
    one of `ALIASES`, where the first column with a number in it is taken.
    """
    for name in ALIASES.get(word.lower(), ()):
        if name in run.columns and np.isfinite(run.columns[name]).any():
            return name
    if word in run.columns:
        return word
    wanted = (_letters(word), f"average{_letters(word)}")
    return next((name for name in run.columns if _letters(name) in wanted), None)


def _letters(word: str) -> str:
    return re.sub(r"[-_ ]", "", word).lower()


def select_runs(runs: Sequence[RunTable], words: Sequence[str]) -> tuple[list[RunTable], list[str]]:
    """Return the runs with a row that has numbers for all words; and a line about each other."""
    for word in words:
        if not any(find_column(run, word) for run in runs):
            known = dict.fromkeys(name for run in runs for name in run.columns)
            near = difflib.get_close_matches(word, known, 1)
            hint = f"Did you mean {clean_text(near[0])!r}? " if near else ""
            shown = ", ".join(clean_text(name) for name in known)
            raise ConfigError(f"no run has a column {clean_text(word)!r}. {hint}There are {shown}.")
    usable, lines = [], []
    for run in runs:
        names = [find_column(run, word) for word in words]
        rows = [run.columns[name] for name in names if name is not None]
        if len(rows) == len(words) and np.isfinite(rows).all(axis=0).any():
            usable.append(run)
        else:
            lines.append(f"left out: {run.path} has no numbers for {' and '.join(words)}.")
    if not usable:
        raise ConfigError(" ".join(lines))
    return usable, lines
