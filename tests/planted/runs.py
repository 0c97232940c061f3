"""Errors in what a run keeps: snapshots, files, checkpoints, logs, the loop around it."""

from planted import Mutant

SNAPSHOT = "purerl/loops/snapshot.py"
VECTOR = "purerl/loops/vector.py"
STORAGE = "purerl/runs/storage.py"
REGULAR = "purerl/runs/regular.py"
CHECKPOINT = "purerl/runs/checkpoint.py"
MANIFESTS = "purerl/runs/manifests.py"
LOG = "purerl/runs/log.py"
TABLE = "purerl/runs/table.py"
TRAIN = "purerl/runs/train.py"
CONFIG = "purerl/runs/config.py"
PLACES = "purerl/runs/places.py"
T_SNAPSHOT = "tests/loops/test_snapshot.py"
T_STORAGE = "tests/runs/test_storage.py"
T_CHECKPOINT = "tests/runs/test_checkpoint.py"
T_LOG = "tests/runs/test_log.py"
T_TRAIN = "tests/runs/test_train.py"
T_COMMANDS = "tests/runs/test_commands.py"

MUTANTS = [
    Mutant(SNAPSHOT, '("steps", "calls", "updates", "epoch")', '("steps", "calls", "updates")', T_SNAPSHOT),
    Mutant(SNAPSHOT, '("steps", "calls", "updates", "epoch")', '("steps", "updates", "epoch")', T_SNAPSHOT),
    Mutant(SNAPSHOT, 'fields["tally"] = memory.placed(jnp.asarray(fields["tally"]), devices)', 'fields.pop("tally")', T_SNAPSHOT),
    Mutant(SNAPSHOT, "        jnp.int32(frozen.stop % capacity),", "        jnp.int32(0),", T_SNAPSHOT),
    Mutant(SNAPSHOT, "frozen.rows[name][first - frozen.first :]", "frozen.rows[name][: frozen.stop - first]", T_CHECKPOINT),
    Mutant(SNAPSHOT, "first = max(since, stop - len(data.rew))", "first = max(0, stop - len(data.rew))", T_SNAPSHOT),
    Mutant(SNAPSHOT, "if (came.shape, came.dtype) != (x.shape, x.dtype):", "if False:", T_SNAPSHOT),
    Mutant(SNAPSHOT, 'fields["ep_return"][lost] = 0', "pass", T_SNAPSHOT),
    Mutant(VECTOR, "self.episode[i] = episodes[i] - 1", "self.episode[i] = episodes[i]", T_SNAPSHOT),
    Mutant(VECTOR, "            for action in taken:", "            for action in taken[:-1]:", T_SNAPSHOT),
    Mutant(VECTOR, "                self.actions[i].append(action)\n                try:", "                try:", T_SNAPSHOT),
    Mutant(VECTOR, "if ended or reached[i].tobytes() != obs[i].tobytes():", "if ended:", T_SNAPSHOT),
    Mutant(STORAGE, "    if size != file.bytes:", "    if False:", T_STORAGE),
    Mutant(STORAGE, "        if hashlib.file_digest(there, \"sha256\").hexdigest() != file.sha256:", "        if False:", T_STORAGE),
    Mutant(STORAGE, "    if not isinstance(content, dict) or same != seal:", "    if not isinstance(content, dict):", T_STORAGE),
    Mutant(STORAGE, "    if needed != there or min(", "    if min(", T_STORAGE),
    Mutant(STORAGE, "            os.fsync(file.fileno())\n", "", T_STORAGE),
    Mutant(STORAGE, "        os.replace(made, path)\n", "        path.write_bytes(made.read_bytes())\n        made.unlink()\n", T_STORAGE),
    Mutant(STORAGE, "        remove(made)\n        raise explained(error, path) from error\n", "        raise explained(error, path) from error\n", T_STORAGE),
    Mutant(REGULAR, "fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)", "pass", T_STORAGE),
    Mutant(CHECKPOINT, "            why = str(error)\n", "            raise\n", T_CHECKPOINT),
    Mutant(CHECKPOINT, "else reversed(there)", "else there", T_CHECKPOINT),
    Mutant(CHECKPOINT, "    elif now != then:", "    elif False:", T_CHECKPOINT),
    Mutant(CHECKPOINT, "            storage.remove(_unnamed(run, carry.steps))", "            pass", T_CHECKPOINT),
    Mutant(REGULAR, "for _ in range(TRIES):", "for _ in range(1):", T_STORAGE),
    Mutant(STORAGE, "explained(error, name or path)", "explained(error, path)", T_STORAGE),
    Mutant(MANIFESTS, "kept = set(there[-keep:])", "kept = set(there[:keep])", T_CHECKPOINT),
    Mutant(MANIFESTS, "        kept.add(marked[0])\n", "        pass\n", T_CHECKPOINT),
    Mutant(MANIFESTS, "path.name not in used:", "True:", T_CHECKPOINT),
    Mutant(MANIFESTS, "path.name not in used:", "False:", T_CHECKPOINT),
    Mutant(CHECKPOINT, "return tuple(s for s in segments if s.stop > oldest)", "return segments", T_CHECKPOINT),
    Mutant(MANIFESTS, "    if content.get(\"format\") != FORMAT:", "    if False:", T_CHECKPOINT),
    Mutant(MANIFESTS, "        good &= all(_SEGMENT.fullmatch(s.name) for part in segments for s in part)\n", "", T_CHECKPOINT),
    Mutant(CHECKPOINT, "segment.first != last or any(", "any(", T_CHECKPOINT),
    Mutant(LOG, "if not mpi.psum(mine.size):", "if False:", T_LOG),
    Mutant(LOG, "        self.stored.pop(key, None)\n", "", T_LOG),
    Mutant(LOG, "        if table.exists() and not resume:", "        if False:", T_LOG),
    Mutant(LOG, 'super().log_tabular(f"Max{key}", high)', 'super().log_tabular(f"Max{key}", low)', T_LOG),
    Mutant(TABLE, '        _cut(run / "episodes.csv", 1 + self.episodes)\n', "", T_TRAIN),
    Mutant(TABLE, '        _cut(run / "progress.txt", 1 + self.rows)\n', "", T_TRAIN),
    Mutant(TRAIN, "        asked[0] = number\n", "", T_TRAIN),
    Mutant("purerl/runs/keeper.py", 'return found | {"ranks": mpi.num_procs()}', "return found", T_TRAIN),
    Mutant("purerl/runs/keeper.py", "steps // freq > before // freq", "False", T_TRAIN),
    Mutant(CONFIG, '    if ":" in env:', "    if False:", T_COMMANDS),
    Mutant(CONFIG, "        if name not in known:", "        if False:", T_COMMANDS),
    Mutant(PLACES, 'if found == "running" and not _is_owned(run):', "if False:", T_COMMANDS),
]  # fmt: skip
