"""Errors in what a run tells: tallies are in offpolicy.py; here screen, logs, sinks, doctor, show."""

from planted import Mutant

SCREEN = "purerl/runs/screen.py"
SINKS = "purerl/runs/sinks.py"
REPORT = "purerl/runs/report.py"
KEEPER = "purerl/runs/keeper.py"
TABLE = "purerl/runs/table.py"
LOG = "purerl/runs/log.py"
REPLAY = "purerl/runs/replay.py"
DOCTOR = "purerl/runs/doctor.py"
SHOW = "purerl/runs/show.py"
ENVS = "purerl/runs/environments.py"
TRAIN = "purerl/runs/train.py"
T_REPORT = "tests/runs/test_report.py"
T_DOCTOR = "tests/runs/test_doctor.py"
T_LOOKING = "tests/runs/test_looking.py"
T_TRAIN = "tests/runs/test_train.py"

MUTANTS = [
    Mutant(SCREEN, "self.live = not quiet and self.stream.isatty()", "self.live = not quiet", T_REPORT),
    Mutant(SCREEN, "if not self.live or now - self._drawn < PAUSE:", "if not self.live or now - self._drawn > PAUSE:", T_REPORT),
    Mutant(SCREEN, "(step - first) / max(now - began, 1e-9)", "step / max(now - began, 1e-9)", T_REPORT),
    Mutant(SCREEN, "put(self.stream, line)", 'self.stream.write(line + "\\n")', T_REPORT),
    Mutant(SINKS, "purge = step + 1 if step else None", "purge = 0", "tests/runs/test_report.py"),
    Mutant(SINKS, 'mark = hashlib.sha256(str(run.resolve()).encode()).hexdigest()[:8]', 'mark = __import__("time").time_ns()', T_REPORT),
    Mutant(SINKS, "importlib.util.find_spec(package) is None", "False", T_REPORT),
    Mutant(REPORT, "if carry.updates and not self.is_compiled:", "if False:", T_REPORT),
    Mutant(REPORT, "        for sink in self.sinks:\n            sink.close()\n", "", T_REPORT),
    Mutant(REPORT, "        self.logs.write()\n        return self.logs.notes()", "        return self.logs.notes()", T_REPORT),
    Mutant(TABLE, "            with whole(self.run / \"episodes.csv\"):\n", "            if True:\n", T_REPORT),
    Mutant(TABLE, "            del self.waiting[0]\n", "            self.waiting.clear()\n", T_REPORT),
    Mutant(TABLE, "if tuple(cells) == self.shown and", "if self.shown and", T_REPORT),
    Mutant(TABLE, 'prefix = "Average" if metric in AVERAGED else ""', 'prefix = ""', T_REPORT),
    Mutant(TABLE, "not isinstance(value, list) and _is_shown(name)", "not isinstance(value, list)", T_REPORT),
    Mutant(LOG, "        with whole(objects):\n", "        if True:\n", T_REPORT),
    Mutant(LOG, "                os.truncate(path, length)\n", "                pass\n", T_REPORT),
    Mutant(LOG, "        self.columns = columns\n", "", "tests/runs/test_log.py"),
    Mutant(TRAIN, 'folder.status(run).get("steps", config.schedule.steps) if steps is None', "config.schedule.steps if steps is None", T_REPORT),
    Mutant(TRAIN, "if isinstance(error, NonFiniteError):", "if True:", T_DOCTOR),
    Mutant(KEEPER, "            if self.failures == PATIENCE or last:\n                raise\n", "", "tests/runs/test_train.py"),
    Mutant(KEEPER, "            self.failures = 0\n", "", T_TRAIN),
    Mutant(REPLAY, "            learner = new\n", "            pass\n", T_DOCTOR),
    Mutant(REPLAY, "        if not bad:\n", "        if False:\n", T_DOCTOR),
    Mutant(REPLAY, 'rng.stream(carry.seed, carry.rank, "sample", carry.updates)', 'rng.stream(carry.seed, carry.rank, "sample", 0)', T_DOCTOR),
    Mutant(REPLAY, "        while carry.steps < before:\n", "        while carry.steps < before - 50:\n", T_DOCTOR),
    Mutant(REPLAY, "ring = memory.add(carries.local(carry.buffer), block, count)", "ring = carries.local(carry.buffer)", T_DOCTOR),
    Mutant(REPLAY, "    except NonFiniteError as error:  # not out of an update\n", "    except carries.Diverged as error:\n", T_DOCTOR),
    Mutant(DOCTOR, "            code = 6\n", "            pass\n", T_DOCTOR),
    Mutant(SHOW, "given.get(s.name, s.default)", "s.default", T_LOOKING),
    Mutant(ENVS, 'DISCRETE_ALGORITHMS = ("dqn", ', 'DISCRETE_ALGORITHMS = ("dqn", "sac", ', T_LOOKING),
]  # fmt: skip
