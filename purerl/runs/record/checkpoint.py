"""Checkpoints of a run: the whole carry, hashed, committed by one rename.

    checkpoints/000000010000/manifest.json      sealed: step, facts, hashes of all files it needs
    checkpoints/000000010000/rank0.npz          learner, observations, episodes in progress
    replay/0-000000000000-000000010000.npz      rows 0 .. 10000 of rank 0's replay memory
    checkpoints/best.json                       the step of the best evaluation of those kept

Segments of the replay memory are written once and named by every checkpoint that needs them, so a
checkpoint writes the rows that are new. What no kept checkpoint names is deleted.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from purerl import errors, mpi
from purerl.errors import Damaged, NoCheckpoint
from purerl.loops import snapshot
from purerl.loops.carry import Carry
from purerl.loops.snapshot import Frozen
from purerl.runs.record import files, log_hashes, safe_files, status
from purerl.runs.record.files import File
from purerl.runs.record.manifest import (
    FORMAT,
    Segment,
    list_steps,
    prune,
    read_best,
    read_manifest,
    temporary_folder,
)

__all__ = [
    "Loaded",
    "load",
    "load_learner",
    "save",
    "verify",
]

MAX_SEGMENTS = 1_000  # more are written as one again
SHOWN = 5  # settings that differ


class Loaded(NamedTuple):
    """A checkpoint that was read and verified."""

    step: int
    manifest: dict[str, Any]
    frozen: Frozen
    segments: tuple[Segment, ...]
    skipped: tuple[str, ...]  # why newer ones were not taken
    changed: tuple[str, ...] = ()  # what beside it is not as it was when it was made


class Learner(NamedTuple):
    """The learner of a checkpoint that was read and verified."""

    step: int
    arrays: dict[str, np.ndarray]  # path of each leaf -> array
    skipped: tuple[str, ...]  # why newer ones were not taken


def save(
    run: Path,
    carry: Carry,
    about: dict[str, Any],
    segments: tuple[Segment, ...],
    keep: int = 3,
    notes: dict[str, Any] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> tuple[Segment, ...]:
    """Write a checkpoint; all ranks call it together.

    Args:
        run: folder of the run.
        carry: what to save.
        about: what the manifest says besides: it must agree when the checkpoint is loaded.
        segments: of this rank's replay memory, as the last call or `load` returned them.
        keep: delete all but this many of the newest, and the best.
        notes: what else to remember, as JSON knows it; of its `score` and `step` the best is known.
        say: on rank 0, is told of older ones that are damaged.

    Returns:
        The segments that the checkpoint names.
    """
    if len(segments) >= MAX_SEGMENTS:
        segments = ()
    try:
        return _write_checkpoint(run, carry, about, segments, keep, notes or {}, say)
    except errors.StorageError:
        if mpi.is_root():
            files.remove(temporary_folder(run, carry.steps))  # on a full disk every byte counts
        raise


def _write_checkpoint(
    run: Path,
    carry: Carry,
    about: dict[str, Any],
    segments: tuple[Segment, ...],
    keep: int,
    notes: dict[str, Any],
    say: Callable[[str], None],
) -> tuple[Segment, ...]:
    frozen = snapshot.freeze(carry, segments[-1].stop if segments else 0, copy=False)
    made = temporary_folder(run, carry.steps)
    _do_on_all_ranks(lambda: _prepare_folders(run, made) if mpi.is_root() else None)

    def write() -> tuple[tuple[Segment, ...], File]:
        arrays = {f"host {name}": x for name, x in frozen.host.items()}
        if mpi.is_root():  # equal on all ranks
            arrays |= {f"learner {name}": x for name, x in frozen.learner.items()}
        segments_now = _add_segment(run, carry, frozen, segments)
        return segments_now, files.write_arrays(made / f"rank{carry.rank}.npz", arrays)

    parts = _do_on_all_ranks(write)
    facts = mpi.allgather((frozen.facts, frozen.stop))
    content = {
        "format": FORMAT,
        "step": carry.steps,
        "about": about,
        "notes": notes,
        "files": {f"rank{i}.npz": list(file) for i, (_, file) in enumerate(parts)},
        "segments": [[list(s) for s in part] for part, _ in parts],
        "facts": [one for one, _ in facts],
        "rows": [stop for _, stop in facts],
        "seen": log_hashes.hash_logs(run) if mpi.is_root() else {},
        "best": read_best(run),
    }

    def commit() -> None:
        files.write_file(made / "manifest.json", files.seal_json(content))
        files.sync_folder(made)
        path = made.with_name(f"{carry.steps:012d}")
        files.remove(path)
        files.rename_into_place(made, path)
        prune(run, keep, say)

    _do_on_all_ranks(lambda: commit() if mpi.is_root() else None)
    return parts[carry.rank][0]


def _do_on_all_ranks(step: Callable[[], Any]) -> list[Any]:
    """Do a step on all ranks; where the disk fails on one, raise its error on all."""
    done, failed = None, None
    try:
        done = step()
    except errors.StorageError as error:
        failed = error
    everyone = mpi.allgather((done, failed))
    for _, one in everyone:
        if one is not None:
            raise one
    return [one for one, _ in everyone]


def _prepare_folders(run: Path, made: Path) -> None:
    """Make the folders, without what a killed process may have left."""
    for path in safe_files.get_subfolder(run, "checkpoints").glob(".tmp-*"):
        files.remove(path)
    files.make_folder(made)
    files.make_folder(safe_files.get_subfolder(run, "replay"))


def _add_segment(
    run: Path, carry: Carry, frozen: Frozen, segments: tuple[Segment, ...]
) -> tuple[Segment, ...]:
    """Write the rows that are new; return the segments that hold all that are in the memory."""
    if carry.buffer is None or frozen.rows is None:
        return ()
    first, stop = frozen.first, frozen.stop
    if first < stop:
        name = f"{carry.rank}-{first:012d}-{stop:012d}.npz"
        file = files.replace_arrays(safe_files.get_subfolder(run, "replay") / name, frozen.rows)
        segments = (*segments, Segment(name, first, stop, *file))
    oldest = stop - len(carry.buffer.data.rew)
    return tuple(s for s in segments if s.stop > oldest)


def load(run: Path, about: dict[str, Any], rank: int, step: int | None = None) -> Loaded:
    """Read the newest checkpoint that is complete and unchanged, or the one of a step.

    All ranks call it together, and all take the newest that is good on each of them.

    Args:
        run: folder of the run.
        about: what its manifest must say; what differs is named.
        rank: whose part to read.
        step: of the checkpoint wanted; None for the newest.

    Raises:
        Refused: if there is none, or it is of another run.
    """
    one, content, (frozen, segments), skipped = _first_good(
        run, about, step, lambda one, content: _read(run, one, content, rank), mpi.allgather
    )
    changed = log_hashes.find_changes(run, content["seen"])
    if content["best"] and not read_best(run):
        changed.append(f"{run / 'checkpoints' / 'best.json'} is missing or damaged.")
    return Loaded(one, content, frozen, segments, skipped, tuple(changed))


def load_learner(
    run: Path, about: dict[str, Any], wanted: dict[str, Any], step: int | None = None
) -> Learner:
    """Read the learner alone, without a replay memory: all that acting needs.

    Args:
        run: folder of the run.
        about: what its manifest must say.
        wanted: the leaves it must have, of which `shape` and `dtype` are looked at.
        step: of the checkpoint wanted; None for the newest that is complete and unchanged.

    Raises:
        Refused: if there is none, or it is of another run.
    """

    def arrays(one: int, content: dict[str, Any]) -> dict[str, np.ndarray]:
        path = run / "checkpoints" / f"{one:012d}" / "rank0.npz"
        found = _parts(path, content)["learner"]
        holds, due = ({(k, str(x.dtype), x.shape) for k, x in d.items()} for d in (found, wanted))
        if holds != due:
            name = min(holds ^ due)[0]
            raise Damaged(f"{path} does not hold the learner of the configuration: see {name}.")
        return found

    one, _, found, skipped = _first_good(run, about, step, arrays)
    return Learner(one, found, skipped)


def _first_good(
    run: Path,
    about: dict[str, Any],
    step: int | None,
    read: Callable[[int, dict[str, Any]], Any],
    gather: Callable[[Any], list[Any]] = lambda mine: [mine],
) -> tuple[int, dict[str, Any], Any, tuple[str, ...]]:
    """Read the newest checkpoint that is not damaged; also why newer ones were not taken.

    Of all processes between which `gather` exchanges what each has.
    """
    there = gather(list_steps(run))[0]
    if step is not None and step not in there:
        raise NoCheckpoint(f"{run} has no checkpoint of step {step}; there are {there or 'none'}.")
    skipped: list[str] = []
    for one in [step] if step is not None else reversed(there):
        found, why = None, ""
        try:
            content = read_manifest(run, one)
            _check_about(run, about, content["about"])
            found = content, read(one, content)
        except Damaged as error:
            why = str(error)
        damages = dict.fromkeys(filter(None, gather(why)))
        if found and not damages:
            return one, *found, tuple(skipped)
        skipped += damages
    raise NoCheckpoint(
        f"{run} has no checkpoint that can be used" + "".join(f"\n  {why}" for why in skipped)
    )


def verify(run: Path, step: int) -> None:
    """Read all files of a checkpoint, or raise `Damaged` for the first that is not as written."""
    content = read_manifest(run, step)
    for rank in range(len(content["facts"])):
        _read(run, step, content, rank)


def _check_about(run: Path, wanted: dict[str, Any], found: Any) -> None:
    if not isinstance(found, dict):
        raise Damaged(f"{run}: a manifest does not say what it is of.")
    changes = list(_changes(wanted, {name: found.get(name) for name in wanted}))
    if not changes:
        return
    more = f", and {len(changes) - SHOWN} more" if len(changes) > SHOWN else ""
    text = f"the checkpoints of {run} are of another run: {'; '.join(changes[:SHOWN])}{more}."
    if found.get("ranks") != wanted.get("ranks", found.get("ranks")):
        text += f" Type: {status.format_command('resume', run, ranks=found.get('ranks'))}"
    raise NoCheckpoint(text)


def _changes(now: Any, then: Any, name: str = "") -> Iterator[str]:
    """Name what differs between two trees of plain data, entry by entry."""
    if isinstance(now, dict) and isinstance(then, dict):
        for key in {**then, **now}:
            where = f"{name}.{key}".lstrip(".")
            yield from _changes(now.get(key), then.get(key), where)
    elif now != then:
        yield f"{name} was {then!r}, now it is {now!r}"


def _read(
    run: Path, step: int, content: dict[str, Any], rank: int
) -> tuple[Frozen, tuple[Segment, ...]]:
    """Read and verify the parts of one rank."""
    if rank >= len(content["facts"]):
        raise NoCheckpoint(
            f"{run} was saved by {len(content['facts'])} ranks, this is rank {rank}."
        )
    folder = run / "checkpoints" / f"{step:012d}"
    parts = _parts(folder / f"rank{rank}.npz", content)
    learner = parts["learner"] or _parts(folder / "rank0.npz", content)["learner"]
    segments = tuple(Segment(*s) for s in content["segments"][rank])
    frozen = Frozen(learner, parts["host"], content["facts"][rank], None)
    if not segments:
        return frozen, ()
    stop = content["rows"][rank]
    blocks = list(_segments(run, segments))
    rows = blocks[0]
    if len(blocks) > 1:
        rows = {name: np.concatenate([block[name] for block in blocks]) for name in rows}
    return frozen._replace(rows=rows, first=segments[0].first, stop=stop), segments


def _parts(path: Path, content: dict[str, Any]) -> dict[str, dict[str, np.ndarray]]:
    """Read and verify the file of a rank; return its arrays by what they are of."""
    arrays = files.read_arrays(path, File(*content["files"][path.name]))
    parts: dict[str, dict[str, np.ndarray]] = {"host": {}, "learner": {}}
    for key, x in arrays.items():
        kind, _, name = key.partition(" ")
        if kind not in parts:
            raise Damaged(f"{path} holds {key!r}, which purerl does not write.")
        parts[kind][name] = x
    return parts


def _segments(run: Path, segments: tuple[Segment, ...]) -> Iterator[dict[str, np.ndarray]]:
    """Read segments, which must follow each other."""
    last = segments[0].first
    for segment in segments:
        path = safe_files.get_subfolder(run, "replay") / segment.name
        block = files.read_arrays(path, File(segment.bytes, segment.sha256))
        number = segment.stop - segment.first
        if segment.first != last or any(len(x) != number for x in block.values()):
            raise Damaged(f"{path} does not hold the rows {segment.first} .. {segment.stop}.")
        last = segment.stop
        yield block
