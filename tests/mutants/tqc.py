"""Mutants of TQC and of quantiles."""

from tests.mutants import Mutant

TQC, QUANTILES, MLP = "purerl/algos/tqc.py", "purerl/nets/quantiles.py", "purerl/nets/mlp.py"
T_TQC, T_QUANTILES = "tests/algos/test_tqc.py", "tests/nets/test_quantiles.py"
SPLIT = (
    "tests/contract/test_update.py::test_devices_with_parts_of_a_batch_do_the_update_of_the_whole"
)
OWNS = "tests/contract/test_losses.py::test_each_loss_moves_its_own_parameters_and_nothing_else"
PER_CRITIC = (
    "jnp.concatenate(list(jnp.sort(quantiles, axis=-1)[..., : number // len(quantiles)]), axis=-1)"
)

MUTANTS = [
    # Quantiles.
    Mutant(QUANTILES, "dtype=jnp.float32) + 0.5)", "dtype=jnp.float32) + 1.0)", T_QUANTILES),
    Mutant(QUANTILES, "weight = jnp.abs(level - (y < z))", "weight = jnp.abs(1.0 - level - (y < z))", T_QUANTILES),
    Mutant(QUANTILES, "(y < z))", "(y > z))", T_QUANTILES),
    Mutant(QUANTILES, "optax.losses.huber_loss(z, y)", "optax.losses.l2_loss(z, y)", T_QUANTILES),
    Mutant(QUANTILES, "optax.losses.huber_loss(z, y)", "jnp.abs(z - y)", T_QUANTILES),
    Mutant(QUANTILES, ".mean(axis=(-2, -1))", ".mean(axis=-1).sum(axis=-1)", T_QUANTILES),
    Mutant(QUANTILES, "quantiles.shape)[..., :, None]", "quantiles.shape)[..., ::-1, None]", T_QUANTILES),
    Mutant(QUANTILES, "-jax.lax.top_k(-pooled, number)[0]", "pooled[:, :number]", T_QUANTILES),
    Mutant(QUANTILES, "-jax.lax.top_k(-pooled, number)[0]", "jax.lax.top_k(pooled, number)[0]", T_QUANTILES),
    Mutant(QUANTILES, "-jax.lax.top_k(-pooled, number)[0]", "jnp.sort(pooled, axis=0)[:, :number]", T_QUANTILES),
    Mutant(QUANTILES, "jnp.concatenate(list(quantiles), axis=-1)  #", f"{PER_CRITIC}  #", T_QUANTILES),
    # The target and the critics' loss.
    Mutant(TQC, "kept = spec.num_critics * (spec.num_quantiles - spec.drop_quantiles)", "kept = spec.num_critics * spec.num_quantiles - spec.drop_quantiles", T_TQC),
    Mutant(TQC, "kept = spec.num_critics * (spec.num_quantiles - spec.drop_quantiles)", "kept = spec.num_critics * spec.num_quantiles", T_TQC),
    Mutant(TQC, "smallest - temperature(params) * next_logp[:, None]", "smallest + temperature(params) * next_logp[:, None]", T_TQC),
    Mutant(TQC, "spec.gamma * (1.0 - batch.terminated)  # [B]", "spec.gamma * (1.0 - batch.truncated)  # [B]", T_TQC),
    Mutant(TQC, "jax.lax.stop_gradient(batch.rew[:, None] + discount[:, None] * soft)", "batch.rew[:, None] + discount[:, None] * soft", OWNS),
    Mutant(TQC, "params.target_critic, next_obs, next_act)  # [N, B, M]", "params.critic, next_obs, next_act)  # [N, B, M]", T_TQC),
    Mutant(TQC, "batch.next_obs, draw=0)  # [B, A], [B]", "batch.next_obs, draw=1)  # [B, A], [B]", T_TQC),
    Mutant(TQC, "next_obs = moments.normalise(batch.next_obs, params.obs_stats)", "next_obs = batch.next_obs", T_TQC),
    Mutant(TQC, "z = q_quantiles(params, batch.obs, batch.act)  # [N, B, M]", "z = q_quantiles(params, batch.obs, batch.act).mean(axis=0, keepdims=True)", T_TQC),
    Mutant(TQC, "spec.env.obs_shape, spec.env.normalise(act))", "spec.env.obs_shape, act)", T_TQC),
    # The policy and the temperature.
    Mutant(TQC, "obs, pi).mean(axis=(0, 2))", "obs, pi).mean(axis=2).min(axis=0)", T_TQC),
    Mutant(TQC, "obs, pi).mean(axis=(0, 2))", "obs, pi)[..., :-1].mean(axis=(0, 2))", T_TQC),
    Mutant(TQC, "frozen = jax.lax.stop_gradient(params.critic)", "frozen = params.critic", OWNS),
    Mutant(TQC, "(temperature(params) * logp - q).mean()", "(temperature(params) * logp + q).mean()", T_TQC),
    Mutant(TQC, "batch.obs, draw=1)  # [B, A], [B]", "batch.obs, draw=0)  # [B, A], [B]", T_TQC),
    Mutant(TQC, "loss_alpha = -params.log_alpha", "loss_alpha = params.log_alpha", T_TQC),
    Mutant(TQC, "(jax.lax.stop_gradient(logp) + wanted)", "(logp + wanted)", T_TQC),
    Mutant(TQC, "wanted = -float(spec.env.act_dim)", "wanted = float(spec.env.act_dim)", T_TQC),
    Mutant(TQC, "log_std.clip(*LOG_STD)", "log_std", T_TQC),
    # The update and the settings.
    Mutant(TQC, "jax.grad(actor_loss, has_aux=True)(params, batch)", "jax.grad(actor_loss, has_aux=True)(state.params, batch)", T_TQC),
    Mutant(TQC, "1.0 - spec.polyak\n", "spec.polyak\n", T_TQC),
    Mutant(TQC, "params.critic, params.target_critic, 1.0", "state.params.critic, params.target_critic, 1.0", T_TQC),
    Mutant(TQC, "        obs_stats=moments.merge_obs(params.obs_stats, batch.obs),\n", "", "tests/test_moments.py -k tqc"),
    Mutant(TQC, "grad = mpi.pmean(grads.critic)", "grad = grads.critic", SPLIT),
    Mutant(TQC, "mpi.pmean((grads_pi.actor, grads_alpha.log_alpha))", "(grads_pi.actor, grads_alpha.log_alpha)", SPLIT),
    Mutant(TQC, "wide = spec.hidden if spec.critic_hidden is None else spec.critic_hidden", "wide = spec.hidden", T_TQC),
    Mutant(TQC, "inputs, shape, spec.num_critics)", "inputs, shape, 2)", T_TQC),
    Mutant(TQC, "if self.drop_quantiles >= self.num_quantiles:", "if self.drop_quantiles > self.num_quantiles:", T_TQC),
]  # fmt: skip
