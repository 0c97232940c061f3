"""Find the runs that a path leads to."""

import glob
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from purerl.errors import ConfigError, UnreadableTable
from purerl.runs.analysis import tables
from purerl.runs.analysis.tables import MONITOR, PROGRESS, RunTable
from purerl.runs.console import clean_text
from purerl.runs.record import status

SKIPPED = {"checkpoints", "replay"}  # folders inside a run that hold no runs


def find_runs(
    paths: Sequence[str | os.PathLike[str]],
    data_dir: str | None = None,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> tuple[list[RunTable], list[str]]:
    """Find and read runs.

    Args:
        paths: runs, folders above runs, tables, or beginnings of folder names. A path that does
            not exist is looked up in `data_dir`.
        data_dir: the data folder; None for the user's.
        select: keep runs whose folder has all of these in its path.
        exclude: drop runs whose folder has any of these in its path.

    Returns:
        The runs, each once, and a note for each run that cannot be read.
    """
    home = Path(os.path.expanduser(data_dir or status.read_user_defaults()["data_dir"]))
    runs: list[RunTable] = []
    notes: list[str] = []
    seen: set[str] = set()
    for number, path in enumerate(paths):
        for files in _find_tables(os.fspath(path), home, notes):
            folder, key = str(files[0].parent), os.path.realpath(files[0])
            dropped = any(s in folder for s in exclude) or not all(s in folder for s in select)
            if dropped or key in seen:
                continue
            seen.add(key)
            try:
                runs.append(tables.read_run(files, number, notes))
            except (UnreadableTable, OSError) as error:
                notes.append(f"left out: {error}")
    if not runs:
        raise ConfigError(" ".join(notes) or "select and exclude leave none of the runs found.")
    return runs, notes


def _find_tables(path: str, home: Path, notes: list[str]) -> list[list[Path]]:
    """Return the tables of the first meaning of a path that has any."""
    before = len(notes)
    for roots in _list_meanings(path, home):
        if found := [files for root in roots for files in _list_tables(root, notes)]:
            return found
    if notes[before:]:
        raise ConfigError(" ".join(dict.fromkeys(notes[before:])))
    raise ConfigError(
        f"no runs at {clean_text(path)!r}: neither it nor a folder whose name begins so, here or "
        f"in {clean_text(str(home))}, has a {PROGRESS} or {MONITOR} below. `purerl list runs` "
        f"shows runs."
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
        inner[:] = [name for name in inner if name not in SKIPPED and name[0] != "."]
        inner.sort(key=_split_numbers)
        monitors = sorted(name for name in names if name.endswith(MONITOR))
        if PROGRESS in names:
            yield [Path(folder, PROGRESS)]
        elif monitors:
            yield [Path(folder, name) for name in monitors]
        elif "config.json" in names and {"status.json", "manifest.json"} & set(names):
            notes.append(f"left out: {folder} has no finished epoch yet.")


def _split_numbers(name: str) -> list[str | int]:
    """Return a key that sorts c2 before c10."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"([0-9]+)", name))]
