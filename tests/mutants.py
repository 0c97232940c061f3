"""Plant classic errors one at a time and see the tests fail: `make mutants`.

    python tests/mutants.py                  # all, two at a time, about ten minutes
    python tests/mutants.py td3 --jobs 1     # those whose file name holds `td3`

Each mutant replaces one piece of a source file in a copy of the project and runs the test files
meant to catch it. A mutant that survives, or whose piece is no longer found once, is reported and
the exit code is 1.
"""

import argparse
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Mutant(NamedTuple):
    """One planted error: `old` becomes `new` in `file`; `tests` are meant to fail."""

    file: str
    old: str
    new: str
    tests: str


DDPG, SAC, DQN, SQUASHED = (
    "purerl/algos/ddpg.py",
    "purerl/algos/sac.py",
    "purerl/algos/dqn.py",
    "purerl/nets/squashed.py",
)
T_DDPG, T_SAC, T_DQN, T_SQUASHED = (
    "tests/algos/test_ddpg.py",
    "tests/algos/test_sac.py",
    "tests/algos/test_dqn.py",
    "tests/nets/test_squashed.py",
)
TD3, REPLAY, LOOP, VECTOR, TYPES, RNG, MPI, NETS, MLP = (
    "purerl/algos/td3.py",
    "purerl/buffers/replay.py",
    "purerl/loops/gym.py",
    "purerl/loops/vector.py",
    "purerl/types.py",
    "purerl/rng.py",
    "purerl/mpi.py",
    "purerl/nets/modules.py",
    "purerl/nets/mlp.py",
)
T_TD3, T_CONTRACT, T_REPLAY, T_LOOP, T_TYPES, T_RNG, T_MPI, T_NETS = (
    "tests/algos/test_td3.py",
    "tests/test_contract.py",
    "tests/buffers/test_replay.py",
    "tests/loops/test_gym.py",
    "tests/test_types.py",
    "tests/test_rng.py",
    "tests/test_mpi.py",
    "tests/nets/test_mlp.py",
)

MUTANTS = [
    # The target action.
    Mutant(TD3, "spec.target_noise * xi", "-spec.target_noise + xi", T_TD3),
    Mutant(TD3, "spec.target_noise * xi", "xi", T_TD3),
    Mutant(TD3, "xi, -spec.noise_clip, spec.noise_clip)", "xi, -1.0, 1.0)", T_TD3),
    Mutant(TD3, "nets.apply(actor, params.target_actor, batch.next_obs) + noise, -1.0, 1.0)",
           "nets.apply(actor, params.target_actor, batch.next_obs) + noise, -9.0, 9.0)", T_TD3),
    Mutant(TD3, "params.target_actor, batch.next_obs) + noise", "params.actor, batch.next_obs) + noise", T_TD3),
    Mutant(TD3, "params.target_actor, batch.next_obs) + noise", "params.target_actor, batch.obs) + noise", T_TD3),
    Mutant(TD3, "batch.next_obs) + noise", "batch.next_obs) - noise", T_TD3),
    # The critics' loss.
    Mutant(TD3, "next_q.min(axis=0)", "next_q.max(axis=0)", T_TD3),
    Mutant(TD3, "next_q.min(axis=0)", "next_q.mean(axis=0)", T_TD3),
    Mutant(TD3, "next_q.min(axis=0)", "next_q[0]", T_TD3),
    Mutant(TD3, "(1.0 - batch.terminated) * ", "", T_TD3),
    Mutant(TD3, "(1.0 - batch.terminated)", "(1.0 - batch.truncated)", T_TD3),
    Mutant(TD3, "(1.0 - batch.terminated)", "(1.0 - (batch.terminated | batch.truncated))", T_TD3),
    Mutant(TD3, "(1.0 - batch.terminated)", "batch.terminated", T_TD3),
    Mutant(TD3, "target = batch.rew + ", "target = -batch.rew + ", T_TD3),
    Mutant(TD3, "spec.gamma * (1.0", "(1.0", T_TD3),
    Mutant(TD3, "    target = jax.lax.stop_gradient(target)\n", "", T_CONTRACT),
    Mutant(TD3, "params.target_critic, batch.next_obs, next_act)", "params.critic, batch.next_obs, next_act)", T_TD3),
    Mutant(TD3, "params.target_critic, batch.next_obs, next_act)", "params.target_critic, batch.obs, next_act)", T_TD3),
    Mutant(TD3, "params.critic, batch.obs, spec.env.normalise(batch.act))", "params.critic, batch.obs, batch.act)", T_TD3),
    Mutant(TD3, "q - target[None]", "q + target[None]", T_TD3),
    Mutant(TD3, ".mean(axis=1).sum()", ".sum(axis=1).sum()", T_TD3),
    Mutant(TD3, ".mean(axis=1).sum()", ".mean(axis=1).mean()", T_TD3),
    Mutant(TD3, "jnp.square(q -", "jnp.abs(q -", T_TD3),
    Mutant(TD3, '"q1": q[0].mean()', '"q1": next_q[0].mean()', T_TD3),
    Mutant(TD3, '"q2": q[1].mean()', '"q2": q[0].mean()', T_TD3),
    Mutant(TYPES, "leading + row.shape", "getattr(batch, name).shape", T_CONTRACT),
    # The actor's loss.
    Mutant(TD3, "value = -nets.apply", "value = nets.apply", T_TD3),
    Mutant(TD3, "jax.lax.stop_gradient(params.critic[0])", "params.critic[0]", T_TD3),
    Mutant(TD3, "jax.lax.stop_gradient(params.critic[0])", "jax.lax.stop_gradient(params.critic[1])", T_TD3),
    Mutant(TD3, "jax.lax.stop_gradient(params.critic[0])", "jax.lax.stop_gradient(params.target_critic[0])", T_TD3),
    Mutant(TD3, "pi = nets.apply(actor, params.actor, batch.obs)", "pi = nets.apply(actor, params.target_actor, batch.obs)", T_CONTRACT),
    Mutant(TD3, "pi = nets.apply(actor, params.actor, batch.obs)", "pi = nets.apply(actor, params.actor, batch.next_obs)", T_TD3),
    Mutant(TD3, "pi = nets.apply(actor, params.actor, batch.obs)", "pi = params.spec.env.normalise(batch.act)", T_TD3),
    Mutant(TD3, "return value_q + value_pi", "return value_q - value_pi", T_CONTRACT),
    # The update.
    Mutant(TD3, "state.step % spec.policy_delay == 0", "state.step % spec.policy_delay == 1", T_TD3),
    Mutant(TD3, "state.step % spec.policy_delay == 0", "state.step >= 0", T_TD3),
    Mutant(TD3, "state.step + 1)", "state.step)", T_TD3),
    Mutant(TD3, "part = 1.0 - params.spec.polyak", "part = params.spec.polyak", T_TD3),
    Mutant(TD3, "target_actor=optax.incremental_update(params.actor, params.target_actor, part),", "", T_TD3),
    Mutant(TD3, "optax.incremental_update(params.critic, params.target_critic, part)", "params.target_critic", T_TD3),
    Mutant(TD3, "return _move_targets(params), opt_actor, info", "return params, opt_actor, info", T_TD3),
    Mutant(TD3, "grad = mpi.pmean(grads.critic)", "grad = grads.critic", T_CONTRACT),
    Mutant(TD3, "grad = mpi.pmean(grads.actor)", "grad = grads.actor", T_CONTRACT),
    Mutant(TD3, '"actor": optax.adam(spec.pi_lr)', '"actor": optax.adam(spec.q_lr)', T_TD3),
    Mutant(TD3, '"critic": optax.adam(spec.q_lr)', '"critic": optax.adam(spec.pi_lr)', T_TD3),
    Mutant(TD3, "critic=optax.apply_updates(params.critic, step))", "critic=params.critic)", T_TD3),
    Mutant(TD3, "grads, info = jax.grad(actor_loss, has_aux=True)(params, batch)", "grads, info = jax.grad(actor_loss, has_aux=True)(state.params, batch)", T_TD3),
    Mutant(TD3, '{"loss_pi_count": due.astype(jnp.float32)}', '{"loss_pi_count": jnp.ones(())}', T_TD3),
    Mutant(TD3, '"actor": opt_actor, "critic": opt_critic}, state', '"actor": opt_actor, "critic": state.opt_state["critic"]}, state', T_TD3),
    # init and acting.
    Mutant(TD3, "jax.tree.map(jnp.copy, pi), jax.tree.map(jnp.copy, q)", "pi, q", T_CONTRACT),
    Mutant(TD3, "jax.random.normal(key, pi.shape)", "jax.random.normal(jax.random.key(0), pi.shape)", T_CONTRACT),
    Mutant(TD3, "params.spec.act_noise * jax.random", "jax.random", T_TD3),
    Mutant(TYPES, "self.clip(self.denormalise(act.clip(-1.0, 1.0)))", "self.denormalise(act)", T_CONTRACT),
    Mutant(TYPES, "self.clip(self.denormalise(act.clip(-1.0, 1.0)))", "act.clip(-1.0, 1.0)", T_TD3),
    Mutant(TD3, "params.spec.env.from_unit(pi + noise)", "params.spec.env.from_unit(pi)", T_CONTRACT),
    # Networks.
    Mutant(NETS, "keys = jax.random.split(key, number)", "keys = jnp.stack([key] * number)", T_NETS),
    Mutant(NETS, "x.reshape(*leading, *x.shape[1:])", "x", T_CONTRACT),
    Mutant(MLP, "return mlp(jnp.concatenate([obs.astype(jnp.float32), act], axis=-1))[..., 0]", "return mlp(jnp.concatenate([obs.astype(jnp.float32), act], axis=-1))", T_NETS),
    Mutant(MLP, "if i + 1 < len(self.sizes):", "if True:", T_NETS),
    Mutant(MLP, "return jnp.tanh(mlp(obs.astype(jnp.float32)))", "return mlp(obs.astype(jnp.float32))", T_NETS),
    Mutant(MLP, "variance_scaling(1 / 3,", "variance_scaling(1,", T_NETS),
    Mutant(MLP, "lambda fan_in: 1 / math.sqrt(fan_in),", "lambda fan_in: 0.0,", T_NETS),
    # Replay.
    Mutant(REPLAY, "(buffer.position + row) % capacity", "buffer.position + row", T_REPLAY),
    Mutant(REPLAY, "(row < count) & (row >= count - capacity)", "row >= count - capacity", T_REPLAY),
    Mutant(REPLAY, "(row < count) & (row >= count - capacity)", "(row < count) & (row < capacity)", T_REPLAY),
    Mutant(REPLAY, "position=(buffer.position + count) % capacity", "position=(buffer.position + given) % capacity", T_REPLAY),
    Mutant(REPLAY, "jnp.minimum(buffer.stored + count, capacity)", "buffer.stored + count", T_REPLAY),
    Mutant(REPLAY, "jnp.minimum(buffer.stored + count, capacity)", "capacity + 0 * buffer.stored", T_REPLAY),
    Mutant(REPLAY, "jax.random.randint(key_index, (batch_size,), 0, buffer.stored)", "jax.random.randint(key_index, (batch_size,), 0, _capacity(buffer))", T_REPLAY),
    Mutant(REPLAY, "jax.random.randint(key_index, (batch_size,), 0, buffer.stored)", "jax.random.randint(key_index, (batch_size,), 1, buffer.stored)", T_REPLAY),
    Mutant(REPLAY, "jax.random.randint(key_index, (batch_size,), 0, buffer.stored)", "jnp.arange(batch_size) % buffer.stored", T_REPLAY),
    Mutant(REPLAY, "key_index, key_batch = jax.random.split(key)", "key_index = key_batch = key", T_REPLAY),
    Mutant(REPLAY, "if free is not None and needed > free:", "if False:", T_REPLAY),
    # The loop.
    Mutant(LOOP, "carry.steps + filled * carry.ranks < schedule.start_steps", "carry.steps + filled * carry.ranks <= schedule.start_steps", T_LOOP),
    Mutant(LOOP, "due = border % every == 0 and border >= schedule.update_after", "due = border % every == 0 and border > schedule.update_after", T_LOOP),
    Mutant(LOOP, "due = border % every == 0 and border >= schedule.update_after", "due = border >= schedule.update_after", T_LOOP),
    Mutant(LOOP, "_words(carry, carry.updates),", "_words(carry, 0),", T_LOOP),
    Mutant(LOOP, "_act_key(carry, calls)", "_act_key(carry, 0)", T_LOOP),
    Mutant(LOOP, "obs, calls = step.obs, calls + 1", "obs, calls = step.rows.next_obs, calls + 1", T_LOOP),
    Mutant(LOOP, "return algo.act(params, obs, jax.random.wrap_key_data(key))", "return algo.policy(params, obs)", T_LOOP),
    Mutant(LOOP, "np.asarray(algo.policy(params, obs))", "np.asarray(algo.act(params, obs, jax.random.key(0)))", T_LOOP),
    Mutant(LOOP, '"eval", epoch, i, n)', '"env", i, n)', T_LOOP),
    Mutant(LOOP, "    _check_finite(stage, who, len(carry.surplus.rew), filled, carry.steps)\n", "", T_LOOP),
    Mutant(LOOP, "    if not finite:", "    if False:", T_LOOP),
    Mutant(LOOP, 'count = sums.get(f"{name}_count", updates)', "count = updates", T_LOOP),
    Mutant(LOOP, "        sums=_zeros(len(carry.metrics)),\n        ep_returns=(),", "        ep_returns=(),", T_LOOP),
    Mutant(LOOP, "real = slice(None) if step.valid.all() else step.valid", "real = slice(None)", T_LOOP),
    Mutant(LOOP, "surplus=Transition(*(rows[needed:filled].copy() for rows in stage))", "surplus=carry.surplus", T_LOOP),
    Mutant(LOOP, "ep_return[i] = ep_length[i] = 0\n        real", "pass\n        real", T_LOOP),
    Mutant(LOOP, "minval=-1.0, maxval=1.0", "minval=0.0, maxval=1.0", T_LOOP),
    Mutant(LOOP, "border = min(border, schedule.steps)", "pass", T_LOOP),
    Mutant(LOOP, "i < episodes % number", "i < 0", T_LOOP),
    Mutant(LOOP, "        envs.close()  # nobody else will\n", "", T_LOOP),
    # Environments behind the adapter.
    Mutant(VECTOR, "next_obs[i] = _final_obs(info, int(i))", "pass", T_LOOP),
    Mutant(VECTOR, "done, valid = terminated | truncated, ~self._fresh", "done, valid = terminated | truncated, np.ones(self.num_envs, bool)", T_LOOP),
    Mutant(VECTOR, "            next_obs = next_obs.copy()\n", "", T_LOOP),
    Mutant(VECTOR, "truncated[i] = True", "terminated[i] = True", T_LOOP),
    Mutant(VECTOR, "truncated[i] = True", "truncated[i], terminated[i] = True, False", T_LOOP),
    Mutant(VECTOR, ">= self.max_ep_len", "> self.max_ep_len", T_LOOP),
    Mutant(VECTOR, "seed = self.seed_of(i, self.episode[i])", "seed = self.seed_of(i, 0)", T_LOOP),
    Mutant(VECTOR, "np.minimum(np.maximum(act, low), high).astype(dtype, copy=False)", "act", T_LOOP),
    Mutant(VECTOR, "options={\"reset_mask\": done}", "seed=0", T_LOOP),
    Mutant(VECTOR, "        self.actions[i] = []\n", "", T_LOOP),
    # Units and specs.
    Mutant(TYPES, "return (act - middle.astype(np.float32)) / half.astype(np.float32)", "return act / half.astype(np.float32)", T_TYPES),
    Mutant(TYPES, "return middle.astype(np.float32) + half.astype(np.float32) * act", "return half.astype(np.float32) * act", T_TYPES),
    Mutant(TYPES, "every = self.update_every or math.ceil(50 / unit) * unit", "every = self.update_every or 50", T_TYPES),
    Mutant(TYPES, "action: Box | Discrete = Discrete(int(act.n), int(act.start))", "action: Box | Discrete = Discrete(int(act.n))", T_TYPES),
    # Streams.
    Mutant(RNG, "jax.random.fold_in(jax.random.fold_in(key, high), low)", "jax.random.fold_in(key, low)", T_RNG),
    Mutant(RNG, 'jnp.uint32(0 if name == "init" else rank)', "jnp.uint32(rank)", T_RNG),
    Mutant(RNG, "return zlib.crc32(name.encode())", "return hash(name) % 2**32", T_RNG),
    Mutant(RNG, "        return jnp.asarray(batch.noise)\n", "        pass\n", T_CONTRACT),
    Mutant(RNG, "    checks.seed(seed)\n    checks.integer(\"rank\", rank, 0)\n    spawn", "    spawn", T_RNG),
    # Averages.
    Mutant(MPI, "return _reduce(lax.pmean, tree)", "return _reduce(lax.psum, tree)", T_MPI),
    Mutant(MPI, "by_dtype.setdefault(jnp.result_type(leaf), []).append(i)", "by_dtype.setdefault(i, []).append(i)", T_MPI),
    Mutant(MPI, "lambda grads, state, params=None: (pmean(grads), state)", "lambda grads, state, params=None: (grads, state)", T_MPI),
    # DDPG.
    Mutant(DDPG, "nets.apply(actor, params.target_actor, batch.next_obs)", "nets.apply(actor, params.actor, batch.next_obs)", T_DDPG),
    Mutant(DDPG, "nets.apply(actor, params.target_actor, batch.next_obs)", "nets.apply(actor, params.target_actor, batch.obs)", T_DDPG),
    Mutant(DDPG, "nets.apply(critic, params.target_critic, batch.next_obs, next_act)", "nets.apply(critic, params.critic, batch.next_obs, next_act)", T_DDPG),
    Mutant(DDPG, "nets.apply(critic, params.target_critic, batch.next_obs, next_act)", "nets.apply(critic, params.target_critic, batch.obs, next_act)", T_DDPG),
    Mutant(DDPG, "(1.0 - batch.terminated) * ", "", T_DDPG),
    Mutant(DDPG, "(1.0 - batch.terminated)", "(1.0 - batch.truncated)", T_DDPG),
    Mutant(DDPG, "target = batch.rew + spec.gamma * ", "target = batch.rew + ", T_DDPG),
    Mutant(DDPG, "    target = jax.lax.stop_gradient(target)\n", "", T_CONTRACT),
    Mutant(DDPG, "spec.env.normalise(batch.act))  # [B]", "batch.act)  # [B]", T_DDPG),
    Mutant(DDPG, "jnp.square(q - target).mean()", "jnp.square(q - target).sum()", T_DDPG),
    Mutant(DDPG, "jnp.square(q - target).mean()", "jnp.square(q + target).mean()", T_DDPG),
    Mutant(DDPG, "frozen = jax.lax.stop_gradient(params.critic)", "frozen = params.critic", T_CONTRACT),
    Mutant(DDPG, "value = -nets.apply", "value = nets.apply", T_DDPG),
    Mutant(DDPG, "pi = nets.apply(actor, params.actor, batch.obs)", "pi = nets.apply(actor, params.target_actor, batch.obs)", T_DDPG),
    Mutant(DDPG, "grads, info_pi = jax.grad(actor_loss, has_aux=True)(params, batch)", "grads, info_pi = jax.grad(actor_loss, has_aux=True)(state.params, batch)", T_DDPG),
    Mutant(DDPG, "part = 1.0 - spec.polyak", "part = spec.polyak", T_DDPG),
    Mutant(DDPG, "target_actor=optax.incremental_update(params.actor, params.target_actor, part),", "", T_DDPG),
    Mutant(DDPG, "target_critic=optax.incremental_update(params.critic, params.target_critic, part),", "", T_DDPG),
    Mutant(DDPG, '"actor": optax.adam(spec.pi_lr)', '"actor": optax.adam(spec.q_lr)', T_DDPG),
    Mutant(DDPG, "params.spec.act_noise * jax.random", "jax.random", T_DDPG),
    Mutant(DDPG, "jax.tree.map(jnp.copy, pi), jax.tree.map(jnp.copy, q)", "pi, q", T_CONTRACT),
    # The squashed Gaussian.
    Mutant(SQUASHED, "return mean + jnp.exp(log_std) * noise", "return mean + log_std * noise", T_SQUASHED),
    Mutant(SQUASHED, "return (gaussian - squashing).sum(axis=-1)", "return gaussian.sum(axis=-1)", T_SQUASHED),
    Mutant(SQUASHED, "return (gaussian - squashing).sum(axis=-1)", "return (gaussian + squashing).sum(axis=-1)", T_SQUASHED),
    Mutant(SQUASHED, "return (gaussian - squashing).sum(axis=-1)", "return (gaussian - squashing).mean(axis=-1)", T_SQUASHED),
    Mutant(SQUASHED, "jnp.exp(log_std)) - log_std", "jnp.exp(log_std))", T_SQUASHED),
    Mutant(SQUASHED, "    gaussian = gaussian - 0.5 * math.log(2 * math.pi)\n", "", T_SQUASHED),
    Mutant(SQUASHED, "2.0 * (math.log(2.0) - unsquashed - jax.nn.softplus(-2.0 * unsquashed))", "jnp.log(1.0 - jnp.square(jnp.tanh(unsquashed)))", T_SQUASHED),
    Mutant(SQUASHED, "2.0 * (math.log(2.0) - unsquashed - jax.nn.softplus(-2.0 * unsquashed))", "jnp.log(1.0 - jnp.square(jnp.tanh(unsquashed)) + 1e-6)", T_SQUASHED),
    Mutant(SQUASHED, "return -log_prob(mean, log_std, sample", "return log_prob(mean, log_std, sample", T_SQUASHED),
    Mutant(SQUASHED, "return squash(mean)", "return mean", T_SQUASHED),
    # SAC.
    Mutant(SAC, "batch.next_obs, draw=0)", "batch.next_obs, draw=1)", T_SAC),
    Mutant(SAC, "batch.next_obs, draw=0)", "batch.obs, draw=0)", T_SAC),
    Mutant(SAC, "pi, logp = _sample(params, batch, batch.obs, draw=1)", "pi, logp = _sample(params, batch, batch.obs, draw=0)", T_SAC),
    Mutant(SAC, "_, logp = _sample(params, batch, batch.obs, draw=1)  # [B]", "_, logp = _sample(params, batch, batch.obs, draw=0)  # [B]", T_SAC),
    Mutant(SAC, "params.target_critic, batch.next_obs, next_act)", "params.critic, batch.next_obs, next_act)", T_SAC),
    Mutant(SAC, "params.target_critic, batch.next_obs, next_act)", "params.target_critic, batch.obs, next_act)", T_SAC),
    Mutant(SAC, "next_q.min(axis=0) - temperature(params) * next_logp", "next_q.max(axis=0) - temperature(params) * next_logp", T_SAC),
    Mutant(SAC, "next_q.min(axis=0) - temperature(params) * next_logp", "next_q.min(axis=0)", T_SAC),
    Mutant(SAC, "next_q.min(axis=0) - temperature(params) * next_logp", "next_q.min(axis=0) + temperature(params) * next_logp", T_SAC),
    Mutant(SAC, "spec.gamma * (1.0 - batch.terminated) * soft", "spec.gamma * soft", T_SAC),
    Mutant(SAC, "spec.gamma * (1.0 - batch.terminated) * soft", "spec.gamma * (1.0 - batch.truncated) * soft", T_SAC),
    Mutant(SAC, "spec.gamma * (1.0 - batch.terminated) * soft", "(1.0 - batch.terminated) * soft", T_SAC),
    Mutant(SAC, "spec.gamma * (1.0 - batch.terminated) * soft", "spec.gamma * (1.0 - batch.terminated) * next_q.min(axis=0) - temperature(params) * next_logp", T_SAC),
    Mutant(SAC, "    target = jax.lax.stop_gradient(target)\n", "", T_CONTRACT),
    Mutant(SAC, "spec.env.normalise(batch.act))", "batch.act)", T_SAC),
    Mutant(SAC, ".mean(axis=1).sum()", ".mean(axis=1).mean()", T_SAC),
    Mutant(SAC, "frozen = jax.lax.stop_gradient(params.critic)", "frozen = params.critic", T_CONTRACT),
    Mutant(SAC, "batch.obs, pi).min(axis=0)", "batch.obs, pi)[0]", T_SAC),
    Mutant(SAC, "batch.obs, pi).min(axis=0)", "batch.obs, pi).max(axis=0)", T_SAC),
    Mutant(SAC, "(temperature(params) * logp - q).mean()", "(temperature(params) * logp + q).mean()", T_SAC),
    Mutant(SAC, "(temperature(params) * logp - q).mean()", "(-temperature(params) * logp - q).mean()", T_SAC),
    Mutant(SAC, "(temperature(params) * logp - q).mean()", "(-q).mean()", T_SAC),
    Mutant(SAC, "return jax.lax.stop_gradient(jnp.exp(params.log_alpha))", "return jnp.exp(params.log_alpha)", T_CONTRACT),
    Mutant(SAC, "return jax.lax.stop_gradient(jnp.exp(params.log_alpha))", "return jax.lax.stop_gradient(params.log_alpha)", T_SAC),
    Mutant(SAC, "value = -params.log_alpha * (", "value = params.log_alpha * (", T_SAC),
    Mutant(SAC, "jax.lax.stop_gradient(logp) + wanted", "jax.lax.stop_gradient(logp) - wanted", T_SAC),
    Mutant(SAC, "jax.lax.stop_gradient(logp) + wanted", "logp + wanted", T_SAC),
    Mutant(SAC, "wanted = -float(spec.env.act_dim)", "wanted = float(spec.env.act_dim)", T_SAC),
    Mutant(SAC, "return mean, log_std.clip(*LOG_STD)", "return mean, log_std", T_SAC),
    Mutant(SAC, "params.critic, params.target_critic, 1.0 - spec.polyak", "params.critic, params.target_critic, spec.polyak", T_SAC),
    Mutant(SAC, "grads_pi, info_pi = jax.grad(actor_loss, has_aux=True)(params, batch)", "grads_pi, info_pi = jax.grad(actor_loss, has_aux=True)(state.params, batch)", T_SAC),
    Mutant(SAC, "params.spec.env.from_unit(squashed.squash(u))", "params.spec.env.from_unit(u)", T_SAC),
    Mutant(SAC, "params.spec.env.from_unit(squashed.mode(mean))", "params.spec.env.from_unit(mean)", T_SAC),
    Mutant(SAC, "log_alpha=optax.apply_updates(params.log_alpha, step_alpha)", "log_alpha=params.log_alpha", T_SAC),
    # DQN.
    Mutant(DQN, "next_q = nets.apply(critic, params.target_critic, batch.next_obs)", "next_q = nets.apply(critic, params.critic, batch.next_obs)", T_DQN),
    Mutant(DQN, "next_q = nets.apply(critic, params.target_critic, batch.next_obs)", "next_q = nets.apply(critic, params.target_critic, batch.obs)", T_DQN),
    Mutant(DQN, "if spec.double else next_q", "if not spec.double else next_q", T_DQN),
    Mutant(DQN, "chooser.argmax(axis=1", "chooser.argmin(axis=1", T_DQN),
    Mutant(DQN, "jnp.take_along_axis(next_q, best, axis=1)", "jnp.take_along_axis(chooser, best, axis=1)", T_DQN),
    Mutant(DQN, "spec.gamma * (1.0 - batch.terminated)", "spec.gamma", T_DQN),
    Mutant(DQN, "spec.gamma * (1.0 - batch.terminated)", "spec.gamma * (1.0 - (batch.terminated | batch.truncated))", T_DQN),
    Mutant(DQN, "spec.gamma * (1.0 - batch.terminated)", "(1.0 - batch.terminated)", T_DQN),
    Mutant(DQN, "    target = jax.lax.stop_gradient(target)\n", "", T_CONTRACT),
    Mutant(DQN, "(jnp.asarray(batch.act) - _start(spec))", "jnp.asarray(batch.act)", T_DQN),
    Mutant(DQN, "huber_loss if spec.huber", "l2_loss if spec.huber", T_DQN),
    Mutant(DQN, "penalty(q, target).mean()", "penalty(q, target).sum()", T_DQN),
    Mutant(DQN, "updates % spec.target_every == 0", "state.step % spec.target_every == 0", T_DQN),
    Mutant(DQN, "lambda: critic, lambda: params.target_critic", "lambda: params.critic, lambda: params.target_critic", T_DQN),
    Mutant(DQN, "jnp.minimum(updates / spec.eps_decay, 1.0)", "updates / spec.eps_decay", T_DQN),
    Mutant(DQN, "part * (spec.eps_end - spec.eps_start)", "part * (spec.eps_start - spec.eps_end)", T_DQN),
    Mutant(DQN, "greedy.shape) < params.epsilon", "greedy.shape) > params.epsilon", T_DQN),
    Mutant(DQN, "return _start(params.spec) + jnp.where", "return jnp.where", T_DQN),
    Mutant(DQN, "key_choice, key_action = jax.random.split(key)", "key_choice, key_action = jax.random.split(jax.random.key(0))", T_CONTRACT),
]  # fmt: skip


def survives(mutant: Mutant) -> str:
    """Return why a mutant counts as a survivor, or nothing if a test failed."""
    source = (ROOT / mutant.file).read_text()
    if source.count(mutant.old) != 1:
        return f"its piece is found {source.count(mutant.old)} times"
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("purerl", "tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        (copy / mutant.file).write_text(source.replace(mutant.old, mutant.new))
        tests = mutant.tests.split()
        words = ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *tests]
        env = dict(os.environ) | {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        env["PURERL_TEST_CACHE"] = str(ROOT / ".pytest_cache" / "mutants")
        run = subprocess.run(
            [sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True
        )
    if run.returncode == 1:
        return ""
    return "all tests pass" if run.returncode == 0 else f"pytest ended with {run.returncode}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("select", nargs="?", default="", help="part of a file name")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    chosen = [m for m in MUTANTS if args.select in m.file]
    began, survivors = time.monotonic(), 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for mutant, reason in zip(chosen, pool.map(survives, chosen), strict=True):
            if reason:
                survivors += 1
                print(f"SURVIVED ({reason}): {mutant.file}: {mutant.old!r} -> {mutant.new!r}")
            else:
                print(f"caught: {mutant.file}: {mutant.old[:60]!r} -> {mutant.new[:60]!r}")
            sys.stdout.flush()
    minutes = (time.monotonic() - began) / 60
    print(f"{len(chosen)} mutants, {survivors} survived, {minutes:.0f} minutes")
    sys.exit(bool(survivors))


if __name__ == "__main__":
    main()
