"""Mutants of reports: screen, logs, sinks, doctor and show. Those of metrics are in offpolicy.py."""

from tests.mutants import Mutant

CONSOLE = "purerl/runs/console.py"
SCREEN = "purerl/runs/training/progress_bar.py"
REPORT = "purerl/runs/training/reporting.py"
KEEPER = "purerl/runs/training/saving.py"
TABLE = "purerl/runs/record/progress.py"
LOG = "purerl/runs/record/logger.py"
REPLAY = "purerl/runs/training/diagnosis.py"
DOCTOR = "purerl/cli/commands/doctor.py"
SHOW = "purerl/cli/commands/show.py"
ENVS = "purerl/runs/settings/environments.py"
TRAIN = "purerl/runs/training/train.py"
FOLDER = "purerl/runs/record/folder.py"
PLACES = "purerl/runs/record/status.py"
MACHINE = "purerl/runs/record/machine.py"
INSPECT = "purerl/cli/commands/inspect.py"
COMMANDS = "purerl/cli/commands/train_and_resume.py"
MAIN = "purerl/cli/main.py"
SINGLE = "purerl/loops/adapters/single.py"
STOPPING = "purerl/runs/interrupts.py"
T_STOPPING = "tests/runs/test_interrupts.py"
T_REPORT = "tests/runs/training/test_reporting.py tests/runs/training/test_sinks.py"
T_DOCTOR = "tests/runs/training/test_diagnosis.py"
T_LIST = "tests/cli/commands/test_list.py"
T_SHOW = "tests/cli/commands/test_show.py"
T_INSTALLED = "tests/cli/commands/test_doctor.py"
FILES = "purerl/runs/record/files.py"
T_PROGRESS = "tests/runs/record/test_progress.py"
T_FOLDER = "tests/runs/record/test_folder.py"
T_STATUS = "tests/runs/record/test_status.py"
T_MACHINE = "tests/runs/record/test_machine.py"
T_BAR = "tests/runs/training/test_progress_bar.py"
T_SAVING = "tests/runs/training/test_saving.py"
T_TRAIN = "tests/runs/training/test_train.py"

MUTANTS = [
    Mutant(CONSOLE, "self.live = not self.quiet and is_terminal(self.stream)", "self.live = not self.quiet", T_BAR),
    Mutant(CONSOLE, "self.row_is_open or now - self._drawn < pause:", "self.row_is_open or now - self._drawn > pause:", T_BAR),
    Mutant(SCREEN, "(step - first) / max(now - began, 1e-9)", "step / max(now - began, 1e-9)", T_BAR),
    Mutant(CONSOLE, "self._replace_live_line(write_lines, line)", 'self._replace_live_line(write_text, line + "\\n")', T_BAR),
    Mutant("purerl/runs/training/sinks.py", "purge = step + 1 if step else None", "purge = 0", "tests/runs/training/test_sinks.py"),
    Mutant("purerl/runs/training/sinks.py", 'mark = hashlib.sha256(str(run.resolve()).encode()).hexdigest()[:8]', 'mark = __import__("time").time_ns()', "tests/runs/training/test_sinks.py"),
    Mutant("purerl/runs/training/sinks.py", "and (command := machine.explain_missing(option)):", "and (command := \"\"):", "tests/runs/training/test_sinks.py"),
    Mutant(REPORT, "if carry.updates and not self.is_compiled:", "if False:", T_REPORT),
    Mutant(REPORT, "        self._for_each_sink(lambda sink: sink.close())\n", "", "tests/runs/training/test_sinks.py"),
    Mutant(REPORT, "if one is not sink]", "if True]", "tests/runs/training/test_sinks.py"),
    Mutant(STOPPING, "        timer.start()\n", "        pass\n", T_STOPPING),
    Mutant(STOPPING, "        if _raised:  # something", "        if False:  # something", T_STOPPING),
    Mutant(STOPPING, "        if _raised:\n            _raised.clear()\n            raise", "        if False:\n            raise", T_STOPPING),
    Mutant(STOPPING, "if number == signal.SIGHUP or ranks > 1:", "if ranks > 1:", T_STOPPING),
    Mutant(STOPPING, "if signal.getsignal(number) is not signal.SIG_IGN:", "if True:", T_STOPPING),
    Mutant(MAIN, "        os._exit(code)  #", "        pass  #", T_STOPPING),
    Mutant(REPORT, "        self.logs.write()\n        return self.logs.notes()", "        return self.logs.notes()", T_SAVING),
    Mutant(TABLE, '            with undo_on_error(self.run / "episodes.csv"):\n', "            if True:\n", T_PROGRESS),
    Mutant(TABLE, "            del self.waiting[0]\n", "            self.waiting.clear()\n", T_PROGRESS),
    Mutant(TABLE, "is_new = tuple(cells) != self.shown or", "is_new = not self.shown or", T_PROGRESS),
    Mutant(TABLE, '    return COLUMNS.get(metric) or "".join(', '    return "".join(', T_PROGRESS),
    Mutant(TABLE, "not isinstance(value, list) and has_column", "not isinstance(value, list)", T_PROGRESS),
    Mutant(LOG, "c if c.isprintable() else repr(c)[1:-1] for c in text", "c for c in text", "tests/runs/record/test_logger.py"),
    Mutant(LOG, "    if found.dtype.hasobject:\n", "    if False:\n", "tests/runs/record/test_logger.py"),
    Mutant(LOG, "        with undo_on_error(objects):\n", "        if True:\n", T_PROGRESS),
    Mutant(FILES, "                os.truncate(path, length)\n", "                pass\n", T_PROGRESS),
    Mutant(LOG, "        self.columns = columns\n", "", "tests/runs/record/test_logger.py"),
    Mutant("purerl/runs/training/requirements.py", 'status.read_status(run).get("steps") if steps is None', "None if steps is None", T_TRAIN),
    Mutant(REPORT, "if not isinstance(error, errors.NonFiniteError):", "if False:", T_DOCTOR),
    Mutant(KEEPER, "if self.failures == PATIENCE or last:", "if False:", T_SAVING),
    Mutant(KEEPER, '{"score": to_json(score)}', '{"score": score}', T_TRAIN),
    Mutant("purerl/runs/training/epochs.py", "round(sum(compiled), 3)", "0.0", T_REPORT),
    Mutant(FOLDER, "files.to_json((status.read_status(run) or describe_machine()) | entries)", "(status.read_status(run) or describe_machine()) | entries", T_TRAIN),
    Mutant(LOG, "json.dumps(files.to_json(row))", "json.dumps(row)", T_TRAIN),
    Mutant(CONSOLE, "        except Exception as error:  # a custom stream may raise anything\n", "        except OutputClosed as error:\n", T_BAR),
    Mutant(CONSOLE, "text = text[: shutil.get_terminal_size().columns - 1]", "text = text[:]", T_BAR),
    Mutant(REPORT, 'lost, self.screen.lost = self.screen.lost, ""', "lost = self.screen.lost", T_BAR),
    Mutant(REPORT, 'text, states = "interrupted", dict.fromkeys(runs, ("stopped", "interrupted"))', "pass", T_REPORT),
    Mutant("purerl/runs/training/epochs.py", "                envs.close()\n        raise\n", "                pass\n        raise\n", "tests/runs/training/test_epochs.py -k gymnasium"),
    Mutant(TRAIN, "step=0, reason=None, **own", "step=0, **own", T_REPORT),
    Mutant("purerl/runs/training/restoring.py", "    if loaded.step > total:\n", "    if False:\n", T_TRAIN),
    Mutant(FOLDER, 'if state.get("status") == "failed":', "if False:", T_FOLDER),
    Mutant(PLACES, 'several = ranks != 1 and verb == "resume"', "several = ranks != 1", T_STATUS),
    Mutant(PLACES, "return quote_words(words)", 'return " ".join(words)', T_STATUS),
    Mutant(MAIN, "        if world.is_rank():\n            raise", "        if False:\n            raise", T_REPORT),
    Mutant(MAIN, "        if getattr(sys, name) is None:", "        if False:", T_REPORT),
    Mutant(MAIN, '        if code == errors.DONE:\n            console.write_text(sys.stdout, "")', "        if False:\n            pass", T_REPORT),
    Mutant(MACHINE, '"-C", str(folder), ', "", T_MACHINE),
    Mutant(MACHINE, "(before := then.get(name, value)) != value", "(before := then.get(name)) != value", T_MACHINE),
    Mutant(MACHINE, '("settings", list_settings())', '("settings", {})', T_MACHINE),
    Mutant(TRAIN, 'status.read_status(run).get("settings") or machine.list_settings()', "machine.list_settings()", T_TRAIN),
    Mutant(MACHINE, "if done.returncode == 0 else", "if done.returncode else", T_MACHINE),
    Mutant(COMMANDS, "for one in made[number:])", "for one in made[number - 1 :])", T_REPORT),
    Mutant(SINGLE, "{self.episode[i] + 1}", "{self.episode[i]}", T_REPORT),
    Mutant(INSPECT, "            code = NO_CHECKPOINT\n", "            pass\n", "tests/cli/test_main.py"),
    Mutant(DOCTOR, "{find_launcher() or 'missing'}", "{__import__('shutil').which('mpiexec') or 'missing'}", T_INSTALLED),
    Mutant(DOCTOR, "                ctypes.CDLL(name)\n", "", T_INSTALLED),
    Mutant(DOCTOR, "    elif whole:\n", "    elif not whole:\n", T_INSTALLED),
    Mutant(KEEPER, "            self.failures = 0\n", "", T_SAVING),
    Mutant(REPLAY, "            learner = new\n", "            pass\n", T_DOCTOR),
    Mutant(REPLAY, "        if not bad:\n", "        if False:\n", T_DOCTOR),
    Mutant(REPLAY, 'rng.stream(carry.seed, carry.rank, "sample", carry.updates)', 'rng.stream(carry.seed, carry.rank, "sample", 0)', T_DOCTOR),
    Mutant(REPLAY, "        while carry.steps < before:\n", "        while carry.steps < before - 50:\n", T_DOCTOR),
    Mutant(REPLAY, "ring = relabel.add_rows(devices.unreplicate(carry.buffer), block, count)", "ring = devices.unreplicate(carry.buffer)", T_DOCTOR),
    Mutant(REPLAY, "    except NonFiniteError as error:  # from an environment, or an action of the policy\n", "    except Diverged as error:\n", T_DOCTOR),
    Mutant(DOCTOR, "            code = NO_CHECKPOINT\n", "            pass\n", T_INSTALLED),
    Mutant(SHOW, "field.default if settings is cls else getattr(settings, field.name)", "field.default", T_SHOW),
    Mutant(ENVS, 'kind = "discrete" if self.is_discrete else "box"', 'kind = "box"', T_LIST),
]  # fmt: skip
