"""Mutants of the code that loads, evaluates, films and exports trained runs."""

from tests.mutants import Mutant

GYM = "purerl/loops/gym.py"
CHECKPOINT = "purerl/runs/record/checkpoint.py"
CONFIG = "purerl/runs/settings/config.py"
RUN = "purerl/runs/policy/run.py"
EVALUATE = "purerl/runs/policy/evaluation.py"
VIDEO = "purerl/runs/policy/video.py"
EXPORT = "purerl/runs/policy/export.py"
STANDALONE = "purerl/runs/policy/numpy_policy.py"
LOOKUP = "purerl/runs/record/lookup.py"
EVAL = "purerl/cli/commands/eval.py"
WATCH = "purerl/cli/commands/watch.py"
LIST = "purerl/cli/commands/list.py"
INSPECT = "purerl/cli/commands/inspect.py"
ARGUMENTS = "purerl/cli/checkpoint_arguments.py"
T_LIST = "tests/cli/commands/test_list.py"
T_INSPECT = "tests/cli/commands/test_inspect.py"
T_EVAL = "tests/cli/commands/test_eval.py"
T_WATCH = "tests/cli/commands/test_watch.py"
T_USE = "tests/runs/policy/test_run.py"
T_EVALUATE = "tests/runs/policy/test_evaluation.py"
T_VIDEO = "tests/runs/policy/test_video.py"
T_EXPORT = "tests/runs/policy/test_export.py"
T_NUMPY = "tests/runs/policy/test_numpy_policy.py"
T_LOOKUP = "tests/runs/record/test_status.py"

MUTANTS = [
    Mutant("purerl/loops/acting.py", '*rng.words(next(calls))], np.uint32)', "*rng.words(0)], np.uint32)", f"{T_USE}::test_each_action_of_a_stochastic_evaluation_has_its_own_key"),
    Mutant(GYM, "None if deterministic else (seed, rank, epoch)", "None", f"{T_USE}::test_each_action_of_a_stochastic_evaluation_has_its_own_key"),
    Mutant(CHECKPOINT, "        if holds != due:", "        if False:", f"{T_USE}::test_a_learner_that_does_not_match_the_configuration_is_refused"),
    Mutant(CONFIG, "type(x) in (int, float) for values in parts.values() for x in values", "True for x in parts", f"{T_USE}::test_spaces_that_purerl_does_not_write_are_refused"),
    Mutant(CONFIG, "    if math.prod(env.obs_shape) > MAX_OBS:", "    if False:", f"{T_USE}::test_implausibly_large_spaces_are_refused_before_memory_is_allocated"),
    Mutant("purerl/runs/settings/environments.py", '    if ":" in env and not is_jax_name(env):\n        raise ConfigError(', '    if False:\n        raise ConfigError(', f"{T_USE}::test_loading_a_run_never_imports_a_module"),
    Mutant(RUN, 'NOT_ABOUT_POLICIES = ("schedule", "ranks")', 'NOT_ABOUT_POLICIES = ("schedule", "ranks", "spec")', f"{T_USE}::test_a_learner_that_does_not_match_the_configuration_is_refused"),
    Mutant(RUN, "        return np.asarray(env.clip(np.asarray(act)))", "        return np.asarray(act)", f"{T_USE}::test_actions_with_a_key_explore_and_stay_in_the_box"),
    Mutant(RUN, "act = self.algo.act(self.params, obs, key)", "act = self.algo.policy(self.params, obs)", f"{T_USE}::test_actions_with_a_key_explore_and_stay_in_the_box"),
    Mutant(RUN, "delimiter=delimiter), strict=True)", "delimiter=delimiter), strict=False)", f"{T_USE}::test_logs_can_be_read_while_they_are_written"),
    Mutant("purerl/runs/record/checkpoint_folders.py", "            return marked[0]\n", "            return None\n", f"{T_USE}::test_a_checkpoint_is_chosen_by_step_best_or_last"),
    Mutant(RUN, "    for why in found.skipped:\n", "    for why in ():\n", f"{T_USE}::test_a_damaged_checkpoint_is_skipped_with_a_warning"),
    Mutant(RUN, "for k, v in settings.items() if parts[k] == part}", 'for k, v in settings.items() if part == "spec"}', f"{T_USE}::test_settings_are_sorted_and_unknown_ones_get_a_suggestion"),
    Mutant(EVALUATE, "stdtrit(number - 1, 0.975)", "stdtrit(number, 0.975)", T_EVALUATE),
    Mutant(EVALUATE, "statistics.stdev(returns)", "statistics.pstdev(returns)", T_EVALUATE),
    Mutant(RUN, "            max_ep_len = self.config.schedule.max_ep_len\n", "            pass\n", f"{T_USE}::test_evaluation_uses_the_episode_limit_of_training_by_default"),
    Mutant(EVALUATE, "path.touch(exist_ok=False)\n", "path.touch(exist_ok=True)\n", T_EVALUATE),
    Mutant(EVAL, "    if args.out and args.out.exists():", "    if False:", T_EVAL),
    Mutant(ARGUMENTS, 'dest="deterministic", action="store_false"', 'dest="deterministic", action="store_true"', T_EVAL),
    Mutant(EVAL, "            code = code or errors.exit_code_of(error)\n", "            pass\n", T_EVAL),
    Mutant(VIDEO, "    if path is not None and path.exists():", "    if False:", T_VIDEO),
    Mutant(VIDEO, 'os.environ.pop("MUJOCO_GL", "") or library:', 'library or os.environ.pop("MUJOCO_GL", ""):', T_VIDEO),
    Mutant(VIDEO, 'os.environ.pop("MUJOCO_GL", "") or', 'os.environ.get("MUJOCO_GL", "") or', T_VIDEO),
    Mutant(VIDEO, "    if not has_display():\n", "    if True:\n", T_VIDEO),
    Mutant(VIDEO, "                one.connect(address)\n", "                pass\n", T_VIDEO),
    Mutant(VIDEO, "    if film.lost:\n", "    if False:\n", T_WATCH),
    Mutant(WATCH, "        if args.save is None and (name := video.get_display()):\n", "        if False:\n", T_WATCH),
    Mutant(VIDEO, "for frame in (*self._first, self.env.render()):", "for frame in (self.env.render(),):", T_VIDEO),
    Mutant(VIDEO, "        self._first = ()\n        return", "        return", T_VIDEO),
    Mutant(VIDEO, "round(self._period * i) for i", "round(self._period) * i for i", T_VIDEO),
    Mutant(VIDEO, "self._period = 100 * self._every / rate ", "self._period = 100 / rate ", T_VIDEO),
    Mutant(VIDEO, "duration=delays, loop=0)", "duration=delays)", T_VIDEO),
    Mutant(VIDEO, "                    fps=self._rate,\n", "", T_VIDEO),
    Mutant(VIDEO, "            if written != self._given:\n", "            if False:\n", T_VIDEO),
    Mutant(VIDEO, ' and "trackbodyid" not in settings', "", T_VIDEO),
    Mutant(EXPORT, '"tanh": algorithm.squashed}', '"tanh": False}', T_NUMPY),
    Mutant(EXPORT, "and params.obs_stats.rows > 0:", "and True:", T_NUMPY),
    Mutant(EXPORT, "        _check_actions(run, temporary, form)\n", "", T_EXPORT),
    Mutant(EXPORT, "    elif network is not None:", "    elif False:", T_EXPORT),
    Mutant(EXPORT, "    except BaseException:\n        storage.remove(temporary)\n        raise\n", "    except BaseException:\n        raise\n", T_EXPORT),
    Mutant(STANDALONE, 'out.argmax(axis=-1) + about["spaces"]["discrete"]["start"]', "out.argmax(axis=-1)", T_EXPORT),
    Mutant(STANDALONE, "        x = x.clip(-10, 10)\n", "", T_NUMPY),
    Mutant(STANDALONE, "        if i:\n", "        if True:\n", T_NUMPY),
    Mutant(STANDALONE, "np.float32(0.01) * x", "np.float32(0.1) * x", T_NUMPY),
    Mutant(STANDALONE, "    return act.clip(low.astype(np.float32), high.astype(np.float32))", "    return act", T_NUMPY),
    Mutant("purerl/runs/record/status.py", " if folder.name in (run.name, run.parent.name)]", "]", T_LOOKUP),
    Mutant(LIST, " if algo in (None, one.algo)):", "):", T_LIST),
    Mutant(INSPECT, "            code = NO_CHECKPOINT\n", "            pass\n", T_INSPECT),
    Mutant(INSPECT, "        raise NoCheckpoint(str(error)) from error\n", "        raise\n", T_INSPECT),
    Mutant("purerl/runs/console.py", 'c if c.isprintable() else "?"', "c", T_EVAL),
]  # fmt: skip
