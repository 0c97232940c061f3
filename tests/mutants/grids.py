"""Errors in settings and their names, grids, the processes of a sweep, the dry run."""

from tests.mutants import Mutant

KEYS = "purerl/runs/settings/names.py"
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
FOLDER, PARSER = "purerl/runs/record/folder.py", "purerl/cli/parser.py"
ENVIRONMENTS, REPORT = "purerl/runs/settings/environments.py", "purerl/runs/training/reporting.py"
T_PARSER, T_REPORT = "tests/cli/test_parser.py", "tests/runs/training/test_reporting.py"
T_KEYS = "tests/runs/settings/test_names.py"
T_CLI = "tests/cli/test_options.py"
T_GRID = "tests/runs/sweeps/test_grid.py"
T_RUN = "tests/cli/test_spinningup.py"
T_FATES = "tests/runs/sweeps/test_jobs.py"
T_OPTIONS = "tests/cli/commands/test_train_and_resume.py"

MUTANTS = [
    Mutant(RUN, "and not OF_A_GRID & single.keys()", "", f"{T_RUN} -k foreground"),
    Mutant(RUN, ', "dry_run": "--dry-run"}', "}", f"{T_RUN} -k foreground"),
    Mutant(RUN, "    program.announce(words)\n", "", f"{T_RUN} -k before_anything"),
    Mutant(SWEEP, "    check_limits(args.num_cpu or 1, args.jobs, args.timeout)\n", "", f"{T_RUN} -k mistakes_in_a_sweep"),
    Mutant(TASKS, "environments.check_available(found.env)", "environments.check_id(found.env)", f"{T_RUN} -k lists_its_runs"),
    Mutant(COMMANDS, "    if twice := sorted(given.keys() & pairs.keys()):", "    if twice := []:", f"{T_OPTIONS} -k all_at_once"),
    Mutant(COMMANDS, "for seed in different]", "for seed in seeds]", f"{T_OPTIONS} -k trains_once"),
    Mutant(COMMANDS, "    if code := _run_command(functools.partial(_refuse_unfinished, made, **where)):\n        return code\n", "", f"{T_OPTIONS} -k unfinished"),
    Mutant(FOLDER, "                wrong.append(str(error))\n", "                raise\n", f"{T_OPTIONS} -k unfinished"),
    Mutant(PARSER, "        self._refuse([flag for flag in flags if flag not in self._option_string_actions])\n", "", T_PARSER),
    Mutant(PARSER, 'itertools.takewhile(lambda word: word != "--", args)', "args", T_PARSER),
    Mutant(KEYS, '.replace("learning_rate", "lr")', "", T_KEYS),
    Mutant(KEYS, "for n in (word, SYNONYMS.get(word))", "for n in (word,)", f"{T_OPTIONS} -k words_of_others"),
    Mutant(KEYS, ' and word != "lr"]', "]", T_KEYS),
    Mutant(KEYS, "other for other, name in SYNONYMS.items() if name in known", "other for other in SYNONYMS", T_KEYS),
    Mutant(ENVIRONMENTS, "if near and near[0] not in said else said", "if False else said", f"{T_OPTIONS} -k id_that_is_none"),
    Mutant(REPORT, "if issubclass(one.category, EpisodesCut):", "if True:", f"{T_REPORT} -k warns_of"),
    Mutant(REPORT, '        warnings.simplefilter("always", EpisodesCut)\n', "", "tests/runs/policy/test_run.py -k says_in_a_line"),
    Mutant(KEYS, "        if name in seen:\n", "        if False:\n", T_KEYS),
    Mutant(KEYS, "tuple(width) * layers", "tuple(width)", T_KEYS),
    Mutant(KEYS, '{"steps": epochs * per_epoch}', '{"steps": epochs}', T_KEYS),
    Mutant(KEYS, "made[part] = {**made[part], name: value}", "made[part][name] = value", T_KEYS),
    Mutant(KEYS, "            elif found:\n                return found  # what is left may only be due to what was left out\n", "", T_KEYS),
    Mutant(KEYS, "setting.part != part", "False", T_KEYS),
    Mutant(CONFIG, "            *keys.find_mistakes(Options, options),\n", "", T_OPTIONS),
    Mutant(CONFIG, "            *_collect_error(files.check_name, name),\n", "", T_OPTIONS),
    Mutant(CONFIG, "    environments.check_id(env)\n", "", T_OPTIONS),
    Mutant(CONFIG, "    for one in caught:\n", "    for one in ():\n", T_OPTIONS),
    Mutant(TASKS, "    environments.check_available(found.env)\n", "", T_RUN),
    Mutant(CLI, "if not known_by_now.search(line)]", "]", T_OPTIONS),
    Mutant(CLI, "        given[action.dest] = flag\n", "", T_OPTIONS),
    Mutant(COMMANDS, "for words in args.set or [] for word in words", "for word in (args.set or [[]])[-1]", T_OPTIONS),
    Mutant(CLI, '"-(?!inf$|nan$)[A-Za-z]"', '"-"', T_CLI),
    Mutant(CLI, 'flag = flag.replace("_", "-")', "pass", T_CLI),
    Mutant(CLI, "            wrong.append(str(error))\n            continue", "            parser.error(str(error))", T_CLI),
    Mutant(CLI, "[0-9]{1,300}", "[0-9]+", T_KEYS),
    Mutant(CLI, 'if word.lower() not in ("true", "false"):', "if False:", T_KEYS),
    Mutant(COMMANDS, 'for word in ("env", "epochs", "name", "layers"):\n        if given[word] is None:  # of a field it is a value', "for word in list(given):\n        if given[word] is None:", T_OPTIONS),
    Mutant(COMMANDS, "            action.help = text\n", "            pass\n", T_OPTIONS),
    Mutant(COMMANDS, "textwrap.fill(NOTES, width, break_on_hyphens=False)", "NOTES", T_OPTIONS),
    Mutant("purerl/runs/training/train.py", "    check_memory(config, mpi.num_procs())\n", "", "tests/cli/commands/test_train_and_resume.py"),
    Mutant(DRY, "return row * config.schedule.replay_size", "return row", T_OPTIONS),
    Mutant(GRID, 'if key == "seed" or not (len(values) > 1 or in_name):', "if not (len(values) > 1 or in_name):", T_GRID),
    Mutant(GRID, "part[:3]", "part[:4]", T_GRID),
    Mutant(GRID, "if all(isinstance(v, bool) for v in values):", "if isinstance(value, bool):", T_GRID),
    Mutant(GRID, "                if taken.setdefault(name, settings) == settings:\n                    break", "                break", T_GRID),
    Mutant(GRID, 'or key.startswith(f"{old}:")', "", T_GRID),
    Mutant(GRID, "parent = where if word == folder.name else folder", "parent = folder", f"{T_GRID} -k told"),
    Mutant(TASKS, " == complete:", ":", T_GRID),
    Mutant("purerl/runs/record/status.py", "return task if isinstance(task, dict) else", "return", T_GRID),
    Mutant(TASKS, '"done": 3, "running": 2', '"done": 1, "running": 2', T_GRID),
    Mutant(TASKS, "        elif math.isfinite(value):", "        elif True:", T_GRID),
    Mutant(TASKS, "    with safe_files.lock_folder(run):\n        state", "    if True:\n        state", T_GRID),
    Mutant(TASKS, "start_new_session=True,  # Ctrl-C comes from us, once", "", T_RUN),
    Mutant(TASKS, 'words = ["resume", *typed, *ranks, "--", str(there.path)]', 'words = ["train", algo]', T_RUN),
    Mutant(JOBS, 'there.status in ("done", "running")', "False", T_GRID),
    Mutant(JOBS, "len(board.running) < jobs and not asked", "not asked", T_GRID),
    Mutant(JOBS, "(waiting and not asked)", "waiting", T_GRID),
    Mutant(JOBS, "job.asked, job.late = now, True", "job.asked = now", T_GRID),
    Mutant(JOBS, "safe_files.lock_folder(folder) if alone else contextlib.nullcontext(),", "contextlib.nullcontext(),", T_GRID),
    Mutant(JOBS, "0 if good else STOPPED if asked else 1", "0 if good else 1", T_GRID),
    Mutant(JOBS, 'if code == 0 and there is not None and there.status == "done":', "if code == 0:", T_FATES),
    Mutant(ROWS, 'again or row.status == "waiting"', "again", T_FATES),
    Mutant(ROWS, ' and then.get("run") == row.run', "", T_FATES),
    Mutant(ROWS, "row.exit is None and same and", "row.exit is None and", T_FATES),
    Mutant(ROWS, '"variants": kept + new', '"variants": new', T_GRID),
    Mutant(RUN, "both = [one * n for one in widths for n in layers]", "both = [one * layers[0] for one in widths]", T_RUN),
    Mutant(RUN, "if any(len(one) != 1 for one in widths):", "if False:", T_RUN),
    Mutant(SWEEP, "            if field in taken:", "            if False:", T_RUN),
    Mutant(SWEEP, "if len(refused) == len({name for name, *_ in named}):", "if refused:", T_RUN),
    Mutant(SWEEP, "(?![^\\[(]*[\\])])", "", T_RUN),
]  # fmt: skip
