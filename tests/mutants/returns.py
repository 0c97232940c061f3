"""Mutants of n-step returns and scaled rewards."""

from tests.mutants import Mutant

RETURNS, T_RETURNS = "purerl/buffers/return_replay.py", "tests/buffers/test_return_replay.py"
OFFPOLICY, T_OFFPOLICY = "purerl/loops/offpolicy.py", "tests/loops/test_offpolicy.py"
STEPS, T_STEPS = "purerl/loops/stepwise/steps.py", "tests/loops/stepwise/test_steps.py"
PROGRAMS, T_SCAN = "purerl/loops/scan/programs.py", "tests/loops/scan/test_loop.py"
SNAPSHOT, T_SNAPSHOT = "purerl/loops/snapshot.py", "tests/loops/test_snapshot.py"
LOCKSTEP, T_LOCKSTEP = "purerl/loops/seeds/lockstep.py", "tests/loops/seeds/test_lockstep.py"
CARRY, RELABEL = "purerl/loops/first_carry.py", "purerl/loops/hindsight/relabel.py"
ALGOS, SCHEDULE = "purerl/algos/__init__.py", "purerl/schedules/offpolicy.py"
T_SCHEDULES = "tests/test_schedules.py"

MUTANTS = [
    # The steps that follow.
    Mutant(RETURNS, "len(buffer.ret) * np.arange(n, dtype=np.int32)", "np.arange(n, dtype=np.int32)", T_RETURNS),
    Mutant(RETURNS, "(index[:, None] + ahead[None]) % capacity", "(index[:, None] + ahead[None]).clip(0, capacity - 1)", T_RETURNS),
    Mutant(RETURNS, "(index - buffer.position + buffer.stored) % capacity", "index", T_RETURNS),
    Mutant(RETURNS, "age[:, None] + ahead[None] < buffer.stored", "age[:, None] + ahead[None] <= buffer.stored", T_RETURNS),
    Mutant(RETURNS, "goes_on = ~(data.terminated | data.truncated)[place]", "goes_on = ~data.terminated[place]", T_RETURNS),
    Mutant(RETURNS, "goes_on = ~(data.terminated | data.truncated)[place]", "goes_on = ~data.truncated[place]", T_RETURNS),
    Mutant(RETURNS, "is_stored[:, 1:] & goes_on[:, :-1]", "is_stored[:, 1:] & goes_on[:, 1:]", T_RETURNS),
    Mutant(RETURNS, "is_stored[:, 1:] & goes_on[:, :-1]", "goes_on[:, :-1]", T_RETURNS),
    Mutant(RETURNS, ".cumprod(axis=1)", ".astype(int)", T_RETURNS),
    # What the batch gets.
    Mutant(RETURNS, "jnp.where(used > 0, discount[None] * data.rew[place], 0.0)", "jnp.where(used > 0, data.rew[place], 0.0)", T_RETURNS),
    Mutant(RETURNS, "next_obs=data.next_obs[last]", "next_obs=data.obs[last]", T_RETURNS),
    Mutant(RETURNS, "next_obs=data.next_obs[last]", "next_obs=batch.next_obs", T_RETURNS),
    Mutant(RETURNS, "1.0 - discount[final] * (1.0 - data.terminated[last])", "1.0 - discount[final]", T_RETURNS),
    Mutant(RETURNS, "1.0 - discount[final] * (1.0 - data.terminated[last])", "1.0 - buffer.gamma * discount[final] * (1.0 - data.terminated[last])", T_RETURNS),
    Mutant(RETURNS, "1.0 - discount[final] * (1.0 - data.terminated[last])", "1.0 - discount[final] * (1.0 - (data.terminated | data.truncated)[last])", T_RETURNS),
    Mutant(RETURNS, "        truncated=data.truncated[last],\n", "", T_RETURNS),
    # The scale.
    Mutant(RETURNS, "batch.rew / read_scale(buffer)", "batch.rew * read_scale(buffer)", T_RETURNS),
    Mutant(RETURNS, "jnp.sqrt(buffer.moments[1] + EPSILON)", "jnp.sqrt(buffer.moments[1]) + EPSILON", T_RETURNS),
    Mutant(RETURNS, "ended = jnp.asarray(block.terminated) | jnp.asarray(block.truncated)", "ended = jnp.asarray(block.terminated)", T_RETURNS),
    Mutant(RETURNS, "total = rew + buffer.gamma * ret\n", "total = rew + buffer.gamma * jnp.where(ended, 0.0, ret)\n", T_RETURNS),
    Mutant(RETURNS, "jnp.where(valid, jnp.where(ended, 0.0, total), ret), total", "jnp.where(ended, 0.0, total), total", T_RETURNS),
    Mutant(RETURNS, "_merge(buffer.moments, returns, steps[2])", "_merge(buffer.moments, returns, steps[2] | True)", T_RETURNS),
    Mutant(RETURNS, "_merge(buffer.moments, returns, steps[2])", "_merge(buffer.moments, steps[0], steps[2])", T_RETURNS),
    Mutant(RETURNS, "jnp.minimum(rows + new, MOST_STEPS)", "rows + new", T_RETURNS),
    Mutant(RETURNS, " + part * (1.0 - part) * jnp.square(apart)", "", T_RETURNS),
    Mutant(RETURNS, "mpi.pmean(var + jnp.square(mean - whole))", "mpi.pmean(var)", T_RETURNS),
    Mutant(RETURNS, "ret=buffer.ret.at[envs].set(0.0)", "ret=buffer.ret", T_RETURNS),
    Mutant(RETURNS, "(buffer.position - len(buffer.ret) + envs) %", "(buffer.position - 1 - envs) %", T_RETURNS),
    # The loops.
    Mutant(OFFPOLICY, "batch = return_replay.sample(buffer, key, batch_size)", "batch = replay.sample(buffer, key, batch_size)", T_OFFPOLICY),
    Mutant(OFFPOLICY, "    return result[0], add_scale(result[1], buffer)\n", "    return result\n", T_OFFPOLICY),
    Mutant(OFFPOLICY, "    buffer = return_replay.merge_ranks(buffer)\n", "", "tests/mpi/test_ranks.py"),
    Mutant(RELABEL, "return return_replay.add(buffer, block, count)", "return replay.add(buffer, block, count)", T_OFFPOLICY),
    Mutant(CARRY, "how = (number, schedule.n_step, schedule.scale_rewards)", "how = (1, schedule.n_step, schedule.scale_rewards)", T_OFFPOLICY),
    Mutant(CARRY, "how if schedule.changes_rewards else None", "how", T_OFFPOLICY),
    Mutant(CARRY, 'getattr(envs, "mode", None) is AutoresetMode.NEXT_STEP', "False", T_OFFPOLICY),
    Mutant(STEPS, 'return_replay.add(tree["buffer"], rows)', 'replay.add(tree["buffer"], rows)', T_STEPS),
    Mutant(STEPS, "batch = return_replay.take(", "batch = replay.take(", T_STEPS),
    Mutant(PROGRAMS, "return return_replay.track_returns(buffer, rows)", "return buffer", f"{T_SCAN} -k alike"),
    Mutant(SNAPSHOT, "    host |= _list_returns(carry.buffer)\n", "", T_STEPS),
    Mutant(SNAPSHOT, "    carry = cut_episodes(carry, lost)\n", "", T_SNAPSHOT),
    Mutant(SNAPSHOT, "    truncated[:-number] |= lost\n", "", T_SNAPSHOT),
    Mutant("purerl/loops/gym.py", "snapshot.cut_episodes(*snapshot.replay_advance(carry))", "snapshot.replay_advance(carry)[0]", T_SNAPSHOT),
    Mutant(LOCKSTEP, "x.at[i].set(new)", "x.at[0].set(new)", T_LOCKSTEP),
    Mutant(ALGOS, 'if schedule.scale_rewards and getattr(spec, "clip_targets", False):', "if False:", T_OFFPOLICY),
    Mutant(ALGOS, 'if not isinstance(getattr(spec, "gamma", None), int | float):', "if False:", T_OFFPOLICY),
    Mutant(SCHEDULE, "if self.her and self.changes_rewards:", "if self.her and self.n_step > 1:", T_SCHEDULES),
    Mutant(SCHEDULE, "return self.n_step > 1 or self.scale_rewards", "return self.n_step > 1", T_SCHEDULES),
]  # fmt: skip
