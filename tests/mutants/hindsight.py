"""Mutants of the loop with goals: rows, rewards, bursts, and environments found by their id."""

from tests.mutants import Mutant

REWARDS, T_REWARDS = "purerl/loops/hindsight/rewards.py", "tests/loops/hindsight/test_rewards.py"
RELABEL, T_RELABEL = "purerl/loops/hindsight/relabel.py", "tests/loops/hindsight/test_relabel.py"
GOALS = "purerl/loops/adapters/goals.py"
SINGLE, VECTOR = "purerl/loops/adapters/single.py", "purerl/loops/adapters/vector.py"
OFF, SNAPSHOT = "purerl/loops/offpolicy.py", "purerl/loops/snapshot.py"
IDS, T_IDS = "purerl/envs/registration.py", "tests/envs/test_registration.py"
T_SCHEDULES = "tests/test_schedules.py"
T_RUN = "tests/runs/policy/test_run.py"
SCHEDULES = "purerl/schedules/__init__.py"

MUTANTS = [
    # Rows: the goal that the step achieved, the environment, and the place in the episode.
    Mutant(GOALS, "[now, desired], axis=-1", "[now, achieved], axis=-1", T_RELABEL),
    Mutant(
        GOALS,
        "return flat, achieved.astype(np.float32)",
        "return flat, desired.astype(np.float32)",
        T_RELABEL,
    ),
    Mutant(
        GOALS,
        "env = np.arange(number, dtype=np.int32)",
        "env = np.zeros(number, np.int32)",
        T_RELABEL,
    ),
    Mutant(SINGLE, "taken.length - 1 for taken", "taken.length for taken", T_RELABEL),
    Mutant(
        SINGLE, 'achieved[i] = now["achieved_goal"]', 'achieved[i] = now["desired_goal"]', T_RELABEL
    ),
    Mutant(
        VECTOR,
        "last, achieved[i] = goals.flatten_obs(last, self.spec, who)",
        "last, _ = goals.flatten_obs(last, self.spec, who)",
        T_RELABEL,
    ),
    Mutant(
        VECTOR,
        "np.where(done, 0, self._lengths + ",
        "np.where(False, 0, self._lengths + ",
        T_RELABEL,
    ),
    Mutant(
        VECTOR, "self._lengths + (True if valid is None else valid)", "self._lengths + 1", T_RELABEL
    ),
    # Reward functions.
    Mutant(
        REWARDS,
        "in_jax = reward is not None and (ends is not None or has[_HOST[1]] is None)",
        "in_jax = reward is not None",
        T_REWARDS,
    ),
    Mutant(
        REWARDS,
        "takes_many = found.shape == (rows,) and np.allclose(np.float64(found), np.float64(expected))",
        "takes_many = True",
        T_REWARDS,
    ),
    Mutant(
        REWARDS,
        "for i in np.flatnonzero(wanted).tolist():",
        "for i in np.flatnonzero(~wanted).tolist():",
        T_REWARDS,
    ),
    Mutant(REWARDS, "    if not np.isfinite(values).all():", "    if False:", T_REWARDS),
    Mutant(
        REWARDS,
        "if not np.allclose(rewards[0], outcome.reward, rtol=1e-3, atol=1e-5):",
        "if False:",
        T_REWARDS,
    ),
    Mutant(
        REWARDS, "if is_sparse and not set(rewards.tolist()) <= {*SPARSE}:", "if False:", T_REWARDS
    ),
    Mutant(
        REWARDS,
        "            return None  # as in Gymnasium's abstract class",
        "            raise",
        T_REWARDS,
    ),
    Mutant(
        REWARDS,
        "    return Partial(function.func, function.args, tuple(sorted(function.keywords.items())))",
        "    return function",
        T_REWARDS,
    ),
    Mutant(
        REWARDS,
        "if is_default and outcome.success:\n        schedule = dataclasses.replace(schedule, log_info=(outcome.success,))\n        envs",
        "if outcome.success:\n        schedule = dataclasses.replace(schedule, log_info=(outcome.success,))\n        envs",
        T_RELABEL,
    ),
    Mutant(REWARDS, 'SUCCESS = ("is_success", "success")', 'SUCCESS = ("is_success",)', T_RELABEL),
    Mutant(
        REWARDS,
        "if last is not None and last[0] is not None:",
        "if False:",
        T_REWARDS,
    ),
    Mutant(REWARDS, ' and x.dtype.kind in "biuf")', ")", T_REWARDS),
    Mutant(VECTOR, "            self._spare.close()", "            pass", T_REWARDS),
    # Bursts: equal rows on both ways, equal keys, the buffer of a resumed run.
    Mutant(
        RELABEL,
        "how = (relabelling.strategy, relabelling.k / (relabelling.k + 1))",
        'how = ("future", relabelling.k / (relabelling.k + 1))',
        T_RELABEL,
    ),
    Mutant(
        RELABEL,
        "        buffer = goals.add(buffer, block, count)\n        draw",
        "        draw",
        T_RELABEL,
    ),
    Mutant(RELABEL, "        faults.check_sparse(rewards[changed])", "        pass", T_RELABEL),
    Mutant(
        OFF,
        "goals.apply_outcome(drawn, rewards, terminated)",
        "goals.apply_outcome(drawn, rewards)",
        T_RELABEL,
    ),
    Mutant(OFF, "        faults.check_sparse(fresh.rew", "        (fresh.rew", T_RELABEL),
    Mutant(
        SNAPSHOT, "ring = goals.rebuild(rows, *place, carry.schedule.num_envs)", "pass", T_RELABEL
    ),
    Mutant(
        "purerl/algos/__init__.py",
        "    if replays_goals and isinstance",
        "    if False and isinstance",
        T_RELABEL,
    ),
    # Settings and ids.
    Mutant(SCHEDULES, "her=schedule.her is not False)", "her=True)", T_SCHEDULES),
    Mutant(SCHEDULES, "        if schedule.her:\n", "        if False:\n", T_SCHEDULES),
    Mutant(
        "purerl/schedules/offpolicy.py",
        "HER_K if settled.her_k is None else settled.her_k",
        "settled.her_k or HER_K",
        T_SCHEDULES,
    ),
    Mutant(
        "purerl/runs/settings/config.py",
        '        spaces["goal_size"] = env.goal_size',
        "        pass",
        T_RUN,
    ),
    Mutant("purerl/runs/record/progress.py", "[:1]\n", "[:0]\n", T_RUN),
    Mutant(IDS, "if all(kind == np.int32(int(kind)) for", "if any(True for", T_IDS),
    Mutant(IDS, "and env not in gymnasium.registry and not", "and not", T_IDS),
]
