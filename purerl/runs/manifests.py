"""What the checkpoints of a run say of themselves: which there are, and what each needs.

Read without importing JAX.
"""

import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from purerl import checks
from purerl.runs import regular, storage, witness
from purerl.runs.places import ConfigError
from purerl.runs.storage import Damaged, File

FORMAT = 1
_FILE = re.compile(r"rank\d{1,6}\.npz")
_SEGMENT = re.compile(r"\d{1,6}-\d{12}-\d{12}\.npz")
_STEP = re.compile(r"\d{12}")


class Refused(ValueError):
    """No checkpoint can be used."""


class Segment(NamedTuple):
    """Rows `first` .. `stop` of a rank's replay memory in a file."""

    name: str
    first: int
    stop: int
    bytes: int
    sha256: str


def steps(run: Path) -> list[int]:
    """Return the steps of the checkpoints that are there, oldest first, unverified."""
    folder = regular.within(run, "checkpoints")
    names = [p.name for p in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(name) for name in names if _STEP.fullmatch(name))


def best(run: Path) -> tuple[int, float] | None:
    """Return step and score of the best evaluation that has a checkpoint, or None."""
    path = run / "checkpoints" / "best.json"
    if not path.exists():
        return None
    try:
        content = storage.unsealed(path)
        return int(content["step"]), float(content["score"])
    except (Damaged, KeyError, TypeError, ValueError, OverflowError):
        return None


def step_of(run: Path, wanted: str | int) -> int | None:
    """Return the step that `best` or a number means; None for `last`, the newest that is whole."""
    if wanted == "last":
        return None
    if wanted == "best":
        marked = best(run)
        if marked is None:
            raise Refused(f"{run} has no best checkpoint yet; take the last.")
        return marked[0]
    try:
        checks.integer("checkpoint", wanted, 0)
    except ValueError:
        raise ConfigError(f"checkpoint must be 'last', 'best' or a step, got {wanted!r}.") from None
    return int(wanted)


def mark_best(run: Path, step: int, score: float) -> None:
    """Remember a checkpoint as the best, so that it is kept."""
    content = storage.sealed({"step": step, "score": score})
    storage.replace(run / "checkpoints" / "best.json", content)


def manifest(run: Path, step: int) -> dict[str, Any]:
    """Read the manifest of a checkpoint and check its form, or raise `Damaged`."""
    path = regular.within(run, f"checkpoints/{step:012d}") / "manifest.json"
    content = storage.unsealed(path)
    if content.get("format") != FORMAT:
        raise Damaged(
            f"{path} has format {content.get('format')!r}; this purerl reads format {FORMAT}."
        )
    try:
        ranks = len(content["facts"])
        files = {name: File(*file) for name, file in content["files"].items()}
        segments = [[Segment(*s) for s in part] for part in content["segments"]]
        good = content["step"] == step and len(segments) == len(content["rows"]) == ranks
        good &= set(files) == {f"rank{i}.npz" for i in range(ranks)}
        good &= all(_FILE.fullmatch(name) for name in files)
        good &= all(_SEGMENT.fullmatch(s.name) for part in segments for s in part)
        good &= all(0 <= s.first < s.stop for part in segments for s in part)
        good &= all(isinstance(rows, int) and 0 <= rows <= step for rows in content["rows"])
        good &= all(facts["steps"] == step for facts in content["facts"])
        good &= isinstance(content["notes"], dict) and isinstance(content["about"], dict)
        good &= {(type(n), type(h)) for n, h in content["seen"].values()} <= {(int, str)}
        good &= set(content["seen"]) <= {*witness.WHOLE, *witness.GROWING, witness.TABLE}
        good &= content["best"] is None or isinstance(content["best"], list)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Damaged(f"{path} lacks what a manifest holds: {error!r}.") from error
    if not good:
        raise Damaged(f"{path} contradicts itself.")
    return content


def prune(run: Path, keep: int) -> None:
    """Delete old checkpoints but the newest and the best, and segments that none left names."""
    there = steps(run)
    kept = set(there[-keep:])
    marked = best(run)
    if marked:
        kept.add(marked[0])
    used: set[str] = set()
    for step in there:
        if step in kept:
            try:
                content = manifest(run, step)
            except Damaged:
                return  # what it named is unknown: delete nothing
            used |= {Segment(*s).name for part in content["segments"] for s in part}
    for step in set(there) - kept:
        shutil.rmtree(run / "checkpoints" / f"{step:012d}", ignore_errors=True)
    for path in regular.within(run, "replay").glob("*.npz"):
        if _SEGMENT.fullmatch(path.name) and path.name not in used:
            path.unlink(missing_ok=True)
