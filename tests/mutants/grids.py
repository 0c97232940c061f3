"""Mutants of settings and their names, grids, the processes of a sweep, and the dry run."""

from tests.mutants import Mutant

KEYS = "purerl/runs/settings/aliases.py"
CLI = "purerl/cli/options.py"
GRID = "purerl/runs/sweeps/grid.py"
TASKS = "purerl/runs/sweeps/tasks.py"
JOBS = "purerl/runs/sweeps/jobs.py"
ROWS = "purerl/runs/sweeps/results.py"
DRY = "purerl/runs/training/dry_run.py"
CONFIG = "purerl/runs/settings/config.py"
COMMANDS = "purerl/cli/commands/train_and_resume.py"
RUN = "purerl/cli/spinningup.py"
SWEEP = "purerl/cli/commands/sweep.py"
FOLDER, VALUES = "purerl/runs/record/folder.py", "purerl/cli/values.py"
ENVIRONMENTS, REPORT = "purerl/runs/settings/environments.py", "purerl/runs/training/reporting.py"
T_VALUES, T_REPORT = "tests/cli/test_values.py", "tests/runs/training/test_reporting.py"
T_KEYS = "tests/runs/settings/test_aliases.py"
T_CONFIG = "tests/runs/settings/test_config.py"
T_ENVIRONMENTS = "tests/runs/settings/test_environments.py"
T_CLI = "tests/cli/test_options.py"
T_GRID = "tests/runs/sweeps/test_grid.py"
T_RUN = "tests/cli/test_spinningup.py"
T_JOBS = "tests/runs/sweeps/test_jobs.py"
T_TASKS = "tests/runs/sweeps/test_tasks.py"
T_RESULTS = "tests/runs/sweeps/test_results.py"
T_SWEEP = "tests/cli/commands/test_sweep.py"
T_OPTIONS = "tests/cli/commands/test_train_and_resume.py"

MUTANTS = [
    Mutant(RUN, "and (args.jobs, args.timeout) == (None, None)", "", f"{T_RUN} -k foreground"),
    Mutant(RUN, "flags += SWITCHES[once] if off", "flags += [flag] if off", f"{T_RUN} -k foreground"),
    Mutant(RUN, "    program.announce(words)\n", "", f"{T_RUN} -k printed_before"),
    Mutant(JOBS, 'checks.each(self, ("jobs",), checks.integer, 1, optional=True)', "pass", f"{T_SWEEP} -k mistakes_in_a_sweep"),
    Mutant(TASKS, "environments.check_available(found.env)", "environments.check_id(found.env)", f"{T_RUN} -k lists_its_runs"),
    Mutant(COMMANDS, "items, aliases.COMMAND, typed)", "items, aliases.COMMAND)", f"{T_OPTIONS} -k all_at_once"),
    Mutant(COMMANDS, "for seed in seeds]", "for seed in args.seed or [0]]", f"{T_OPTIONS} -k trains_once"),
    Mutant(COMMANDS, "    run_on_root(lambda: folder.check_earlier_runs(contents, **where), shared=False)\n", "", f"{T_OPTIONS} -k unfinished"),
    Mutant(FOLDER, "                wrong.append(str(error))\n", "                raise\n", f"{T_OPTIONS} -k unfinished"),
    Mutant(CLI, "        if wrong and loose:\n", "        if False:\n", T_CLI),
    Mutant(CLI, 'if loose and "--" in words else len(words)', "if False else len(words)", T_CLI),
    Mutant(KEYS, '.replace("learning_rate", "lr")', "", T_KEYS),
    Mutant(KEYS, "for n in (word, SYNONYMS.get(word))", "for n in (word,)", f"{T_OPTIONS} -k lead_to_the_setting"),
    Mutant(KEYS, ' and word != "lr"]', "]", T_KEYS),
    Mutant(KEYS, "other for other in ours if SYNONYMS[other] in known", "other for other in SYNONYMS", T_KEYS),
    Mutant(ENVIRONMENTS, "if near and near[0] not in said:", "if False:", f"{T_OPTIONS} -k unknown_environment_id"),
    Mutant(REPORT, "if issubclass(one.category, EnvWarning):", "if True:", f"{T_REPORT} -k loop_warnings"),
    Mutant(REPORT, ', action="always", category=EnvWarning', "", "tests/runs/policy/test_run.py -k notes_in_one_line"),
    Mutant(KEYS, "        if name in seen:\n", "        if False:\n", T_KEYS),
    Mutant(KEYS, "width * (1 if layers is None else layers)", "width", T_KEYS),
    Mutant(KEYS, '= epochs * per_epoch', '= epochs', T_KEYS),
    Mutant(KEYS, "dict(made[part]) for part in PARTS", "made[part] for part in PARTS", T_KEYS),
    Mutant(CONFIG, "return found or [str(error)]", "return [*found, str(error)]", T_CONFIG),
    Mutant(KEYS, "setting.part != part", "False", T_KEYS),
    Mutant(CONFIG, "find_mistakes(makers[part], fields[part])]", "find_mistakes(makers[part], fields[part])[:1]]", T_OPTIONS),
    Mutant(CONFIG, "    files.check_name(name)\n", "", T_OPTIONS),
    Mutant(ENVIRONMENTS, "    check_id(env)\n    env = registration", "    env = registration", T_OPTIONS),
    Mutant(ENVIRONMENTS, "    for one in caught:", "    for one in ():", T_ENVIRONMENTS),
    Mutant(TASKS, "    environments.check_available(found.env)\n", "", T_SWEEP),
    Mutant(CLI, "if not follows.search(text)]", "]", T_OPTIONS),
    Mutant(CLI, "                given[action] = flag\n", "", T_OPTIONS),
    Mutant(CLI, "for words in given or [] for word in words", "for word in (given or [[]])[-1]", T_OPTIONS),
    Mutant(CLI, '"-(?!inf$|nan$)[A-Za-z]"', '"-"', T_CLI),
    Mutant(CLI, 'flag = typed.replace("_", "-")', "flag = typed", T_CLI),
    Mutant(CLI, "            return str(error)\n", "            self.error(str(error))\n", T_CLI),
    Mutant(VALUES, "[0-9]{1,300}", "[0-9]+", T_VALUES),
    Mutant(VALUES, 'if word.lower() not in ("true", "false"):', "if False:", T_VALUES),
    Mutant(COMMANDS, "for key, value in vars(args).items() if key in fields}", "for key, value in vars(args).items() if key in fields and value is not None}", T_OPTIONS),
    Mutant(COMMANDS, "for action in rare if not full else ():", "for action in rare:", T_OPTIONS),
    Mutant(COMMANDS, "textwrap.fill(NOTES, width, break_on_hyphens=False)", "NOTES", T_OPTIONS),
    Mutant("purerl/runs/training/requirements.py", "    check_memory(made[0], mpi.num_procs(), len(made))\n", "", "tests/cli/commands/test_train_and_resume.py"),
    Mutant(DRY, 'needs.get("replay_size", 0) * ranks', 'needs.get("replay_size", 0)', T_OPTIONS),
    Mutant(GRID, 'settings.pop("seed", 0)', 'settings.get("seed", 0)', T_GRID),
    Mutant(GRID, "part[:3]", "part[:4]", T_GRID),
    Mutant(GRID, "if not all(isinstance(v, bool) for v in values):", "if not isinstance(value, bool):", T_GRID),
    Mutant(GRID, "                if taken.setdefault(name, settings) == settings:\n                    break", "                break", T_GRID),
    Mutant(GRID, 'or key.startswith(f"{old}:")', "", T_GRID),
    Mutant(TASKS, "return sweep.parent if name == sweep.name else sweep", "return sweep", f"{T_TASKS} -k receives_its_folder"),
    Mutant(TASKS, "if _are_same(status.read_settings(one.path), complete)", "if True", T_TASKS),
    Mutant("purerl/runs/record/status.py", "return task if isinstance(task, dict) else", "return", T_TASKS),
    Mutant(TASKS, '"done": 3, "running": 2', '"done": 1, "running": 2', T_TASKS),
    Mutant(TASKS, "if not all(map(math.isfinite, score.values())):", "if False:", T_JOBS),
    Mutant(TASKS, "    with safe_files.lock_folder(run):\n        state", "    if True:\n        state", T_JOBS),
    Mutant(TASKS, "start_new_session=True,  # the sweep passes Ctrl-C on, once", "", T_SWEEP),
    Mutant(TASKS, 'words = ["resume", *module, *ranks, "--", str(unfinished.path)]', 'words = ["train", algo]', T_SWEEP),
    Mutant(JOBS, 'found.status in ("done", "running")', "False", T_JOBS),
    Mutant(JOBS, "len(board.running) < at_once and not asked", "not asked", T_JOBS),
    Mutant(JOBS, "(waiting and not asked)", "waiting", T_JOBS),
    Mutant(JOBS, "task.asked, task.late = time.monotonic(), late and not stopping", "task.asked = time.monotonic()", T_JOBS),
    Mutant(JOBS, "contextlib.nullcontext() if about is None else safe_files.lock_folder(folder),", "contextlib.nullcontext(),", T_JOBS),
    Mutant(JOBS, "errors.STOPPED if asked else errors.INCOMPLETE", "errors.INCOMPLETE", T_JOBS),
    Mutant(JOBS, 'if code == errors.DONE and found is not None and found.status == "done":', "if code == errors.DONE:", T_JOBS),
    Mutant(ROWS, 'done or row.status == "waiting"', "done", T_RESULTS),
    Mutant(ROWS, ' and old.get("run") == row.run', "", T_RESULTS),
    Mutant(ROWS, "row.exit is None and equal and", "row.exit is None and", T_RESULTS),
    Mutant(ROWS, "[*before.values(), *new]", "new", T_JOBS),
    Mutant(RUN, "for number in layers]", "for number in layers[:1]]", T_RUN),
    Mutant(RUN, "if any(len(one) != 1 for one in widths):", "if False:", T_RUN),
    Mutant(CLI, "            if setting.name in fields:", "            if False:", T_SWEEP),
    Mutant(SWEEP, "if len(refused) == len({name for name, *_ in named}):", "if refused:", T_SWEEP),
    Mutant(CLI, "(?![^\\[(]*[\\])])", "", T_CLI),
]  # fmt: skip
