"""Checkpoints of a run: the whole carry, hashed, committed by one rename.

    checkpoints/000000010000/manifest.json      step, facts, hashes of its files and of itself
    checkpoints/000000010000/rank0.npz          learner, observations, episodes in progress
    replay/0-000000000000-000000010000.npz      rows 0 .. 10000 of rank 0's replay buffer
    checkpoints/best.json                       the step of the checkpoint with the best score

The replay buffer is stored in segments, which are written once and shared by checkpoints. So a
checkpoint writes only the new rows. Segments that no checkpoint needs are deleted.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jax.tree_util import keystr, tree_leaves_with_path

from purerl import mpi
from purerl.errors import Damaged, NoCheckpoint, StorageError
from purerl.loops import snapshot
from purerl.loops.carry import Carry
from purerl.loops.snapshot import Frozen
from purerl.mpi.host import run_on_all, run_on_root
from purerl.runs.record import checkpoint_folders as folders
from purerl.runs.record import files, safe_files, status
from purerl.runs.record.arrays import read_arrays, write_arrays
from purerl.runs.record.checkpoint_folders import Manifest, Segment, prune

# Most segments of a rank, and of all ranks. Then all rows are written again, as one segment.
# A manifest needs up to 190 bytes for a segment, so all of them take two thirds of `MAX_JSON`.
MAX_SEGMENTS, MAX_ALL_SEGMENTS = 1_000, 14_000
TRIES = 100  # how often to look for another checkpoint if the run deletes the one being read
SHOWN = 5  # most differing settings to name
OFF = (None, False, 0)  # values with which a setting changes nothing
OTHER_OFF = {"schedule.n_step": 1}

Segments = tuple[Segment, ...]  # files of the replay buffer of one rank


class Loaded(NamedTuple):
    """A checkpoint that was read and verified."""

    step: int
    manifest: Manifest
    frozen: Frozen
    segments: Segments
    skipped: tuple[str, ...]  # reasons why newer checkpoints were skipped
    changed: tuple[str, ...] = ()  # messages about changed files of the run


def save(
    run: Path,
    carry: Carry,
    about: dict[str, Any],
    segments: Segments,
    keep: int = 3,
    notes: dict[str, Any] | None = None,
    say: Callable[[str], None] = lambda line: None,
    shared: Sequence[int] = (),
) -> Segments:
    """Write a checkpoint and return the segments that it needs; all ranks call it together.

    `about` contains settings that must be equal when the checkpoint is loaded. `segments` come
    from this rank's last call or from `load`. The newest `keep` checkpoints stay, and the best one
    by `score` and `step` in `notes`, and those of the steps `shared`. `say` receives a line about
    each damaged checkpoint.
    """
    if len(segments) >= limit_segments(carry.ranks):
        segments = ()
    frozen = snapshot.freeze(carry, segments[-1].stop if segments else 0, copy=False)
    made = folders.checkpoint_folder(run, carry.steps, ".tmp-")
    try:
        run_on_root(lambda: _prepare_folders(run, made))
        parts = run_on_all(lambda: _write_rank(run, made, carry, frozen, segments))
        needed, written, facts, rows = zip(*parts, strict=True)
        named = {f"rank{i}.npz": file for i, file in enumerate(written)}
        content = {"format": folders.FORMAT, "step": carry.steps, "about": about}
        content |= {"notes": notes or {}, "files": named, "segments": needed}
        content |= {"facts": facts, "rows": rows}
        run_on_root(lambda: _commit(run, made, content))
        run_on_root(lambda: prune(run, keep, say, shared))
    except StorageError:
        if mpi.is_root():
            files.remove(made)  # on a full disk every byte counts
        raise
    return needed[carry.rank]


def limit_segments(ranks: int) -> int:
    """Return how many segments each rank may have, so that the manifest does not grow too large."""
    return max(1, min(MAX_SEGMENTS, MAX_ALL_SEGMENTS // ranks))


def _prepare_folders(run: Path, made: Path) -> None:
    """Create the folders, and remove leftovers of a killed process."""
    for path in safe_files.get_subfolder(run, "checkpoints").glob(".tmp-*"):
        files.remove(path)
    with safe_files.explain_errors(run):  # never makes the folder of the run
        for path in (made.parent, made, safe_files.get_subfolder(run, "replay")):
            path.mkdir(exist_ok=True)


def _write_rank(
    run: Path, made: Path, carry: Carry, frozen: Frozen, segments: Segments
) -> tuple[Segments, files.File, dict[str, Any], int]:
    """Write the new rows of the replay buffer and all other arrays of this rank."""
    first, stop = frozen.first, frozen.stop
    if carry.buffer is not None and frozen.rows is not None:
        if first < stop:
            name = f"{carry.rank}-{first:012d}-{stop:012d}.npz"
            path = safe_files.get_subfolder(run, "replay") / name
            file = files.replace_file(path, partial(write_arrays, frozen.rows))
            segments = (*segments, Segment(name, first, stop, *file))
        oldest = stop - len(carry.buffer.data.rew)
        segments = tuple(s for s in segments if s.stop > oldest)
    arrays = {f"host {name}": x for name, x in frozen.host.items()}
    if mpi.is_root():  # equal on all ranks
        arrays |= {f"learner {name}": x for name, x in frozen.learner.items()}
    file = files.write_file(made / f"rank{carry.rank}.npz", partial(write_arrays, arrays))
    return segments, file, frozen.facts, stop


def _commit(run: Path, made: Path, content: Manifest) -> None:
    """Write the manifest, then rename the checkpoint to its final name."""
    content |= {"seen": folders.hash_logs(run), "best": folders.read_best(run)}
    files.write_file(made / "manifest.json", files.seal_json(content))
    files.sync_folder(made)
    path = folders.checkpoint_folder(run, content["step"])
    old = made.with_name(f"{made.name}-old")
    if path.is_dir():  # rename it, because others may read it
        with safe_files.explain_errors(path):
            path.rename(old)
    files.rename_into_place(made, path)
    files.remove(old)


def load(run: Path, about: dict[str, Any], rank: int, step: int | None = None) -> Loaded:
    """Read a rank's part of the checkpoint of a step, or of the newest that is not damaged.

    All ranks call it together, and read the newest that is not damaged on any of them. Raises
    `NoCheckpoint` if none is usable, or if `about` differs from the one in the manifest.
    """
    one, content, (frozen, segments), skipped = _find_newest(
        run, about, step, lambda one, content: _read_rank(run, one, content, rank), mpi.allgather
    )
    changed = folders.find_changes(run, content["seen"], content["notes"].get("columns", []))
    if content["best"] and not folders.read_best(run):
        changed.append(f"{run / 'checkpoints' / 'best.json'} is missing or damaged.")
    return Loaded(one, content, frozen, segments, skipped, tuple(changed))


def load_learner(
    run: Path, about: dict[str, Any], wanted: dict[str, Any], step: int | str | None = None
) -> Loaded:
    """Read only the learner, without the replay buffer, which is enough for acting.

    Works like `load`, in one process, and while the run saves checkpoints. `wanted` has the
    learner's leaves with `shape` and `dtype`. `step` may also be `best` or `last`.
    """

    def read(one: int, content: Manifest) -> dict[str, np.ndarray]:
        path = folders.checkpoint_folder(run, one) / "rank0.npz"
        found = _read_parts(path, content)["learner"]
        holds, due = ({(k, str(x.dtype), x.shape) for k, x in d.items()} for d in (found, wanted))
        if holds != due:
            name = min(holds ^ due)[0]
            raise Damaged(f"{path} does not contain the learner of config.json: {name} differs.")
        return found

    one, content, learner, skipped = _find_newest(run, about, step, read)
    return Loaded(one, content, Frozen(learner, {}, {}, None), (), skipped)


def verify(run: Path, step: int) -> bool:
    """Read all files of a checkpoint and return True; raise `Damaged` for the first damaged one."""
    content = folders.read_manifest(run, step)
    for rank in range(len(content["facts"])):
        _read_rank(run, step, content, rank)
    return True


def _find_newest(
    run: Path,
    about: dict[str, Any],
    step: int | str | None,
    read: Callable[[int, Manifest], Any],
    gather: Callable[[Any], list[Any]] = lambda mine: [mine],
) -> tuple[int, Manifest, Any, tuple[str, ...]]:
    """Return the newest checkpoint that is undamaged in all processes, and why newer ones are not.

    `gather` collects a value from each process, and returns the list to all of them.
    """
    bad: dict[int, list[str]] = {}  # damaged checkpoints, and why they cannot be used
    for _ in range(TRIES):
        wanted = folders.resolve_step(run, "last" if step is None else step)
        wanted, there = gather((wanted, folders.list_steps(run)))[0]
        if wanted not in (None, *there) and step != "best":
            steps = there or "none"
            raise NoCheckpoint(f"{run} has no checkpoint of step {step}. Its steps: {steps}.")
        left = [one for one in (there if wanted is None else [wanted]) if one not in bad]
        whys = tuple(why for reasons in bad.values() for why in reasons)
        if not left:
            raise NoCheckpoint("\n  ".join([f"{run} has no checkpoint that can be used", *whys]))
        one, found, why = left[-1], None, ""
        try:
            found = folders.try_read(run, one, partial(_read_one, run, about, one, read))
        except Damaged as error:
            why = str(error)
        answers = gather((why, found is not None))
        if damages := [*dict.fromkeys(filter(None, (why for why, _ in answers)))]:
            bad[one] = damages
        elif found is not None and all(was_read for _, was_read in answers):
            return one, *found, whys
    raise NoCheckpoint(
        f"{run} deleted the checkpoint {TRIES} times while it was read. Try again, or choose "
        f"another one."
    )


def _read_one(
    run: Path, about: dict[str, Any], step: int, read: Callable[[int, Manifest], Any]
) -> tuple[Manifest, Any]:
    """Return the manifest of a checkpoint and what `read` returns, after checking `about`."""
    content = folders.read_manifest(run, step)
    _check_about(run, about, content["about"])
    return content, read(step, content)


def _check_about(run: Path, wanted: dict[str, Any], found: dict[str, Any]) -> None:
    """Refuse a checkpoint made with other settings, and name those that differ.

    A setting that is newer than the checkpoint must be off.
    """
    now, then = (flatten_settings(x) for x in (wanted, {name: found.get(name) for name in wanted}))
    changes = [
        f"{name} was {then.get(name)!r}, now it is {now.get(name)!r}"
        for name in then | now
        if then.get(name) != now.get(name)
        and (name in then or now[name] not in (*OFF, OTHER_OFF.get(name)))
    ]
    if not changes:
        return
    more = f", and {len(changes) - SHOWN} more" if len(changes) > SHOWN else ""
    text = f"the checkpoints of {run} have other settings: {'; '.join(changes[:SHOWN])}{more}."
    if found.get("ranks") != wanted.get("ranks", found.get("ranks")):
        text += f" Type: {status.format_command('resume', run, ranks=found.get('ranks'))}"
    raise NoCheckpoint(text)


def flatten_settings(tree: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of nested settings by their names, such as `spec.gamma`."""
    pairs = tree_leaves_with_path(tree, is_leaf=lambda x: not isinstance(x, dict))
    return {keystr(path, simple=True, separator="."): entry for path, entry in pairs}


def _read_rank(run: Path, step: int, content: Manifest, rank: int) -> tuple[Frozen, Segments]:
    """Read and verify the arrays of one rank and its replay buffer, which must have no gap."""
    ranks = len(content["facts"])
    if rank >= ranks:
        raise NoCheckpoint(f"{run} needs {ranks} ranks, but this is rank {rank}.")
    path = folders.checkpoint_folder(run, step) / f"rank{rank}.npz"
    parts = _read_parts(path, content)
    learner = parts["learner"] or _read_parts(path.with_name("rank0.npz"), content)["learner"]
    frozen = Frozen(learner, parts["host"], content["facts"][rank], None)
    segments = tuple(Segment(*s) for s in content["segments"][rank])
    if not segments:
        return frozen, ()
    blocks, last = [], segments[0].first
    for name, first, stop, size, digest in segments:
        path = safe_files.get_subfolder(run, "replay") / name
        blocks.append(read_arrays(path, files.File(size, digest)))
        if first != last or any(len(x) != stop - first for x in blocks[-1].values()):
            raise Damaged(f"{path} must continue the replay buffer with rows {last} to {stop - 1}.")
        last = stop
    rows = blocks[0]
    if len(blocks) > 1:
        rows = {name: np.concatenate([block[name] for block in blocks]) for name in rows}
    return frozen._replace(rows=rows, first=segments[0].first, stop=content["rows"][rank]), segments


def _read_parts(path: Path, content: Manifest) -> dict[str, dict[str, np.ndarray]]:
    """Read and verify the file of a rank; return its arrays as `host` and `learner`."""
    parts: dict[str, dict[str, np.ndarray]] = {"host": {}, "learner": {}}
    for key, x in read_arrays(path, files.File(*content["files"][path.name])).items():
        kind, _, name = key.partition(" ")
        if kind not in parts:
            raise Damaged(f"{path} contains {key!r}, which purerl does not write.")
        parts[kind][name] = x
    return parts
