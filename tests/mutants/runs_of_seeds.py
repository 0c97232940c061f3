"""Mutants of runs of several seeds in one program."""

from tests.mutants import Mutant

EPOCHS = "purerl/runs/training/epochs.py"
REQUIREMENTS = "purerl/runs/training/requirements.py"
RESTORING = "purerl/runs/training/restoring.py"
REPORT = "purerl/runs/training/reporting.py"
TRAIN = "purerl/runs/training/train.py"
TABLE = "purerl/runs/record/progress.py"
STATUS = "purerl/runs/record/status.py"
FOLDERS = "purerl/runs/record/checkpoint_folders.py"
DRY_RUN = "purerl/runs/training/dry_run.py"
COMMAND = "purerl/cli/commands/train_and_resume.py"
TOGETHER, T_TOGETHER = "purerl/loops/seeds/together.py", "tests/loops/seeds/test_together.py"
T_EPOCHS = "tests/runs/training/test_epochs.py"
T_REQUIREMENTS = "tests/runs/training/test_requirements.py"
T_RESTORING = "tests/runs/training/test_restoring.py"
T_TABLE = "tests/runs/record/test_progress.py"
T_STATUS = "tests/runs/record/test_status.py"
T_DRY_RUN = "tests/runs/training/test_dry_run.py"
T_COMMAND = "tests/cli/commands/test_train_and_resume.py"

MUTANTS = [
    # Which run learns, is tested, saved and logged.
    Mutant(EPOCHS, "learner = jax.tree.map(lambda x: x[i], self.carry.data.learner)", "learner = jax.tree.map(lambda x: x[0], self.carry.data.learner)", f"{T_EPOCHS} -k folder_of"),
    Mutant(EPOCHS, "lambda x: x[i : i + 1], data)", "lambda x: x[:1], data)", f"{T_EPOCHS} -k folder_of"),
    Mutant(EPOCHS, "dataclasses.replace(self.carry.carries[i], learner=learner)", "dataclasses.replace(self.first, learner=learner)", f"{T_EPOCHS} -k folder_of"),
    Mutant(EPOCHS, '{"seed": self.session.config.seed}', "{}", f"{T_EPOCHS} -k folder_of"),
    # Checkpoints of the same step.
    Mutant(EPOCHS, "if last or (any(due) and not self.runs[0].saver.shared):", "if last:", f"{T_EPOCHS} -k new_best"),
    Mutant(EPOCHS, "if last or (any(due) and not self.runs[0].saver.shared):", "if last or any(due):", f"{T_EPOCHS} -k new_best"),
    Mutant(EPOCHS, "                run.saver.shared = (step,)\n", "                pass\n", f"{T_EPOCHS} -k killed"),
    Mutant(EPOCHS, "all(due) and not any(run.saver.failures for run in self.runs)", "all(due)", f"{T_EPOCHS} -k full_disk"),
    Mutant(EPOCHS, "run.saver.shared = (one.step,) if one and len(self.runs) > 1 else ()", "pass", f"{T_EPOCHS} -k kept_until"),
    Mutant(FOLDERS, "*({*shared} & {*steps})", "", f"{T_EPOCHS} -k killed"),
    Mutant(EPOCHS, "            except errors.StorageError as error:  # the other runs are saved first\n", "            except ZeroDivisionError as error:\n", f"{T_EPOCHS} -k full_disk"),
    # Errors of one run.
    Mutant(EPOCHS, "self.failed[:] = [run for run, _ in wrong]", "pass", f"{T_EPOCHS} -k full_disk"),
    Mutant(EPOCHS, "            self.failed[:] = [run.session.run]\n", "", f"{T_EPOCHS} -k lost_folder"),
    Mutant(EPOCHS, "        if not left and not self.carry.is_stale:\n", "        if False:\n", f"{T_EPOCHS} -k lost_folder"),
    Mutant(EPOCHS, "run.saver.save_unsaved(carry, run.score, False, pending)", "run.saver.save_unsaved(carry, run.score, False)", f"{T_EPOCHS} -k bad_number"),
    Mutant(REPORT, "        if rest:\n", "        if False:\n", f"{T_EPOCHS} -k bad_number"),
    Mutant(REPORT, 'dict.fromkeys(runs, ("stopped", f"{failed[0].name} failed"))', 'dict.fromkeys(runs, ("failed", format_error(error)))', f"{T_EPOCHS} -k bad_number"),
    Mutant(EPOCHS, "left = dict(error.survivors)", "left: dict = {}", f"{T_EPOCHS} -k bad_number"),
    Mutant(EPOCHS, "if x.config.seed == error.seed]", "]", f"{T_EPOCHS} -k gymnasium"),
    Mutant(TOGETHER, "            error.seed = seed\n", "            pass\n", f"{T_EPOCHS} -k gymnasium"),
    Mutant(TOGETHER, "np.array([i not in failed for", "np.array([True for", T_TOGETHER),
    Mutant(TOGETHER, "ended: Sequence[Record | None] = made or", "ended: Sequence[Record | None] =", f"{T_EPOCHS} -k bad_number"),
    Mutant(TOGETHER, "        except PurerlError as error:\n            failed.setdefault(i, error)\n", "        except ZeroDivisionError as error:\n            failed.setdefault(i, error)\n", T_TOGETHER),
    # Evaluations, and the screen.
    Mutant(EPOCHS, "            if tests or not is_tested:\n", "            if True:\n", f"{T_EPOCHS} -k evaluation"),
    Mutant(EPOCHS, "ended = [run for run in self.runs if run.pending]", "ended = [*self.runs]", f"{T_EPOCHS} -k evaluation"),
    Mutant(TABLE, "[_mean(means), min(means), max(means)]", "[_mean(means), max(means), min(means)]", T_TABLE),
    Mutant(TABLE, "{number * rate:,.0f}", "{rate:,.0f}", T_TABLE),
    Mutant(TABLE, "sum(one[name] for one in records) / number", "record[name]", T_TABLE),
    # What continues, and from where.
    Mutant(RESTORING, "sorted(set.intersection(*map(set, there)), reverse=True)", "sorted(set.union(*map(set, there)), reverse=True)", T_RESTORING),
    Mutant(RESTORING, "sorted(set.intersection(*map(set, there)), reverse=True)", "sorted(set.intersection(*map(set, there)))", T_RESTORING),
    Mutant(RESTORING, "(len(steps) == 1 and is_killed)", "len(steps) == 1", T_RESTORING),
    Mutant(RESTORING, "(len(steps) == 1 and is_killed)", "is_killed", T_RESTORING),
    Mutant(RESTORING, "restore_all(sessions, candidates[1:])", "restore_all(sessions, candidates)", f"{T_EPOCHS} -k damaged"),
    Mutant(TRAIN, "            run_on_root(functools.partial(checkpoint_folders.delete_later, run, 0))\n", "            pass\n", f"{T_EPOCHS} -k killed"),
    Mutant(TRAIN, "    if len({run.resolve() for run in folders}) < len(folders):\n", "    if False:\n", T_RESTORING),
    Mutant(TRAIN, "        folder.check_earlier_runs(contents, **where)\n", "        pass\n", T_REQUIREMENTS),
    # What is refused.
    Mutant(REQUIREMENTS, "if ours != theirs and name not in OWN:", "if False:", T_REQUIREMENTS),
    Mutant(REQUIREMENTS, "if ours != theirs and name not in OWN:", "if ours != theirs:", T_REQUIREMENTS),
    Mutant(REQUIREMENTS, "first.schedule.devices > 1", "False", T_REQUIREMENTS),
    Mutant(REQUIREMENTS, "mpi.num_procs() > 1", "False", T_REQUIREMENTS),
    Mutant(REQUIREMENTS, "is_used and others", "is_used", T_REQUIREMENTS),
    Mutant(REQUIREMENTS, "seeds if seeds == 1 else 2 * seeds", "seeds", T_REQUIREMENTS),
    Mutant(REQUIREMENTS, "seeds if seeds == 1 else 2 * seeds", "2 * seeds", T_REQUIREMENTS),
    Mutant(COMMAND, "    if args.together and (args.num_cpu or 1) > 1:\n", "    if False:\n", T_COMMAND),
    Mutant(COMMAND, "    if len(args.run) > 1 and not args.together:\n", "    if False:\n", T_COMMAND),
    Mutant(COMMAND, "return max(end.code for end in ends)", "return ends[0].code", T_COMMAND),
    Mutant(STATUS, "== {*runs}:", "<= {*runs}:", T_STATUS),
    Mutant(DRY_RUN, '* ranks * seeds, free_memory()', '* ranks, free_memory()', T_DRY_RUN),
    Mutant(DRY_RUN, "seconds * (1 if together else len(made))", "seconds * len(made)", T_DRY_RUN),
    Mutant(DRY_RUN, "at_once = episodes if in_jax else 1", "at_once = 1", T_DRY_RUN),
]  # fmt: skip
