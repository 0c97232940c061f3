"""Mutants of the environments written in JAX, and of their episodes."""

from tests.mutants import Mutant

EPISODES, T_EPISODES = "purerl/envs/episodes.py", "tests/envs/test_episodes.py"
CARTPOLE, T_CARTPOLE = "purerl/envs/classic/cartpole.py", "tests/envs/classic/test_cartpole.py"
PENDULUM, T_PENDULUM = "purerl/envs/classic/pendulum.py", "tests/envs/classic/test_pendulum.py"
ACROBOT, T_ACROBOT = "purerl/envs/classic/acrobot.py", "tests/envs/classic/test_acrobot.py"
CAR, T_CAR = "purerl/envs/classic/mountain_car.py", "tests/envs/classic/test_mountain_car.py"
CATCH, T_CATCH = "purerl/envs/catch.py", "tests/envs/test_catch.py"
BREAKOUT, T_BREAKOUT = "purerl/envs/breakout.py", "tests/envs/test_breakout.py"
GYM, T_GYM = "purerl/envs/gymnasium_env.py", "tests/envs/test_gymnasium_env.py"
ADAPTERS, T_ADAPTERS = "purerl/envs/adapters.py", "tests/envs/test_adapters.py"
DRAWING, T_DRAWING = "purerl/envs/drawing.py", "tests/envs/test_drawing.py"
NAMES, T_NAMES = "purerl/envs/names.py", "tests/envs/test_names.py"
STATE = "        state = state + params.dt * velocities"

MUTANTS = [
    # Limit, reset, final observations.
    Mutant(EPISODES, "length >= max_steps if", "length > max_steps if", T_EPISODES),
    Mutant(EPISODES, "    length, ret = episodes.length + jnp.int32(1)", "    length, ret = episodes.length + jnp.int32(2)", T_EPISODES),
    Mutant(EPISODES, "ended = terminated | truncated", "ended = terminated", T_EPISODES),
    Mutant(EPISODES, "truncated = length >= max_steps if", "truncated = (length >= max_steps) & ~terminated if", T_EPISODES),
    Mutant(EPISODES, "rew, next_obs, terminated, truncated)\n    following = jax.lax.cond(_is_any(ended), start_next, lambda: going_on)", "rew, next_obs, terminated, truncated)\n    following = jax.lax.cond(_is_any(ended), start_next, lambda: going_on)\n    transition = transition._replace(next_obs=following.obs)", T_EPISODES),
    Mutant(EPISODES, "_select(ended, restart(env, params, seed, rank, episodes, first), going_on)", "restart(env, params, seed, rank, episodes)", T_EPISODES),
    Mutant(EPISODES, "episodes.ret + rew", "episodes.ret * 0 + rew", T_EPISODES),
    Mutant(EPISODES, "Transition(episodes.obs, actions,", "Transition(episodes.obs, bounded,", T_EPISODES),
    Mutant(EPISODES, "key, episodes.state, bounded, params", "key, episodes.state, actions, params", T_EPISODES),
    Mutant(EPISODES, "jax.lax.cond(_is_any(ended), start_next, lambda: going_on)", "start_next()", T_EPISODES),
    Mutant(EPISODES, "jax.lax.cond(_is_any(ended),", "jax.lax.cond(ended.any(),", T_EPISODES),
    Mutant(EPISODES, "a.shape[:1] != ended.shape", "False", T_EPISODES),
    # Keys.
    Mutant(EPISODES, "(jax.random.wrap_key_data(episodes.key), episodes.length)", "(jax.random.wrap_key_data(episodes.key), episodes.length * 0)", T_EPISODES),
    Mutant(EPISODES, "episodes.number + jnp.uint32(1)", "episodes.number", T_EPISODES),
    Mutant(EPISODES, '"env", i, e))', '"env", i * 0, e))', T_EPISODES),
    Mutant(EPISODES, '"env", i, e))', '"env", e, i))', T_EPISODES),
    Mutant(EPISODES, "jax.vmap(env.reset, (0, None))(key_reset, params)", "jax.vmap(env.reset, (0, None))(key, params)", T_EPISODES),
    Mutant(EPISODES, "jax.random.key_data(key_steps)", "jax.random.key_data(key)", T_EPISODES),
    # Dtypes of the carry.
    Mutant(EPISODES, "return b if is_key else jax.lax.convert_element_type(b, a.dtype)", "return b", T_EPISODES),
    # Classic control: signs, order of integration, ends.
    Mutant(CARTPOLE, "params.force, -params.force", "-params.force, params.force", T_CARTPOLE),
    Mutant(CARTPOLE, STATE, "        velocities = velocities.at[0].add(params.dt * x_acc)\n" + STATE, T_CARTPOLE),
    Mutant(CARTPOLE, "jnp.abs(state[2]) > params.max_theta", "jnp.abs(state[2]) > 2 * params.max_theta", T_CARTPOLE),
    Mutant(CARTPOLE, "push - moment * theta_acc * cos / mass", "push + moment * theta_acc * cos / mass", T_CARTPOLE),
    Mutant(PENDULUM, "        theta = theta + theta_dot * params.dt  # the new velocity\n", "        theta = theta + state[1] * params.dt\n", T_PENDULUM),
    Mutant(PENDULUM, "        theta, theta_dot = state\n        torque", "        theta, theta_dot = state\n        theta = theta + theta_dot * params.dt\n        torque", T_PENDULUM),
    Mutant(PENDULUM, "cost = _wrap(theta) ** 2", "cost = theta**2", T_PENDULUM),
    Mutant(PENDULUM, "0.001 * torque**2", "0.01 * torque**2", T_PENDULUM),
    Mutant(ACROBOT, " - m2 * l1 * c2 * speed_1**2 * sin_2", "", T_ACROBOT),
    Mutant(ACROBOT, "(k1 + 2 * k2 + 2 * k3 + k4)", "(k1 + 2 * k2 + 2 * k2 + k4)", T_ACROBOT),
    Mutant(ACROBOT, "jnp.where(is_high, 0.0, -1.0)", "jnp.float32(-1)", T_ACROBOT),
    Mutant(ACROBOT, "theta_1, theta_2 = _wrap(theta_1), _wrap(theta_2)", "theta_1, theta_2 = theta_1, theta_2", T_ACROBOT),
    Mutant(CAR, "jnp.clip(position + velocity,", "jnp.clip(position + state[1],", T_CAR),
    Mutant(CAR, "jnp.where(is_at_wall, 0.0, velocity)", "velocity", T_CAR),
    Mutant(CAR, " & (velocity >= params.goal_velocity)", "", T_CAR),
    Mutant(CAR, "CONTINUOUS = Params(force=0.0015, goal_position=0.45)", "CONTINUOUS = Params(force=0.0015)", T_CAR),
    # Games on a grid.
    Mutant(CATCH, "is_down = state.ball_row == self.rows - 1", "is_down = state.ball_row == self.rows - 2", T_CATCH),
    Mutant(CATCH, "0, self.columns - 1)", "0, self.columns)", T_CATCH),
    Mutant(BREAKOUT, "breaks = at_brick & ~state.passing", "breaks = at_brick", T_BREAKOUT),
    Mutant(BREAKOUT, "passing=at_brick", "passing=breaks", T_BREAKOUT),
    Mutant(BREAKOUT, "jnp.where(on_corner, -right, right)", "right", T_BREAKOUT),
    Mutant(BREAKOUT, "on_paddle = at_last & (state.column == state.paddle)", "on_paddle = at_last & (column == state.paddle)", T_BREAKOUT),
    Mutant(BREAKOUT, "is_cleared = at_last & ~state.bricks.any()", "is_cleared = ~state.bricks.any()", T_BREAKOUT),
    Mutant(BREAKOUT, "is_reflected = at_ceiling | breaks", "is_reflected = breaks", T_BREAKOUT),
    Mutant(BREAKOUT, "jnp.where(is_repeated, state.action, action)", "jnp.where(is_repeated, action, state.action)", T_BREAKOUT),
    # Gymnasium around JAX.
    Mutant(GYM, "limit is not None and self._length >= limit", "limit is not None and self._length > limit", T_GYM),
    Mutant(GYM, "jax.random.fold_in(key, length)", "key", T_GYM),
    Mutant(GYM, "self._number, self._length, self._action = self._number + 1, 0, None", "self._length, self._action = 0, None", T_GYM),
    Mutant(GYM, "self._action = spec.clip(action) if isinstance(spec.action, Box) else action", "self._action = action", T_GYM),
    # Adapters, pictures and names.
    Mutant(ADAPTERS, "type(limit)(UNREACHABLE)", "type(limit)(limit)", T_ADAPTERS),
    Mutant(ADAPTERS, 'if limit is not None and not hasattr(env, "is_truncated")', "if limit is not None", T_ADAPTERS),
    Mutant(ADAPTERS, "env.reward(state, action, after, key_reward, params)", "env.reward(after, action, state, key_reward, params)", T_ADAPTERS),
    Mutant(ADAPTERS, "env.observation(after, key_obs, params)", "env.observation(after, key_state, params)", T_ADAPTERS),
    Mutant(DRAWING, "for channel in reversed(range(grid.shape[2])):", "for channel in range(grid.shape[2]):", T_DRAWING),
    Mutant(NAMES, '        if error.name not in (package, package.partition(".")[0]):\n            raise\n', "", T_NAMES),
]  # fmt: skip
