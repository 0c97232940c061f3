"""Errors for TQC."""

from purerl_school.labs.planted import PlantedError

LABS = (
    PlantedError(
        name="quantiles of other rows pooled",
        level=1,
        old="smallest = quantiles.pool_smallest(next_z, kept)  # [B, K]",
        new="smallest = jnp.sort(next_z.reshape(len(batch.rew), -1))[:, :kept]  # [B, K]",
        clue="Does the target of a row depend on the other rows of the batch?",
        probe=(
            "Compute critic_loss of two rows together, and of each alone, all with the same noise. "
            "The loss of both must be the mean of the two."
        ),
        equation="z'_(0) <= z'_(1) <= ...: quantiles of all target critics at the row's (s', a')",
        effect=(
            "The return does not rise. q falls steadily to -179 or less, and loss_q rises above "
            "1.5, about three times the right one."
        ),
        why=(
            "The array has the shape [N, B, M]. A reshape to [B, N M] keeps the order of the "
            "numbers, so the first rows get the quantiles of pairs of neighbours under the first "
            "critic. The values of all states mix, and an action has no consequences. The "
            "axis of rows must come first before a reshape."
        ),
    ),
    PlantedError(
        name="no gradient through the policy's actions",
        level=1,
        old="q = nets.q_values(critic, frozen, obs, pi).mean(axis=(0, 2))  # [B]",
        new=(
            "q = nets.q_values(critic, frozen, obs, jax.lax.stop_gradient(pi)).mean(axis=(0, 2))  "
            "# [B]"
        ),
        clue="What can change the policy? Compare logp with that of uniform actions.",
        probe=("Take the gradient of actor_loss at a temperature near 0. It must not be near 0."),
        equation="L = E[alpha log pi(a~|s) - mean_ij z_ij(s, a~)], a~ depends on the policy",
        effect=(
            "The return does not rise. logp stays at -0.68, that of uniform actions, and alpha "
            "falls steadily. q falls to -159 or less."
        ),
        why=(
            "The critics are constants in this loss, but the actions must not be. Without their "
            "gradient only the entropy bonus moves the policy, so it becomes uniform."
        ),
    ),
    PlantedError(
        name="dropped number kept",
        level=2,
        old="kept = spec.num_critics * (spec.num_quantiles - spec.drop_quantiles)",
        new="kept = spec.num_critics * spec.drop_quantiles",
        clue="The return looks right. Compare q with the discounted returns of good episodes.",
        probe=(
            "Let the target critics return the quantiles 1, 2, 3, 4 and 5, 6, 7, 8. With "
            "drop_quantiles=1, gamma=0.99, rewards of 0 and a temperature near 0, the target must "
            "be 0.99 times 3.5."
        ),
        equation="the first K = N (M - D) of the pooled quantiles remain",
        effect=(
            "q falls to -149, -105 and -117, and the right one to -90, -70 and -84. The return is "
            "as good as the right one."
        ),
        why=(
            "Targets keep 4 of 30 quantiles in place of 26. The mean of the smallest is far below "
            "the mean of all, and each target passes the difference on. The order of the actions "
            "hardly changes on this task, so the policy still learns."
        ),
    ),
    PlantedError(
        name="sum of the quantiles in the policy's loss",
        level=2,
        old="q = nets.q_values(critic, frozen, obs, pi).mean(axis=(0, 2))  # [B]",
        new="q = nets.q_values(critic, frozen, obs, pi).sum(axis=(0, 2))  # [B]",
        clue="Two terms compete in the policy's loss. Compare loss_pi with q.",
        probe=(
            "Let both critics return 1 for all quantiles. At a temperature near 0, actor_loss must "
            "be -1."
        ),
        equation="L = E[alpha log pi(a~|s) - mean_ij z_ij(s, a~)]",
        effect=(
            "loss_pi is 30 times as large as minus q. alpha rises above 5, and the right one falls "
            "to 0.16 or less. q falls below -200, and the return is worse."
        ),
        why=(
            "There are 2 times 15 quantiles, so the value counts 30 times as much as the entropy "
            "bonus. The temperature must be 30 times as large to reach the target entropy. But the "
            "targets contain the temperature too, without the factor. At a logp of 1 it costs 5 at "
            "every step, more than the rewards of a good policy."
        ),
    ),
    PlantedError(
        name="smallest quantiles dropped",
        level=3,
        old="smallest = quantiles.pool_smallest(next_z, kept)  # [B, K]",
        new="smallest = -quantiles.pool_smallest(-next_z, kept)  # [B, K]",
        clue="The return looks right. In which direction does a setting move the target?",
        probe=(
            "Let all target critics return the quantiles 1, 2, 3, 4. The target must be smaller "
            "with drop_quantiles=1 than with 0."
        ),
        equation="z'_(0) <= z'_(1) <= ...: the smallest K remain",
        effect=(
            "q ends between -58 and -69, and the right one between -70 and -90. target and loss_pi "
            "follow it. The return, logp and alpha hardly differ."
        ),
        why=(
            "The largest quantiles stay, and with them the errors upwards that the algorithm is "
            "made to remove. Values are optimistic in place of pessimistic. On this task both "
            "work. On harder ones values may diverge."
        ),
    ),
    PlantedError(
        name="predictions and targets swapped",
        level=3,
        old="loss_q = quantiles.huber_loss(z, target[None]).mean()",
        new="loss_q = quantiles.huber_loss(target[None], z).mean()",
        clue="Compare the quantiles of one state with each other. How should they differ?",
        probe=(
            "Take terminated rows with rewards of 100. The gradients of the last bias of a critic "
            "must be proportional to the levels, 1 : 3 : 5 : 7 for four quantiles."
        ),
        equation="L = mean_ijk |tau_j - 1{y_k < z_ij}| l(y_k - z_ij)",
        effect=(
            "Between the steps 1,600 and 2,400 loss_q is about half of the right one. Later it is "
            "a little lower, and q a little higher. With two seeds the return falls back in single "
            "epochs. The right one does so with one seed."
        ),
        why=(
            "The levels now belong to the targets, so all quantiles of a critic have the same "
            "loss and the same minimum. They learn one value and no distribution. That value is "
            "near the middle of the targets, so the policy learns as with plain critics."
        ),
    ),
    PlantedError(
        name="quantiles dropped from each critic alone",
        level=3,
        old="smallest = quantiles.pool_smallest(next_z, kept)  # [B, K]",
        new="smallest = jnp.hstack(jnp.sort(next_z)[..., : kept // len(next_z)])  # [B, K]",
        clue="The curves look right. What if one critic is far higher than the other?",
        probe=(
            "Let the target critics return the quantiles 1, 2, 3, 4 and 5, 6, 7, 8. With "
            "drop_quantiles=1, gamma=0.99, rewards of 0 and a temperature near 0, the target must "
            "be 0.99 times 3.5."
        ),
        equation="the first K = N (M - D) of the quantiles of all critics remain",
        effect="The curves hardly differ.",
        why=(
            "Where one critic is too high as a whole, all its upper quantiles should go. Now it "
            "keeps as many as the others. The two critics nearly agree on this task, so both ways "
            "drop nearly the same quantiles."
        ),
    ),
    PlantedError(
        name="entropy bonus divided among the quantiles",
        level=3,
        old="soft = smallest - temperature(params) * next_logp[:, None]  # [B, K]",
        new="soft = smallest - temperature(params) * next_logp[:, None] / kept  # [B, K]",
        clue="The curves look right. How does the target depend on the temperature?",
        probe=(
            "Compute the target at a temperature near 0 and at 1, with the same noise and no "
            "terminated row. It must change by -gamma times the mean log-density of next actions."
        ),
        equation="y_k = r + gamma (1 - d) (z'_(k) - alpha log pi(a'|s'))",
        effect=(
            "At step 1,600 q is lower by 1. Later the curves hardly differ. With two seeds the "
            "return falls back in single epochs. The right one does so with one seed."
        ),
        why=(
            "Each quantile is a return, and the bonus moves all of them by the same amount. "
            "Divided by K, it nearly disappears from the values, so the policy is paid for its "
            "entropy at once but not for that of later states. alpha falls below 0.25 in the first "
            "2,000 updates, so the bonus is small here."
        ),
    ),
    PlantedError(
        name="critics with the same first parameters",
        level=3,
        old=(
            'z = nets.init_ensemble("critic", critic, key_critic, inputs, shape, spec.num_critics)'
        ),
        new=(
            'z = nets.init_ensemble("critic", critic, key_critic, inputs, shape, 1) * '
            "spec.num_critics"
        ),
        clue="The curves look right. What do the critics disagree about?",
        probe="Call init and q_value for one action. The two critics must return different values.",
        equation="phi_1, ..., phi_N start independently",
        effect=(
            "With one seed q ends at -99, and the right one at -90. The other two seeds hardly "
            "differ. With two seeds the return falls back in single epochs. The right one does so "
            "with one seed."
        ),
        why=(
            "All critics have the same targets and the same rows. Equal at the start, they stay "
            "equal for ever, so several critics are one that costs more. Independent critics "
            "disagree where values are wrong. Here they never do."
        ),
    ),
)
