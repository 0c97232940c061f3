"""Mutants of the goal replay buffer, bit flipping, and the options for goals."""

from tests.mutants import Mutant

GOALS, T_GOALS = "purerl/buffers/goals.py", "tests/buffers/test_goals.py"
BITS, T_BITS = "purerl/envs/bit_flipping.py", "tests/envs/test_bit_flipping.py"
DDPG, TD3, SAC, DQN = (f"purerl/algos/{name}.py" for name in ("ddpg", "td3", "sac", "dqn"))
T_DDPG, T_TD3, T_SAC, T_DQN = (
    f"tests/algos/test_{name}.py -k clipped_targets" for name in ("ddpg", "td3", "sac", "dqn")
)
T_OPTIONS = "tests/algos/test_ddpg.py -k action"
T_SPACES = "tests/test_spaces.py::test_a_goal_is_the_end_of_a_flat_observation"

MUTANTS = [
    # Which rows are drawn, and with which probability they get a new goal.
    Mutant(GOALS, "jnp.float32) < share", "jnp.float32) > share", T_GOALS),
    Mutant(GOALS, "index, key_batch = replay", "key_batch = key\n    index, _ = replay", T_GOALS),
    Mutant(GOALS, "strategy, k / (k + 1))", "strategy, 1 / (k + 1))", T_GOALS),
    # The new goal is in both observations, and the outcome comes from the achieved goal.
    Mutant(GOALS, "obs, next_obs = put(row.obs), put(row.next_obs)",
           "obs, next_obs = put(row.obs), row.next_obs", T_GOALS),
    Mutant(GOALS, "obs, next_obs = put(row.obs), put(row.next_obs)",
           "obs, next_obs = row.obs, put(row.next_obs)", T_GOALS),
    Mutant(GOALS, "jnp.where(relabelled[:, None], new, obs[:, -size:])", "new", T_GOALS),
    Mutant(GOALS, "return Drawn(batch, row.extra[\"achieved_goal\"], obs[:, -size:], relabelled)",
           "return Drawn(batch, new, obs[:, -size:], relabelled)", T_GOALS),
    Mutant(GOALS, "goals: tuple[Any, ...] = (drawn.achieved_goal, drawn.goal, {})",
           "goals: tuple[Any, ...] = (drawn.goal, drawn.achieved_goal, {})", T_GOALS),
    Mutant(GOALS, "jnp.where(relabelled, rewards, batch.rew)", "rewards", T_GOALS),
    Mutant(GOALS, "jnp.where(relabelled, terminated, batch.terminated)", "terminated", T_GOALS),
    Mutant(GOALS, "jnp.where(relabelled, terminated, batch.terminated)",
           "batch.terminated | terminated", T_GOALS),
    Mutant(GOALS, "terminated_fn(*goals) if terminated_fn else None", "None", T_GOALS),
    Mutant(GOALS, "        return batch\n    terminated",
           "        return batch._replace(terminated=batch.terminated & ~relabelled)\n    terminated", T_GOALS),
    # Which rows of the episode give goals.
    Mutant(GOALS, "jax.random.randint(key, index.shape, first, later + 1)",
           "jax.random.randint(key, index.shape, first, later)", T_GOALS),
    Mutant(GOALS, "jax.random.randint(key, index.shape, first, later + 1)",
           "jax.random.randint(key, index.shape, first + 1, later + 1)", T_GOALS),
    Mutant(GOALS, "jax.random.randint(key, index.shape, first, later + 1)",
           "jax.random.randint(key, index.shape, first - 1, later + 1)", T_GOALS),
    Mutant(GOALS, "jax.random.randint(key, index.shape, first, later + 1)",
           "jnp.round(jax.random.uniform(key, index.shape) * (later - first)).astype(int) + first", T_GOALS),
    Mutant(GOALS, "        offset = later\n", "        offset = later - 1\n", T_GOALS),
    Mutant(GOALS, '-earlier if strategy == "episode" else 0', "0", T_GOALS),
    Mutant(GOALS, '-earlier if strategy == "episode" else 0', "-earlier", T_GOALS),
    Mutant(GOALS, "jnp.minimum(step, older)", "step", T_GOALS),
    Mutant(GOALS, "jnp.minimum(step, older)", "older", T_GOALS),
    Mutant(GOALS, "jnp.minimum(buffer.kept[env], width) - 1 - newer", "buffer.kept[env] - 1 - newer", T_GOALS),
    Mutant(GOALS, "jnp.minimum(buffer.kept[env], width) - 1 - newer", "width - 1 - newer", T_GOALS),
    Mutant(GOALS, "newer = (buffer.next_column[env] - 1 - column) % width",
           "newer = (buffer.next_column[env] - column) % width", T_GOALS),
    Mutant(GOALS, "return jnp.where(found, buffer.rows[env, (column + offset) % width], index)",
           "return buffer.rows[env, (column + offset) % width]", T_GOALS),
    # The tables.
    Mutant(GOALS, "env = jnp.where(valid, env, number)", "env = jnp.asarray(env)", T_GOALS),
    Mutant(GOALS, "+ row - edges[env]) % width", "+ row) % width", T_GOALS),
    Mutant(GOALS, "(buffer.last_episode[env] + starts[1:] - starts[edges[env]]) % width",
           "(buffer.last_episode[env] + starts[1:]) % width", T_GOALS),
    Mutant(GOALS, "(buffer.last_episode[env] + starts[1:] - starts[edges[env]]) % width",
           "(buffer.last_episode[env] + starts[:-1] - starts[edges[env]]) % width", T_GOALS),
    Mutant(GOALS, "last = jnp.append((env[1:] != env[:-1]) | (step[1:] == 0), True)",
           "last = jnp.append(env[1:] != env[:-1], True)", T_GOALS),
    Mutant(GOALS, "last = jnp.append((env[1:] != env[:-1]) | (step[1:] == 0), True)",
           "last = jnp.append(step[1:] == 0, True)", T_GOALS),
    Mutant(GOALS, "(buffer.last_episode + starts[edges[1:]] - starts[edges[:-1]]) % width",
           "buffer.last_episode", T_GOALS),
    Mutant(GOALS, "kept = buffer.kept.at[replaced].add(-1, mode=\"drop\")", "kept = buffer.kept", T_GOALS),
    Mutant(GOALS, "jnp.where(place < buffer.stored, buffer.data", "jnp.where(written, buffer.data", T_GOALS),
    Mutant(GOALS, "kept.at[jnp.where(written, env, nowhere)].add(1", "kept.at[env].add(1", T_GOALS),
    Mutant(GOALS, "2 * capacity // (num_envs + 1) + 4)", "capacity // num_envs + 4)", T_GOALS),
    Mutant(GOALS, "2 * capacity // (num_envs + 1) + 4)", "2 * capacity // (num_envs + 1))", T_GOALS),
    Mutant(GOALS, "place = (position - stored + row) % capacity", "place = row % capacity", T_GOALS),
    Mutant(GOALS, "np.bincount(env[:stored], minlength=num_envs)", "np.bincount(env, minlength=num_envs)", T_GOALS),
    Mutant(GOALS, "order = jnp.argsort(env, stable=True)", "order = jnp.argsort(env, descending=True)", T_GOALS),
    # Bit flipping.
    Mutant(BITS, "(achieved_goal == desired_goal).all(axis=-1)", "(achieved_goal == desired_goal).any(axis=-1)", T_BITS),
    Mutant(BITS, ".astype(np.float32) - np.float32(1)", ".astype(np.float32)", T_BITS),
    Mutant(BITS, "set(1 - state[action])", "set(1)", T_BITS),
    Mutant(BITS, "terminated = self.jax_compute_terminated(bits, goal)", "terminated = success", T_BITS),
    Mutant(BITS, "self._bits[action] = 1 - self._bits[action]", "self._bits[action] = 1", T_BITS),
    Mutant(BITS, "not terminated and self._steps >=", "self._steps >=", T_BITS),
    Mutant(BITS, "self._steps >= self._max", "self._steps > self._max", T_BITS),
    Mutant(BITS, "        self._steps = 0\n        return", "        return", T_BITS),
    Mutant(BITS, "bits = self._bits.copy()", "bits = self._bits", T_BITS),
    # Clipped targets.
    *(Mutant(algo, "target.clip(-1.0 / (1.0 - spec.gamma), 0.0)", new, test)
      for algo, test in ((DDPG, T_DDPG), (TD3, T_TD3), (SAC, T_SAC), (DQN, T_DQN))
      for new in ("target.clip(-1.0 / (1.0 - spec.gamma), 1.0)", "target.clip(-1.0 / spec.gamma, 0.0)")),
    *(Mutant(algo, "    if spec.clip_targets:", "    if True:", test)
      for algo, test in ((DDPG, T_DDPG), (TD3, T_TD3), (SAC, T_SAC), (DQN, T_DQN))),
    Mutant("purerl/checks.py", "settings.clip_targets and settings.gamma >= 1", "False", T_DQN),
    # Options of DDPG.
    Mutant(DDPG, "loss_pi += params.spec.action_l2", "loss_pi -= params.spec.action_l2", T_OPTIONS),
    Mutant(DDPG, "* jnp.square(pi).mean()", "* jnp.square(pi).sum()", T_OPTIONS),
    Mutant(DDPG, "chance < spec.random_action, uniform, pi + noise", "chance > spec.random_action, uniform, pi + noise", T_OPTIONS),
    Mutant(DDPG, "chance < spec.random_action, uniform, pi + noise", "chance < spec.random_action, uniform, pi", T_OPTIONS),
    Mutant(DDPG, "jax.random.uniform(key_chance, (*pi.shape[:-1], 1), jnp.float32)",
           "jax.random.uniform(key_chance, pi.shape, jnp.float32)", T_OPTIONS),
    Mutant(DDPG, "jax.random.uniform(key_uniform, pi.shape, jnp.float32, -1.0, 1.0)",
           "jax.random.uniform(key_uniform, pi.shape, jnp.float32)", T_OPTIONS),
    Mutant(DDPG, "    if spec.random_action:  # otherwise", "    if True:  # otherwise", T_OPTIONS),
    Mutant("purerl/spaces.py", "flat and self.goal_size < self.obs_shape[0]", "flat", T_SPACES),
    Mutant("purerl/spaces.py", 'len(self.obs_shape) == 1 and self.obs_dtype == "float32"', "len(self.obs_shape) == 1", T_SPACES),
]  # fmt: skip
