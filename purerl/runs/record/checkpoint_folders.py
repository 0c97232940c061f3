"""Manifests of checkpoints: which checkpoints a run has, the files of each, and the best one.

Read without importing JAX.
"""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from purerl import checks
from purerl.errors import ConfigError, Damaged, NoCheckpoint
from purerl.runs.record import files as storage
from purerl.runs.record import log_hashes, safe_files
from purerl.runs.record.files import File

FORMAT = 1
_SEGMENT = re.compile(r"\d{1,6}-\d{12}-\d{12}\.npz")
_STEP = re.compile(r"\d{12}")


class Segment(NamedTuple):
    """A file with the rows `first` .. `stop` of the replay memory of a rank."""

    name: str
    first: int
    stop: int
    bytes: int
    sha256: str


def list_steps(run: Path) -> list[int]:
    """Return the steps of a run's checkpoints, oldest first, unverified."""
    folder = safe_files.get_subfolder(run, "checkpoints")
    names = [p.name for p in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(name) for name in names if _STEP.fullmatch(name))


def checkpoint_folder(run: Path, step: int) -> Path:
    """Return the folder of the checkpoint of a step."""
    return run / "checkpoints" / f"{step:012d}"


def temporary_folder(run: Path, step: int) -> Path:
    """Return the folder of a checkpoint that is being made or deleted; nothing loads it."""
    return run / "checkpoints" / f".tmp-{step:012d}"


def read_best(run: Path) -> tuple[int, float] | None:
    """Return step and score of the checkpoint with the best score, or None."""
    path = run / "checkpoints" / "best.json"
    try:
        content = storage.read_sealed_json(path)
        return int(content["step"]), float(content["score"])
    except (Damaged, KeyError, TypeError, ValueError, OverflowError):
        return None


def resolve_step(run: Path, wanted: str | int) -> int | None:
    """Return the step of `best` or of a number; None for `last`, the newest that is complete."""
    if wanted == "last":
        return None
    if wanted == "best":
        marked = read_best(run)
        if marked is None:
            raise NoCheckpoint(f"{run} has no best checkpoint yet; take the last.")
        return marked[0]
    try:
        checks.integer("checkpoint", wanted, 0)
    except ValueError:
        raise ConfigError(f"checkpoint must be 'last', 'best' or a step, got {wanted!r}.") from None
    return int(wanted)


def mark_best(run: Path, step: int, score: float) -> None:
    """Mark a checkpoint as the best, so that it is kept."""
    content = storage.seal_json({"step": step, "score": score})
    storage.replace_file(run / "checkpoints" / "best.json", content)


def read_manifest(run: Path, step: int) -> dict[str, Any]:
    """Read the manifest of a checkpoint and check its form, or raise `Damaged`."""
    path = safe_files.get_subfolder(run, f"checkpoints/{step:012d}") / "manifest.json"
    content = storage.read_sealed_json(path)
    if content.get("format") != FORMAT:
        raise Damaged(
            f"{path} has format {content.get('format')!r}; this purerl reads format {FORMAT}."
        )
    try:
        ranks = len(content["facts"])
        files = {name: File(*file) for name, file in content["files"].items()}
        parts = [[Segment(*s) for s in part] for part in content["segments"]]
        segments = [segment for part in parts for segment in part]
        good = content["step"] == step and len(parts) == len(content["rows"]) == ranks
        good &= set(files) == {f"rank{i}.npz" for i in range(ranks)}
        good &= all(_SEGMENT.fullmatch(s.name) for s in segments)
        good &= all(0 <= s.first < s.stop for s in segments)
        good &= all(isinstance(rows, int) and 0 <= rows <= step for rows in content["rows"])
        good &= all(facts["steps"] == step for facts in content["facts"])
        good &= isinstance(content["notes"], dict) and isinstance(content["about"], dict)
        good &= {(type(n), type(h)) for n, h in content["seen"].values()} <= {(int, str)}
        good &= set(content["seen"]) <= set(log_hashes.NAMES)
        good &= content["best"] is None or isinstance(content["best"], list)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Damaged(f"{path} lacks what a manifest holds: {error!r}.") from error
    if not good:
        raise Damaged(f"{path} contradicts itself.")
    return content


def prune(run: Path, keep: int, say: Callable[[str], None] = lambda line: None) -> None:
    """Mark the best checkpoint; delete old ones, and segments that none needs.

    The segments of a damaged checkpoint are unknown, so while one is kept, all segments stay.

    Args:
        run: folder of the run.
        keep: number of newest checkpoints to keep; the best is kept as well.
        say: function that takes a line about each checkpoint that is damaged.
    """
    there = list_steps(run)
    whole, damaged = _read_all(run, there, say)
    kept = {*there[-keep:], *_mark_best_of(run, whole)}
    for step in there:
        if step not in kept:
            _delete(run, step)
    if kept & damaged:
        return
    used = {Segment(*s).name for step in kept for part in whole[step]["segments"] for s in part}
    for path in safe_files.get_subfolder(run, "replay").glob("*.npz"):
        if _SEGMENT.fullmatch(path.name) and path.name not in used:
            path.unlink(missing_ok=True)


def delete_later(run: Path, step: int) -> list[int]:
    """Delete the checkpoints after a step, the newest first; return their steps.

    A kill on the way leaves a run that is less far. Delete before the logs are cut, so that no
    remaining checkpoint counts rows that the logs no longer contain.
    """
    there = list_steps(run)
    later = [one for one in there if one > step]
    if later:
        _mark_best_of(run, _read_all(run, [one for one in there if one <= step])[0])
    for one in reversed(later):
        _delete(run, one)
    if later:
        storage.sync_folder(run / "checkpoints")
    return later


def _read_all(
    run: Path, steps: list[int], say: Callable[[str], None] = lambda line: None
) -> tuple[dict[int, dict[str, Any]], set[int]]:
    """Return the manifests of checkpoints, and the steps of those whose manifest is damaged."""
    whole = {}
    for step in steps:
        try:
            whole[step] = read_manifest(run, step)
        except Damaged as error:
            say(f"a damaged checkpoint is never loaded, and deleted in its turn: {error}")
    return whole, set(steps) - set(whole)


def _mark_best_of(run: Path, whole: dict[int, dict[str, Any]]) -> tuple[int, ...]:
    """Mark the best of some checkpoints, the first of equal ones; return its step, if any.

    Only checkpoints at the end of an epoch have a score of their own.
    """
    notes = {step: manifest["notes"] for step, manifest in whole.items()}
    scores = {step: one.get("score") for step, one in notes.items() if one.get("step") == step}
    ranked = [
        (score, -step)
        for step, score in scores.items()
        if isinstance(score, float) and math.isfinite(score)
    ]
    if not ranked:
        storage.remove(run / "checkpoints" / "best.json")
        return ()
    score, step = max(ranked)
    if read_best(run) != (-step, score):
        mark_best(run, -step, score)
    return (-step,)


def _delete(run: Path, step: int) -> None:
    """Delete a checkpoint; a kill on the way leaves none, rather than a damaged one."""
    path, unnamed = checkpoint_folder(run, step), temporary_folder(run, step)
    storage.remove(unnamed)
    with safe_files.explain_errors(path):
        path.rename(unnamed)
    storage.remove(unnamed)
