"""Errors for REDQ."""

from purerl_school.labs.planted import PlantedError

LABS = (
    PlantedError(
        name="minimum over critics and rows",
        level=1,
        old="next_q = jnp.take_along_axis(next_q, chosen.T, axis=0).min(axis=0)  # [B]",
        new="next_q = jnp.take_along_axis(next_q, chosen.T, axis=0).min()",
        clue="q never stops falling. What shape does each array of the target have?",
        probe=(
            "Take a batch of two rows, and change the next observation of one of them, then of the "
            "other. The target of the other row must never change."
        ),
        equation="y = r + gamma (1 - d) (min_{i in M} Q'_i(s', a') - alpha log pi(a'|s'))",
        effect=(
            "The return does not rise. q falls steadily below -1,000, and the right one never "
            "falls below -200. q_spread is as it should be."
        ),
        why=(
            "Without an axis, the minimum is one number for the whole batch. Broadcasting hides "
            "that. All rows bootstrap from the worst next state. So values differ only by one "
            "reward and one entropy bonus, and do not depend on where an action leads."
        ),
    ),
    PlantedError(
        name="error of the mean critic",
        level=1,
        old="loss_q = jnp.square(q - y[None]).mean(axis=1).sum()",
        new="loss_q = jnp.square(q.mean(axis=0) - y).mean()",
        clue="q_spread grows without a limit, too. What keeps the critics close to each other?",
        probe=(
            "Add 10 to the last bias of one online critic of a new learner, and -10 to that of "
            "another. loss_q must rise by about 200."
        ),
        equation="L = sum_i E[(Q_i(s, a) - y)^2]",
        effect=(
            "The return stays near -1,600. q falls without a limit, below -100,000. q_spread ends "
            "above 17,000, where the right one is near 1."
        ),
        why=(
            "Only the mean of the critics is fitted. Single critics may be wrong by any amount if "
            "their errors cancel. The minimum of two of them is then far below the mean, and each "
            "target carries that gap into the next one."
        ),
    ),
    PlantedError(
        name="all critics start alike",
        level=2,
        old=(
            'q = nets.init_stack("critic", critic, key_critic, (obs, row.act), (), '
            "spec.ensemble)\n"
            "    copy, log_alpha = jax.tree.map(jnp.copy, q), "
            "jnp.log(jnp.float32(spec.alpha_init))\n"
            "    params = Params(pi, q, copy, log_alpha, spec, stats)"
        ),
        new=(
            'make = lambda _: nets.init_params("critic", critic, key_critic, (obs, row.act), '
            "())\n"
            "    q, log_alpha = jax.vmap(make)(jnp.arange(spec.ensemble)), "
            "jnp.log(jnp.float32(spec.alpha_init))\n"
            "    params = Params(pi, q, jax.tree.map(jnp.copy, q), log_alpha, spec, stats)"
        ),
        clue="What do five critics show that one cannot? One metric measures it.",
        probe="Call q_value on a new learner. The values of any two critics must differ.",
        equation="phi_1, ..., phi_N are drawn independently",
        effect=(
            "q_spread is about 1e-6 from the first update to the last, and the right one is near "
            "1. The return is as good as the right one."
        ),
        why=(
            "All critics get the same key, and later the same target and the same batches. So "
            "they stay equal, and the ensemble is one critic. Pendulum can be learned with one."
        ),
    ),
    PlantedError(
        name="polyak spread over a burst",
        level=2,
        old=(
            "critic, fraction = optax.apply_updates(params.critic, step), "
            "1.0 - params.spec.polyak\n"
            "    targets = optax.incremental_update(critic, params.target_critic, fraction)"
        ),
        new=(
            "critic, part = optax.apply_updates(params.critic, step), "
            "1.0 / params.spec.policy_delay\n"
            "    targets = optax.incremental_update(critic, params.target_critic, "
            "1.0 - params.spec.polyak**part)"
        ),
        clue="Learning is slow, though the critics fit their targets very well. Why so well?",
        probe=(
            "Set target_critic to other numbers than critic, and call update with polyak=0.5. "
            "Each target must lie halfway between its old value and the new critic."
        ),
        equation="phi' <- polyak phi' + (1 - polyak) phi, at each update",
        effect=(
            "The return rises more than 1,000 steps later. loss_q falls below 1 and stays there, "
            "and the right one rises above 35. q_spread stays below 0.22, and the right one rises "
            "above 0.9."
        ),
        why=(
            "The targets move by 0.5 % in a burst, not in an update. That looks careful "
            "with many updates per step. But then the effect of a reward reaches earlier states as "
            "slowly as with one update per step. The updates of a burst fit targets that stand "
            "still."
        ),
    ),
    PlantedError(
        name="seeds rounded to integers",
        level=3,
        old="seeds = jax.lax.bitcast_convert_type(noise.astype(jnp.float32), jnp.uint32)",
        new="seeds = noise.astype(jnp.uint32)",
        clue="The curves look right. Test each random choice: does it take all values?",
        probe=(
            "Call choose on a batch of 1,000 rows. Each pair of critics must be chosen about "
            "equally often."
        ),
        equation="M is uniform among all subsets of M critics, and drawn for each row",
        effect="The curves hardly differ.",
        why=(
            "The conversion to integers rounds normal numbers towards 0, so most rows have the "
            "seed 0 and the same subset. Two of the critics make most of the targets, and the "
            "others only learn from them. That is nearly SAC, and on this task it is enough. "
            "With dropout, these rows also drop the same units at each update."
        ),
    ),
    PlantedError(
        name="policy moves at the start of a burst",
        level=3,
        old="due = updates % params.spec.policy_delay == 0",
        new="due = state.step % params.spec.policy_delay == 0",
        clue="The losses are right. After how many updates does the policy move?",
        probe=(
            "Call update policy_delay times on a new learner. The policy must move at the last "
            "call only."
        ),
        equation="update policy and alpha if k mod policy_delay = 0, k = 1, 2, ...",
        effect="The curves hardly differ.",
        why=(
            "The count starts at 0, so the policy moves at the first update of a burst and not at "
            "the last. The first time it follows critics after a single update. "
            "Later it follows critics that are nine updates older, and nearly as good."
        ),
    ),
    PlantedError(
        name="policy follows the minimum",
        level=3,
        old='q = _evaluate(batch, "policy", params, frozen, batch.obs, pi).mean(axis=0)  # [B]',
        new='q = _evaluate(batch, "policy", params, frozen, batch.obs, pi).min(axis=0)  # [B]',
        clue="Targets and policy combine the critics in two ways. Are both those of the paper?",
        probe=(
            "Add 10 to the last bias of one of five online critics. The actor's loss must fall "
            "by 2."
        ),
        equation="L = E[alpha log pi(a|s) - (1/N) sum_i Q_i(s, a)]",
        effect="The curves hardly differ.",
        why=(
            "SAC takes the minimum of its two critics in both places. In REDQ the minimum is for "
            "targets only, and the mean of all critics makes the policy's gradient less noisy. On "
            "Pendulum the critics nearly agree, so both have nearly the same gradient."
        ),
    ),
    PlantedError(
        name="targets without dropout",
        level=3,
        old="if spec.dropout:",
        new='if spec.dropout and use != "next":',
        clue="The curves are those of REDQ. This file also contains DroQ.",
        probe=(
            "Set dropout=0.5 and subset=ensemble, and change noise draw 2 only. The target must "
            "change."
        ),
        equation="Q_i and Q'_i both drop units, also in the target and in the policy's loss",
        effect="All numbers are equal to the right ones.",
        why=(
            "The runs have dropout=0, so they never reach the error. DroQ has two critics only. "
            "Dropout draws other networks for each target, as a random subset of a large ensemble "
            "does. Without it, all targets are from the same two networks."
        ),
    ),
)
