"""Errors for CrossQ."""

from purerl_school.labs.planted import PlantedError

LABS = (
    PlantedError(
        name="next actions valued in the present state",
        level=1,
        old="obs = jnp.concatenate([batch.obs, batch.next_obs])",
        new="obs = jnp.concatenate([batch.obs, batch.obs])",
        clue="Does the value of an action depend on what happens after it?",
        probe=(
            "Call update with obs of 0 and next_obs of 1 everywhere. The running means of the "
            "critics' first layer must move from 0 to 0.005 for each observation."
        ),
        equation="(q_i, q'_i) = Q_i([s, s'], [a, a'])",
        effect=(
            "The return does not rise. q1 falls to about -800 and does not recover. logp falls to "
            "-0.67, near that of uniform actions."
        ),
        why=(
            "The target contains the value of the next action in the state that the agent has "
            "left. So each state is worth as much as if it lasted for ever, and what an action "
            "leads to never counts."
        ),
    ),
    PlantedError(
        name="policy's running statistics thrown away",
        level=1,
        old="actor_stats=stats,",
        new="actor_stats=params.actor_stats,",
        clue="The policy has two modes. Which of them is trained, and which of them acts?",
        probe="Call update policy_delay times. params.actor_stats must change.",
        equation="M <- 0.99 M + 0.01 m, V <- 0.99 V + 0.01 v, when the policy moves",
        effect="The return stays below -1,000. q1 falls to about -800 and does not recover.",
        why=(
            "The loss normalises the policy by the batch, and improves it. Actions in the "
            "environment use the running statistics, which keep their first values. So the policy "
            "that learns is not the one that acts, and the critics learn the value of the latter."
        ),
    ),
    PlantedError(
        name="wrong sign of the target entropy",
        level=2,
        old="wanted = -float(spec.env.act_dim)",
        new="wanted = float(spec.env.act_dim)",
        clue="How large can the entropy of an action in (-1, 1) be?",
        probe=(
            "Take the gradient of alpha_loss for a policy with the entropy 0. The step must lower "
            "log_alpha."
        ),
        equation="L = -alpha E[log pi(a|s) + H_wanted], H_wanted = -(number of action dimensions)",
        effect=(
            "alpha grows without a limit in place of falling. logp falls below 0, and the right "
            "one stays above 0.4. The return is a little worse."
        ),
        why=(
            "Uniform actions in (-1, 1) have the largest entropy, log 2 = 0.69. A target of 1 "
            "cannot be reached, so the temperature rises for ever, and actions become random."
        ),
    ),
    PlantedError(
        name="critics in training mode in the policy's loss",
        level=2,
        old="q = nets.q_values(networks(spec).critic, frozen, batch.obs, pi).min(axis=0)  # [B]",
        new=(
            "q = jnp.minimum(*(nets.apply_train(networks(spec).critic, x, batch.obs, pi)[0] for x "
            "in frozen))"
        ),
        clue="Uniform actions in (-1, 1) have the logp -0.69. What opposes the entropy bonus?",
        probe="Change the numbers in params.critic_stats. The actor's loss must change.",
        equation="L = E[alpha log pi(a|s) - min_i Q_i(s, a)], Q_i with running statistics",
        effect=(
            "logp stays near -0.65, that of almost uniform actions, and q1 falls to about -700. "
            "The return does not rise."
        ),
        why=(
            "The first layer of the critics now subtracts the mean of the policy's actions and "
            "divides by their spread. The value no longer depends on how strong the actions are, "
            "so only the entropy bonus decides that."
        ),
    ),
    PlantedError(
        name="critics never in training mode",
        level=3,
        old="both, stats = zip(*passes, strict=True)",
        new=(
            "both, stats = nets.q_values(critic, _list_critics(params), obs, act), "
            "params.critic_stats"
        ),
        clue="What replaces the target network in this algorithm? Test whether it acts.",
        probe=(
            "Change batch.next_obs only. q1 must change, because both halves share mean and "
            "variance."
        ),
        equation="each layer of Q normalises by mean and variance of the joined batch",
        effect=(
            "q1 falls to -600 or less in the first 1,000 updates, where the right one is above "
            "-100. The return rises later, or hardly."
        ),
        why=(
            "The running statistics keep their first values, mean 0 and variance 1, so nothing "
            "normalises. The critics are plain networks that are their own targets, and each error "
            "in a value feeds the next one."
        ),
    ),
    PlantedError(
        name="policy never in training mode",
        level=3,
        old=(
            "(mean, log_std), stats = nets.apply_train(networks(params.spec).actor, variables, "
            "batch.obs)"
        ),
        new="(mean, log_std), stats = distribution(params, batch.obs), params.actor_stats",
        clue="The curves look right. Which numbers must an update change?",
        probe="Call update policy_delay times. params.actor_stats must change.",
        equation="the policy in its own loss normalises by the batch",
        effect="The curves hardly differ.",
        why=(
            "The policy keeps its first statistics, mean 0 and variance 1, in both modes. It is "
            "a plain network, as in SAC, and learns as such. The observations of this task are "
            "small, so the normalisation is not needed."
        ),
    ),
    PlantedError(
        name="next actions in training mode",
        level=3,
        old="next_act, next_logp = _sample(batch, distribution(params, batch.next_obs), draw=0)",
        new=(
            "next_act, next_logp, _ = _sample_in_training(params, "
            "batch._replace(obs=batch.next_obs))"
        ),
        clue="The curves look right. Which mode does each use of the policy have?",
        probe="Change the numbers in params.actor_stats. The target of critic_loss must change.",
        equation="a' ~ pi(.|s') with running statistics, from noise draw 0",
        effect="The curves hardly differ.",
        why=(
            "The next action is that of a policy that never acts. Both modes nearly agree when the "
            "statistics follow the batches. The function also takes the noise of draw 1, which "
            "belongs to the policy's loss."
        ),
    ),
    PlantedError(
        name="policy delay inverted",
        level=3,
        old="due = updates % params.spec.policy_delay == 0",
        new="due = updates % params.spec.policy_delay != 0",
        clue="One metric changes faster than it should. Count the steps of each optimizer.",
        probe="Call update six times. The count in the policy's optimizer state must be 2.",
        equation="update policy and alpha if k mod policy_delay = 0",
        effect="alpha falls faster, and logp is a little higher. The others hardly differ.",
        why=(
            "The policy and the temperature move at two of three updates, not at one of three. "
            "That costs more time and learns as well here, but it is not the algorithm of the "
            "paper."
        ),
    ),
    PlantedError(
        name="setting adam_b1 never reaches the critics",
        level=3,
        old='"critic": nets.make_optimizer(spec, "critic", spec.lr, spec.adam_b1),',
        new='"critic": nets.make_optimizer(spec, "critic", spec.lr),',
        clue="All losses are right. Check whether each setting does what its help says.",
        probe=(
            "Call update once on a new learner. The mean gradient in the critics' optimizer state "
            "must be half of the gradient of critic_loss."
        ),
        equation="m <- b1 m + (1 - b1) g, b1 = 0.5",
        effect="q1 falls further and recovers later. The return rises slowly.",
        why=(
            "Adam's usual b1 is 0.9, so each step follows about ten gradients. The critics are "
            "their own targets here, so the targets of older gradients are no longer valid."
        ),
    ),
)
