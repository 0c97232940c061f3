"""Mutants of the loop over environments in JAX."""

from tests.mutants import Mutant

LOOP, PROGRAMS = "purerl/loops/scan/loop.py", "purerl/loops/scan/programs.py"
STEPPING = "purerl/loops/scan/stepping.py"
EVALUATION, IN_JAX = "purerl/loops/scan/evaluation.py", "purerl/loops/adapters/in_jax.py"
SNAPSHOT, FLIP = "purerl/loops/snapshot.py", "purerl/envs/bit_flipping.py"
DIAGNOSIS, CONFIG = "purerl/runs/training/diagnosis.py", "purerl/runs/settings/config.py"
REWARDS = "purerl/loops/hindsight/rewards.py"
ENVIRONMENTS, STATUS = "purerl/runs/settings/environments.py", "purerl/runs/record/status.py"
SHARING, DEVICES = "purerl/loops/scan/sharing.py", "purerl/loops/devices.py"
FIRST, SHARDING = "purerl/loops/first_carry.py", "purerl/mpi/sharding.py"
EPISODES = "purerl/envs/episodes.py"
T_LOOP, T_PROGRAMS = "tests/loops/scan/test_loop.py", "tests/loops/scan/test_programs.py"
SEEDS, T_GROUPS = "purerl/loops/scan/seeds.py", "tests/loops/scan/test_seeds.py"
T_STEPPING, T_SEEDS = "tests/loops/scan/test_stepping.py", "tests/loops/seeds/test_together.py"
T_IN_JAX, T_RUNS = "tests/loops/test_in_jax.py", "tests/runs/training/test_train_in_jax.py"
T_SHARING, T_SHARDING = "tests/loops/scan/test_sharing.py", "tests/mpi/test_sharding.py"
T_JOINED, COLLECTIVE = "tests/loops/scan/test_joined.py", "purerl/mpi/collective.py"
ALIKE = f"{T_SHARING}::test_two_devices_train_like_one"
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
    Mutant(PROGRAMS, "position = (buffer.position + number) % capacity", "position = buffer.position", T_PROGRAMS),
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
    Mutant(LOOP, "    _check_rows(carry, outcome.fault)\n    ended", "    ended", T_LOOP),
    Mutant(LOOP, "first = carry.steps + place * carry.ranks", "first = carry.steps", T_LOOP),
    Mutant(LOOP, "records.check_learner(carry, int(outcome.updates), outcome.finite)", "pass", T_RUNS),
    # Evaluation.
    Mutant(EVALUATION, 'own_seed = rng.host_seed(seed, rank, "eval", epoch)', "own_seed = seed", T_LOOP),
    Mutant(EVALUATION, "new = result.ended & ~test.is_over", "new = result.ended", T_LOOP),
    Mutant(EVALUATION, "act = algo.policy(params, test.episodes.obs)", "act = algo.act(params, test.episodes.obs, jax.random.key(0))", T_LOOP),
    Mutant(EVALUATION, "in_jax.limit_steps(env, max_ep_len)", "env.max_steps", T_LOOP),
    Mutant(EVALUATION, "jnp.where(new, result.ret, test.returns)", "jnp.where(new, result.transition.rew, test.returns)", T_LOOP),
    Mutant(EVALUATION, "        if should_stop():\n            return {}\n", "", T_LOOP),
    # Several seeds.
    Mutant(SEEDS, "axes = (0, None, Clock(0, None, None, 0), None)", "axes = (0, None, Clock(None, None, None, 0), None)", T_SEEDS),
    Mutant(SEEDS, "x.reshape(-1, group, *x.shape[1:])", "x.reshape(group, -1, *x.shape[1:]).swapaxes(0, 1)", T_GROUPS),
    Mutant(SEEDS, "(8, 7, 6, 5, 4)", "(5, 4)", T_GROUPS),
    Mutant(LOOP, "clocks = jax.tree.map(lambda *x: np.stack(x), *map(_read_clock, carries))", "clocks = jax.tree.map(lambda *x: np.stack(x), *map(_read_clock, carries[:1] * len(carries)))", T_SEEDS),
    # The adapter, and lengths of programs.
    Mutant(IN_JAX, "not isinstance(env, type) and all", "all", T_IN_JAX),
    Mutant(IN_JAX, "_GROWTH * max(self.steps, unit)", "most", T_IN_JAX),
    Mutant(IN_JAX, "max(unit, steps // unit * unit)", "max(unit, steps)", T_IN_JAX),
    Mutant(IN_JAX, "min((n for n in (env.max_steps, max_ep_len) if n is not None), default=None)", "max_ep_len or env.max_steps", T_IN_JAX),
    # Snapshots and runs.
    Mutant(SNAPSHOT, 'fields["episodes"] = split_rows(jax.tree.unflatten(tree, arrays), devices)', "pass", T_LOOP),
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
    Mutant(DEVICES, "jax.random.key_data(x) if is_key else x", "x", T_LOOP),
    # Several devices.
    Mutant(SHARING, "mpi.own_part(algo.act(params, jnp.concatenate([obs] * world.devices), key))", "algo.act(params, obs, key)", ALIKE + "[ppo]"),
    Mutant(SHARING, "mpi.own_part(algo.act(params, jnp.concatenate([obs] * world.devices), key))", "algo.act(params, jnp.concatenate([obs] * world.devices), key)[: len(obs)]", ALIKE + "[ppo]"),
    Mutant(SHARING, "rows = mpi.all_parts(block, axis=1)", "rows = jax.tree.map(lambda x: jnp.concatenate([x, x], axis=1), block)", ALIKE + "[dqn]"),
    Mutant(SHARING, "steps * rows.rew.shape[1])", "None)", ALIKE + "[dqn]"),
    Mutant(SHARING, "    info = mpi.pmean(info)\n", "", ALIKE + "[ppo]"),
    Mutant(SHARING, "mpi.all_parts(batch.val, over=mpi.find_axes())", "batch.val", f"{T_SHARING}::test_each_device_updates_with_its_own_key_and_all_values_are_counted"),
    Mutant(SHARING, "jax.lax.axis_index(mpi.AXIS)\n    )", "0\n    )", f"{T_SHARING}::test_each_device_updates_with_its_own_key_and_all_values_are_counted"),
    Mutant(SHARING, "found = mpi.all_parts(Fault(place[None], fault.row))", "found = Fault(place[None], fault.row)", f"{T_SHARING}::test_the_first_fault_of_all_devices_is_reported"),
    Mutant(SHARING, "first = found.place.argmin()", "first = 0", f"{T_SHARING}::test_the_first_fault_of_all_devices_is_reported"),
    Mutant(SHARING, "step * world.num_envs * world.devices + find_first(world)", "step * world.num_envs + find_first(world)", f"{T_SHARING}::test_the_first_fault_of_all_devices_is_reported"),
    Mutant(SHARING, "    if number % devices:", "    if False:", T_SHARING),
    Mutant(SHARING, "if x.shape[:1] != (number,):", "if False:", T_SHARING),
    Mutant(PROGRAMS, "info = mpi.pmean(info) if world.devices > 1 else info", "pass", ALIKE + "[dqn]"),
    Mutant(PROGRAMS, "drawn if world.devices == 1 else mpi.own_part(drawn)", "drawn[: world.num_envs]", ALIKE + "[dqn]"),
    Mutant(PROGRAMS, "sharing.store_rows(stored, rows, t - first)", "sharing.store_rows(stored, rows, t)", ALIKE + "[dqn]"),
    Mutant(PROGRAMS, "sharing.add_rows(buffer, stored, end - first)", "sharing.add_rows(buffer, stored, plan.every)", ALIKE + "[dqn]"),
    Mutant(PROGRAMS, "mpi.all_parts(ends, axis=1), sharing", "ends, sharing", ALIKE + "[ppo]"),
    Mutant(PROGRAMS, "sharing.find_first_fault(world, fault)", "fault", f"{T_SHARING}::test_an_error_names_the_environment_and_step_as_on_one_device"),
    Mutant(PROGRAMS, "rollout = mpi.all_parts(rollout, axis=1)", "rollout = jax.tree.map(lambda x: jnp.concatenate([x, x], axis=1), rollout)", ALIKE + "[acer]"),
    Mutant(PROGRAMS, "in_progress.restart(*args, stepping.find_first(world))", "in_progress.restart(*args)", ALIKE + "[reinforce]"),
    Mutant(STEPPING, "jax.lax.axis_index(mpi.AXIS) * world.num_envs if world.devices > 1 else 0", "0", ALIKE + "[ppo]"),
    Mutant(STEPPING, "env = find_first(world) + jnp", "env = jnp", f"{T_SHARING}::test_goals_are_replayed_on_two_devices"),
    Mutant(STEPPING, "episodes, act, find_first(world))", "episodes, act)", ALIKE + "[ppo]"),
    Mutant(LOOP, "    world = world._replace(num_envs=envs.num_envs, devices=1)\n    data", "    data", T_SHARING),
    Mutant(SNAPSHOT, "split_rows(jax.tree.unflatten(tree, arrays), devices)", "jax.tree.unflatten(tree, arrays)", f"{T_SHARING}::test_a_resumed_run_on_two_devices_has_the_same_bits"),
    Mutant(FIRST, "_divide_rollout(schedule, envs))", "schedule)", f"{T_SHARING}::test_statistics_of_rollouts_are_those_of_all_environments"),
    Mutant(SHARDING, "axis=axis, tiled=True", "axis=0, tiled=True", T_SHARDING),
    Mutant(DEVICES, "OWN if x.ndim else WHOLE), tree)", "WHOLE), tree)", T_JOINED),
    Mutant(DEVICES, "for start in sorted(parts)", "for start in sorted(parts, reverse=True)", T_JOINED),
    Mutant(DEVICES, "jax.process_count() < mpi.num_procs()", "False", "tests/mpi/test_ranks.py"),
    Mutant(COLLECTIVE, "for name in (RANK_AXIS, AXIS) if", "for name in (AXIS,) if", T_JOINED),
    Mutant(LOOP, "x[:, : ended.shape[1]][ended]", "x[ended]", T_JOINED),
    Mutant(EPISODES, "dtype=jnp.uint32) + jnp.uint32(first)", "dtype=jnp.uint32)", "tests/envs/test_episodes.py"),
    Mutant(EPISODES, "rank, episodes, first), going_on)", "rank, episodes), going_on)", "tests/envs/test_episodes.py"),
]  # fmt: skip
