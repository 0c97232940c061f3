"""Mutants of discrete SAC."""

from tests.mutants import Mutant

SAC, T_SAC = "purerl/algos/sac_discrete.py", "tests/algos/test_sac_discrete.py"
SPLIT = (
    "tests/contract/test_update.py::test_devices_with_parts_of_a_batch_do_the_update_of_the_whole"
)
OWNS = "tests/contract/test_losses.py::test_each_loss_moves_its_own_parameters_and_nothing_else"

MUTANTS = [
    # Expectations.
    Mutant(SAC, "q.mean(axis=0) if params.spec.average_critics else q.min(axis=0)", "q.mean(axis=0)", T_SAC),
    Mutant(SAC, "q.mean(axis=0) if params.spec.average_critics else q.min(axis=0)", "q.min(axis=0) if params.spec.average_critics else q.mean(axis=0)", T_SAC),
    Mutant(SAC, "else q.min(axis=0)", "else q.max(axis=0)", T_SAC),
    Mutant(SAC, "(jax.nn.softmax(logits) * q).sum(axis=-1)", "q.max(axis=-1)", T_SAC),
    Mutant(SAC, "(jax.nn.softmax(logits) * q).sum(axis=-1)", "(jax.nn.softmax(logits) * q).mean(axis=-1)", T_SAC),
    Mutant(SAC, "jax.lax.stop_gradient(_q_values(params, critics, obs))", "_q_values(params, critics, obs)", OWNS),
    Mutant(SAC, "moments.normalise(obs, params.obs_stats), spec.env.obs_shape)", "obs, spec.env.obs_shape)", T_SAC),
    # The critics.
    Mutant(SAC, "_expect(params, params.target_critic, batch.next_obs)", "_expect(params, params.critic, batch.next_obs)", T_SAC),
    Mutant(SAC, "_expect(params, params.target_critic, batch.next_obs)", "_expect(params, params.target_critic, batch.obs)", T_SAC),
    Mutant(SAC, "    if spec.soft_critic:\n", "    if True:\n", T_SAC),
    Mutant(SAC, "next_value + temperature(params) * entropy", "next_value - temperature(params) * entropy", T_SAC),
    Mutant(SAC, "(1.0 - batch.terminated) * next_value", "(1.0 - batch.truncated) * next_value", T_SAC),
    Mutant(SAC, "    target = jax.lax.stop_gradient(target)\n", "", OWNS),
    Mutant(SAC, "jnp.asarray(batch.act) - first", "jnp.asarray(batch.act)", T_SAC),
    Mutant(SAC, "jnp.square(q - target[None]).mean(axis=1).sum()", "jnp.square(q - target[None]).mean()", T_SAC),
    # The policy and the temperature.
    Mutant(SAC, "-(value + temperature(params) * entropy).mean()", "-(value - temperature(params) * entropy).mean()", T_SAC),
    Mutant(SAC, "-(value + temperature(params) * entropy).mean()", "(value + temperature(params) * entropy).mean()", T_SAC),
    Mutant(SAC, "_expect(params, params.critic, batch.obs)", "_expect(params, params.target_critic, batch.obs)", T_SAC),
    Mutant(SAC, "spec.target_entropy_scale * math.log(spec.env.act_dim)", "spec.target_entropy_scale", T_SAC),
    Mutant(SAC, "loss_alpha = params.log_alpha *", "loss_alpha = -params.log_alpha *", T_SAC),
    Mutant(SAC, "jax.lax.stop_gradient(entropy) - wanted", "entropy - wanted", T_SAC),
    Mutant(SAC, "return jnp.float32(spec.alpha)", "return jnp.float32(1.0)", T_SAC),
    # The update.
    Mutant(SAC, "jax.grad(actor_loss, has_aux=True)(params, batch)", "jax.grad(actor_loss, has_aux=True)(state.params, batch)", T_SAC),
    Mutant(SAC, "1.0 - spec.polyak\n", "spec.polyak\n", T_SAC),
    Mutant(SAC, "        obs_stats=moments.merge_obs(params.obs_stats, batch.obs),\n", "", "tests/test_moments.py -k sac_discrete"),
    Mutant(SAC, "grad = mpi.pmean(grads.critic)", "grad = grads.critic", SPLIT),
    Mutant(SAC, "mpi.pmean((grads_pi.actor, grads_alpha.log_alpha))", "(grads_pi.actor, grads_alpha.log_alpha)", SPLIT),
    Mutant(SAC, "if getattr(self, name) != getattr(Spec, name):", "if False:", T_SAC),
    Mutant(SAC, "inputs, shape, 2)", "inputs, shape, 3)", T_SAC),
]  # fmt: skip
