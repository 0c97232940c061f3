"""Mutants of the loop over environments in JAX."""

from tests.mutants import Mutant

LOOP, PROGRAMS = "purerl/loops/scan/loop.py", "purerl/loops/scan/programs.py"
STEPPING = "purerl/loops/scan/stepping.py"
EVALUATION, IN_JAX = "purerl/loops/scan/evaluation.py", "purerl/loops/adapters/in_jax.py"
SNAPSHOT, FLIP = "purerl/loops/snapshot.py", "purerl/envs/bit_flipping.py"
DIAGNOSIS, CONFIG = "purerl/runs/training/diagnosis.py", "purerl/runs/settings/config.py"
REWARDS = "purerl/loops/hindsight/rewards.py"
ENVIRONMENTS, STATUS = "purerl/runs/settings/environments.py", "purerl/runs/record/status.py"
T_LOOP, T_PROGRAMS = "tests/loops/scan/test_loop.py", "tests/loops/scan/test_programs.py"
T_STEPPING, T_SEEDS = "tests/loops/scan/test_stepping.py", "tests/loops/seeds/test_together.py"
T_IN_JAX, T_RUNS = "tests/loops/test_in_jax.py", "tests/runs/training/test_train_in_jax.py"
AGREE = f"{T_LOOP}::test_both_loops_make_the_same_transitions_and_parameters"

MUTANTS = [
    # Counters and keys.
    Mutant(STEPPING, "words[0] + (low < words[1])", "words[0]", T_STEPPING),
    Mutant(STEPPING, "(low < words[1])", "(low <= words[1])", T_STEPPING),
    Mutant(PROGRAMS, "stepping.add_words(clock.calls, t)\n            act", "clock.calls\n            act", AGREE),
    Mutant(PROGRAMS, "stepping.add_words(clock.calls, k * plan.length)", "clock.calls", AGREE),
    Mutant(PROGRAMS, 'rng.stream(clock.seed, clock.rank, "act", words), first', 'rng.stream(clock.seed, clock.rank, "start", words), first', AGREE),
    Mutant(PROGRAMS, "words = stepping.add_words(clock.updates, updates)\n        packed = jnp.stack([clock.seed, clock.rank, *words])\n        how", "words = clock.updates\n        packed = jnp.stack([clock.seed, clock.rank, *words])\n        how", AGREE),
    Mutant(PROGRAMS, "words = stepping.add_words(clock.updates, updates)\n        packed = jnp.stack([clock.seed, clock.rank, *words])\n        if plan", "words = clock.updates\n        packed = jnp.stack([clock.seed, clock.rank, *words])\n        if plan", AGREE),
    Mutant(LOOP, "calls=carry.calls + steps,", "calls=carry.calls + 1,", T_LOOP),
    Mutant(LOOP, "np.uint32(carry.seed), np.uint32(carry.rank)", "np.uint32(0), np.uint32(carry.rank)", T_LOOP),
    # When to act at random, to learn, and where rows go.
    Mutant(PROGRAMS, "t < times.random)\n            episodes, rows, new", "t <= times.random)\n            episodes, rows, new", AGREE),
    Mutant(PROGRAMS, "left = plan.every - (t + times.phase) % plan.every", "left = plan.every", AGREE),
    Mutant(PROGRAMS, "is_due = ((t + times.phase) % plan.every == 0) & (t >= times.quiet)", "is_due = t >= times.quiet", AGREE),
    Mutant(PROGRAMS, "(t >= times.quiet)", "(t > times.quiet)", AGREE),
    Mutant(PROGRAMS, "jnp.minimum(t + left, times.steps)", "t + left", AGREE),
    Mutant(PROGRAMS, "times.place + t * world.num_envs)", "times.place)", AGREE),
    Mutant(PROGRAMS, "or capacity % number:", "and capacity % number:", T_PROGRAMS),
    Mutant(PROGRAMS, "jnp.minimum(buffer.stored + number, capacity)", "buffer.stored + number", T_PROGRAMS),
    Mutant(PROGRAMS, "(buffer.position + number) % capacity, stored", "buffer.position, stored", T_PROGRAMS),
    Mutant(LOOP, "// stride, steps + 1)", "// stride, steps)", T_LOOP),
    Mutant(LOOP, "done % every, random", "0, random", T_LOOP),
    Mutant(LOOP, "place = carry.calls * carry.envs.num_envs % len(carry.buffer.data.rew)", "place = 0", T_LOOP),
    Mutant(LOOP, "border = min(carry.steps - carry.steps % epoch + epoch, schedule.steps)", "border = carry.steps - carry.steps % epoch + epoch", T_LOOP),
    # Rollouts.
    Mutant(PROGRAMS, "if not plan.continue_episodes:", "if plan.continue_episodes:", AGREE),
    Mutant(PROGRAMS, "return learner, buffer, tally, updates + made", "return learner, buffer, tally, updates + 1", AGREE + "[acer]"),
    # Episodes that ended.
    Mutant(PROGRAMS, "stepping.store_ends(ends, k * plan.length, new)", "stepping.store_ends(ends, k, new)", T_LOOP),
    Mutant(PROGRAMS, "stepping.store_ends(ends, t, jax", "stepping.store_ends(ends, 0, jax", T_LOOP),
    Mutant(LOOP, "ep_lengths=carry.ep_lengths + tuple", "ep_lengths=tuple", T_LOOP),
    Mutant(STEPPING, "Ends(result.ended, result.ret, result.length, infos)", "Ends(result.ended, episodes.ret, result.length, infos)", T_STEPPING),
    Mutant(STEPPING, '"step": began}', '"step": episodes.length}', T_LOOP),
    # Numbers that are not finite.
    Mutant(STEPPING, "bad[row] & (fault.place < 0)", "bad[row]", T_STEPPING),
    Mutant(STEPPING, "(first + row).astype(jnp.int32)", "row.astype(jnp.int32)", T_STEPPING),
    Mutant(STEPPING, "bad = ~jnp.stack(good).all(axis=0)", "bad = ~jnp.stack(good).any(axis=0)", T_STEPPING),
    Mutant(LOOP, "    _check_rows(carry, outcome.fault)\n    ends", "    ends", T_LOOP),
    Mutant(LOOP, "first = carry.steps + int(fault.place) * carry.ranks", "first = carry.steps", T_LOOP),
    Mutant(LOOP, "records.check_learner(carry, int(outcome.updates), outcome.finite)", "pass", T_RUNS),
    # Evaluation.
    Mutant(EVALUATION, 'own_seed = rng.host_seed(seed, rank, "eval", epoch)', "own_seed = seed", T_LOOP),
    Mutant(EVALUATION, "new = result.ended & ~test.is_over", "new = result.ended", T_LOOP),
    Mutant(EVALUATION, "act = algo.policy(params, test.episodes.obs)", "act = algo.act(params, test.episodes.obs, jax.random.key(0))", T_LOOP),
    Mutant(EVALUATION, "in_jax.limit_steps(env, max_ep_len)", "env.max_steps", T_LOOP),
    Mutant(EVALUATION, "jnp.where(new, result.ret, test.returns)", "jnp.where(new, result.transition.rew, test.returns)", T_LOOP),
    Mutant(EVALUATION, "        if should_stop():\n            return {}\n", "", T_LOOP),
    # Several seeds.
    Mutant(PROGRAMS, "axes = (0, None, Clock(0, None, None, 0), None)", "axes = (0, None, Clock(None, None, None, 0), None)", T_SEEDS),
    Mutant(LOOP, "clocks = jax.tree.map(lambda *x: np.stack(x), *map(_read_clock, carries))", "clocks = jax.tree.map(lambda *x: np.stack(x), *map(_read_clock, carries[:1] * len(carries)))", T_SEEDS),
    # The adapter, and lengths of programs.
    Mutant(IN_JAX, "not isinstance(env, type) and all", "all", T_IN_JAX),
    Mutant(IN_JAX, "_GROWTH * max(self.steps, unit)", "most", T_IN_JAX),
    Mutant(IN_JAX, "max(unit, steps // unit * unit)", "max(unit, steps)", T_IN_JAX),
    Mutant(IN_JAX, "min((n for n in (env.max_steps, max_ep_len) if n is not None), default=None)", "max_ep_len or env.max_steps", T_IN_JAX),
    # Snapshots and runs.
    Mutant(SNAPSHOT, 'fields["episodes"] = jax.tree.unflatten(tree, arrays)', "pass", T_LOOP),
    Mutant(FLIP, "return is_at_goal if self.ends_at_goal else is_never_over\n\n    def reset", "return is_never_over\n\n    def reset", "tests/envs/test_bit_flipping.py"),
    Mutant(CONFIG, 'word = env if environments.is_jax_name(env) else env.rpartition(":")[2]', 'word = env.rpartition(":")[2]', T_RUNS),
    Mutant(STATUS, 'return ":" in env and not is_jax_name(env)', 'return ":" in env', T_RUNS),
    Mutant(ENVIRONMENTS, "return made_by.env if isinstance(made_by, JaxMaker) else made_by", "return made_by", T_RUNS),
    Mutant(ENVIRONMENTS, "if wrapper is not None and isinstance(made_by, JaxMaker):", "if False:", T_RUNS),
    Mutant(DIAGNOSIS, "            carry.envs.pace.target = 0.0  # programs of one burst or rollout\n", "            pass\n", T_RUNS),
    # Evaluation, limits of programs, arrays of several seeds.
    Mutant(EVALUATION, "(call + t).astype", "t.astype", T_LOOP),
    Mutant(EVALUATION, "jnp.stack([jnp.uint32(0), (call + t)", "jnp.stack([jnp.uint32(0), 0 * (call + t)", T_LOOP),
    Mutant(EVALUATION, "if not np.isfinite(returns).all():", "if False:", T_LOOP),
    Mutant(EVALUATION, "jnp.where(new[:, None], infos, test.infos)", "infos", T_LOOP),
    Mutant(LOOP, "min(left, most))", "left)", T_LOOP),
    Mutant(REWARDS, "if is_default and outcome.success:\n        schedule = dataclasses.replace(schedule, log_info=(outcome.success,))\n    if", "if outcome.success:\n        schedule = dataclasses.replace(schedule, log_info=(outcome.success,))\n    if", T_LOOP),
    Mutant(REWARDS, "env.spec.clip(np.zeros(env.spec.action.shape, np.float32))", "np.zeros(env.spec.action.shape, np.float32)", T_LOOP),
    Mutant(STEPPING, "(rows.rew == 0) | (rows.rew == -1)", "rows.rew <= 0", T_STEPPING),
    Mutant(STEPPING, "return found.astype(stored.dtype)", "return found", T_STEPPING),
    Mutant(SNAPSHOT, "    carry.refuse_stale()\n", "", T_SEEDS),
    Mutant(SNAPSHOT, "jax.random.key_data(x) if _is_key(x) else x", "x", T_LOOP),
]  # fmt: skip
