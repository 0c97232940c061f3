"""Errors for discrete SAC."""

from purerl_school.labs.planted import PlantedError

LABS = (
    PlantedError(
        name="value of the best action in place of the expectation",
        level=1,
        old="return (jax.nn.softmax(logits) * q).sum(axis=-1), categorical.entropy(logits)",
        new="return q.max(axis=-1), categorical.entropy(logits)",
        clue="What can change the policy? Compare the entropy with that of uniform actions.",
        probe="Take the gradient of actor_loss with alpha=0. It must not be 0.",
        equation="V(s) = sum_a pi(a|s) Q(s, a) + alpha H(pi(s))",
        effect=(
            "The return stays near 22, that of random actions. entropy stays at 0.693, and q1 "
            "rises above 150. The largest possible discounted return is 100."
        ),
        why=(
            "The maximum does not depend on the probabilities. So the policy's loss has no "
            "gradient but that of the entropy bonus, and the policy stays uniform. The critics "
            "learn the value of a greedy policy that never acts, and the maximum favours errors "
            "upwards."
        ),
    ),
    PlantedError(
        name="logits used as log-probabilities",
        level=1,
        old="return (jax.nn.softmax(logits) * q).sum(axis=-1), categorical.entropy(logits)",
        new=(
            "return (jax.nn.softmax(logits) * q).sum(axis=-1), "
            "-(jax.nn.softmax(logits) * logits).sum(-1)"
        ),
        clue="One metric has an upper bound that it exceeds in the first updates. Which one?",
        probe="Add 3 to all logits of the policy. The entropy of actor_loss must not change.",
        equation="H(pi) = -sum_a pi(a) log pi(a), log pi(a) = l_a - log sum_b exp(l_b)",
        effect=(
            "The return falls to about 10. entropy grows into the millions, where two actions "
            "allow at most 0.69. q1 follows, and the run ends with infinite numbers near step "
            "16,000."
        ),
        why=(
            "The logits are not normalised. Subtracting a constant from all of them changes no "
            "probability, but raises this entropy by the constant. The policy's loss falls without "
            "a limit that way, and the bonus enters the targets. The temperature's loss has the "
            "right entropy, which is below its target, so alpha grows too."
        ),
    ),
    PlantedError(
        name="mean over actions in place of the sum",
        level=2,
        old="return (jax.nn.softmax(logits) * q).sum(axis=-1), categorical.entropy(logits)",
        new="return (jax.nn.softmax(logits) * q).mean(axis=-1), categorical.entropy(logits)",
        clue="How much is a pole worth that never falls? Compare it with the limit of q1.",
        probe=(
            "Let both critics and both targets return 1 for all actions. With alpha=0 and rewards "
            "of 0, the target of critic_loss must be gamma."
        ),
        equation="V(s) = sum_a pi(a|s) Q(s, a) + alpha H(pi(s))",
        effect=(
            "q1 stays near 2, and the right one is above 60. alpha falls to 0.0005. The return is "
            "below 40 until step 5,000, where the right one is above 200. It ends near 200."
        ),
        why=(
            "The probabilities already sum to 1. The mean divides the expectation by the number of "
            "actions, 2, so the discount is 0.495 and the value of a long episode is "
            "1 / (1 - 0.495) = 2. A fall that is more than a few steps away hardly counts."
        ),
    ),
    PlantedError(
        name="target entropy of continuous actions",
        level=2,
        old="wanted = spec.target_entropy_scale * math.log(spec.env.act_dim)",
        new="wanted = -float(spec.env.act_dim)",
        clue="How small can the entropy of a discrete policy be?",
        probe=(
            "Give the policy the logits 50 and 0. The gradient of alpha_loss must be negative, so "
            "that a step raises log_alpha."
        ),
        equation="L = log alpha E[H(pi(s)) - H_wanted], H_wanted = 0.3 log n",
        effect=(
            "alpha falls steadily to 1e-8, and entropy to 0.06 or less. The right entropy settles "
            "at 0.21. The return is as good as the right one."
        ),
        why=(
            "Minus the number of dimensions is SAC's target, where a density can have a negative "
            "entropy. Probabilities cannot: their entropy is at least 0, so it is always above "
            "-2, and the temperature falls for ever. Exploration ends, which this task forgives."
        ),
    ),
    PlantedError(
        name="critics fitted at the best action, not at that taken",
        level=3,
        old="q = categorical.chosen(q_value(params, batch.obs), taken)  # [2, B]",
        new="q = q_value(params, batch.obs).max(axis=-1)  # [2, B]",
        clue="q1 and target agree. Which fields of a row does the Bellman error need?",
        probe=(
            "Set terminated everywhere and all actions to 0. Raise the critics' values of action 1 "
            "by 10. The loss must not change."
        ),
        equation="L = sum_i E[(Q_i(s, a) - y)^2], a: the action taken",
        effect=(
            "The return falls to 9.7, below that of random actions. q1 stays below 9 and equals "
            "target, and loss_q is lower than the right one."
        ),
        why=(
            "Each target belongs to the action in its row, but trains the output of the action "
            "with the largest value. So the critics cannot learn which action is better. The "
            "policy takes nearly always the same one."
        ),
    ),
    PlantedError(
        name="policy samples from probabilities in place of logits",
        level=3,
        old="return policies.sample(checks.spec_of(params).env, distribution(params, obs), key)",
        new=(
            "return policies.sample(params.spec.env, jax.nn.softmax(distribution(params, obs)), "
            "key)"
        ),
        clue="entropy is at its target. Is the policy of the losses the one that acts?",
        probe=(
            "Give the policy the logits 5 and 0, and call act with 4,000 observations. A share of "
            "0.993 of the actions must be 0."
        ),
        equation="pi(a|s) = exp(l_a) / sum_b exp(l_b)",
        effect=(
            "The return stays near 100. entropy settles at its target, as it should. q1 rises "
            "above 100, and the right one stays below 85."
        ),
        why=(
            "The softmax is applied twice. Logits between 0 and 1 differ by at most 1, so no "
            "action has a probability below 0.27. The losses and policy use the right "
            "distribution, so only the actions of the training episodes are wrong. The critics "
            "learn values of a policy that never acts."
        ),
    ),
    PlantedError(
        name="entropy bonus subtracted from the targets",
        level=3,
        old="next_value = next_value + temperature(params) * entropy",
        new="next_value = next_value - temperature(params) * entropy",
        clue="The curves look right, or better. Compute a target by hand.",
        probe=(
            "Call critic_loss with alpha=0 and with alpha=1. The target must be higher with "
            "alpha=1."
        ),
        equation="y = r + gamma (1 - d) (sum_a' pi(a'|s') Q(s', a') + alpha H(pi(s')))",
        effect=(
            "The return reaches 500 between 3,000 and 8,000 steps earlier than the right one. q1 "
            "rises more slowly at first, and alpha falls faster."
        ),
        why=(
            "SAC's target has minus alpha times the log-density, and the entropy already contains "
            "this minus. So states where the policy is uncertain are worth less, not more. The "
            "bonus in the policy's loss is right, and this task needs little exploration. On a "
            "task that needs more, the policy may become certain too early."
        ),
    ),
    PlantedError(
        name="setting average_critics inverted",
        level=3,
        old="q = q.mean(axis=0) if params.spec.average_critics else q.min(axis=0)",
        new="q = q.min(axis=0) if params.spec.average_critics else q.mean(axis=0)",
        clue="The loss is a published one. Does each setting have the effect in its help text?",
        probe=(
            "Let one critic return 0 and the other one 10 for all actions. With alpha=0 and the "
            "default of average_critics, actor_loss must be 0."
        ),
        equation="V(s) = sum_a pi(a|s) min_i Q_i(s, a) + alpha H(pi(s))",
        effect=(
            "q1 rises above 100 with all seeds, to 212 with one. The right one stays below 85. "
            "The return reaches 500 with one seed only."
        ),
        why=(
            "The mean of two critics is less pessimistic than their minimum, so errors upwards "
            "stay in the targets. Both are published methods, so neither branch looks wrong. Only "
            "a call with two different critics shows which one runs."
        ),
    ),
    PlantedError(
        name="first action of the space ignored",
        level=3,
        old="taken = jnp.broadcast_to(jnp.asarray(batch.act) - first, (2, *target.shape))",
        new="taken = jnp.broadcast_to(jnp.asarray(batch.act), (2, *target.shape))",
        clue="The curves are exactly the right ones. For which environments would they not be?",
        probe=(
            "Take the action space Discrete(2, start=1) and rows with the action 2. The loss must "
            "be a number, not NaN."
        ),
        equation="Q_i(s, a) is output a - start of critic i",
        effect="The curves are exactly the right ones.",
        why=(
            "The actions of this task start at 0, so nothing is subtracted. In a space that starts "
            "at 1, each target trains the output of the next action, and the last action has no "
            "output. Tests need a space with another start."
        ),
    ),
)
