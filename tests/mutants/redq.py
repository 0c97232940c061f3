"""Mutants of REDQ and DroQ, and of layer normalisation in critics."""

from tests.mutants import Mutant

REDQ, T_REDQ = "purerl/algos/redq.py", "tests/algos/test_redq.py"
NETS, MLP, T_NETS = "purerl/nets/modules.py", "purerl/nets/mlp.py", "tests/nets/test_mlp.py"
EXPORT, T_EXPORT = "purerl/runs/policy/export.py", "tests/runs/policy/test_export.py -k td3"
T_LOSSES, T_UPDATE = "tests/contract/test_losses.py", "tests/contract/test_update.py"

MUTANTS = [
    # The target.
    Mutant(REDQ, "next_q = jnp.take_along_axis(next_q, chosen.T, axis=0).min(axis=0)", "next_q = next_q.min(axis=0)", T_REDQ),
    Mutant(REDQ, "chosen.T, axis=0).min(axis=0)", "chosen.T, axis=0).max(axis=0)", T_REDQ),
    Mutant(REDQ, "chosen.T, axis=0).min(axis=0)", "chosen.T, axis=0).mean(axis=0)", T_REDQ),
    Mutant(REDQ, '"next", params, params.target_critic, batch.next_obs', '"next", params, params.critic, batch.next_obs', T_REDQ),
    Mutant(REDQ, "params.target_critic, batch.next_obs, next_act)", "params.target_critic, batch.obs, next_act)", T_REDQ),
    Mutant(REDQ, "_sample(params, batch, batch.next_obs, draw=0)", "_sample(params, batch, batch.next_obs, draw=1)", T_REDQ),
    Mutant(REDQ, "soft = next_q - temperature", "soft = next_q + temperature", T_REDQ),
    Mutant(REDQ, "(1.0 - batch.terminated) * soft", "(1.0 - batch.truncated) * soft", T_REDQ),
    Mutant(REDQ, "return jax.lax.stop_gradient(batch.rew + ", "return (batch.rew + ", T_LOSSES),
    # The subsets and their seeds.
    Mutant(REDQ, "number, size, replace=False)", "number, size, replace=True)", T_REDQ),
    Mutant(REDQ, 'keys = _derive_keys(params, batch, "subset")', 'keys = jnp.broadcast_to(_derive_keys(params, batch, "subset")[0], batch.rew.shape)', T_REDQ),
    Mutant(REDQ, "[:, 2, 0]  # [B]", "[:, 1, 0]  # [B]", T_REDQ),
    Mutant(REDQ, "number = USES.index(use)", "number = 0", T_REDQ),
    # Dropout.
    Mutant(REDQ, "    if spec.dropout:\n", '    if spec.dropout and use != "next":\n', T_REDQ),
    Mutant(REDQ, "    if spec.dropout:\n", '    if spec.dropout and use != "policy":\n', T_REDQ),
    Mutant(REDQ, "jax.random.split(key, spec.ensemble), out_axes=1)", "jnp.stack([key] * spec.ensemble), out_axes=1)", T_REDQ),
    Mutant(REDQ, "_derive_keys(params, batch, use))  # [N, B]", '_derive_keys(params, batch, "next"))  # [N, B]', T_REDQ),
    Mutant(REDQ, "dropout=spec.dropout)", "dropout=0.0)", T_REDQ),
    Mutant(MLP, "_fold_in(keys, i), self.dropout)", "keys, self.dropout)", T_NETS),
    Mutant(NETS, "apply(critic, tree, obs, act, own))", "apply(critic, tree, obs, act))", T_REDQ),
    Mutant(MLP, "x / (1.0 - share), 0.0)", "x, 0.0)", T_NETS),
    Mutant(MLP, "jax.random.bernoulli(key, 1.0 - share, x.shape[1:])", "jax.random.bernoulli(key, share, x.shape[1:])", T_NETS),
    # The losses.
    Mutant(REDQ, "jnp.square(q - y[None]).mean(axis=1).sum()", "jnp.square(q - y[None]).mean()", T_REDQ),
    Mutant(REDQ, "act = params.spec.env.normalise(batch.act)", "act = batch.act", T_REDQ),
    Mutant(REDQ, "frozen, batch.obs, pi).mean(axis=0)", "frozen, batch.obs, pi).min(axis=0)", T_REDQ),
    Mutant(REDQ, "frozen = jax.lax.stop_gradient(params.critic)", "frozen = params.critic", T_LOSSES),
    Mutant(REDQ, '"policy", params, frozen', '"policy", params, params.target_critic', T_REDQ),
    Mutant(REDQ, "_sample(params, batch, batch.obs, draw=1)  # [B, A], [B]", "_sample(params, batch, batch.obs, draw=0)  # [B, A], [B]", T_REDQ),
    Mutant(REDQ, "loss_alpha = -params.log_alpha", "loss_alpha = params.log_alpha", T_REDQ),
    Mutant(REDQ, "wanted = -float(spec.env.act_dim)", "wanted = float(spec.env.act_dim)", T_REDQ),
    Mutant(REDQ, "return jax.lax.stop_gradient(jnp.exp(params.log_alpha))", "return jnp.exp(params.log_alpha)", T_LOSSES),
    Mutant(REDQ, "return mean, log_std.clip(*LOG_STD)", "return mean, log_std", T_REDQ),
    Mutant(REDQ, "spec.env.normalise(act)), networks(spec).critic", "act), networks(spec).critic", T_REDQ),
    Mutant(REDQ, "None, moments.normalise(obs, params.obs_stats)", "None, obs", T_REDQ),
    # The update.
    Mutant(REDQ, "due = updates % params.spec.policy_delay == 0", "due = state.step % params.spec.policy_delay == 0", T_REDQ),
    Mutant(REDQ, "1.0 - params.spec.polyak\n", "params.spec.polyak\n", T_REDQ),
    Mutant(REDQ, "optax.incremental_update(critic, params.target_critic", "optax.incremental_update(params.critic, params.target_critic", T_REDQ),
    Mutant(REDQ, "critic=critic, target_critic=targets)", "critic=critic)", T_REDQ),
    Mutant(REDQ, "    params = dataclasses.replace(params, obs_stats=stats)\n", "", T_REDQ),
    Mutant(REDQ, "if self.subset > self.ensemble:", "if False:", T_REDQ),
    Mutant(REDQ, "if self.dropout and self.critic is not None:", "if False:", T_REDQ),
    Mutant(REDQ, "tx.update(mpi.pmean(grads.critic), opt", "tx.update(grads.critic, opt", T_UPDATE),
    Mutant(REDQ, "grad_alpha = mpi.pmean((grads_pi.actor, grads_alpha.log_alpha))", "grad_alpha = grads_pi.actor, grads_alpha.log_alpha", T_UPDATE),
    Mutant(REDQ, "due.astype(jnp.float32) for", "jnp.float32(1.0) for", T_REDQ),
    Mutant(REDQ, "jnp.log(jnp.float32(spec.alpha_init))", "jnp.zeros(())", T_REDQ),
    Mutant(REDQ, "updates_per_burst=20)", "updates_per_burst=1)", T_REDQ),
    # Ensembles, and layer normalisation in critics.
    Mutant(NETS, "    keys = jax.random.split(key, number)\n", "    keys = jax.numpy.stack([key] * number)\n", T_REDQ),
    Mutant(MLP, "self.renorm_warmup, self.layer_norm)\n", "self.renorm_warmup, False)\n", T_NETS),
    *(
        Mutant(f"purerl/algos/{name}.py", "QFunction(*style, layer_norm=spec.layer_norm)", "QFunction(*style)", T_NETS)
        for name in ("sac", "td3", "ddpg")
    ),
    Mutant(REDQ, "layer_norm=spec.layer_norm, ", "layer_norm=False, ", T_REDQ),
    Mutant(EXPORT, 'if "LayerNorm_0" in norms:', 'if getattr(spec, "layer_norm", False):', T_EXPORT),
]  # fmt: skip
