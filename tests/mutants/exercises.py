"""Mutants of the exercises: files of students, comparisons, checks and the command."""

from tests.mutants import Mutant

INIT = "purerl_school/exercises/__init__.py"
STUDENT = "purerl_school/exercises/student.py"
TEXTS = "purerl_school/exercises/texts.py"
CHECKING = "purerl_school/exercises/checking.py"
COMMAND = "purerl_school/commands/exercise.py"
LOG_PROB = "purerl_school/exercises/first/gaussian_log_prob/check.py"
POLICY = "purerl_school/exercises/first/gaussian_policy/check.py"
TD3 = "purerl_school/exercises/first/td3_losses/check.py"
VALUES = "purerl_school/exercises/studies/value_function/check.py"
BUG = "purerl_school/exercises/studies/silent_bug/check.py"
T = "tests/school/exercises/test_"
T_ALL, T_STUDENT, T_CHECKING = f"{T}exercises.py", f"{T}student.py", f"{T}checking.py"
T_COMMAND = "tests/school/commands/test_exercise.py"
T_LOG_PROB = "tests/school/exercises/first/test_gaussian_log_prob.py"
T_POLICY = "tests/school/exercises/first/test_gaussian_policy.py"
T_TD3 = "tests/school/exercises/first/test_td3_losses.py"
T_VALUES = "tests/school/exercises/studies/test_value_function.py"
T_BUG = "tests/school/exercises/studies/test_silent_bug.py"

MUTANTS = [
    Mutant(INIT, "            return False\n", "", T_ALL),
    Mutant(INIT, "    if not callable(answer):\n", "    if callable(answer):\n", T_COMMAND),
    Mutant(INIT, "    if reward:\n", "    if not reward:\n", T_COMMAND),
    Mutant(INIT, "    if step not in texts.HINTS:", "    if False:", T_ALL),
    Mutant(INIT, "    if number not in EXERCISES:", "    if False:", T_ALL),
    Mutant(STUDENT, 'open(path, "x"', 'open(path, "w"', T_STUDENT),
    Mutant(STUDENT, "        if error.errno != errno.EEXIST:\n            raise\n", "", T_STUDENT),
    Mutant(STUDENT, "    if not callable(found):", "    if found is None:", T_STUDENT),
    Mutant(STUDENT, "    if not path.is_file():", "    if False:", T_STUDENT),
    Mutant(STUDENT, "module = sys.modules[spec.name] = ", "module = ", T_STUDENT),
    Mutant(STUDENT, "own[-1].lineno", "own[0].lineno + 1", T_STUDENT),
    Mutant(STUDENT, "isoformat()} | read_solved(folder)", "isoformat()}", T_STUDENT),
    Mutant(STUDENT, "solved = {number: datetime.date.today().isoformat()} | read_solved(folder)", "solved = read_solved(folder) | {number: datetime.date.today().isoformat()}", T_STUDENT),
    Mutant(TEXTS, '.partition("\\n## ")[0]', "", T_ALL),
    Mutant(CHECKING, 'jax.numpy_rank_promotion("allow"), jax', 'jax.numpy_rank_promotion("raise"), jax', T_LOG_PROB),
    Mutant(CHECKING, "    except NotImplementedError as error:\n", "    except ZeroDivisionError as error:\n", T_ALL),
    Mutant(CHECKING, "    except jax.errors.JAXTypeError as error:\n", "    except ZeroDivisionError as error:\n", T_CHECKING),
    Mutant(CHECKING, "        lost = str(error)", '        lost, function = "", callable', T_CHECKING),
    Mutant(CHECKING, "    if _is_close(found, -expected):", "    if False:", T_CHECKING),
    Mutant(CHECKING, "    if expected.size > 1 and _is_close(found, factor * expected):", "    if False:", T_CHECKING),
    Mutant(CHECKING, "    if expected.size > 1 and _is_close(found, expected + offset):", "    if False:", T_CHECKING),
    Mutant(CHECKING, "1/{1 / factor:.4g}", "{factor:.4g}", T_CHECKING),
    Mutant(CHECKING, "    if not np.isfinite(found).all():", "    if False:", T_CHECKING),
    Mutant(CHECKING, "if np.isfinite(value).all()}", "}", T_CHECKING),
    Mutant(CHECKING, "== value.shape != expected.shape and", "== expected.shape and", T_CHECKING),
    Mutant(CHECKING, "TOLERANCE = 1e-4", "TOLERANCE = 1e-2", T_CHECKING),
    Mutant(CHECKING, "TOLERANCE = 1e-4", "TOLERANCE = 1e-8", T_CHECKING),
    Mutant(CHECKING, "(2.0 * step)", "step", T_CHECKING),
    Mutant(CHECKING, "if leaf.dtype == np.float64 else", "if False else", T_CHECKING),
    Mutant(CHECKING, "jax.jit(answer)(*given)", "answer(*given)", T_CHECKING),
    Mutant(CHECKING, "    if got is None:", "    if False:", T_CHECKING),
    Mutant(CHECKING, "    if found == (*shape, 1):", "    if False:", T_CHECKING),
    Mutant(CHECKING, "    if len(shape) == 1 and found == shape * 2:", "    if False:", T_CHECKING),
    Mutant(COMMAND, "return errors.DONE if right else errors.WRONG_ANSWER", "return errors.DONE", T_COMMAND),
    Mutant(COMMAND, "return errors.DONE if passed == len(cases) else", "return errors.DONE if passed else", T_COMMAND),
    Mutant(COMMAND, "contextlib.redirect_stdout(sys.stderr)", "contextlib.nullcontext()", T_COMMAND),
    Mutant(COMMAND, "not args.no_reward", "True", T_COMMAND),
    Mutant(COMMAND, "args.action not in (\"check\", \"hint\")", "False", T_COMMAND),
    Mutant(COMMAND, "and args.action != \"check\":", "and False:", T_COMMAND),
    Mutant(LOG_PROB, "def check_several_dimensions(", "def skip_several_dimensions(", T_LOG_PROB),
    Mutant(LOG_PROB, "def check_shared_log_std(", "def skip_shared_log_std(", T_LOG_PROB),
    Mutant(LOG_PROB, "def check_small_standard_deviation(", "def skip_small(", T_LOG_PROB),
    Mutant(LOG_PROB, "def check_gradients(", "def skip_gradients(", T_LOG_PROB),
    Mutant(LOG_PROB, "right + 0.5 * (dims - 1) * LOG_2_PI", "right + dims * LOG_2_PI", T_LOG_PROB),
    Mutant(POLICY, "def check_keys(", "def skip_keys(", T_POLICY),
    Mutant(POLICY, "def check_noise(", "def skip_noise(", T_POLICY),
    Mutant(POLICY, "def check_score(", "def skip_score(", T_POLICY),
    Mutant(POLICY, "def check_entropy(", "def skip_entropy(", T_POLICY),
    Mutant(POLICY, "(abs(noise - noise[0]) < 1e-3).all()", "False", T_POLICY),
    Mutant(POLICY, "(abs((noise**4).mean(axis=0) - 3.0) > 0.6).any()", "False", T_POLICY),
    Mutant(TD3, "def check_time_limit(", "def skip_time_limit(", T_TD3),
    Mutant(TD3, "def check_noise_clip(", "def skip_noise_clip(", T_TD3),
    Mutant(TD3, "def check_action_clip(", "def skip_action_clip(", T_TD3),
    Mutant(TD3, "def check_policy_loss(", "def skip_policy_loss(", T_TD3),
    Mutant(TD3, "def check_stopped_gradients(", "def skip_stopped_gradients(", T_TD3),
    Mutant(TD3, "def check_gradients(", "def skip_gradients(", T_TD3),
    Mutant(TD3, "def check_one_terminal_row(", "def skip_one_terminal_row(", T_TD3),
    Mutant(VALUES, "def check_square_case(", "def skip_square_case(", T_VALUES),
    Mutant(VALUES, "def check_constant_values(", "def skip_constant_values(", T_VALUES),
    Mutant(VALUES, "def check_explained_variance(", "def skip_explained_variance(", T_VALUES),
    Mutant(VALUES, "def check_variance(", "def skip_variance(", T_VALUES),
    Mutant(BUG, "def check_right_predictions(", "def skip_right_predictions(", T_BUG),
    Mutant(BUG, "def check_some_rows(", "def skip_some_rows(", T_BUG),
    Mutant(BUG, "def check_gradient(", "def skip_gradient(", T_BUG),
]  # fmt: skip

CASES = {  # exercise of algorithms -> checks that each find a mistake that no other check explains
    "rewards_to_go": "one_episode two_episodes cut_at_the_end time_limit both_flags jit",
    "gae": "lambda_zero lambda_one lambda_between terminated_in_the_middle time_limit last_row "
    "both_flags several_environments",
    "clipped_objective": "start_of_an_update ratio good_action_above good_action_below "
    "bad_action_below bad_action_above clip_ratio batch data_has_no_gradient",
    "dqn_target": "maximum terminal_row time_limit both_flags double double_with_flags no_gradient jit",
    "temperature": "value gradient entropy_too_low entropy_at_target large_temperature "
    "policy_has_no_gradient jit",
    "relabelling": "fields obs next_obs reward ends nothing_else jit",
    "custom_loop": "one_step pure random_actions terminal_state time_limit both_flags first_burst "
    "later_bursts odd_start",
}
MUTANTS += [
    Mutant(
        f"purerl_school/exercises/algorithms/{name}/check.py",
        f"def check_{case}(",
        f"def skip_{case}(",
        f"tests/school/exercises/algorithms/test_{name}.py",
    )
    for name, cases in CASES.items()
    for case in cases.split()
]
