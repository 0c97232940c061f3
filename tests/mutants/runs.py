"""Mutants of saved runs: snapshots, files, checkpoints, logs, and training around them."""

from tests.mutants import Mutant

SNAPSHOT = "purerl/loops/snapshot.py"
SINGLE = "purerl/loops/adapters/single.py"
LOOP = "purerl/loops/gym.py"
STORAGE = "purerl/runs/record/files.py"
REGULAR = "purerl/runs/record/safe_files.py"
CHECKPOINT = "purerl/runs/record/checkpoint.py"
MANIFESTS = "purerl/runs/record/checkpoint_folders.py"
LOG = "purerl/runs/record/logger.py"
TABLE = "purerl/runs/record/progress.py"
TRAIN = "purerl/runs/training/train.py"
STOPPING = "purerl/runs/interrupts.py"
KEEPER = "purerl/runs/training/saving.py"
FOLDER = "purerl/runs/record/folder.py"
CONFIG = "purerl/runs/settings/config.py"
PLACES = "purerl/runs/record/status.py"
T_SNAPSHOT = "tests/loops/test_snapshot.py"
T_STORAGE = "tests/runs/record/test_files.py"
T_CHECKPOINT = "tests/runs/record/test_checkpoint.py"
T_LOG = "tests/runs/record/test_logger.py"
T_TRAIN = "tests/runs/training/test_train.py"
T_REWIND = "tests/runs/record/test_checkpoint_folders.py"
T_FOLDER = "tests/runs/record/test_folder.py"
T_PROGRESS = "tests/runs/record/test_progress.py"
T_SAVING = "tests/runs/training/test_saving.py"
T_LOCK = "tests/runs/record/test_safe_files.py"
T_COMMANDS = "tests/cli/test_main.py"

MUTANTS = [
    Mutant(SNAPSHOT, '("steps", "calls", "updates", "epoch")', '("steps", "calls", "updates")', T_SNAPSHOT),
    Mutant(SNAPSHOT, '("steps", "calls", "updates", "epoch")', '("steps", "updates", "epoch")', T_SNAPSHOT),
    Mutant(SNAPSHOT, 'fields["tally"] = replicate(jnp.asarray(fields["tally"]), devices)', 'fields.pop("tally")', T_SNAPSHOT),
    Mutant(SNAPSHOT, "jnp.int32(frozen.stop % capacity), jnp", "jnp.int32(0), jnp", T_SNAPSHOT),
    Mutant(SNAPSHOT, "given[name][first - frozen.first :]", "given[name][: frozen.stop - first]", T_CHECKPOINT),
    Mutant(SNAPSHOT, "first = max(since, stop - len(data.rew))", "first = max(0, stop - len(data.rew))", T_SNAPSHOT),
    Mutant(SNAPSHOT, "if (found.shape, found.dtype) != (x.shape, x.dtype):", "if False:", T_SNAPSHOT),
    Mutant(SNAPSHOT, "ep_return[lost] = ep_length[lost] = 0", "ep_length[lost] = 0", T_SNAPSHOT),
    Mutant(SNAPSHOT, "    generators.restore(frozen.host)", "    generators.restore({})", T_SNAPSHOT),
    Mutant(SINGLE, "self.episode[i] = saved.numbers[i] - 1", "self.episode[i] = saved.numbers[i]", T_SNAPSHOT),
    Mutant(SINGLE, "for action in saved.actions[i]:", "for action in saved.actions[i][:-1]:", T_SNAPSHOT),
    Mutant(SINGLE, "            self.actions[i].append(action)\n            try:\n                now, gain, ends, cut, _", "            try:\n                now, gain, ends, cut, _", T_SNAPSHOT),
    Mutant(SINGLE, "and reached[i].tobytes() == saved.obs[i].tobytes()", "", T_SNAPSHOT),
    Mutant(SINGLE, "and (len(saved.actions[i]), total) == (saved.lengths[i], saved.returns[i])", "", T_SNAPSHOT),
    Mutant(SINGLE, "and (saved.digests is None or self.digest[i] == saved.digests[i])", "", T_SNAPSHOT),
    Mutant(SINGLE, "            self.digest[i] = zlib.crc32(obs[i], self.digest[i])\n            return", "            return", T_SNAPSHOT),
    Mutant(SINGLE, "self.rows[: self.length if self.length <= MOST_ACTIONS else 0]", "self.rows[: self.length]", T_SNAPSHOT),
    Mutant("purerl/loops/adapters/generators.py", "return {} if same else now", "return now", T_SNAPSHOT),
    Mutant("purerl/loops/adapters/generators.py", "None if math.isnan(gauss) else gauss", "None", T_SNAPSHOT),
    Mutant(LOOP, "        envs.rewind(marks)\n", "", T_SNAPSHOT),
    Mutant(LOOP, "        envs.has_moved = True\n", "        pass\n", T_SNAPSHOT),
    Mutant(SINGLE, "            taken.length = length\n", "", T_SNAPSHOT),
    Mutant("purerl/loops/acting.py", "        if should_stop and should_stop():\n            raise AdvanceStopped\n", "", T_SNAPSHOT),
    Mutant("purerl/runs/training/epochs.py", "self.loop.advance(self.carry, should_stop)", "self.loop.advance(self.carry)", "tests/runs/training/test_train.py -k rollout"),
    Mutant("purerl/runs/training/saving.py", "if carry.steps and carry.steps not in known:", "if carry.steps not in known:", "tests/runs/training/test_train.py -k rollout"),
    Mutant(STORAGE, "    if size != file.bytes:", "    if False:", T_STORAGE),
    Mutant(STORAGE, "        if hashlib.file_digest(there, \"sha256\").hexdigest() != file.sha256:", "        if False:", T_STORAGE),
    Mutant(STORAGE, "    if not isinstance(content, dict) or same != seal:", "    if not isinstance(content, dict):", T_STORAGE),
    Mutant("purerl/runs/record/arrays.py", "    if needed != there or min(", "    if min(", "tests/runs/record/test_arrays.py"),
    Mutant(STORAGE, "                os.fsync(file.fileno())\n", "", T_STORAGE),
    Mutant(STORAGE, "            os.replace(made, path)\n", "            path.write_bytes(made.read_bytes())\n            made.unlink()\n", T_STORAGE),
    Mutant(STORAGE, "        remove(made)\n        raise\n", "        raise\n", T_STORAGE),
    Mutant(REGULAR, "fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)", "pass", T_LOCK),
    Mutant(CHECKPOINT, "            why = str(error)\n", "            raise\n", T_CHECKPOINT),
    Mutant(CHECKPOINT, "left[-1], None", "left[0], None", T_CHECKPOINT),
    Mutant(CHECKPOINT, "if then.get(name) != now.get(name)", "if False", T_CHECKPOINT),
    Mutant(CHECKPOINT, "            files.remove(made)  # on a full disk", "            pass  #", T_CHECKPOINT),
    Mutant(REGULAR, "for _ in range(TRIES):", "for _ in range(1):", T_LOCK),
    Mutant(STORAGE, "explain_errors(name or path)", "explain_errors(path)", T_STORAGE),
    Mutant(MANIFESTS, "kept = {*steps[-keep:], ", "kept = {*steps[:keep], ", T_CHECKPOINT),
    Mutant(MANIFESTS, "*_mark_best_of(run, intact), *", "*(best(run) or ())[:1], *", T_CHECKPOINT),
    Mutant(MANIFESTS, "[(x, -n) for", "[(x, n) for", T_REWIND),
    Mutant(MANIFESTS, "    if kept - intact.keys():\n        return\n", "    kept &= intact.keys()\n", T_REWIND),
    Mutant(MANIFESTS, "    if kept - intact.keys():\n", "    if len(intact) < len(steps):\n", T_REWIND),
    Mutant(MANIFESTS, "        _mark_best_of(run, _read_all(run, steps[: -len(later)]))\n", "        pass\n", T_REWIND),
    Mutant(MANIFESTS, "for one in reversed(later):", "for one in later:", T_REWIND),
    Mutant(MANIFESTS, "        path.rename(unnamed)\n", "        storage.remove(path)\n", T_REWIND),
    Mutant(MANIFESTS, ' if one.get("step") == step}', "}", T_REWIND),
    Mutant(TRAIN, "if later := run_on_root(delete):", "if later := []:", T_SAVING),
    Mutant("purerl/runs/training/epochs.py", "            self.saver.prune()\n", "            pass\n", T_SAVING),
    Mutant(KEEPER, "score is None or self.failures:", "score is None:", T_SAVING),
    Mutant(KEEPER, "marked is None or score > marked[1]", "marked is None or score >= marked[1]", T_SAVING),
    Mutant(KEEPER, "return math.isfinite(score) and (", "return bool(", T_SAVING),
    Mutant(KEEPER, "            return freq is not None\n", "            return True\n", T_SAVING),
    Mutant(KEEPER, "functools.cache(session.say)", "session.say", T_SAVING),
    Mutant(FOLDER, "        if status.is_running(path):\n", "        if False:\n", T_FOLDER),
    Mutant(MANIFESTS, "path.name not in used:", "True:", T_CHECKPOINT),
    Mutant(MANIFESTS, "path.name not in used:", "False:", T_CHECKPOINT),
    Mutant(CHECKPOINT, "segments = tuple(s for s in segments if s.stop > oldest)", "pass", T_CHECKPOINT),
    Mutant(MANIFESTS, "    if content.get(\"format\") != FORMAT:", "    if False:", T_CHECKPOINT),
    Mutant(MANIFESTS, "        good &= all(_SEGMENT.fullmatch(s.name) for s in segments)\n", "", T_CHECKPOINT),
    Mutant(CHECKPOINT, "if first != last or any(", "if any(", T_CHECKPOINT),
    Mutant(LOG, "if not mpi.psum(mine.size):", "if False:", T_LOG),
    Mutant(LOG, "            self.stored.pop(key, None)\n", "", T_LOG),
    Mutant(LOG, "if not resume and (table.exists() or other is not self):", "if not resume and other is not self:", T_LOG),
    Mutant(LOG, "(table.exists() or other is not self)", "table.exists()", T_LOG),
    Mutant(LOG, 'f"Max{key}": high', 'f"Max{key}": low', T_LOG),
    Mutant("purerl/cli/checkpoint_arguments.py", "if is_id and env.rpartition", "if False and env.rpartition", "tests/cli/test_checkpoint_arguments.py"),
    Mutant("purerl/cli/checkpoint_arguments.py", "    is_id = ", "    is_id = True or ", "tests/cli/test_checkpoint_arguments.py"),
    Mutant("purerl/cli/checkpoint_arguments.py", "        sys.path.insert(0, here)", "        pass", "tests/cli/test_checkpoint_arguments.py"),
    Mutant(STOPPING, "        asked.append(number)\n", "", "tests/runs/test_interrupts.py"),
    Mutant(TABLE, 'max(0, _cut(run / "episodes.csv", 1 + episodes) - 1)', "episodes", T_PROGRESS),
    Mutant(TABLE, 'max(0, _cut(run / "progress.txt", 1 + rows if rows else 0) - 1)', '(_cut(run / "progress.txt", 1 + rows if rows else 0), rows)[1]', T_PROGRESS),
    Mutant(TABLE, 'notes.get("objects", rows)', "rows", T_PROGRESS),
    Mutant(TABLE, "        path.unlink()  # `Logs` starts it again, with its header\n", "        pass\n", T_PROGRESS),
    Mutant(KEEPER, 'return found | {"ranks": mpi.num_procs()}', "return found", T_TRAIN),
    Mutant(KEEPER, "steps // freq > before // freq:", "False:", T_SAVING),
    Mutant("purerl/runs/settings/environments.py", '    if ":" in env and not is_jax_name(env):\n        raise', "    if False:\n        raise", T_COMMANDS),
    Mutant(CONFIG, "        if name not in known:", "        if False:", T_COMMANDS),
    Mutant(PLACES, 'if state.get("status") == "running" and not is_running(run):', "if False:", T_COMMANDS),
    # A stop request inside of an evaluation.
    Mutant("purerl/loops/gym.py", "            if should_stop():\n", "            if False:\n", "tests/runs/training/test_train.py -k evaluation"),
    Mutant("purerl/runs/training/epochs.py", "self.first.steps < self.schedule.steps or any(run.pending for run in self.runs)", "self.first.steps < self.schedule.steps", "tests/runs/training/test_train.py -k evaluation"),
    Mutant("purerl/runs/training/epochs.py", "done = step == total and not one.pending", "done = step == total", "tests/runs/training/test_train.py -k evaluation"),
    Mutant("purerl/runs/training/epochs.py", "                if not any(run.pending for run in self.runs):\n", "                if True:\n", "tests/runs/training/test_train.py -k evaluation"),
    Mutant("purerl/runs/training/saving.py", ' | ({"pending": to_json(pending)} if pending else {})', "", "tests/runs/training/test_train.py -k evaluation"),
]  # fmt: skip
