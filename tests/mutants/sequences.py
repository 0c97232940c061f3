"""Mutants of ACER, and of updates on replayed sequences."""

from tests.mutants import Mutant

ACER, ON = "purerl/algos/acer.py", "purerl/loops/onpolicy.py"
SNAPSHOT, REPLAY, RNG = "purerl/loops/snapshot.py", "purerl/buffers/replay.py", "purerl/rng.py"
FIRST, PROGRESS = "purerl/loops/first_carry.py", "purerl/runs/record/progress.py"
DIAGNOSIS, DRY_RUN = "purerl/runs/training/diagnosis.py", "purerl/runs/training/dry_run.py"
T_ACER, T_ON = "tests/algos/test_acer.py", "tests/loops/test_onpolicy.py"
T_SCHEDULES, T_SNAPSHOT = "tests/test_schedules.py", "tests/loops/test_snapshot.py"
T_DIAGNOSIS = "tests/runs/training/test_diagnosis.py"
T_DRY_RUN, T_CONTRACT = "tests/runs/training/test_dry_run.py", "tests/contract"
T_PROGRESS = "tests/runs/record/test_progress.py"
T_DEVICES = "tests/loops/test_devices.py"

TARGETS = f"{T_ACER}::test_targets_equal_known_numbers"
BY_HAND = f"{T_ACER}::test_gradients_equal_a_numpy_program"
UNBIASED = f"{T_ACER}::test_the_expected_gradient_is_the_same_for_any_limit"
BEYOND = f"{T_ACER}::test_the_correction_counts_only_ratios_above_the_limit"
PROJECTED = f"{T_ACER}::test_projections_stay_in_the_trust_region"
NO_NAN = f"{T_ACER}::test_deterministic_policies_give_no_nan"
METRICS = f"{T_ACER}::test_metrics_are_means_over_all_steps"
ENTROPY = f"{T_ACER}::test_the_entropy_bonus_has_a_gradient"
UPDATED = f"{T_ACER}::test_the_average_policy_gets_the_updated_policy"
CLIPPED = f"{T_ACER}::test_the_gradient_norm_is_limited_over_both_networks"
RMSPROP = f"{T_ACER}::test_the_first_step_depends_on_the_first_average_of_rmsprop"
SPLIT = (
    f"{T_CONTRACT}/test_update.py::test_devices_with_parts_of_a_batch_do_the_update_of_the_whole"
)
KEPT = f"{T_CONTRACT}/test_update.py::test_optimizers_keep_their_state_between_updates"
SHAPES = f"{T_CONTRACT}/test_losses.py::test_loss_and_update_refuse_wrong_shapes_by_name"
KINDS = f"{T_CONTRACT}/test_losses.py::test_batches_and_observations_of_other_types_are_refused"
SAMPLES = f"{T_CONTRACT}/test_update.py::test_update_accepts_samples_of_the_replay_buffer[acer]"
ADVANCE = f"{T_ON}::test_an_advance_equals_an_update_and_further_ones_on_samples_of_the_buffer"
NUMBERS = f"{T_ON}::test_the_number_of_replayed_updates_is_that_of_all_ranks_and_has_the_mean_of_the_ratio"
NO_REPLAY = f"{T_ON}::test_without_replay_there_is_no_buffer_and_one_update_for_each_rollout"
MIXED = f"{T_ON}::test_schedules_with_and_without_sequences_are_not_mixed_up"
DIVERGED = f"{T_ON}::test_a_diverged_replay_is_reported_with_all_its_updates"
SEGMENTS = f"{T_SNAPSHOT}::test_new_sequences_and_sequences_saved_before_are_the_whole_buffer"
AGAIN = f"{T_DIAGNOSIS}::test_the_batches_of_replayed_updates_are_collected_again"
SHARED = f"{T_DEVICES}::test_devices_that_cannot_share_whole_sequences_are_refused"
ON_SCHEDULE = "purerl/schedules/onpolicy.py"

MUTANTS = [
    # The targets.
    Mutant(ACER, "next_val = value(params, batch.next_obs)", "next_val = value(params, batch.obs)", TARGETS),
    # The value of the reset observation, which is that of the next row.
    Mutant(ACER, "next_val = value(params, batch.next_obs)", "next_val = value(params, jnp.concatenate([batch.obs[:, 1:], batch.next_obs[:, -1:]], axis=1))", TARGETS),
    Mutant(ACER, "steps = (batch.rew, q, next_val, batch.terminated, batch.truncated, rho)", "steps = (batch.rew, q, next_val, batch.terminated | batch.truncated, batch.truncated, rho)", TARGETS),
    Mutant(ACER, "steps = (batch.rew, q, next_val, batch.terminated, batch.truncated, rho)", "steps = (batch.rew, q, next_val, batch.terminated, batch.terminated, rho)", TARGETS),
    Mutant(ACER, "steps = (batch.rew, q, next_val, batch.terminated, batch.truncated, rho)", "steps = (batch.rew, q, next_val, batch.terminated, batch.truncated, jnp.ones_like(rho))", TARGETS),
    Mutant(ACER, "terminated, truncated, rho, spec.gamma)", "terminated, truncated, rho, 0.99)", TARGETS),
    Mutant(ACER, "return jax.lax.stop_gradient(ret.swapaxes(0, 1))", "return ret.swapaxes(0, 1)", BY_HAND),
    Mutant(ACER, "categorical.log_prob(logits, act) - categorical.log_prob(behaviour, act)", "categorical.log_prob(behaviour, act) - categorical.log_prob(logits, act)", TARGETS),
    Mutant(ACER, "(jax.nn.softmax(logits) * q).sum(axis=-1)", "q.mean(axis=-1)", TARGETS),
    Mutant(ACER, "(jax.nn.softmax(logits) * q).sum(axis=-1)", "q.max(axis=-1)", TARGETS),
    # The gain.
    Mutant(ACER, "fixed = jax.lax.stop_gradient(logits)", "fixed = logits", UNBIASED),
    Mutant(ACER, "jnp.minimum(c, rho) * (ret - v) * logp", "rho * (ret - v) * logp", UNBIASED),
    Mutant(ACER, "jnp.minimum(c, rho) * (ret - v) * logp", "c * (ret - v) * logp", UNBIASED),
    Mutant(ACER, "jnp.minimum(c, rho) * (ret - v) * logp", "jnp.minimum(1.0, rho) * (ret - v) * logp", UNBIASED),
    Mutant(ACER, "jnp.minimum(c, rho) * (ret - v) * logp", "jnp.minimum(c, rho) * ret * logp", UNBIASED),
    Mutant(ACER, "jnp.where(rho > 0.0, categorical.log_prob(logits, act), 0.0)", "categorical.log_prob(logits, act)", NO_NAN),
    Mutant(ACER, "beyond = jax.nn.softmax(fixed) - c * jax.nn.softmax(behaviour)", "beyond = jax.nn.softmax(fixed) - jax.nn.softmax(behaviour)", UNBIASED),
    Mutant(ACER, "jnp.where(beyond > 0.0, lost, 0.0)", "lost", UNBIASED),
    Mutant(ACER, "lost = beyond * (q - v[..., None])", "lost = beyond * q", BEYOND),
    Mutant(ACER, "lost = beyond * (q - v[..., None])", "lost = beyond * (ret - v)[..., None]", BEYOND),
    Mutant(ACER, "return taken + jnp.where", "return taken - jnp.where", BEYOND),
    Mutant(ACER, "return taken + jnp.where", "return taken + 0.0 * jnp.where", BEYOND),
    # The trust region.
    Mutant(ACER, "size = jnp.square(k)", "size = jnp.square(g)", BY_HAND),
    Mutant(ACER, "(k * g).sum(axis=-1, keepdims=True) - delta", "(k * g).sum(axis=-1, keepdims=True)", PROJECTED),
    Mutant(ACER, "(k * g).sum(axis=-1, keepdims=True) - delta", "jnp.abs((k * g).sum(axis=-1, keepdims=True)) - delta", PROJECTED),
    Mutant(ACER, "excess = jnp.maximum(0.0, ", "excess = (", PROJECTED),
    Mutant(ACER, "jnp.where(size > 0.0, size, 1.0)", "size", PROJECTED),
    Mutant(ACER, "return g - excess", "return g + excess", PROJECTED),
    Mutant(ACER, "k = jax.nn.softmax(logits) - jax.nn.softmax(average)", "k = jax.nn.softmax(average) - jax.nn.softmax(logits)", BY_HAND),
    Mutant(ACER, "k = jax.nn.softmax(logits) - jax.nn.softmax(average)", "k = -jax.nn.softmax(average)", BY_HAND),
    Mutant(ACER, "actor=params.average), batch.obs)", "actor=params.actor), batch.obs)", BY_HAND),
    Mutant(ACER, "project(g, k, spec.delta)", "project(g, k, 1.0)", BY_HAND),
    Mutant(ACER, "z = jax.lax.stop_gradient(project(g, k, spec.delta))", "z = g", BY_HAND),
    Mutant(ACER, "z = jax.lax.stop_gradient(project(g, k, spec.delta))", "z = project(g, k, spec.delta)", BY_HAND),
    Mutant(ACER, "masked = jnp.where(z == 0.0, 0.0, z * logits)", "masked = z * logits", NO_NAN),
    # The actor's loss.
    Mutant(ACER, "loss_pi = -masked.sum(axis=-1).mean()", "loss_pi = masked.sum(axis=-1).mean()", BY_HAND),
    Mutant(ACER, "loss_pi = -masked.sum(axis=-1).mean()", "loss_pi = -masked.mean()", BY_HAND),
    Mutant(ACER, "loss_pi = -masked.sum(axis=-1).mean()", "loss_pi = -masked.sum()", BY_HAND),
    Mutant(ACER, "(gain + spec.ent_coef * entropy).sum()", "(gain - spec.ent_coef * entropy).sum()", ENTROPY),
    Mutant(ACER, "(gain + spec.ent_coef * entropy).sum()", "gain.sum()", ENTROPY),
    Mutant(ACER, "(gain + spec.ent_coef * entropy).sum()", "(gain + spec.ent_coef * jax.lax.stop_gradient(entropy)).sum()", ENTROPY),
    Mutant(ACER, "policy_gain(logits, batch.behaviour, act, q, ret, spec.max_ratio)", "policy_gain(logits, distribution(params, batch.obs), act, q, ret, spec.max_ratio)", BY_HAND),
    Mutant(ACER, "policy_gain(logits, batch.behaviour, act, q, ret, spec.max_ratio)", "policy_gain(logits, batch.behaviour, act, q, ret, 10.0)", BY_HAND),
    Mutant(ACER, "rho = ratio(distribution(params, batch.obs), batch.behaviour, act)", "rho = ratio(distribution(params, batch.obs), distribution(params, batch.obs), act)", TARGETS),
    Mutant(ACER, "kl = categorical.kl(average, logits)", "kl = categorical.kl(logits, average)", METRICS),
    Mutant(ACER, '"limited": (z != g).any(axis=-1)', '"limited": (z == g).any(axis=-1)', BY_HAND),
    # The critic's loss.
    Mutant(ACER, "0.5 * jnp.square(targets(params, batch) - q).mean()", "jnp.square(targets(params, batch) - q).mean()", BY_HAND),
    Mutant(ACER, "return spec.q_coef * loss_q,", "return loss_q,", BY_HAND),
    Mutant(ACER, "jnp.asarray(batch.act) - start", "jnp.asarray(batch.act)", TARGETS),
    Mutant(ACER, "    spec.env.check_sequences(batch)\n", "", KINDS),
    Mutant(ACER, '    checks.shape("batch.behaviour"', '    "" or str("batch.behaviour"', SHAPES),
    # The update.
    Mutant(ACER, 'grad = mpi.pmean({"actor": grads.actor, "critic": grads.critic})', 'grad = {"actor": grads.actor, "critic": grads.critic}', SPLIT),
    Mutant(ACER, "    if spec.max_grad_norm:", "    if False:", CLIPPED),
    Mutant(ACER, "        grad, _ = clip.update(grad, clip.init(grad))", "        grad = {k: clip.update(x, clip.init(x))[0] for k, x in grad.items()}", CLIPPED),
    Mutant(ACER, "optax.incremental_update(actor, params.average, 1.0 - spec.polyak)", "params.average", UPDATED),
    Mutant(ACER, "optax.incremental_update(actor, params.average, 1.0 - spec.polyak)", "actor", UPDATED),
    Mutant(ACER, "optax.incremental_update(actor, params.average, 1.0 - spec.polyak)", "optax.incremental_update(actor, params.average, spec.polyak)", UPDATED),
    Mutant(ACER, "optax.incremental_update(actor, params.average, 1.0 - spec.polyak)", "optax.incremental_update(params.actor, params.average, 1.0 - spec.polyak)", UPDATED),
    Mutant(ACER, '{"actor": opt_pi, "critic": opt_q}', "state.opt_state", KEPT),
    Mutant(ACER, "spec.rms_eps, spec.rms_init)", "spec.rms_eps)", RMSPROP),
    Mutant(ACER, "optax.rmsprop(spec.lr, spec.rms_decay,", "optax.rmsprop(spec.lr, 0.9,", RMSPROP),
    Mutant(ACER, "jnp.swapaxes(x, 0, 1), batch)", "x.reshape(x.shape[1], x.shape[0], *x.shape[2:]), batch)", f"{T_ACER}::test_prepare_makes_a_sequence_of_each_environment"),
    # The loop.
    Mutant(ON, "buffer.stored >= plan.start", "buffer.stored > plan.start", NUMBERS),
    Mutant(ON, "buffer.stored >= plan.start", "True", NUMBERS),
    Mutant(ON, "jax.random.poisson(key, plan.ratio, (), jnp.int32)", "jnp.int32(plan.ratio)", NUMBERS),
    Mutant(ON, 'words[1], "sample", words[2:])', 'words[1], "sample", 0)', ADVANCE),
    Mutant(ON, "jax.random.fold_in(key, i), plan.sequences)", "key, plan.sequences)", ADVANCE),
    Mutant(ON, "return learner, buffer, tally, 1 + number", "return learner, buffer, tally, number", ADVANCE),
    Mutant(ON, "jnp.stack([updates, finite])", "jnp.stack([updates, jnp.ones_like(finite)])", DIVERGED),
    Mutant(ON, "start = schedule.replay_start // (ranks * schedule.rollout_length)", "start = schedule.replay_start // ranks", ADVANCE),
    Mutant(ON, "schedule.replay_size // (ranks * schedule.rollout_length)", "schedule.replay_size // ranks", ADVANCE),
    Mutant(ON, "return ReplayPlan(schedule.replay_ratio, start, schedule.num_envs)", "return ReplayPlan(schedule.replay_ratio, start, 1)", ADVANCE),
    Mutant(RNG, '_SHARED = ("init", "replays")', '_SHARED = ("init",)', NUMBERS),
    Mutant(FIRST, " and schedule.replay_ratio:", ":", NO_REPLAY),
    Mutant("purerl/algos/__init__.py", "    if not isinstance(schedule, kind) or mixed:", "    if not isinstance(schedule, kind):", MIXED),
    Mutant(REPLAY, "        return rows._replace(key=key)\n", "        return rows\n", SAMPLES),
    # Snapshots, schedules, and what is told about a run.
    Mutant(SNAPSHOT, "length = carry.schedule.rollout_length if isinstance(carry, SequenceCarry) else 1", "length = 1", SEGMENTS),
    Mutant("purerl/types.py", "x in rows._asdict().items() if x is not None}", "x in rows._asdict().items() if x is not None and name != 'behaviour'}", SEGMENTS),
    Mutant(ON_SCHEDULE, "SEQUENCE * unit, unit)", "SEQUENCE * self.num_envs, unit)", T_SCHEDULES),
    Mutant(ON_SCHEDULE, "replay_size=round_up(self.replay_size, rollout)", "replay_size=self.replay_size", T_SCHEDULES),
    Mutant(ON_SCHEDULE, "replay_start=round_up(start, rollout)", "replay_start=start", T_SCHEDULES),
    Mutant(ON_SCHEDULE, "portion(self.steps, 10, 8_000)", "8_000", T_SCHEDULES),
    Mutant(ON_SCHEDULE, "if (self.replay_start or 0) > self.replay_size:", "if False:", T_SCHEDULES),
    Mutant(ON_SCHEDULE, "        if self.num_envs % self.devices:", "        if False:", SHARED),
    Mutant(ON_SCHEDULE, "if self.replay_ratio else {}", "if True else {}", T_SCHEDULES),
    Mutant(PROGRESS, "if schedule.replay_start > schedule.steps:", "if False:", T_PROGRESS),
    Mutant(DIAGNOSIS, "            batches += _replay(carry, batch)\n", "            pass\n", AGAIN),
    Mutant(DRY_RUN, '{"replay_start": rollout, "replay_size"', '{"replay_size"', T_DRY_RUN),
]  # fmt: skip
