"""Errors for XQC."""

from purerl_school.labs.planted import PlantedError

LABS = (
    PlantedError(
        name="gradient steps of norm 1",
        level=1,
        old="critic = nets.normalise_kernels(optax.apply_updates(params.critic, step))",
        new="critic = optax.apply_updates(params.critic, nets.normalise_kernels(step))",
        clue="How far may one update move a weight? Compare it with the learning rate.",
        probe=(
            "Call update once on a new learner. No parameter of the critics may change by much "
            "more than lr."
        ),
        equation="phi <- normalise(phi + step)",
        effect=(
            "The return hardly rises: its mean in the last third is -1,020, and that of the right "
            "one is -290. q1 ends between -2.2 and -2.9, below the right one. loss_q differs "
            "between seeds from the start, where the right ones agree."
        ),
        why=(
            "Each column of a step has the norm 1, whatever the learning rate and the gradient "
            "are. So the first updates move the weights by as much as their own size. The kernels "
            "themselves are not normalised, so they grow, and later steps are small beside them."
        ),
    ),
    PlantedError(
        name="loss of the next pairs",
        level=1,
        old="logits = jnp.stack(both)[:, :number]  # [2, B, K]",
        new="logits = jnp.stack(both)[:, number:]  # [2, B, K]",
        clue="Which pair of state and action gets the value of a target?",
        probe=(
            "Give Spec the critic nets.CategoricalQFunction(101, (16,)), which does not normalise, "
            "and set terminated everywhere. Change next_obs. The critics' loss must not change."
        ),
        equation="L = -sum_i E[m . log softmax(l_i)], l_i = Q_i([s, s'], [a, a'])_{s, a}",
        effect=(
            "The return does not rise. q1 falls steadily to -2.1 or less, and the right one turns "
            "at -1.3 to -1.5. clipped rises to 1 to 5 %, and the right one falls to 0."
        ),
        why=(
            "The joined pass has 2B rows: stored pairs first, then next pairs. The critics learn "
            "that the next action, which was never taken, earns the reward of the stored one. So "
            "values do not depend on actions as they should."
        ),
    ),
    PlantedError(
        name="mean of logits",
        level=2,
        old="q = atoms.mean(jax.nn.softmax(logits), spec.v_max).min(axis=0)  # [B]",
        new="q = atoms.mean(logits, spec.v_max).min(axis=0)  # [B]",
        clue="Values are means of returns between -v_max and v_max. Which metric is not?",
        probe=(
            "Multiply the last kernel and bias of both critics by 1,000. The actor's loss must "
            "stay between -6 and 6."
        ),
        equation="q_i = softmax(l_i) . z",
        effect=(
            "loss_pi rises above 700, though no value is beyond 5. logp rises above 5, alpha grows "
            "to 0.33 or more, and clipped ends near 0.7. The return does not rise, apart from "
            "single episodes."
        ),
        why=(
            "A cross-entropy fixes the differences of logits, which have no bounds. Their sum "
            "weighted by atoms grows with the slope of the logits, which is no return. Beside such "
            "numbers the entropy bonus is nothing, so the policy becomes narrow. alpha rises in "
            "vain, and in the target it lowers all values until they leave the atoms."
        ),
    ),
    PlantedError(
        name="minimum of each probability",
        level=2,
        old="prob = jnp.take_along_axis(prob, smaller[None, :, None], axis=0)[0]  # [B, K]",
        new="prob = prob.min(axis=0)  # [B, K]",
        clue="What is the sum of a target's probabilities?",
        probe="Set terminated and a reward of 10 everywhere. The metric target must be v_max.",
        equation="p = softmax(l'_j), j = argmin_i softmax(l'_i) . z",
        effect=(
            "loss_q starts at 7.0, rises to 8.7 and then falls. The right one falls from 9.1. "
            "target stays about 0.01 above q1. The return is as good as the right one."
        ),
        why=(
            "The smaller of two probabilities, atom by atom, is no distribution. Its sum is about "
            "two thirds for untrained critics, so the cross-entropy starts far below "
            "2 log 101 = 9.2. The missing part counts like a return of 0. The critics soon agree, "
            "and then little is missing."
        ),
    ),
    PlantedError(
        name="kernels normalised before the step",
        level=3,
        old="critic = nets.normalise_kernels(optax.apply_updates(params.critic, step))",
        new="critic = optax.apply_updates(nets.normalise_kernels(params.critic), step)",
        clue="The curves look right. Which property do the networks have after each update?",
        probe="Call update once. Each column of the critics' kernels must have the norm 1.",
        equation="phi <- normalise(phi + step)",
        effect="The curves hardly differ.",
        why=(
            "The weights still cannot grow, because the next update normalises them. Between two "
            "updates their norm is 1 up to one step. But the kernels that the policy's loss and "
            "the targets use are never normalised exactly."
        ),
    ),
    PlantedError(
        name="target critics in evaluation mode",
        level=3,
        old="passes = [nets.apply_train(critic, one, obs, act)[0] for one in targets]",
        new="passes = nets.q_values(critic, targets, obs, act)",
        clue="The target critics have slow weights. By which statistics do they normalise?",
        probe="Change the numbers in params.critic_stats. The metric target must not change.",
        equation="l'_i = Q'_i([s, s'], [a, a'])_{s', a'}, normalised by the joined batch",
        effect="The return rises several hundred steps later. No metric shows where the error is.",
        why=(
            "The running statistics are those of the online critics. Slow weights have other "
            "hidden features, so their means and variances do not fit."
        ),
    ),
    PlantedError(
        name="target without entropy",
        level=3,
        old="soft = z - temperature(params) * next_logp[:, None]  # [B, K]",
        new="soft = z  # [1, K]",
        clue="The curves look right. Which terms of the target are small here?",
        probe="Change params.log_alpha. The metric target must change.",
        equation="m = project(r + gamma (1 - d) (z - alpha log pi(a'|s')), p)",
        effect="The curves hardly differ.",
        why=(
            "The critics learn the return alone, and the policy's loss still has its entropy "
            "bonus. So the policy gets the bonus for random actions now, but not for states where "
            "it can be random later. With scaled rewards, values are near -1 and alpha is below "
            "0.01, so the bonus is far too small to show."
        ),
    ),
)
