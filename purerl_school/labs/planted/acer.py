"""Errors for ACER."""

from purerl_school.labs.planted import PlantedError

LABS = (
    PlantedError(
        name="wrong sign of the actor loss",
        level=1,
        old="loss_pi = -masked.sum(axis=-1).mean()",
        new="loss_pi = masked.sum(axis=-1).mean()",
        clue="Does the policy get better or worse than random actions?",
        probe=(
            "Take a terminated step with the reward 100. One small gradient step of the actor's "
            "loss must make its action more likely."
        ),
        equation="L = -E[z . logits(s)]",
        effect="The return falls below that of random actions and stays there.",
        why=(
            "z is the direction in which the logits should move. The optimizer minimises the "
            "loss, so without the minus it moves them the other way."
        ),
    ),
    PlantedError(
        name="policy starts each step from the average policy",
        level=1,
        old="actor = optax.apply_updates(params.actor, step_pi)",
        new="actor = optax.apply_updates(params.average, step_pi)",
        clue="Learning is many times too slow. How far is the policy from its average?",
        probe="Call update twice. The policy must have moved by the sum of both steps.",
        equation="theta <- theta + step",
        effect="The return rises late or not at all, and kl stays near 0.",
        why=(
            "Each update forgets all earlier steps but the percent that the average policy has "
            "taken over. The policy learns about 100 times too slowly."
        ),
    ),
    PlantedError(
        name="critic left out of the loss",
        level=2,
        old="return loss_pi + loss_q, info_pi | info_q",
        new="return loss_pi, info_pi | info_q",
        clue="One of the two networks learns nothing. Which metric shows it?",
        probe="Take the gradient of loss with respect to params.critic. It must not be 0.",
        equation="L = L_actor + L_critic",
        effect="q does not move from its first value, while loss_q grows.",
        why=(
            "The metrics of the critic are still computed, so everything looks present. But its "
            "parameters have no gradient. The targets contain rewards, so the policy may still "
            "learn."
        ),
    ),
    PlantedError(
        name="terminated and truncated swapped",
        level=2,
        old="ret = returns.retrace(rew, q, next_val, terminated, truncated, rho, spec.gamma)",
        new="ret = returns.retrace(rew, q, next_val, truncated, terminated, rho, spec.gamma)",
        clue="Compare q with the returns. What is the value of a state before the pole falls?",
        probe="Call targets on a sequence of one terminated step with the reward 1. It must be 1.",
        equation="Qret = r + gamma (1 - d) [V(s') + min(1, rho') (Qret' - Q')], d = terminated",
        effect="q grows towards 1 / (1 - gamma) although the return stays low.",
        why=(
            "A fall now bootstraps from the state after it, so it costs nothing. All states get "
            "the same value, and no action is better than another."
        ),
    ),
    PlantedError(
        name="importance weight without its limit",
        level=3,
        old="taken = jnp.minimum(c, rho) * (ret - v) * logp",
        new="taken = rho * (ret - v) * logp",
        clue="Which setting of the policy's gain is never used in half of the formula?",
        probe=(
            "Call policy_gain with c=1 for an action that is ten times as likely as before. Its "
            "gradient must be limited."
        ),
        equation="min(c, rho) log pi(a) (Qret - V)",
        effect="The curves hardly differ.",
        why=(
            "Weights above 10 are rare while the replay buffer is young. Without the limit, the "
            "first term is too large by what the second term corrects, so large ratios count "
            "twice."
        ),
    ),
    PlantedError(
        name="trust region with the wrong direction",
        level=3,
        old="k = jax.nn.softmax(logits) - jax.nn.softmax(average)",
        new="k = jax.nn.softmax(average) - jax.nn.softmax(logits)",
        clue="The trust region must act on steps that leave the average policy. Does it?",
        probe=(
            "Compare k with the gradient that jax.grad computes of categorical.kl(average, logits)."
        ),
        equation="k = grad KL(average || pi) = pi - average",
        effect="kl grows to many times its right value, and the return falls again.",
        why=(
            "The limit now acts on gradients that return to the average policy, and lets those "
            "pass that leave it. So the policy leaves its average, and nothing brings it back."
        ),
    ),
)
