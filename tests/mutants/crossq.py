"""Mutants of CrossQ and of batch renormalisation."""

from tests.mutants import Mutant

CROSSQ, T_CROSSQ = "purerl/algos/crossq.py", "tests/algos/test_crossq.py"
NORM, T_NORM = "purerl/nets/batch_renorm.py", "tests/nets/test_batch_renorm.py"
NETS, MLP, ALGOS, EXPORT = (
    "purerl/nets/modules.py",
    "purerl/nets/mlp.py",
    "purerl/algos/__init__.py",
    "purerl/runs/policy/export.py",
)
T_LOSSES = "tests/contract/test_losses.py"
T_EXPORT = "tests/runs/policy/test_numpy_policy.py -k crossq"
TWO_PASSES = """    both, stats = zip(*passes, strict=True)
    half = len(batch.rew)
    both = [
        jnp.concatenate([nets.apply_train(critic, one, obs[s], act[s])[0] for s in (slice(half), slice(half, None))])
        for one in _list_critics(params)
    ]
"""

MUTANTS = [
    # The joint pass and the target.
    Mutant(CROSSQ, "    both, stats = zip(*passes, strict=True)\n", TWO_PASSES, T_CROSSQ),
    Mutant(CROSSQ, "jnp.concatenate([batch.obs, batch.next_obs])", "jnp.concatenate([batch.obs, batch.obs])", T_CROSSQ),
    Mutant(CROSSQ, "q, next_q = jnp.split", "next_q, q = jnp.split", T_CROSSQ),
    Mutant(CROSSQ, "jax.lax.stop_gradient(next_act)]", "next_act]", T_CROSSQ),
    Mutant(CROSSQ, "spec.env.normalise(batch.act), jax", "batch.act, jax", T_CROSSQ),
    Mutant(CROSSQ, "distribution(params, batch.next_obs), draw=0)", "distribution(params, batch.next_obs), draw=1)", T_CROSSQ),
    Mutant(CROSSQ, "distribution(params, batch.next_obs), draw=0)", "nets.apply_train(networks(spec).actor, nets.join_statistics(params.actor, params.actor_stats), batch.next_obs)[0], draw=0)", T_CROSSQ),
    Mutant(CROSSQ, "next_q.min(axis=0) - temperature(params) * next_logp", "next_q.max(axis=0) - temperature(params) * next_logp", T_CROSSQ),
    Mutant(CROSSQ, "next_q.min(axis=0) - temperature(params) * next_logp", "next_q.min(axis=0) + temperature(params) * next_logp", T_CROSSQ),
    Mutant(CROSSQ, "spec.gamma * (1.0 - batch.terminated) * soft", "spec.gamma * soft", T_CROSSQ),
    Mutant(CROSSQ, "    target = jax.lax.stop_gradient(target)\n", "", T_CROSSQ),
    Mutant(CROSSQ, "0.5 * jnp.square(q - target[None])", "jnp.square(q - target[None])", T_CROSSQ),
    # The policy and the temperature.
    Mutant(CROSSQ, "frozen = jax.lax.stop_gradient(_list_critics(params))", "frozen = _list_critics(params)", T_LOSSES),
    Mutant(CROSSQ, "frozen, batch.obs, pi).min(axis=0)", "frozen, batch.obs, pi)[0]", T_CROSSQ),
    Mutant(CROSSQ, "stats = nets.apply_train(networks(params.spec).actor, variables, batch.obs)", "stats = nets.apply(networks(params.spec).actor, variables, batch.obs), params.actor_stats", T_CROSSQ),
    Mutant(CROSSQ, "log_std.clip(*LOG_STD)), draw=1)", "log_std.clip(*LOG_STD)), draw=0)", T_CROSSQ),
    Mutant(CROSSQ, "log_std.clip(*LOG_STD)), draw=1)", "log_std), draw=1)", T_CROSSQ),
    Mutant(CROSSQ, "(temperature(params) * logp - q).mean()", "(-temperature(params) * logp - q).mean()", T_CROSSQ),
    Mutant(CROSSQ, "-jnp.exp(params.log_alpha) * (", "jnp.exp(params.log_alpha) * (", T_CROSSQ),
    Mutant(CROSSQ, "wanted = -float(spec.env.act_dim)", "wanted = float(spec.env.act_dim)", T_CROSSQ),
    # The update.
    Mutant(CROSSQ, "critic=critic, critic_stats=stats)", "critic=critic)", T_CROSSQ),
    Mutant(CROSSQ, "        actor_stats=stats,\n", "", T_CROSSQ),
    Mutant(CROSSQ, "grad, stats = mpi.pmean((grads.critic, stats))", "grad = mpi.pmean(grads.critic)", T_CROSSQ),
    Mutant(CROSSQ, "grad_pi, grad_alpha, stats = mpi.pmean((grads_pi.actor, grads_alpha.log_alpha, stats))", "grad_pi, grad_alpha = mpi.pmean((grads_pi.actor, grads_alpha.log_alpha))", T_CROSSQ),
    Mutant(CROSSQ, "due = updates % params.spec.policy_delay == 0", "due = state.step % params.spec.policy_delay == 0", T_CROSSQ),
    Mutant(CROSSQ, '"critic", spec.lr, spec.adam_b1)', '"critic", spec.lr)', T_CROSSQ),
    Mutant(CROSSQ, '"log_alpha", spec.lr)', '"log_alpha", spec.lr, spec.adam_b1)', T_CROSSQ),
    Mutant(CROSSQ, "wide = spec.hidden if spec.critic_hidden is None else spec.critic_hidden", "wide = spec.hidden", T_CROSSQ),
    Mutant(ALGOS, "if schedule.devices > 1 and not get_facts(algo).splits_batches:", "if False:", T_CROSSQ),
    # Batch renormalisation.
    Mutant(NORM, "m = x.mean(axis=0)", "m = jax.lax.stop_gradient(x.mean(axis=0))", T_NORM),
    Mutant(NORM, "v = jnp.square(centred).mean(axis=0)", "v = jnp.square(centred).sum(axis=0) / (len(x) - 1)", T_NORM),
    Mutant(NORM, "batches.value < self.warmup", "batches.value <= self.warmup", T_NORM),
    Mutant(NORM, "jnp.clip(std / old_std, 1.0 / R_MAX, R_MAX)", "std / old_std", T_NORM),
    Mutant(NORM, "jnp.clip(std / old_std, 1.0 / R_MAX, R_MAX)", "jnp.clip(std / old_std, 0.0, R_MAX)", T_NORM),
    Mutant(NORM, "jnp.clip((m - old_mean) / old_std, -D_MAX, D_MAX)", "jnp.clip((m - old_mean) / old_std, 0.0, D_MAX)", T_NORM),
    Mutant(NORM, "            r, d = jax.lax.stop_gradient((r, d))\n", "", T_NORM),
    Mutant(NORM, "mean.value = MOMENTUM * old_mean + (1.0 - MOMENTUM) * m", "mean.value = (1.0 - MOMENTUM) * old_mean + MOMENTUM * m", T_NORM),
    Mutant(NORM, "batches.value = batches.value + 1.0", "pass", T_NORM),
    Mutant(NORM, "if not self.is_initializing():", "if True:", T_NORM),
    Mutant(NORM, "jax.lax.stop_gradient((mean.value, var.value))", "mean.value, var.value", T_NORM),
    Mutant(NORM, "shift = shift - np", "shift = shift + np", T_NORM),
    Mutant(MLP, "x = BatchRenorm(self.renorm_warmup)(x)", "x = BatchRenorm(self.renorm_warmup)(x) if i else x", T_CROSSQ),
    Mutant(NETS, "mutable=[STATISTICS])", "mutable=[])", T_NORM),
    Mutant(EXPORT, "    if not running:\n", "    if True:\n", T_EXPORT),
]  # fmt: skip
