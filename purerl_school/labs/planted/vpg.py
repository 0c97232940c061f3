"""Errors for VPG."""

from purerl_school.labs.planted import PlantedError

LABS = (
    PlantedError(
        name="value and next value swapped",
        level=1,
        old="val, next_val = value(params, jnp.stack([rollout.obs, rollout.next_obs]))",
        new="next_val, val = value(params, jnp.stack([rollout.obs, rollout.next_obs]))",
        clue="Learning stops as soon as the value function has learned something.",
        probe=(
            "Call prepare on one terminated step with the reward 0, and compare batch.val with "
            "value(params, obs)."
        ),
        equation="delta = r + gamma (1 - d) V(s') - V(s)",
        effect="The return stays far below that of the right module.",
        why=(
            "Each step is rewarded for the value it leaves, and pays for the value it reaches. "
            "The rewards still count, so the policy learns at first. As the values grow, they "
            "outweigh the rewards."
        ),
    ),
    PlantedError(
        name="advantages left out of the loss",
        level=1,
        old="loss_pi = -(batch.weight * logp * batch.adv).mean()",
        new="loss_pi = -(batch.weight * logp).mean()",
        clue="Does the policy's loss depend on the rewards?",
        probe=(
            "Change the sign of batch.adv. The gradient of the actor's loss must change its sign."
        ),
        equation="L = -E[w log pi(a|s) A]",
        effect=(
            "The return drifts. loss_pi equals the entropy, and delta_loss_pi is often positive."
        ),
        why=(
            "The expected gradient of log-probabilities under the policy itself is zero. What is "
            "left is noise: every action becomes more likely because it was taken. The mean of "
            "minus log pi is an estimate of the entropy."
        ),
    ),
    PlantedError(
        name="value function trained on advantages",
        level=2,
        old="loss_v = (batch.weight * jnp.square(v - batch.ret)).mean()",
        new="loss_v = (batch.weight * jnp.square(v - batch.adv)).mean()",
        clue="Compare val with the returns that the policy obtains.",
        probe=(
            "Call critic_loss on a row with ret 5 and adv 0. With a value of 5 the loss must be 0."
        ),
        equation="L = E[w (V(s) - R)^2]",
        effect=(
            "val stays near 0 while the return rises. loss_v is near 1, hundreds of times smaller "
            "than it should be."
        ),
        why=(
            "Standardised advantages have mean 0 and variance 1, so the network learns numbers "
            "near 0. A small loss against the wrong target is no success. The policy learns as "
            "without a baseline."
        ),
    ),
    PlantedError(
        name="value gradient always at the old parameters",
        level=2,
        old="grad = jax.grad(critic_loss, has_aux=True)(params, batch)[0].critic",
        new="grad = jax.grad(critic_loss, has_aux=True)(old, batch)[0].critic",
        clue="Does fitting the value function make its loss smaller?",
        probe=(
            "Call update twice, with train_v_iters of 1 and of 1000. More steps must fit the "
            "returns better."
        ),
        equation="phi <- phi - lr grad L(phi), the gradient at the current phi",
        effect=(
            "loss_v stays large after that of the right module has fallen. delta_loss_v is "
            "positive in some updates."
        ),
        why=(
            "All steps of one update follow the gradient at the first parameters. They go on in "
            "this direction after the minimum is passed, so the values overshoot."
        ),
    ),
    PlantedError(
        name="advantages centred but not scaled",
        level=3,
        old="adv = moments.standardise(adv, weight)",
        new="adv = adv - adv.mean()",
        clue="Adam hides this error. Check what prepare returns.",
        probe="Compute mean and standard deviation of batch.adv. They must be 0 and 1.",
        equation="A <- (A - mean) / std, over the rows of all ranks",
        effect="The curves hardly differ, except loss_pi and its change.",
        why=(
            "A positive factor on the loss is a factor on all gradients. Adam divides it out, so "
            "the steps stay nearly the same. With another optimizer the step size would depend on "
            "the rewards."
        ),
    ),
    PlantedError(
        name="value target without a bootstrap at cuts",
        level=3,
        old="ret = returns.reward_to_go(rollout.rew, next_val, *ends, spec.gamma)",
        new="ret = returns.reward_to_go(rollout.rew, jnp.zeros_like(val), *ends, spec.gamma)",
        clue="Only few rows of each rollout are wrong. Which of them have no next reward?",
        probe=(
            "Call prepare on one step with the reward 0 and both flags 0. Its return must be "
            "gamma V(s')."
        ),
        equation="R_t = r_t + gamma V(s_{t+1}) where the rollout or a time limit cuts the episode",
        effect="loss_v does not fall, and val stays below the right one.",
        why=(
            "Only the last rows before a cut lose the value of what follows. With long rollouts "
            "they are few. With time limits that are reached often, all values become too low."
        ),
    ),
)
