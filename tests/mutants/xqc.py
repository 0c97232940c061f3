"""Mutants of XQC, weight normalisation, batch normalisation and atoms."""

from tests.mutants import Mutant

XQC, T_XQC = "purerl/algos/xqc.py", "tests/algos/test_xqc.py"
ATOMS, T_ATOMS = "purerl/nets/atoms.py", "tests/nets/test_atoms.py"
WEIGHTS, T_WEIGHTS = "purerl/nets/weight_norm.py", "tests/nets/test_weight_norm.py"
NORM, T_NORM = "purerl/nets/batch_renorm.py", "tests/nets/test_batch_renorm.py"
MLP, EXPORT = "purerl/nets/mlp.py", "purerl/runs/policy/export.py"
T_EXPORT = "tests/runs/policy/test_export.py -k xqc"
SPLIT = "tests/contract/test_update.py -k xqc"

MUTANTS = [
    # The target.
    Mutant(XQC, "passes = [nets.apply_train(critic, one, obs, act)[0] for one in targets]", "passes = [nets.apply(critic, one, obs, act) for one in targets]", T_XQC),
    Mutant(XQC, "_add_statistics(params, params.target_critic)", "_add_statistics(params, params.critic)", T_XQC),
    Mutant(XQC, "jnp.stack(passes)[:, number:]", "jnp.stack(passes)[:, :number]", T_XQC),
    Mutant(XQC, "jnp.concatenate([batch.obs, batch.next_obs])", "jnp.concatenate([batch.obs, batch.obs])", T_XQC),
    Mutant(XQC, "spec.env.normalise(batch.act), next_act", "batch.act, next_act", T_XQC),
    Mutant(XQC, "atoms.mean(prob, spec.v_max).argmin(axis=0)", "atoms.mean(prob, spec.v_max).argmax(axis=0)", T_XQC),
    Mutant(XQC, "prob = jnp.take_along_axis(prob, smaller[None, :, None], axis=0)[0]", "prob = prob[0]", T_XQC),
    Mutant(XQC, "soft = z - temperature", "soft = z + temperature", T_XQC),
    Mutant(XQC, "spec.gamma * (1.0 - batch.terminated)[:, None] * soft", "spec.gamma * soft", T_XQC),
    Mutant(XQC, "jax.lax.stop_gradient(atoms.project(shifted, prob, spec.v_max))", "atoms.project(shifted, prob, spec.v_max)", T_XQC),
    Mutant(XQC, "jnp.abs(shifted) > spec.v_max", "shifted > spec.v_max", T_XQC),
    Mutant(XQC, "distribution(params, batch.next_obs), draw=0)", "distribution(params, batch.next_obs), draw=1)", T_XQC),
    # The loss of the critics.
    Mutant(XQC, "jnp.stack(both)[:, :number]", "jnp.stack(both)[:, number:]", T_XQC),
    Mutant(XQC, ".sum(axis=-1).mean(axis=1).sum()", ".mean(axis=-1).mean(axis=1).sum()", T_XQC),
    Mutant(XQC, ".sum(axis=-1).mean(axis=1).sum()", ".sum(axis=-1).mean()", T_XQC),
    Mutant(XQC, "jax.nn.log_softmax(logits)", "jax.nn.log_softmax(logits, axis=1)", T_XQC),
    # The policy and the temperature.
    Mutant(XQC, "frozen = jax.lax.stop_gradient(_add_statistics(params, params.critic))", "frozen = _add_statistics(params, params.critic)", T_XQC),
    Mutant(XQC, "jax.nn.softmax(logits), spec.v_max).min(axis=0)", "jax.nn.softmax(logits), spec.v_max).max(axis=0)", T_XQC),
    Mutant(XQC, "log_std.clip(*LOG_STD)), draw=1)", "log_std.clip(*LOG_STD)), draw=0)", T_XQC),
    Mutant(XQC, "LOG_STD = (-10.0, 2.0)", "LOG_STD = (-20.0, 2.0)", T_XQC),
    Mutant(XQC, "(temperature(params) * logp - q).mean()", "(temperature(params) * logp + q).mean()", T_XQC),
    Mutant(XQC, "wanted = -0.5 * spec.env.act_dim", "wanted = -1.0 * spec.env.act_dim", T_XQC),
    Mutant(XQC, "-jnp.exp(params.log_alpha) * (", "jnp.exp(params.log_alpha) * (", T_XQC),
    # The update.
    Mutant(XQC, "critic = nets.normalise_kernels(optax.apply_updates(params.critic, step))", "critic = optax.apply_updates(params.critic, step)", T_XQC),
    Mutant(XQC, "actor=nets.normalise_kernels(optax.apply_updates(params.actor, step_pi)),", "actor=optax.apply_updates(params.actor, step_pi),", T_XQC),
    Mutant(XQC, "optax.incremental_update(critic, params.target_critic, 1.0 - spec.polyak)", "optax.incremental_update(critic, params.target_critic, spec.polyak)", T_XQC),
    Mutant(XQC, "optax.incremental_update(critic, params.target_critic, 1.0 - spec.polyak)", "optax.incremental_update(params.critic, params.target_critic, 1.0 - spec.polyak)", T_XQC),
    Mutant(XQC, "critic_stats=stats, target_critic=target)", "target_critic=target)", T_XQC),
    Mutant(XQC, "        actor_stats=stats,\n", "", T_XQC),
    Mutant(XQC, "grad, stats = mpi.pmean((grads.critic, stats))", "grad = grads.critic", SPLIT),
    Mutant(XQC, "grad, stats = mpi.pmean((grads.critic, stats))", "grad = mpi.pmean(grads.critic)", SPLIT),
    Mutant(XQC, "grad_pi, grad_alpha, stats = mpi.pmean((grads_pi.actor, grads_alpha.log_alpha, stats))", "grad_pi, grad_alpha = mpi.pmean((grads_pi.actor, grads_alpha.log_alpha))", SPLIT),
    Mutant(XQC, "due = updates % spec.policy_delay == 0", "due = state.step % spec.policy_delay == 0", T_XQC),
    Mutant(XQC, "    pi, q = nets.normalise_kernels((pi, q))\n", "", T_XQC),
    Mutant(XQC, "jnp.log(jnp.float32(spec.alpha_init))", "jnp.log(0.01)", T_XQC),
    Mutant(XQC, "critic_hidden is None else spec.critic_hidden", "critic_hidden is None else spec.hidden", T_XQC),
    # Atoms, weights and layers.
    Mutant(ATOMS, "jnp.clip(values, -high, high)", "jnp.clip(values, None, high)", T_ATOMS),
    Mutant(ATOMS, ".clip(0, number - 2)", ".clip(0, number - 3)", T_ATOMS),
    Mutant(ATOMS, "for x in (1.0 - share, share))", "for x in (share, 1.0 - share))", T_ATOMS),
    Mutant(ATOMS, "row = number * jnp", "row = 0 * jnp", T_ATOMS),
    Mutant(ATOMS, "(2 * high)", "high", T_ATOMS),
    Mutant(WEIGHTS, "sum(axis=0, keepdims=True)", "sum(axis=1, keepdims=True)", T_WEIGHTS),
    Mutant(WEIGHTS, "jnp.maximum(norm, SMALLEST)", "norm", T_WEIGHTS),
    Mutant(WEIGHTS, "if x.ndim != 2 or path[-1]", "if path[-1]", T_WEIGHTS),
    Mutant(WEIGHTS, "jnp.where(jnp.abs(norm - 1.0) < ROUNDING, 1.0, jnp.maximum(norm, SMALLEST))", "jnp.maximum(norm, SMALLEST)", T_WEIGHTS),
    Mutant(NORM, "if self.warmup is not None:", "if self.warmup is None:", T_NORM),
    Mutant(NORM, "bias * scale + shift", "bias + shift", T_NORM),
    Mutant(MLP, "use_bias = last or not self.batch_norm", "use_bias = True", T_NORM),
    Mutant(MLP, "x = BatchRenorm(None, use_bias=False)(x) if self.batch_norm else x\n        for", "for", T_NORM),
    Mutant(EXPORT, "return [fold(layers[0], *first), *layers[1:]]", "return layers", T_EXPORT),
]  # fmt: skip
