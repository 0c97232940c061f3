"""Mutants of PQN, and of layer normalisation."""

from tests.mutants import Mutant

PQN, MLP, CNN = "purerl/algos/pqn.py", "purerl/nets/mlp.py", "purerl/nets/cnn.py"
T_PQN, T_CONTRACT = "tests/algos/test_pqn.py", "tests/contract"
T_CNN, T_ALIASES = "tests/nets/test_cnn.py", "tests/runs/settings/test_aliases.py"
NUMPY_POLICY = "purerl/runs/policy/numpy_policy.py"
EXPORT, T_EXPORT = "purerl/runs/policy/export.py", "tests/runs/policy/test_export.py"

TARGETS = f"{T_PQN}::test_targets_equal_numbers_by_hand"
MANY = f"{T_PQN}::test_targets_of_many_environments_equal_a_numpy_program"
SCALED = f"{T_PQN}::test_rewards_are_scaled_in_the_targets_alone"
LOSS = f"{T_PQN}::test_the_loss_is_half_the_weighted_squared_error_of_the_actions_taken"
RADAM = f"{T_PQN}::test_each_pass_is_a_step_of_radam"
CLIPPED = f"{T_PQN}::test_the_gradient_norm_is_limited"
DECAY = f"{T_PQN}::test_the_learning_rate_falls_linearly_over_updates"
EPSILON = f"{T_PQN}::test_epsilon_falls_linearly_over_updates_and_then_stays_constant"
ACTING = f"{T_PQN}::test_acting_is_random_with_probability_epsilon"
SHUFFLED = f"{T_PQN}::test_each_pass_shuffles_the_rows_anew"
STATISTICS = f"{T_PQN}::test_running_statistics_change_after_the_steps_of_an_update"
NORM = f"{T_PQN}::test_values_of_the_default_network_equal_a_numpy_program"
DEFAULTS = f"{T_PQN}::test_defaults_are_those_of_the_page"
SPLIT = (
    f"{T_CONTRACT}/test_update.py::test_devices_with_parts_of_a_batch_do_the_update_of_the_whole"
)
NEXT = "returns.lambda_returns(rew, next_q.max(axis=-1), *ends"

MUTANTS = [
    # The targets: the first is the error of Rejax, the second that of the authors' code.
    Mutant(PQN, NEXT, "returns.lambda_returns(rew, jnp.concatenate([next_q.max(axis=-1)[1:], next_q.max(axis=-1)[-1:]]), *ends", TARGETS),
    Mutant(PQN, NEXT, "returns.lambda_returns(rew, next_q.max(axis=-1).at[-2].set(next_q.max(axis=-1)[-1]), *ends", TARGETS),
    Mutant(PQN, NEXT, "returns.lambda_returns(rew, q.max(axis=-1), *ends", TARGETS),
    Mutant(PQN, NEXT, "returns.lambda_returns(rew, next_q.mean(axis=-1), *ends", TARGETS),
    Mutant(PQN, "ends = (rollout.terminated, rollout.truncated)", "ends = (rollout.terminated | rollout.truncated, rollout.truncated)", TARGETS),
    Mutant(PQN, "ends = (rollout.terminated, rollout.truncated)", "ends = (rollout.terminated, rollout.terminated)", TARGETS),
    Mutant(PQN, "*ends, spec.gamma, spec.lam)", "*ends, spec.gamma, 1.0)", TARGETS),
    Mutant(PQN, "*ends, spec.gamma, spec.lam)", "*ends, spec.lam, spec.gamma)", TARGETS),
    Mutant(PQN, "rew = spec.reward_scale * rollout.rew", "rew = rollout.rew", SCALED),
    Mutant(PQN, "    taken = categorical.chosen(q, _count_from_zero(spec, rollout.act))", "    taken = q.max(axis=-1)", MANY),
    # The loss.
    Mutant(PQN, "loss_q = 0.5 * (batch.weight", "loss_q = (batch.weight", LOSS),
    Mutant(PQN, "(batch.weight * jnp.square(batch.ret - q)).mean()", "jnp.square(batch.ret - q).mean()", LOSS),
    Mutant(PQN, "jnp.square(batch.ret - q)", "jnp.square(batch.ret[:, None] - q)", LOSS),
    Mutant(PQN, "return jnp.asarray(act) - start", "return jnp.asarray(act)", LOSS),
    # Acting.
    Mutant(PQN, "(1.0 - epsilon) * greedy + epsilon / number", "(1.0 - epsilon) * greedy + epsilon", ACTING),
    Mutant(PQN, "(1.0 - epsilon) * greedy + epsilon / number", "epsilon * greedy + (1.0 - epsilon) / number", ACTING),
    Mutant(PQN, "jax.nn.one_hot(q.argmax(axis=-1), number)", "jax.nn.one_hot(q.argmin(axis=-1), number)", ACTING),
    Mutant(PQN, ".clip(1e-30)", "", ACTING),
    Mutant(PQN, "policies.mode(checks.spec_of(params).env, q_value(params, obs))", "policies.mode(checks.spec_of(params).env, distribution(params, obs))", ACTING),
    Mutant(PQN, "updates = state.step + 1", "updates = state.step", EPSILON),
    Mutant(PQN, "jnp.minimum(updates / spec.eps_decay, 1.0)", "updates / spec.eps_decay", EPSILON),
    Mutant(PQN, "fraction * (spec.eps_end - spec.eps_start)", "fraction * (spec.eps_start - spec.eps_end)", EPSILON),
    # The update.
    Mutant(PQN, "optax.scale_by_radam()", "optax.scale_by_adam()", RADAM),
    Mutant(PQN, "jax.lax.fori_loop(0, spec.train_q_iters, run_pass, now)", "jax.lax.fori_loop(0, 1, run_pass, now)", RADAM),
    Mutant(PQN, "fitted = dataclasses.replace(params, critic=critic)", "fitted = params", RADAM),
    Mutant(PQN, '{"critic": opt_critic}, updates), info', "state.opt_state, updates), info", RADAM),
    Mutant(PQN, "mpi.pmean(grads.critic)", "grads.critic", SPLIT),
    Mutant(PQN, "if spec.max_grad_norm else optax.identity()", "if False else optax.identity()", CLIPPED),
    Mutant(PQN, "spec.minibatch_size, batch.key, number)", "spec.minibatch_size, batch.key)", SHUFFLED),
    Mutant(PQN, "jnp.maximum(1.0 - state.step / decay, 0.0)", "1.0 - state.step / decay", DECAY),
    Mutant(PQN, "rate = rate if nets.find_custom", "rate = 1.0 if nets.find_custom", DECAY),
    Mutant(PQN, "stats = moments.merge_obs(params.obs_stats, batch.obs)", "stats = params.obs_stats", STATISTICS),
    Mutant(PQN, "eps_decay: int = setting(50,", "eps_decay: int = setting(500,", DEFAULTS),
    Mutant(PQN, 'critic_loss(fitted, batch)[0] - before["loss_q"]', 'before["loss_q"] - critic_loss(fitted, batch)[0]', RADAM),
    # Layer normalisation, its export, and the length of rollouts.
    Mutant(PQN, "spec.torso, spec.layer_norm)", "spec.torso)", NORM),
    Mutant(MLP, "x = nn.LayerNorm()(x) if self.layer_norm else x", "x = x", NORM),
    Mutant(MLP, 'getattr(network, "layer_norm", False))', "False)", T_CNN),
    Mutant(CNN, "            x = nn.relu(nn.LayerNorm()(x) if self.layer_norm else x)", "            x = nn.relu(x)", T_CNN),
    Mutant(NUMPY_POLICY, "x = x * arrays[f\"norm_scale{i}\"] + arrays[f\"norm_bias{i}\"]", "x = x * arrays[f\"norm_scale{i}\"]", f"{T_EXPORT}::test_layer_normalisation_is_exported"),
    Mutant(EXPORT, "for i in range(len(layers) - 1)]", "for i in range(len(layers) - 2)]", f"{T_EXPORT}::test_layer_normalisation_is_exported"),
    Mutant("purerl/runs/settings/aliases.py", "isinstance(default, OnPolicySchedule) and not default.rollout_steps", "isinstance(default, OnPolicySchedule)", T_ALIASES),
]  # fmt: skip
