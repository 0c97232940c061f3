"""Errors in what a run tells: tallies are in offpolicy.py; here screen, logs, sinks, doctor, show."""

from tests.mutants import Mutant

SCREEN = "purerl/runs/training/progress_bar.py"
SINKS = "purerl/runs/training/sinks.py"
REPORT = "purerl/runs/training/reporting.py"
KEEPER = "purerl/runs/training/saving.py"
TABLE = "purerl/runs/record/progress.py"
LOG = "purerl/runs/record/logger.py"
REPLAY = "purerl/runs/training/diagnosis.py"
DOCTOR = "purerl/cli/commands/doctor.py"
SHOW = "purerl/cli/commands/show.py"
ENVS = "purerl/runs/settings/environments.py"
TRAIN = "purerl/runs/training/train.py"
ENDING = "purerl/runs/training/failure.py"
FOLDER = "purerl/runs/record/folder.py"
PLACES = "purerl/runs/record/status.py"
MACHINE = "purerl/runs/record/machine.py"
INSPECT = "purerl/cli/commands/inspect.py"
COMMANDS = "purerl/cli/commands/train_and_resume.py"
MAIN = "purerl/cli/main.py"
VECTOR = "purerl/loops/vector.py"
STOPPING = "purerl/runs/interrupts.py"
T_STOPPING = "tests/runs/test_interrupts.py"
T_REPORT = "tests/runs/training/test_reporting.py"
T_DOCTOR = "tests/runs/training/test_diagnosis.py"
T_LIST = "tests/cli/commands/test_list.py"
T_SHOW = "tests/cli/commands/test_show.py"
T_MACHINE = "tests/cli/commands/test_doctor.py"
T_ENDING = "tests/runs/training/test_failure.py"
T_TRAIN = "tests/runs/training/test_train.py"

MUTANTS = [
    Mutant(SCREEN, "self.live = not self.quiet and self.stream.isatty()", "self.live = not self.quiet", T_REPORT),
    Mutant(SCREEN, "if not self.live or now - self._drawn < PAUSE:", "if not self.live or now - self._drawn > PAUSE:", T_REPORT),
    Mutant(SCREEN, "(step - first) / max(now - began, 1e-9)", "step / max(now - began, 1e-9)", T_REPORT),
    Mutant(SCREEN, "write_lines(self.stream, line)", 'self.stream.write(line + "\\n")', T_REPORT),
    Mutant(SINKS, "purge = step + 1 if step else None", "purge = 0", "tests/runs/training/test_reporting.py"),
    Mutant(SINKS, 'mark = hashlib.sha256(str(run.resolve()).encode()).hexdigest()[:8]', 'mark = __import__("time").time_ns()', T_REPORT),
    Mutant(SINKS, "importlib.util.find_spec(package) is None", "False", T_REPORT),
    Mutant(REPORT, "if carry.updates and not self.is_compiled:", "if False:", T_REPORT),
    Mutant(REPORT, "            self._into(sink, sink.close)\n", "            pass\n", T_REPORT),
    Mutant(REPORT, "if one is not sink]", "if True]", T_REPORT),
    Mutant(STOPPING, "        timer.start()\n", "        pass\n", T_STOPPING),
    Mutant(STOPPING, "        if _raised:  # something", "        if False:  # something", T_STOPPING),
    Mutant(STOPPING, "        if _raised:\n            _raised.clear()\n            raise", "        if False:\n            raise", T_STOPPING),
    Mutant(STOPPING, "if number == signal.SIGHUP or ranks > 1:", "if ranks > 1:", T_STOPPING),
    Mutant(STOPPING, "if signal.getsignal(number) is not signal.SIG_IGN:", "if True:", T_STOPPING),
    Mutant(MAIN, "        os._exit(code)  #", "        pass  #", T_STOPPING),
    Mutant(REPORT, "        self.logs.write()\n        return self.logs.notes()", "        return self.logs.notes()", T_REPORT),
    Mutant(TABLE, '            with undo_on_error(self.run / "episodes.csv"):\n', "            if True:\n", T_REPORT),
    Mutant(TABLE, "            del self.waiting[0]\n", "            self.waiting.clear()\n", T_REPORT),
    Mutant(TABLE, "if tuple(cells) == self.shown and", "if self.shown and", T_REPORT),
    Mutant(TABLE, 'prefix = "Average" if metric in AVERAGED else ""', 'prefix = ""', T_REPORT),
    Mutant(TABLE, "not isinstance(value, list) and _is_shown(name)", "not isinstance(value, list)", T_REPORT),
    Mutant(LOG, "c if c.isprintable() else repr(c)[1:-1] for c in text", "c for c in text", "tests/runs/record/test_logger.py"),
    Mutant(LOG, "    if found.dtype.hasobject:\n", "    if False:\n", "tests/runs/record/test_logger.py"),
    Mutant(LOG, "        with undo_on_error(objects):\n", "        if True:\n", T_REPORT),
    Mutant(LOG, "                os.truncate(path, length)\n", "                pass\n", T_REPORT),
    Mutant(LOG, "        self.columns = columns\n", "", "tests/runs/record/test_logger.py"),
    Mutant(TRAIN, 'status.read_status(run).get("steps", config.schedule.steps) if steps is None', "config.schedule.steps if steps is None", T_REPORT),
    Mutant(ENDING, "if not isinstance(error, NonFiniteError):", "if False:", T_DOCTOR),
    Mutant(KEEPER, "if self.failures == PATIENCE or last:", "if False:", T_ENDING),
    Mutant(KEEPER, '{"score": replace_non_finite(score)}', '{"score": score}', T_ENDING),
    Mutant(TRAIN, "round(sum(compiled), 3)", "0.0", T_REPORT),
    Mutant(TRAIN, "score=replace_non_finite(score))", "score=score)", T_ENDING),
    Mutant(LOG, "json.dumps(replace_non_finite(row), default=str)", "json.dumps(row, default=str)", T_ENDING),
    Mutant(SCREEN, "        except OutputClosed as error:\n", "        except BrokenPipeError as error:\n", T_ENDING),
    Mutant(SCREEN, "text = text[: shutil.get_terminal_size().columns - 1]", "text = text[:]", T_REPORT),
    Mutant(REPORT, '        screen.lost = ""\n', "", T_ENDING),
    Mutant(ENDING, "asked = isinstance(error, KeyboardInterrupt)", "asked = False", T_ENDING),
    Mutant(TRAIN, "            carry.envs.close()\n            raise\n", "            raise\n", T_ENDING),
    Mutant(TRAIN, 'step=0, reason=None, **about', 'step=0, **about', T_ENDING),
    Mutant(TRAIN, "        if loaded.step > total:\n", "        if False:\n", T_ENDING),
    Mutant(FOLDER, 'if state.get("status") == "failed":', "if False:", T_ENDING),
    Mutant(PLACES, 'if ranks != 1 and verb == "resume":', "if ranks != 1:", T_ENDING),
    Mutant(PLACES, "return shlex.join(words)", 'return " ".join(words)', T_ENDING),
    Mutant(MAIN, "        if world.is_rank():\n            raise", "        if False:\n            raise", T_ENDING),
    Mutant(MAIN, "    _open_missing()\n", "", T_ENDING),
    Mutant(MAIN, '        if not code:\n            console.write_text(sys.stdout, "")', "        if False:\n            pass", T_ENDING),
    Mutant(MACHINE, "shared = git / common.read_text().strip() if common.is_file() else git", "shared = git", T_ENDING),
    Mutant(MACHINE, 'if line.endswith(f" {name}")', "if line.endswith(name.rpartition('/')[2])", T_ENDING),
    Mutant(COMMANDS, "for one in made[number:])", "for one in made[number - 1 :])", T_ENDING),
    Mutant(VECTOR, "{self.episode[i] + 1}", "{self.episode[i]}", T_ENDING),
    Mutant(INSPECT, "            code = NO_CHECKPOINT\n", "            pass\n", "tests/cli/test_main.py"),
    Mutant(DOCTOR, "{find_launcher() or 'missing'}", "{__import__('shutil').which('mpiexec') or 'missing'}", T_MACHINE),
    Mutant(DOCTOR, "                ctypes.CDLL(name)\n", "", T_MACHINE),
    Mutant(DOCTOR, "    elif whole:\n", "    elif not whole:\n", T_MACHINE),
    Mutant(KEEPER, "            self.failures = 0\n", "", T_TRAIN),
    Mutant(REPLAY, "            learner = new\n", "            pass\n", T_DOCTOR),
    Mutant(REPLAY, "        if not bad:\n", "        if False:\n", T_DOCTOR),
    Mutant(REPLAY, 'rng.stream(carry.seed, carry.rank, "sample", carry.updates)', 'rng.stream(carry.seed, carry.rank, "sample", 0)', T_DOCTOR),
    Mutant(REPLAY, "        while carry.steps < before:\n", "        while carry.steps < before - 50:\n", T_DOCTOR),
    Mutant(REPLAY, "ring = memory.add(devices.unreplicate(carry.buffer), block, count)", "ring = devices.unreplicate(carry.buffer)", T_DOCTOR),
    Mutant(REPLAY, "    except NonFiniteError as error:  # not out of an update\n", "    except errors.Diverged as error:\n", T_DOCTOR),
    Mutant(DOCTOR, "            code = NO_CHECKPOINT\n", "            pass\n", T_MACHINE),
    Mutant(SHOW, "field.default if source is cls else getattr(source, field.name)", "field.default", T_SHOW),
    Mutant(ENVS, 'DISCRETE_ALGORITHMS = ("dqn", ', 'DISCRETE_ALGORITHMS = ("dqn", "sac", ', T_LIST),
]  # fmt: skip
