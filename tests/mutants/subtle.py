"""Mutants whose effect is small or rare, or only on several ranks or after a crash."""

from tests.mutants import Mutant

SAC, SQUASHED, RNG = "purerl/algos/sac.py", "purerl/nets/squashed.py", "purerl/rng.py"
T_SAC, T_SQUASHED = "tests/algos/test_sac.py", "tests/nets/test_squashed.py"
PPO, TRPO, REINFORCE = "purerl/algos/ppo.py", "purerl/algos/trpo.py", "purerl/algos/reinforce.py"
DDPG, MOMENTS, REPLAY = "purerl/algos/ddpg.py", "purerl/moments.py", "purerl/buffers/replay.py"
PASSES = """    now = _run_passes(_Progress(old, state.opt_state, rate), batch)

    # Measure how the losses changed.
    before, after = loss(old, batch)[1], loss(now.params, batch)[1]
    changes = {f"delta_{name}": after[name] - before[name] for name in ("loss_pi", "loss_v")}
    info = before | changes | {"kl": now.kl, "clip_frac": now.clip_frac, "stop_iter": now.steps}

    # Add the rollout to the running statistics, which the passes have only read.
    params = _update_statistics(now.params, batch)
"""
LATE = PASSES.replace("_Progress(old,", "_Progress(_update_statistics(old, batch),")
LATE = LATE.replace("_update_statistics(now.params, batch)", "now.params")
T_PPO, T_REINFORCE = "tests/algos/test_ppo.py", "tests/algos/test_reinforce.py"
OLD_LOGP, T_OLD_LOGP = (
    "distribution(params, rollout.obs), rollout.act)",
    "tests/contract/test_prepare.py::test_old_log_probabilities_are_those_of_the_policy_that_acted",
)
CLIPPED = (
    "distribution(params, rollout.obs), rollout.act"
    " if hasattr(spec.env.action, 'n') else spec.env.clip(jnp.asarray(rollout.act)))"
)
EXPLORES = (
    "tests/contract/test_init_and_act.py::test_act_explores_by_its_key_and_stays_inside_the_box"
)
ONE_NOISE = "jax.random.normal(key, (*pi.shape[:-1], 1), jnp.float32)"
ACTING, GYM = "purerl/loops/acting.py", "purerl/loops/gym.py"
OFF, ON = "purerl/loops/offpolicy.py", "purerl/loops/onpolicy.py"
VECTOR, SNAPSHOT = "purerl/loops/adapters/vector.py", "purerl/loops/snapshot.py"
T_ACTING, T_GYM = "tests/loops/test_acting.py", "tests/loops/test_gym.py"
T_OFF, T_ON = "tests/loops/test_offpolicy.py", "tests/loops/test_onpolicy.py"
T_VECTOR, T_SNAPSHOT = "tests/loops/test_adapters.py", "tests/loops/test_snapshot.py"
CATEGORICAL, GAUSSIAN = "purerl/nets/categorical.py", "purerl/nets/gaussian.py"
T_DISTRIBUTIONS = "tests/nets/test_distributions.py"
T_REPLAY, T_MOMENTS = "tests/buffers/test_replay.py", "tests/test_moments.py"
FILES, CHECKPOINT = "purerl/runs/record/files.py", "purerl/runs/record/checkpoint.py"
FOLDERS = "purerl/runs/record/checkpoint_folders.py"
T_FILES, T_CHECKPOINT = "tests/runs/record/test_files.py", "tests/runs/record/test_checkpoint.py"
T_FOLDERS = "tests/runs/record/test_checkpoint_folders.py"
T_RANKS = "tests/mpi/test_ranks.py"
SEARCHED = "loss, kl = mpi.pmean((actor_loss(new, batch)[0], divergence(new, params, batch)))"

MUTANTS = [
    # The log-density of SAC and its gradient.
    Mutant(SAC, "squashed.log_prob(dist, u, noise)", "squashed.log_prob(jax.lax.stop_gradient(dist), u, noise)", T_SAC),
    Mutant(SAC, "squashed.log_prob(dist, u, noise)", "squashed.log_prob(dist, jax.lax.stop_gradient(u), noise)", T_SAC),
    Mutant(SAC, "squashed.log_prob(dist, u, noise)", "squashed.log_prob(dist, u)", T_SAC),
    Mutant(SQUASHED, "sample(dist, noise), noise)", "sample(dist, noise))", T_SQUASHED),
    Mutant(SQUASHED, "    if noise is None:\n        noise", "    if True:\n        noise", T_SQUASHED),
    Mutant(SAC, "LOG_STD = (-20.0, 2.0)", "LOG_STD = (-5.0, 2.0)", T_SAC),
    Mutant(RNG, "    return jax.random.normal(batch.key, shape, jnp.float32)", "    return jnp.repeat(jax.random.normal(batch.key, (shape[0], 1, dim)), draws, axis=1)", "tests/test_rng.py"),
    # Old log-probabilities are those of the sampled actions, not of the clipped ones.
    *(
        Mutant(f"purerl/algos/{name}.py", OLD_LOGP, CLIPPED, T_OLD_LOGP)
        for name in ("ppo", "trpo", "vpg", "reinforce")
    ),
    # PPO.
    Mutant(PPO, "going &= kl <=", "going = kl <=", T_PPO),
    Mutant(PPO, PASSES, LATE, T_PPO),
    # REINFORCE.
    Mutant(REINFORCE, "ended = jnp.logical_or(*ends)[::-1]", "ended = jnp.asarray(ends[0])[::-1]", T_REINFORCE),
    Mutant(REINFORCE, "ended = jnp.logical_or(*ends)[", "ended = (jnp.zeros_like(ends[0]) | jnp.logical_or(*ends).any(axis=1, keepdims=True))[", T_REINFORCE),
    # Each action dimension has noise of its own.
    Mutant(DDPG, "jax.random.normal(key, pi.shape, jnp.float32)", ONE_NOISE, EXPLORES),
    Mutant("purerl/algos/td3.py", "jax.random.normal(key, pi.shape, jnp.float32)", ONE_NOISE, EXPLORES),
    Mutant(SAC, "jax.random.normal(key, dist[0].shape, jnp.float32)", "jax.random.normal(key, (*dist[0].shape[:-1], 1), jnp.float32)", EXPLORES),
    Mutant(GAUSSIAN, "jax.random.normal(key, mean.shape, jnp.float32)", "jax.random.normal(key, (*mean.shape[:-1], 1), jnp.float32)", EXPLORES),
    # Entropies of rows.
    Mutant(CATEGORICAL, "_finite(logp, logp)).sum(axis=-1)", "_finite(logp, logp)).sum(axis=-1).mean()", T_DISTRIBUTIONS),
    Mutant(GAUSSIAN, "math.log(2.0 * math.pi * math.e)).sum(axis=-1)", "math.log(2.0 * math.pi * math.e)).sum(axis=-1).mean()", T_DISTRIBUTIONS),
    Mutant(GAUSSIAN, "return (dist[1] + 0.5", "return jnp.zeros(dist[1].shape[:-1]) + (dist[1].mean(axis=0) + 0.5", T_DISTRIBUTIONS),
    # Samples of the replay buffer, and running moments.
    Mutant(REPLAY, "(batch_size,), 0, buffer.stored)", "(batch_size,), 0, buffer.stored)\n    index = index.at[-1].set(index[0])", T_REPLAY),
    Mutant(REPLAY, "index = jax.random.randint(key_index, (batch_size,), 0, buffer.stored)", "index = (jax.random.randint(key_index, (), 0, buffer.stored) + jnp.arange(batch_size)) % buffer.stored", T_REPLAY),
    Mutant(MOMENTS, "total = moments.rows + new", "total = jnp.minimum(moments.rows + new, jnp.maximum(new, 10_000.0))", T_MOMENTS),
    Mutant(MOMENTS, "total = moments.rows + new", "total = jnp.minimum(moments.rows + new, jnp.maximum(new, 100_000.0))", T_MOMENTS),
    # Streams differ between ranks.
    Mutant(ACTING, "_act_keys(carry.seed, carry.rank,", "_act_keys(carry.seed, 0,", T_ACTING),
    Mutant(ACTING, "np.array([seed, rank, *rng", "np.array([seed, 0, *rng", T_ACTING),
    Mutant("purerl/loops/hindsight/relabel.py", 'rng.stream(words[0], words[1], "sample"', 'rng.stream(words[0], 0, "sample"', T_OFF),
    Mutant(ACTING, 'rng.stream(words[0], words[1], "start"', 'rng.stream(words[0], 0, "start"', T_OFF),
    Mutant(ON, 'rng.stream(words[0], words[1], "update"', 'rng.stream(words[0], 0, "update"', T_ON),
    Mutant(GYM, 'rng.host_seed(seed, rank, "eval"', 'rng.host_seed(seed, 0, "eval"', T_GYM),
    # The line search of all ranks together.
    Mutant(TRPO, "old_loss = mpi.pmean(actor_loss(params, batch)[0])", "old_loss = actor_loss(params, batch)[0]", T_RANKS),
    Mutant(TRPO, SEARCHED, "loss, kl = actor_loss(new, batch)[0], mpi.pmean(divergence(new, params, batch))", T_RANKS),
    Mutant(TRPO, SEARCHED, "loss, kl = mpi.pmean(actor_loss(new, batch)[0]), divergence(new, params, batch)", T_RANKS),
    # Evaluation.
    Mutant(GYM, '"eval", epoch, i, n', '"eval", 0, i, n', T_GYM),
    Mutant("purerl/loops/records.py", "args = (carry.seed, carry.epoch, episodes,", "args = (carry.seed, 0, episodes,", T_GYM),
    Mutant(GYM, "        max_ep_len,\n", "        None,\n", T_GYM),
    Mutant("purerl/loops/records.py", "episodes, schedule.max_ep_len, True)", "episodes, None, True)", T_GYM),
    Mutant(ACTING, "*rng.words(epoch)", "*rng.words(0)", T_ACTING),
    # Collecting rows.
    Mutant(ACTING, "env.from_unit(jax.random.uniform(key, shape, jnp.float32, -1.0, 1.0))", "env.from_unit(jnp.broadcast_to(jax.random.uniform(key, shape[1:], jnp.float32, -1.0, 1.0), shape))", T_OFF),
    Mutant(ON, ', kind="stable")', ")", T_ON),
    Mutant(VECTOR, "return np.array(obs, self.spec.obs_dtype), *rest", "return np.asarray(obs, self.spec.obs_dtype), *rest", T_VECTOR),
    Mutant(SNAPSHOT, '    fields["surplus"] = ', "    _ = ", T_SNAPSHOT),
    Mutant(SNAPSHOT, "np.array(v) for k, v in list_arrays(carry.surplus)", "np.array(v)[:0] for k, v in list_arrays(carry.surplus)", T_SNAPSHOT),
    # The order of writes that survives a crash.
    Mutant(FILES, "                file.flush()\n                os.fsync(file.fileno())\n", "                os.fsync(file.fileno())\n                file.flush()\n", T_FILES),
    Mutant(FILES, "        raise\n    sync_folder(path.parent)\n", "        raise\n", T_FILES),
    Mutant(FILES, "            os.fsync(descriptor)\n", "            pass\n", T_FILES),
    Mutant(CHECKPOINT, "    files.sync_folder(made)\n", "", T_CHECKPOINT),
    Mutant(FOLDERS, '        storage.sync_folder(run / "checkpoints")\n', "", T_FOLDERS),
    # Errors name the right environment and step.
    Mutant(ON, "np.tile(np.arange(number), length)", "np.repeat(np.arange(number), length)", T_ON),
    Mutant(OFF, "who[kept:filled]", "who[: filled - kept]", "tests/loops/test_faults.py"),
    Mutant(OFF, "who[kept:filled], carry.steps + kept * carry.ranks, carry", "who[kept:filled], carry.steps, carry", "tests/loops/test_faults.py"),
    # Episodes of vector environments, and episodes in progress.
    Mutant("purerl/loops/records.py", "step.rows.rew * step.valid", "step.rows.rew", "tests/loops/test_records.py"),
    Mutant(VECTOR, "        self._fresh[:] = False\n", "", T_VECTOR),
    Mutant("purerl/loops/adapters/single.py", "self.episode[i], self.actions[i], self.digest[i] = number, taken, digest", "self.actions[i], self.digest[i] = taken, digest", T_VECTOR),
    # The machine, and what is told about a run.
    Mutant(REPLAY, ' - int(stat["inactive_file"])', "", T_REPLAY),
    Mutant("purerl/runs/training/dry_run.py", "schedule.steps / ranks / rate", "schedule.steps / rate", "tests/runs/training/test_dry_run.py"),
    Mutant("purerl/runs/training/diagnosis.py", 'carry.rank, "update", carry.updates)', 'carry.rank, "update", 0)', "tests/runs/training/test_diagnosis.py"),
    Mutant("purerl/runs/record/progress.py", 'time.monotonic() - notes.get("seconds", 0.0)', "time.monotonic()", "tests/runs/record/test_progress.py"),
    Mutant("purerl/runs/record/status.py", "fcntl.LOCK_SH | fcntl.LOCK_NB", "fcntl.LOCK_EX | fcntl.LOCK_NB", "tests/runs/record/test_status.py"),
]  # fmt: skip
