"""Checkpoints of a run: the whole carry, hashed, committed by one rename.

    checkpoints/000000010000/manifest.json      sealed: step, facts, hashes of all files it needs
    checkpoints/000000010000/rank0.npz          learner, observations, episodes in progress
    replay/0-000000000000-000000010000.npz      rows 0 .. 10000 of the replay memory of rank 0
    checkpoints/best.json                       the step of the checkpoint with the best score

Segments of the replay memory are written once and shared by checkpoints, so that a checkpoint
writes only the new rows. Segments that no checkpoint needs are deleted.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from purerl import mpi
from purerl.errors import Damaged, NoCheckpoint, StorageError
from purerl.loops import snapshot
from purerl.loops.carry import Carry
from purerl.loops.snapshot import Frozen
from purerl.mpi.host import run_on_all, run_on_root
from purerl.runs.record import arrays as npz
from purerl.runs.record import files, log_hashes, safe_files, status
from purerl.runs.record.checkpoint_folders import (
    FORMAT,
    Segment,
    checkpoint_folder,
    list_steps,
    prune,
    read_best,
    read_manifest,
    temporary_folder,
)
from purerl.runs.record.files import File

MAX_SEGMENTS = 1_000  # more are written as one again
SHOWN = 5  # settings that differ


class Loaded(NamedTuple):
    """A checkpoint that was read and verified."""

    step: int
    manifest: dict[str, Any]
    frozen: Frozen
    segments: tuple[Segment, ...]
    skipped: tuple[str, ...]  # reasons why newer ones were not taken
    changed: tuple[str, ...] = ()  # changes to the files beside it


class Learner(NamedTuple):
    """The learner of a checkpoint that was read and verified."""

    step: int
    arrays: dict[str, np.ndarray]  # path of each leaf -> array
    skipped: tuple[str, ...]  # reasons why newer ones were not taken


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
        carry: state of the run.
        about: entries of the manifest that must agree when the checkpoint is loaded.
        segments: segments of this rank's replay memory, from the last call or from `load`.
        keep: number of newest checkpoints to keep; the best is kept as well.
        notes: further plain data; its `score` and `step` decide which checkpoint is the best.
        say: function that takes a line about each older checkpoint that is damaged.

    Returns:
        The segments that the checkpoint needs.
    """
    if len(segments) >= MAX_SEGMENTS:
        segments = ()
    frozen = snapshot.freeze(carry, segments[-1].stop if segments else 0, copy=False)
    made = temporary_folder(run, carry.steps)
    try:
        run_on_root(lambda: _prepare_folders(run, made))
        parts = run_on_all(lambda: _write_arrays(run, made, carry, frozen, segments))
        facts = mpi.allgather((frozen.facts, frozen.stop))
        content = {
            "format": FORMAT,
            "step": carry.steps,
            "about": about,
            "notes": notes or {},
            "files": {f"rank{i}.npz": list(file) for i, (_, file) in enumerate(parts)},
            "segments": [[list(s) for s in part] for part, _ in parts],
            "facts": [one for one, _ in facts],
            "rows": [stop for _, stop in facts],
        }
        run_on_root(lambda: _commit(run, made, content, keep, say))
    except StorageError:
        if mpi.is_root():
            files.remove(made)  # on a full disk every byte counts
        raise
    return parts[carry.rank][0]


def _prepare_folders(run: Path, made: Path) -> None:
    """Make the folders, without the rest of a killed process."""
    for path in safe_files.get_subfolder(run, "checkpoints").glob(".tmp-*"):
        files.remove(path)
    files.make_folder(made)
    files.make_folder(safe_files.get_subfolder(run, "replay"))


def _write_arrays(
    run: Path, made: Path, carry: Carry, frozen: Frozen, segments: tuple[Segment, ...]
) -> tuple[tuple[Segment, ...], File]:
    """Write the arrays of this rank; return the segments of its replay memory, and its file."""
    arrays = {f"host {name}": x for name, x in frozen.host.items()}
    if mpi.is_root():  # equal on all ranks
        arrays |= {f"learner {name}": x for name, x in frozen.learner.items()}
    segments = _add_segment(run, carry, frozen, segments)
    return segments, npz.write_arrays(made / f"rank{carry.rank}.npz", arrays)


def _add_segment(
    run: Path, carry: Carry, frozen: Frozen, segments: tuple[Segment, ...]
) -> tuple[Segment, ...]:
    """Write the new rows; return the segments that contain all rows of the replay memory."""
    if carry.buffer is None or frozen.rows is None:
        return ()
    first, stop = frozen.first, frozen.stop
    if first < stop:
        name = f"{carry.rank}-{first:012d}-{stop:012d}.npz"
        file = npz.replace_arrays(safe_files.get_subfolder(run, "replay") / name, frozen.rows)
        segments = (*segments, Segment(name, first, stop, *file))
    oldest = stop - len(carry.buffer.data.rew)
    return tuple(s for s in segments if s.stop > oldest)


def _commit(
    run: Path, made: Path, content: dict[str, Any], keep: int, say: Callable[[str], None]
) -> None:
    """Write the manifest, give the checkpoint its name, and delete old checkpoints."""
    content |= {"seen": log_hashes.hash_logs(run), "best": read_best(run)}
    files.write_file(made / "manifest.json", files.seal_json(content))
    files.sync_folder(made)
    path = checkpoint_folder(run, content["step"])
    files.remove(path)
    files.rename_into_place(made, path)
    prune(run, keep, say)


def load(run: Path, about: dict[str, Any], rank: int, step: int | None = None) -> Loaded:
    """Read the newest checkpoint that is complete and unchanged, or the one of a step.

    All ranks call it together, and all take the newest that is good on each of them.

    Args:
        run: folder of the run.
        about: entries that its manifest must have; the error names those that differ.
        rank: number of the rank whose part to read.
        step: step of the checkpoint; None for the newest.

    Raises:
        NoCheckpoint: if no checkpoint can be used, or it belongs to another run.
    """
    one, content, (frozen, segments), skipped = _find_newest(
        run, about, step, lambda one, content: _read_rank(run, one, content, rank), mpi.allgather
    )
    changed = log_hashes.find_changes(run, content["seen"])
    if content["best"] and not read_best(run):
        changed.append(f"{run / 'checkpoints' / 'best.json'} is missing or damaged.")
    return Loaded(one, content, frozen, segments, skipped, tuple(changed))


def load_learner(
    run: Path, about: dict[str, Any], wanted: dict[str, Any], step: int | None = None
) -> Learner:
    """Read the learner without the replay memory, which is all that acting needs.

    Args:
        run: folder of the run.
        about: entries that its manifest must have.
        wanted: leaves that the learner must have, each with `shape` and `dtype`.
        step: step of the checkpoint; None for the newest that is complete and unchanged.

    Raises:
        NoCheckpoint: if no checkpoint can be used, or it belongs to another run.
    """

    def read(one: int, content: dict[str, Any]) -> dict[str, np.ndarray]:
        path = checkpoint_folder(run, one) / "rank0.npz"
        found = _read_parts(path, content)["learner"]
        holds, due = ({(k, str(x.dtype), x.shape) for k, x in d.items()} for d in (found, wanted))
        if holds != due:
            name = min(holds ^ due)[0]
            raise Damaged(f"{path} does not hold the learner of the configuration: see {name}.")
        return found

    one, _, found, skipped = _find_newest(run, about, step, read)
    return Learner(one, found, skipped)


def verify(run: Path, step: int) -> None:
    """Read all files of a checkpoint; raise `Damaged` for the first that changed."""
    content = read_manifest(run, step)
    for rank in range(len(content["facts"])):
        _read_rank(run, step, content, rank)


def _find_newest(
    run: Path,
    about: dict[str, Any],
    step: int | None,
    read: Callable[[int, dict[str, Any]], Any],
    gather: Callable[[Any], list[Any]] = lambda mine: [mine],
) -> tuple[int, dict[str, Any], Any, tuple[str, ...]]:
    """Read the newest checkpoint that is not damaged in any process; also why newer ones were not.

    `gather` returns a value of each process to all of them.
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


def _check_about(run: Path, wanted: dict[str, Any], found: dict[str, Any]) -> None:
    """Refuse a checkpoint of another run, and name the settings that differ."""
    changes = list(_list_changes(wanted, {name: found.get(name) for name in wanted}))
    if not changes:
        return
    more = f", and {len(changes) - SHOWN} more" if len(changes) > SHOWN else ""
    text = f"the checkpoints of {run} are of another run: {'; '.join(changes[:SHOWN])}{more}."
    if found.get("ranks") != wanted.get("ranks", found.get("ranks")):
        text += f" Type: {status.format_command('resume', run, ranks=found.get('ranks'))}"
    raise NoCheckpoint(text)


def _list_changes(now: Any, then: Any, name: str = "") -> Iterator[str]:
    """Name the differences between two trees of plain data, entry by entry."""
    if isinstance(now, dict) and isinstance(then, dict):
        for key in {**then, **now}:
            where = f"{name}.{key}".lstrip(".")
            yield from _list_changes(now.get(key), then.get(key), where)
    elif now != then:
        yield f"{name} was {then!r}, now it is {now!r}"


def _read_rank(
    run: Path, step: int, content: dict[str, Any], rank: int
) -> tuple[Frozen, tuple[Segment, ...]]:
    """Read and verify the arrays of one rank, with its replay memory."""
    if rank >= len(content["facts"]):
        raise NoCheckpoint(
            f"{run} was saved by {len(content['facts'])} ranks, this is rank {rank}."
        )
    path = checkpoint_folder(run, step) / f"rank{rank}.npz"
    parts = _read_parts(path, content)
    learner = parts["learner"] or _read_parts(path.with_name("rank0.npz"), content)["learner"]
    segments = tuple(Segment(*s) for s in content["segments"][rank])
    frozen = Frozen(learner, parts["host"], content["facts"][rank], None)
    if not segments:
        return frozen, ()
    blocks = list(_read_segments(run, segments))
    rows = blocks[0]
    if len(blocks) > 1:
        rows = {name: np.concatenate([block[name] for block in blocks]) for name in rows}
    stop = content["rows"][rank]
    return frozen._replace(rows=rows, first=segments[0].first, stop=stop), segments


def _read_parts(path: Path, content: dict[str, Any]) -> dict[str, dict[str, np.ndarray]]:
    """Read and verify the file of a rank; return its arrays as `host` and `learner`."""
    parts: dict[str, dict[str, np.ndarray]] = {"host": {}, "learner": {}}
    for key, x in npz.read_arrays(path, File(*content["files"][path.name])).items():
        kind, _, name = key.partition(" ")
        if kind not in parts:
            raise Damaged(f"{path} holds {key!r}, which purerl does not write.")
        parts[kind][name] = x
    return parts


def _read_segments(run: Path, segments: tuple[Segment, ...]) -> Iterator[dict[str, np.ndarray]]:
    """Read segments, which must follow each other."""
    last = segments[0].first
    for segment in segments:
        path = safe_files.get_subfolder(run, "replay") / segment.name
        block = npz.read_arrays(path, File(segment.bytes, segment.sha256))
        number = segment.stop - segment.first
        if segment.first != last or any(len(x) != number for x in block.values()):
            raise Damaged(f"{path} does not hold the rows {segment.first} .. {segment.stop}.")
        last = segment.stop
        yield block
