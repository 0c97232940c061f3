"""Errors for PQN."""

from purerl_school.labs.planted import PlantedError

LABS = (
    PlantedError(
        name="exploration swapped",
        level=1,
        old="(1.0 - epsilon) * greedy + epsilon / number",
        new="epsilon * greedy + (1.0 - epsilon) / number",
        clue="When does the return fall? Compare it with epsilon at that time.",
        probe="Set params.epsilon to 0 and call act many times. All actions must equal policy's.",
        equation="pi(a|s) = (1 - epsilon) [a = argmax_b Q(s, b)] + epsilon / n",
        effect=(
            "The return rises above 100 while epsilon is near a half, and falls to 28 while "
            "epsilon falls. The right one rises then. q ends near 2."
        ),
        why=(
            "The module acts by its values at the start, and at random at the end. The metric "
            "epsilon is right, because the error is in its use. q is right, too: it is the value "
            "of nearly random actions, 28 rewards of 0.1 with a discount."
        ),
    ),
    PlantedError(
        name="steps uphill",
        level=1,
        old='rate = rate if nets.find_custom(spec, "critic", spec.lr) else -spec.lr * rate',
        new='rate = rate if nets.find_custom(spec, "critic", spec.lr) else spec.lr * rate',
        clue="Does an update make the loss smaller?",
        probe="Call update once. delta_loss_q must be negative.",
        equation="phi <- phi - lr RAdam(grad L(phi))",
        effect=(
            "The return stays near 11, below that of random actions. delta_loss_q is positive in "
            "every update, loss_q grows into the thousands, and q falls below -100."
        ),
        why=(
            "scale_by_radam returns the direction of the gradient. The update must multiply it by "
            "the rate and by -1. Each step of RAdam is about as long as the rate, so the values "
            "leave their targets steadily, and no number becomes infinite."
        ),
    ),
    PlantedError(
        name="gamma and lambda swapped",
        level=2,
        old="*ends, spec.gamma, spec.lam)",
        new="*ends, spec.lam, spec.gamma)",
        clue="How much is a pole worth that never falls? Compare it with the limit of q.",
        probe=(
            "Call prepare with lam=0 on one step. Its return must contain the value of the next "
            "state."
        ),
        equation="G_t = r + gamma (1 - d) [(1 - lambda) max_a Q(s', a) + lambda G_{t+1}]",
        effect=(
            "q and target rise to 2, and the right ones to 10. The return rises as it should at "
            "first, but does not stay at 500."
        ),
        why=(
            "The discount is 0.95 in place of 0.99, so a pole that never falls is worth "
            "0.1 / (1 - 0.95) = 2. A fall that is more than 20 steps away hardly counts."
        ),
    ),
    PlantedError(
        name="time limits count as falls",
        level=2,
        old="ends = (rollout.terminated, rollout.truncated)",
        new="ends = (rollout.terminated | rollout.truncated, rollout.truncated)",
        clue="The curves are equal at first. How long are episodes when they begin to differ?",
        probe=(
            "Call prepare on one step that is truncated. Its return must contain the value of the "
            "next state."
        ),
        equation="G_t = r + gamma (1 - d) [...], d = terminated",
        effect=(
            "The curves are exactly the right ones until episodes reach the limit of 500 steps. "
            "From then on loss_q is large, and q stays below 10."
        ),
        why=(
            "The last step before the limit gets the target 0.1, and the same state a step "
            "earlier nearly 10. The observation does not contain the time, so the network cannot "
            "fit both. Each success lowers the values of good states. The authors' code has this "
            "error, too."
        ),
    ),
    PlantedError(
        name="next values shifted by one row",
        level=3,
        old="q, next_q = q_value(params, jnp.stack([rollout.obs, rollout.next_obs]))  # [T, N, n]",
        new=(
            "q, next_q = q_value(params, jnp.stack([rollout.obs, jnp.roll(rollout.next_obs, -1, "
            "axis=0)]))"
        ),
        clue="The curves do not show which function is wrong. Compute some targets by hand.",
        probe=(
            "Call prepare with lam=0 on one environment and three steps. Each return must contain "
            "the value of the step's own next state."
        ),
        equation="G_t = r + gamma (1 - d) [(1 - lambda) max_a Q(s_{t+1}, a) + lambda G_{t+1}]",
        effect=(
            "The return falls back with two of three seeds, and loss_q stays large. At the start "
            "the curves hardly differ."
        ),
        why=(
            "Each target takes the value of the state after the next one. Neighbouring states have "
            "similar values, so most targets are nearly right. The step before a fall takes the "
            "value of the fallen pole, which nothing has trained. The last row takes a value from "
            "the start of the rollout, and a time limit one from the next episode. A public "
            "library has this error."
        ),
    ),
    PlantedError(
        name="next states from the next rows",
        level=3,
        old="q, next_q = q_value(params, jnp.stack([rollout.obs, rollout.next_obs]))  # [T, N, n]",
        new=(
            "q, next_q = q_value(params, jnp.stack([rollout.obs, jnp.roll(rollout.obs, -1, "
            "axis=0)]))"
        ),
        clue="Most targets are right. In which rows is the next row not the next step?",
        probe=(
            "Call prepare on a single step, with a next state that differs from the state. Its "
            "return must contain the value of the next state."
        ),
        equation="G_t = r + gamma (1 - d) V(s_{t+1}) where the rollout or a time limit cuts",
        effect=(
            "After 40,000 steps the return falls back with all seeds, and loss_q stays large. "
            "Before, the curves hardly differ."
        ),
        why=(
            "The row after a time limit is the first of the next episode, and the row after the "
            "last one is the first of the rollout. Exactly these rows have no later reward and "
            "depend on the value alone. A rollout has only 64 rows of each environment, so the "
            "wrong value reaches a third of them."
        ),
    ),
    PlantedError(
        name="the same order in every pass",
        level=3,
        old="spec.minibatch_size, batch.key, number)",
        new="spec.minibatch_size, batch.key)",
        clue="The losses and the targets are right. What must differ between two passes?",
        probe=(
            "Do two passes by hand with minibatches.scan, with the numbers 0 and 1. update with "
            "train_q_iters=2 must end with the same parameters."
        ),
        equation="pass k takes the rows in the order permutation(fold_in(key, k))",
        effect="The curves look healthy. One seed learns more slowly.",
        why=(
            "Every pass has the same minibatches, so their particular errors add up. Most of the "
            "benefit of a shuffle comes from the first one, so nothing looks wrong."
        ),
    ),
    PlantedError(
        name="layer normalisation never reaches the network",
        level=3,
        old="style = (spec.hidden, spec.activation, spec.initializer, spec.torso, spec.layer_norm)",
        new="style = (spec.hidden, spec.activation, spec.initializer, spec.torso)",
        clue="Check whether each setting does what its help says.",
        probe=(
            "Call init with layer_norm=True and with False. The parameters must have different "
            "names."
        ),
        equation="h = relu(LayerNorm(W x + b))",
        effect="q rises more slowly, and the return reaches 500 about 30,000 steps later.",
        why=(
            "The network has no normalisation, whatever the setting says. Learning is slower and "
            "less stable, but the loss, the targets and the metrics are those of a valid method. "
            "Only a comparison with the right module shows it."
        ),
    ),
    PlantedError(
        name="values compared with all targets",
        level=3,
        old=(
            "q = categorical.chosen(q_value(params, batch.obs), _count_from_zero(spec, "
            "batch.act))  # [B]"
        ),
        new=(
            "q = categorical.chosen(q_value(params, batch.obs), _count_from_zero(spec, "
            "batch.act))[:, None]"
        ),
        clue="The loss hardly falls in an update. Which values would make it 0?",
        probe=(
            "Call critic_loss on two rows with different returns that equal their values. The "
            "loss must be 0."
        ),
        equation="L = 1/2 E[w (G - Q(s, a))^2], one target for each row",
        effect="The return stays low, and loss_q stays large. delta_loss_q is often near 0.",
        why=(
            "ret has the shape [B] and q has [B, 1], so their difference has the shape [B, B]. "
            "Each value is compared with the targets of all rows. Their mean fits best, so the "
            "network learns nearly the same value for all states and actions."
        ),
    ),
)
