"""Mutants of the checks of damaged files, hostile folders, bad settings and environments."""

from tests.mutants import Mutant

REGULAR = "purerl/runs/record/safe_files.py"
STORAGE = "purerl/runs/record/files.py"
WITNESS = "purerl/runs/record/checkpoint_folders.py"
CHECKPOINT = "purerl/runs/record/checkpoint.py"
PLACES = "purerl/runs/record/status.py"
FOLDER, SAVING = "purerl/runs/record/folder.py", "purerl/runs/training/saving.py"
PROGRESS, INTERRUPTS = "purerl/runs/record/progress.py", "purerl/runs/interrupts.py"
T_LOCK, T_STATUS = (f"tests/runs/record/test_{x}.py" for x in ("safe_files", "status"))
T_CHECKPOINT, T_PROGRESS = (f"tests/runs/record/test_{x}.py" for x in ("checkpoint", "progress"))
T_SAVING = "tests/runs/training/test_saving.py"
SNAPSHOT = "purerl/loops/snapshot.py"
FAULTS = "purerl/loops/faults.py"
SINGLE = "purerl/loops/adapters/single.py"
ROOM = "purerl/loops/memory.py"
CHECKS = "purerl/checks.py"
TYPES = "purerl/types.py"
HERE = "tests/reliability/"
T_HOSTILE, T_DAMAGE = f"{HERE}test_hostile.py", f"{HERE}test_damage.py"
T_ENVS, T_CONFIGS, T_ROOM = (f"{HERE}test_{x}.py" for x in ("envs", "configs", "room"))
OFF_SCHEDULE = "purerl/schedules/offpolicy.py"

MUTANTS = [
    Mutant(REGULAR, "os.O_RDONLY | _SAFELY", "os.O_RDONLY | os.O_NONBLOCK", T_LOCK),
    Mutant(REGULAR, "            if not _is_plain(path):\n", "            if False:\n", T_HOSTILE),
    Mutant(REGULAR, "os.register_at_fork(after_in_child=_drop_locks)\n", "", T_LOCK),
    Mutant("purerl/runs/policy/export.py", 'safe_files.get_subfolder(run.folder, "export")', 'run.folder / "export"', f"{T_HOSTILE} -k through"),
    Mutant("purerl/cli/commands/eval.py", 'safe_files.get_subfolder(folder, "eval")', 'folder / "eval"', f"{T_HOSTILE} -k through"),
    Mutant(PLACES, '(STATUS, OLD_STATUS, STATUS))  #', '(STATUS, OLD_STATUS))  #', f"{T_STATUS} -k old_file"),
    Mutant(PLACES, '        state = read_status(run)  # it may have ended since\n', '', f"{T_STATUS} -k ends_while"),
    Mutant(WITNESS, 'folder = safe_files.get_subfolder(run, "checkpoints")\n        content', 'folder = run / "checkpoints"\n        content', "tests/runs/record/test_checkpoint_folders.py -k through_a_link"),
    Mutant(WITNESS, "        if before is not None and _identify(checkpoint_folder(run, step)) == before:\n            raise\n", "        raise\n", f"{T_CHECKPOINT} -k while_it_is_read"),
    Mutant(WITNESS, "    if unknown and missing:\n", "    if False:\n", "tests/runs/policy/test_run.py -k names_of"),
    Mutant(CHECKPOINT, "            path.rename(old)\n", "            files.remove(path)\n", f"{T_CHECKPOINT} -k step_again"),
    Mutant(CHECKPOINT, 'and step != "best":', "and True:", f"{T_CHECKPOINT} -k looked_up_again"),
    Mutant(CHECKPOINT, "MAX_SEGMENTS, MAX_ALL_SEGMENTS = 1_000, 14_000", "MAX_SEGMENTS, MAX_ALL_SEGMENTS = 1_000, 10**9", f"{T_CHECKPOINT} -k many_ranks"),
    Mutant(FOLDER, "    if place is None or identify(run) != place:\n", "    if place is None:\n", f"{T_SAVING} -k whose_folder"),
    Mutant(FOLDER, '    if not (path := run / "config.json").exists():\n', '    if not (path := run / "config.json"):\n', f"{T_SAVING} -k without_its"),
    Mutant(SAVING, "        self.segments = () if lost else self.segments\n", "", f"{T_SAVING} -k whose_replay"),
    Mutant(SAVING, '            notes |= {"total": carry.schedule.steps}', '            notes |= {"total": None}', "tests/runs/training/test_train.py -k damaged_status"),
    Mutant(PROGRESS, '        _correct_header(run / "progress.txt", notes.get("columns", []))\n', "", f"{T_PROGRESS} -k header"),
    Mutant(INTERRUPTS, "_ignore if ranks > 1 and asked else handler", "handler", "tests/runs/test_interrupts.py"),
    Mutant(INTERRUPTS, "        if signal.getsignal(signal.SIGINT) is _interrupt:  # else", "        if True:  # else", "tests/runs/test_interrupts.py"),
    Mutant(REGULAR, "    if path.is_symlink():\n", "    if False:\n", T_HOSTILE),
    Mutant(STORAGE, "            path.unlink(missing_ok=True)  # a link left there would be followed to another file\n            with open(path, \"xb\")", "            with open(path, \"wb\")", T_HOSTILE),
    Mutant(STORAGE, "        content = file.read(most + 1)", "        content = file.read()[: most + 1]", T_HOSTILE),
    Mutant(STORAGE, "hashlib.file_digest(there, \"sha256\").hexdigest() != file.sha256", "False", T_DAMAGE),
    Mutant("purerl/runs/record/arrays.py", "    if needed != there or min(shape, default=0) < 0:", "    if False:", "tests/runs/record/test_arrays.py"),
    Mutant(WITNESS, "length + (name in WHOLE)", "length", T_DAMAGE),
    Mutant(WITNESS, "(row.rstrip(b\"\\t\\n\") for row in", "(row for row in", T_DAMAGE),
    Mutant(WITNESS, "if _digest(path, length + (name in WHOLE)) != (length, digest):", "if _digest(path, length + (name in WHOLE))[0] < length:", T_DAMAGE),
    Mutant(CHECKPOINT, 'if content["best"] and not folders.read_best(run):', "if False:", T_DAMAGE),
    Mutant(CHECKPOINT, "    if len(segments) >= limit_segments(carry.ranks):\n        segments = ()\n", "", "tests/reliability/test_segments.py"),
    Mutant(PLACES, 'content.pop("sha256", None) == hash_status(content)', 'content.pop("sha256", "")', T_DAMAGE),
    Mutant(SNAPSHOT, "    return np.concatenate([tail, x[: number - len(tail)]])", "    return np.concatenate([x[: number - len(tail)], tail])", "tests/runs/record/test_checkpoint.py tests/loops/test_snapshot.py"),
    Mutant(SNAPSHOT, "        filled[name][: len(kept) - tail] = kept[tail:]\n", "", "tests/runs/record/test_checkpoint.py tests/loops/test_snapshot.py"),
    Mutant(FAULTS, "and isinstance(terminated, _FLAG)", "", T_ENVS),
    Mutant(FAULTS, "if not is_finite(obs):", "if False:", "tests/loops/test_faults.py"),
    Mutant(FAULTS, "if not is_finite(act):", "if False:", "tests/loops/test_faults.py"),
    Mutant(FAULTS, 'if name == "act":', "if False:", "tests/loops/test_faults.py"),
    Mutant(FAULTS, '_single(i, "a number as its reward", rew, "biuf")', "rew", T_ENVS),
    Mutant(FAULTS, "RAISED = (Exception, SystemExit)", "RAISED = (Exception,)", T_ENVS),
    Mutant(FAULTS, 'return " ".join(str(error).split())', "return str(error)", T_ENVS),
    Mutant(SINGLE, "        if failed:\n            raise failed\n", "", T_ENVS),
    Mutant(OFF_SCHEDULE, "self.replay_size // ranks,", "self.replay_size,", T_ROOM),
    Mutant("purerl/loops/devices.py", "name = max(needs", "name = min(needs", T_ROOM),
    Mutant(CHECKS, "    if value > high:", "    if False:", T_CONFIGS),
    Mutant(CHECKS, "    if abs(value) > LARGEST:", "    if False:", T_CONFIGS),
    Mutant(CHECKS, "    if not SMALLEST <= value <= LARGEST:", "    if False:", T_CONFIGS),
    Mutant(OFF_SCHEDULE, 'checks.each(self, ("start_steps",), checks.integer, 0, checks.COUNTER, optional=True)', "pass", T_CONFIGS),
]  # fmt: skip
