"""Errors for PPO."""

from purerl_school.labs.planted import PlantedError

LABS = (
    PlantedError(
        name="wrong sign of the surrogate",
        level=1,
        old="loss_pi = -surrogate - spec.ent_coef * entropy",
        new="loss_pi = surrogate - spec.ent_coef * entropy",
        clue="Does the policy get better or worse than random actions?",
        probe=(
            "Take one small gradient step on a batch whose advantages are all 1. The actions "
            "taken must become more likely."
        ),
        equation="L = -E[w min(r A, clip(r, 1 - eps, 1 + eps) A)] - c E[w H]",
        effect="The return falls to 9, below that of random actions, and the entropy falls to 0.",
        why=(
            "The optimizer minimises the loss, and the surrogate is a quantity to maximise. "
            "Without the minus, each step makes actions with positive advantages less likely."
        ),
    ),
    PlantedError(
        name="inverted KL test",
        level=1,
        old="going &= kl <= 1.5 * spec.target_kl",
        new="going &= kl >= 1.5 * spec.target_kl",
        clue="How many steps does the policy take in each update?",
        probe="Call update once and compare the policy's parameters before and after.",
        equation="continue while KL(old || new) <= 1.5 target_kl",
        effect="The return stays at that of random actions. kl and stop_iter are 0.",
        why=(
            "Before the first step the policy is the old one, so its KL is 0. The inverted test "
            "stops there, in every update. Only the value function learns."
        ),
    ),
    PlantedError(
        name="learning rate of the other network",
        level=2,
        old='moved = _apply_gradient(now, "actor", grad, spec.pi_lr)',
        new='moved = _apply_gradient(now, "actor", grad, spec.vf_lr)',
        clue="Compare the size of the steps. How many does the policy take until the KL stops it?",
        probe="Call update with pi_lr of 1e-9. The policy must hardly move.",
        equation="theta <- theta - pi_lr Adam(grad L(theta))",
        effect=(
            "In the second half kl and clip_frac are larger. stop_iter is smaller in some updates."
        ),
        why=(
            "The rate of the value function is three times as large here. Each step of the policy "
            "is that much longer, so fewer steps fit into the limit. The test of the KL keeps "
            "learning going."
        ),
    ),
    PlantedError(
        name="value function trained on its own predictions",
        level=2,
        old="error = jnp.square(v - batch.ret)",
        new="error = jnp.square(v - batch.val)",
        clue="One of the two networks learns nothing. Which metric shows it?",
        probe="Set batch.ret to other numbers. The critic's loss must change.",
        equation="L = E[w (V(s) - R)^2]",
        effect="val does not move from its first value, and loss_v is 0 before every update.",
        why=(
            "batch.val contains the predictions of the same network, so the error is 0 and has no "
            "gradient. The policy still learns, but as without a baseline."
        ),
    ),
    PlantedError(
        name="gamma and lambda swapped",
        level=3,
        old="adv = returns.gae(rew, val, next_val, *ends, spec.gamma, spec.lam)",
        new="adv = returns.gae(rew, val, next_val, *ends, spec.lam, spec.gamma)",
        clue="The curves do not help. Check what prepare returns, with numbers.",
        probe=(
            "Call prepare with gamma=0.5 and lam=0. Its advantages must be standardised one-step "
            "errors."
        ),
        equation="A_t = sum_l (gamma lambda)^l delta_{t+l}, delta = r + gamma (1 - d) V(s') - V(s)",
        effect="The curves hardly differ.",
        why=(
            "The product of gamma and lambda, the decay of the sum, stays the same. Only the "
            "discount inside delta becomes 0.97 in place of 0.99. The error grows with the "
            "distance between the two settings."
        ),
    ),
    PlantedError(
        name="clipped term without the minimum",
        level=3,
        old=(
            "surrogate = (batch.weight * jnp.minimum(ratio * batch.adv, clipped * "
            "batch.adv)).mean()"
        ),
        new="surrogate = (batch.weight * clipped * batch.adv).mean()",
        clue="The KL test stops the policy before the error matters much. Test a loss alone.",
        probe=(
            "Take a row with the advantage -1 and the ratio 2. The loss must have a gradient that "
            "makes the action less likely."
        ),
        equation="L = -E[w min(r A, clip(r, 1 - eps, 1 + eps) A)]",
        effect="kl and clip_frac stay at their first values in place of falling.",
        why=(
            "The clipped term alone is constant outside of the clip range, on both sides. A row "
            "that moved in the wrong direction then has no gradient and cannot return. The "
            "minimum keeps the gradient of such rows."
        ),
    ),
    PlantedError(
        name="terminated and truncated swapped",
        level=3,
        old="ends = (rollout.terminated, rollout.truncated)",
        new="ends = (rollout.truncated, rollout.terminated)",
        clue="The return rises. But does val depend on the policy at all?",
        probe=(
            "Call prepare on an episode of one step that terminates with the reward 1. Its return "
            "must be 1, for every value of the next state."
        ),
        equation="delta = r + gamma (1 - d) V(s') - V(s), d = terminated",
        effect=(
            "The return still rises. val follows the same smooth curve with every seed, towards 1 "
            "/ (1 - gamma), whatever the return is."
        ),
        why=(
            "A fall now bootstraps from the state after it, so the value function learns that "
            "every state is worth nearly the same. What is left of the differences still trains "
            "the policy on this task."
        ),
    ),
    PlantedError(
        name="optimizer state thrown away",
        level=3,
        old="return dataclasses.replace(now, params=params, opt_state=now.opt_state | {name: opt})",
        new="return dataclasses.replace(now, params=params, opt_state=now.opt_state)",
        clue="The curves do not help. What must an optimizer remember between two steps?",
        probe="Call update. The count in each optimizer's state must be its number of steps.",
        equation="theta, m <- Adam(theta, m, g): the moments m are part of the state",
        effect="The curves hardly differ, and stop_iter is a little larger at times.",
        why=(
            "Adam without a memory divides each gradient by its own size, so every parameter "
            "moves by the full learning rate in every step. With full batches the gradient "
            "changes little between steps, so the moments change little, too."
        ),
    ),
)
