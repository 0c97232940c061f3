"""Folders and manifests of checkpoints: list, find the best, delete old ones.

This module does not import JAX. A manifest also contains hashes of the configuration and the logs,
because these files, made for people and other programs, have no checksum inside.
"""

import collections
import contextlib
import hashlib
import itertools
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from purerl import checks
from purerl.errors import ConfigError, Damaged, NoCheckpoint
from purerl.runs.record import files as storage
from purerl.runs.record import safe_files

FORMAT = 1
WHOLE = ("config.json",)  # may not even grow after a checkpoint
TABLE = "progress.txt"  # a new column makes its header and rows longer
LOGS = (*WHOLE, "metrics.jsonl", "episodes.csv", TABLE)
_SEGMENT = re.compile(r"\d{1,6}-\d{12}-\d{12}\.npz")

Manifest = dict[str, Any]
T = TypeVar("T")


class Segment(NamedTuple):
    """A file with the rows `first` .. `stop` of the replay buffer of a rank."""

    name: str
    first: int
    stop: int
    bytes: int
    sha256: str


def list_steps(run: Path) -> list[int]:
    """Return the steps of a run's checkpoints, oldest first, without verifying them."""
    folder = safe_files.get_subfolder(run, "checkpoints")
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(name) for name in names if re.fullmatch(r"\d{12}", name))


def checkpoint_folder(run: Path, step: int, prefix: str = "") -> Path:
    """Return the folder of a checkpoint; the prefix `.tmp-` marks one being made or deleted."""
    return run / "checkpoints" / f"{prefix}{step:012d}"


def try_read(run: Path, step: int, read: Callable[[], T]) -> T | None:
    """Return what a function reads from a checkpoint, or None if a writer removed it meanwhile.

    A run deletes old checkpoints, and may replace one of the same step, while others read them. So
    `Damaged` is raised only if the folder is still the same as before.
    """
    before = _identify(checkpoint_folder(run, step))
    try:
        return read()
    except Damaged:
        if before is not None and _identify(checkpoint_folder(run, step)) == before:
            raise
        return None


def _identify(folder: Path) -> tuple[int, int] | None:
    """Return numbers that differ between two folders of the same name; None without a folder."""
    try:
        found = folder.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def read_best(run: Path) -> tuple[int, float] | None:
    """Return step and score of the checkpoint with the best score, or None."""
    try:
        folder = safe_files.get_subfolder(run, "checkpoints")
        content = storage.read_sealed_json(folder / "best.json")
        return int(content["step"]), float(content["score"])
    except (Damaged, KeyError, TypeError, ValueError, OverflowError):
        return None


def resolve_step(run: Path, wanted: str | int) -> int | None:
    """Return the step of the wanted checkpoint; None for `last`, the newest undamaged one."""
    if wanted == "last":
        return None
    if wanted == "best":
        if marked := read_best(run):
            return marked[0]
        raise NoCheckpoint(f"{run} has no best checkpoint yet. Use 'last' instead.")
    try:
        checks.integer("checkpoint", wanted, 0)
    except ValueError:
        raise ConfigError(f"checkpoint must be 'last', 'best' or a step, got {wanted!r}.") from None
    return int(wanted)


def read_manifest(run: Path, step: int) -> Manifest:
    """Read the manifest of a checkpoint and check its form, or raise `Damaged`."""
    path = safe_files.get_subfolder(run, f"checkpoints/{step:012d}") / "manifest.json"
    content = storage.read_sealed_json(path)
    if content.get("format") != FORMAT:
        found = content.get("format")
        raise Damaged(f"{path} has format {found!r}, but this purerl reads format {FORMAT}.")
    try:
        ranks = len(content["facts"])
        files = {name: storage.File(*file) for name, file in content["files"].items()}
        segments = [Segment(*s) for part in content["segments"] for s in part]
        good = content["step"] == step
        good &= len(content["segments"]) == len(content["rows"]) == ranks
        good &= set(files) == {f"rank{i}.npz" for i in range(ranks)}
        good &= all(_SEGMENT.fullmatch(s.name) for s in segments)
        good &= all(0 <= s.first < s.stop for s in segments)
        good &= all(isinstance(rows, int) and 0 <= rows <= step for rows in content["rows"])
        good &= all(facts["steps"] == step for facts in content["facts"])
        good &= isinstance(content["notes"], dict) and isinstance(content["about"], dict)
        good &= {(type(n), type(h)) for n, h in content["seen"].values()} <= {(int, str)}
        good &= set(content["seen"]) <= set(LOGS)
        columns = content["notes"].get("columns", [])
        good &= isinstance(columns, list) and all(name.isprintable() for name in columns)
        good &= content["best"] is None or isinstance(content["best"], list)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Damaged(f"{path} is not a complete manifest: {error!r}.") from error
    if not good:
        raise Damaged(f"{path} has entries that contradict each other.")
    return content


def read_total(run: Path) -> int | None:
    """Return the total of steps at the newest intact checkpoint; None if it is not recorded."""
    for step in reversed(list_steps(run)):
        with contextlib.suppress(Damaged):
            total = read_manifest(run, step)["notes"].get("total")
            return total if type(total) is int else None
    return None


def prune(
    run: Path,
    keep: int,
    say: Callable[[str], None] = lambda line: None,
    shared: Sequence[int] = (),
) -> None:
    """Mark the best checkpoint; delete other old ones, and segments that no checkpoint needs.

    Checkpoints of the steps `shared` stay, because other runs continue from them too. The segments
    of a damaged checkpoint are unknown. So all segments stay while it exists. `say` receives a line
    about each damaged checkpoint.
    """
    steps = list_steps(run)
    intact = _read_all(run, steps, say)
    kept = {*steps[-keep:], *_mark_best_of(run, intact), *({*shared} & {*steps})}
    for step in steps:
        if step not in kept:
            _delete(run, step)
    if kept - intact.keys():
        return
    used = {Segment(*s).name for step in kept for part in intact[step]["segments"] for s in part}
    for path in safe_files.get_subfolder(run, "replay").glob("*.npz"):
        if _SEGMENT.fullmatch(path.name) and path.name not in used:
            path.unlink(missing_ok=True)


def delete_later(run: Path, step: int) -> list[int]:
    """Delete the checkpoints after a step, the newest first; return their steps.

    A kill meanwhile leaves a valid run with fewer checkpoints. Call this before the logs are cut,
    so that no remaining checkpoint counts rows that the logs no longer contain.
    """
    steps = list_steps(run)
    later = [one for one in steps if one > step]
    if later:
        _mark_best_of(run, _read_all(run, steps[: -len(later)]))
        for one in reversed(later):
            _delete(run, one)
        storage.sync_folder(run / "checkpoints")
    return later


def _read_all(
    run: Path, steps: list[int], say: Callable[[str], None] = lambda line: None
) -> dict[int, Manifest]:
    """Return the manifests of the undamaged checkpoints by their steps."""
    intact = {}
    for step in steps:
        try:
            intact[step] = read_manifest(run, step)
        except Damaged as error:
            say(f"damaged checkpoint, never loaded and later deleted like any old one: {error}")
    return intact


def _mark_best_of(run: Path, intact: dict[int, Manifest]) -> tuple[int, ...]:
    """Mark the checkpoint with the best score, the first of equal ones; return its step, if any.

    Only checkpoints made at the end of an epoch count, because only they have their own score.
    """
    notes = {step: manifest["notes"] for step, manifest in intact.items()}
    scores = {step: one.get("score") for step, one in notes.items() if one.get("step") == step}
    ranked = [(x, -n) for n, x in scores.items() if isinstance(x, float) and math.isfinite(x)]
    mark = run / "checkpoints" / "best.json"
    if not ranked:
        storage.remove(mark)
        return ()
    score, step = max(ranked)
    if read_best(run) != (-step, score):
        storage.replace_file(mark, storage.seal_json({"step": -step, "score": score}))
    return (-step,)


def _delete(run: Path, step: int) -> None:
    """Delete a checkpoint; rename it first, so that a kill leaves no damaged one."""
    path, unnamed = checkpoint_folder(run, step), checkpoint_folder(run, step, ".tmp-")
    storage.remove(unnamed)
    with safe_files.explain_errors(path):
        path.rename(unnamed)
    storage.remove(unnamed)


def hash_logs(run: Path) -> dict[str, Any]:
    """Return length and SHA-256 of the configuration and of each log that exists."""
    return {name: _digest(run / name) for name in LOGS if (run / name).exists()}


def find_changes(run: Path, then: dict[str, Any], columns: Sequence[str] = ()) -> list[str]:
    """Return a message for each hashed file that changed; ignore rows that were added.

    `columns` are the first names that the header of the table must have.
    """
    messages = []
    header = read_header(run / TABLE)[: len(columns)]
    if header and header != columns:
        messages.append(f"{run / TABLE} has other column names than before; they are corrected.")
    for name, (length, digest) in then.items():
        path = run / name
        try:
            if _digest(path, length + (name in WHOLE)) != (length, digest):
                raise Damaged(f"{path} was changed after the checkpoint: its SHA-256 differs.")
        except Damaged as error:
            messages.append(str(error))
    return messages


def read_header(table: Path) -> list[str]:
    """Return the names in the first line of a table; none if it is empty or does not exist."""
    if not table.exists():
        return []
    with safe_files.open_file(table) as file:
        line = file.readline(storage.MAX_LINE).decode("utf-8", "replace")
    return line.rstrip("\n").split("\t") if line else []


def check_header(table: Path) -> None:
    """Raise `Damaged` if names of a table were changed, according to `metrics.jsonl` beside it.

    That file has the names in each of its rows. Nothing is compared if it is missing or damaged.
    Rows may have been deleted from one of the files. So both must have a name that the other lacks.
    """
    names, path = read_header(table), table.with_name("metrics.jsonl")
    try:
        known = set(_read_keys(collections.deque(storage.read_lines(path), 1)))  # the last line
        if set(names) <= known and len(set(names)) == len(names):
            return
        known |= set(_read_keys(storage.read_lines(path)))
    except Damaged:
        return
    unknown = [name for name in names if name not in known or names.count(name) > 1]
    missing = [name for name in known if name not in names]
    if unknown and missing:
        raise Damaged(
            f"{table} was changed: its first line has {min(unknown)!r}, but {path.name} has "
            f"{min(missing)!r}. Correct the first line. `purerl resume` also does that."
        )


def _read_keys(lines: Iterable[str]) -> Iterator[str]:
    """Yield the keys of the objects in lines of JSON; ignore other lines."""
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(line)
            yield from found if isinstance(found, dict) else ()


def _digest(path: Path, most: int = 2**63) -> tuple[int, str]:
    """Return length and SHA-256 of the first bytes; skip a table's header and its trailing tabs."""
    digest, length = hashlib.sha256(), 0
    with safe_files.open_file(path) as file:
        rows: Iterator[bytes] = iter(lambda: file.readline(storage.MAX_LINE), b"")
        if path.name == TABLE:
            rows = (row.rstrip(b"\t\n") for row in itertools.islice(rows, 1, None))
        while length < most and (row := next(rows, None)) is not None:
            row = row[: most - length]
            digest.update(row)
            length += len(row)
    return length, digest.hexdigest()
