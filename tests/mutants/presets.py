"""Mutants of schedules, presets, epochs of several rollouts, and the rows of a run."""

from tests.mutants import Mutant

T_SCHEDULES = "tests/test_schedules.py"
PRESETS, T_PRESETS = "purerl/runs/settings/presets.py", "tests/runs/settings/test_presets.py"
ON, T_ON = "purerl/loops/onpolicy.py", "tests/loops/test_onpolicy.py"
FIRST = "purerl/loops/first_carry.py"
RECORDS, T_RECORDS = "purerl/loops/records.py", "tests/loops/test_records.py"
PROGRESS, T_PROGRESS = "purerl/runs/record/progress.py", "tests/runs/record/test_progress.py"
TRAIN, T_TRAIN = "purerl/runs/training/train.py", "tests/runs/training/test_train.py"
T_ROUNDED, T_RANDOM = f"{T_TRAIN} -k rounded_up", f"{T_TRAIN} -k random_episodes"
CONSOLE, REPORT = "purerl/runs/console.py", "purerl/runs/training/reporting.py"
T_BAR = "tests/runs/training/test_progress_bar.py"
KEYS, T_KEYS = "purerl/runs/settings/aliases.py", "tests/runs/settings/test_aliases.py"
COMMAND = "purerl/cli/commands/train_and_resume.py"
RUN = "purerl/runs/policy/run.py"
ENVS, T_ENVS = "purerl/runs/settings/environments.py", "tests/runs/settings/test_environments.py"
T_MAIN, T_RANKS = "tests/cli/test_main.py -k without_an_mpi", "tests/mpi/test_programs.py"
OFF_SCHEDULE = "purerl/schedules/offpolicy.py"
ON_SCHEDULE = "purerl/schedules/onpolicy.py"
SCHEDULE_PARTS = "purerl/schedules/common.py"
SCHEDULES = "purerl/schedules/__init__.py"

MUTANTS = [
    Mutant(SCHEDULE_PARTS, "return -(-count // unit) * unit", "return count // unit * unit", T_SCHEDULES),
    Mutant(SCHEDULE_PARTS, "max(1, min(most, steps // parts))", "min(most, steps // parts)", T_SCHEDULES),
    Mutant(SCHEDULE_PARTS, "max(1, min(most, steps // parts))", "most", T_SCHEDULES),
    Mutant(OFF_SCHEDULE, "start = portion(steps, 10, 10_000)", "start = 10_000", T_SCHEDULES),
    Mutant(OFF_SCHEDULE, "max(ranks * batch, portion(steps, 10, 1_000))", "portion(steps, 10, 1_000)", T_SCHEDULES),
    Mutant(OFF_SCHEDULE, "max(ranks * batch, portion(steps, 10, 1_000))", "max(ranks * batch, 1_000)", T_SCHEDULES),
    Mutant(OFF_SCHEDULE, "epoch = round_down(portion(steps, FEWEST_ROWS, EPOCH), every)", "epoch = round_up(portion(steps, FEWEST_ROWS, EPOCH), every)", T_SCHEDULES),
    Mutant(OFF_SCHEDULE, "start_steps=round_up(start, unit)", "start_steps=start", T_SCHEDULES),
    Mutant(OFF_SCHEDULE, "update_after=round_up(after, unit)", "update_after=after", T_SCHEDULES),
    Mutant(OFF_SCHEDULE, "steps_per_epoch=round_up(epoch, unit)", "steps_per_epoch=epoch", T_SCHEDULES),
    Mutant(OFF_SCHEDULE, "replay_size=round_up(self.replay_size, ranks)", "replay_size=self.replay_size", T_SCHEDULES),
    Mutant(OFF_SCHEDULE, "batch = round_up(self.batch_size, self.devices)", "batch = self.batch_size", T_SCHEDULES),
    Mutant(OFF_SCHEDULE, "if getattr(settled, name) < ranks * settled.batch_size:", "if False:", T_SCHEDULES),
    Mutant(ON_SCHEDULE, "ranks * math.lcm(self.num_envs, self.devices)", "ranks * self.num_envs", T_SCHEDULES),
    Mutant(ON_SCHEDULE, "ranks * math.lcm(self.num_envs, self.devices)", "math.lcm(self.num_envs, self.devices)", T_SCHEDULES),
    Mutant(ON_SCHEDULE, "rollout = self.rollout_steps or self.steps_per_epoch", "rollout = self.rollout_steps", T_SCHEDULES),
    Mutant(ON_SCHEDULE, "rollout = self.rollout_steps or self.steps_per_epoch", "rollout = self.steps_per_epoch or self.rollout_steps", T_SCHEDULES),
    Mutant(ON_SCHEDULE, "most = ROLLOUT if self.continue_episodes else EPOCH", "most = ROLLOUT", T_SCHEDULES),
    Mutant(ON_SCHEDULE, "steps = round_up(self.steps, rollout)", "steps = self.steps", T_SCHEDULES),
    Mutant(ON_SCHEDULE, "epoch = round_up(self.steps_per_epoch, rollout)", "epoch = self.steps_per_epoch", T_SCHEDULES),
    Mutant(SCHEDULE_PARTS, "return max(unit, count // unit * unit)", "return count // unit * unit", T_SCHEDULES),
    Mutant(ON_SCHEDULE, "epoch = round_down(portion(steps, FEWEST_ROWS, EPOCH), rollout)", "epoch = round_up(portion(steps, FEWEST_ROWS, EPOCH), rollout)", T_SCHEDULES),
    Mutant(SCHEDULES, "not in (None, getattr(settled, name))", "!= getattr(settled, name)", T_SCHEDULES),
    Mutant(FIRST, "    if rounded := describe_rounding(schedule, resolved):", "    if False:", T_ON),
    Mutant(ON, "return learner, merge_tallies(tally, tally_values(info))", "return learner, tally_values(info)", T_ON),
    Mutant(RECORDS, "min(carry.steps, carry.schedule.start_steps) - began", "carry.schedule.start_steps - began", T_RECORDS),
    Mutant(RECORDS, "if random > 0 else {}", "if random >= 0 else {}", T_RECORDS),
    Mutant(PROGRESS, 'returns = [f"({cell})" for cell in returns]', "pass", T_RANDOM),
    Mutant(PROGRESS, '"updates", "random_steps")', '"updates")', T_RANDOM),
    Mutant(PROGRESS, '        if is_tested:\n            tests', '        if False:\n            tests', T_PROGRESS),
    Mutant("purerl/runs/training/epochs.py", '[] if "random_steps" in record else record["ep_returns"]', 'record["ep_returns"]', T_RANDOM),
    Mutant(TRAIN, "zip(*(configs.settle(one, mpi.num_procs()) for one in made), strict=True)", 'made, [""]', T_ROUNDED),
    Mutant("purerl/runs/training/requirements.py", "            total = schedule.settle(mpi.num_procs()).steps\n", "", T_ROUNDED),
    Mutant(TRAIN, "given = dataclasses.replace(schedule, steps=steps)", "given = schedule", T_ROUNDED),
    Mutant(CONSOLE, "if not self.live or self.row_is_open or now", "if not self.live or now", T_BAR),
    Mutant(REPORT, "            self.output.begin_row(row)\n", "            self.output.say(row)\n", T_BAR),
    Mutant(REPORT, '        self.end_row("")\n        for line in lines:', "        for line in lines:", T_BAR),
    Mutant(PRESETS, 'found.get(env.removeprefix("jax:"))', "None", T_PRESETS),
    Mutant(PRESETS, "    if name in found:\n        return found[name]\n", "", T_PRESETS),
    Mutant(PRESETS, "if name is None and not isinstance(env, str):", "if False:", T_PRESETS),
    Mutant(PRESETS, "sum(scores) / len(scores)", "max(scores)", T_PRESETS),
    Mutant(COMMAND, "word = presets.NONE if args.config else args.preset", "word = args.preset", T_PRESETS),
    Mutant(COMMAND, "        base = aliases.build_configuration(algo, preset.settings)\n", "        pass\n", T_PRESETS),
    Mutant(RUN, "part: tuned.get(part, {}) | own", "part: own | tuned.get(part, {})", T_PRESETS),
    Mutant(KEYS, 'schedule.setdefault("rollout_steps", ROLLOUT)', "pass", T_KEYS),
    Mutant(ENVS, "if kind not in seen and", "if", T_ENVS),
    Mutant(ENVS, 'message.partition(" Time = ")[0]', "message", T_ENVS),
    Mutant(ENVS, "    if mujoco.get_mju_user_warning() is not None:", "    if False:", T_ENVS),
    Mutant(ENVS, "isinstance(space, gymnasium.spaces.Box) or not space.is_np_flattenable", "True", T_ENVS),
    Mutant("purerl/cli/main.py", "        if library.is_first():", "        if True:", T_MAIN),
    Mutant("purerl/cli/main.py", "isinstance(error, errors.MPIUnavailable)", "False", T_MAIN),
    Mutant("purerl/cli/options.py", "        if mpi.is_root():\n            super().error(message)", "        super().error(message)", f"{T_RANKS} -k line_once"),
    Mutant("purerl/runs/analysis/figures.py", "    except Exception as error:  # a broken", "    except ImportError as error:  # a broken", "tests/cli/commands/test_plot.py -k broken"),
]  # fmt: skip
