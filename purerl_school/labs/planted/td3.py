"""Errors for TD3."""

from purerl_school.labs.planted import PlantedError

LABS = (
    PlantedError(
        name="next value subtracted",
        level=1,
        old="target = batch.rew + spec.gamma * (1.0 - batch.terminated) * next_q.min(axis=0)",
        new="target = batch.rew - spec.gamma * (1.0 - batch.terminated) * next_q.min(axis=0)",
        clue="Does the policy prefer good next states, or bad ones?",
        probe=(
            "Call critic_loss on rows without rewards. The mean target must have the sign of the "
            "critics' values."
        ),
        equation="y = r + gamma (1 - d) min_i Q'_i(s', a')",
        effect="The return does not rise. q1 and q2 stay near half of a single reward.",
        why=(
            "A high value of the next state now lowers the value of this one. The policy takes "
            "one good reward and then seeks a bad state."
        ),
    ),
    PlantedError(
        name="policy step never due",
        level=1,
        old="due = state.step % spec.policy_delay == 0",
        new="due = state.step % spec.policy_delay == spec.policy_delay",
        clue="Does the policy move at all? Which metric is absent?",
        probe="Call update policy_delay times. The policy's parameters must change.",
        equation="update policy and targets if k mod policy_delay = 0",
        effect=(
            "The return stays that of the first policy, and loss_pi is never reported. q1 and q2 "
            "stay near a single reward."
        ),
        why=(
            "A remainder is always smaller than the divisor, so the condition never holds. The "
            "targets are never moved either."
        ),
    ),
    PlantedError(
        name="targets never moved",
        level=2,
        old="return _move_targets(params), opt_actor, info",
        new="return params, opt_actor, info",
        clue="How many rewards does q1 contain? Compare its size with that of one reward.",
        probe="Call update with polyak=0. All targets must equal the online networks.",
        equation="phi' <- polyak phi' + (1 - polyak) phi",
        effect="q1, q2 and target stay near the mean of a single reward, and loss_q is small.",
        why=(
            "The target is the reward plus a value of the initial networks, which is about 0. So "
            "the critics know only the next reward, and the policy is greedy for it."
        ),
    ),
    PlantedError(
        name="only one critic is trained",
        level=2,
        old="loss_q = jnp.square(q - target[None]).mean(axis=1).sum()",
        new="loss_q = jnp.square(q[0] - target).mean()",
        clue="Two of the metrics must be nearly equal.",
        probe="Take the gradient of critic_loss. It must not be 0 for either critic.",
        equation="L = sum_i E[(Q_i(s, a) - y)^2]",
        effect="q2 stays near 0 while q1 falls. loss_q is about half as large.",
        why=(
            "The second critic has no gradient and stays at its initial values. With negative "
            "rewards the minimum is the first critic's value, so the task hides the error from "
            "the return."
        ),
    ),
    PlantedError(
        name="noise clipped before it is scaled",
        level=3,
        old="noise = jnp.clip(spec.target_noise * xi, -spec.noise_clip, spec.noise_clip)",
        new="noise = spec.target_noise * jnp.clip(xi, -spec.noise_clip, spec.noise_clip)",
        clue="The error is in the smoothing. Give it noise of your own: batch.noise.",
        probe=(
            "Call target_action with batch.noise full of 1. The action must move by target_noise."
        ),
        equation="a' = clip(mu'(s') + clip(sigma xi, -c, c), -1, 1)",
        effect="The curves hardly differ.",
        why=(
            "With the defaults the noise is now at most 0.1 in place of 0.5, so targets are "
            "smoothed less. On a smooth task this hardly matters."
        ),
    ),
    PlantedError(
        name="actions in the wrong units",
        level=3,
        old="row = (obs, spec.env.obs_shape, spec.env.normalise(act))",
        new="row = (obs, spec.env.obs_shape, act)",
        clue="What are the units of an action in the batch, and what does a critic expect?",
        probe=(
            "Compare q_value for an environment with the bounds 1 and the same with the bounds 2, "
            "for the same action in [-1, 1]."
        ),
        equation="Q(s, u), with actions u in [-1, 1]",
        effect="The curves hardly differ on Pendulum, whose bounds are 2.",
        why=(
            "The critic is trained on actions in [-2, 2], and the policy's actions are in [-1, "
            "1]. The policy asks for the value of half of its torque. With bounds of 1 the error "
            "has no effect, and with bounds of 100 nothing is learned."
        ),
    ),
    PlantedError(
        name="maximum of the two critics",
        level=3,
        old="target = batch.rew + spec.gamma * (1.0 - batch.terminated) * next_q.min(axis=0)",
        new="target = batch.rew + spec.gamma * (1.0 - batch.terminated) * next_q.max(axis=0)",
        clue="The curves do not help on this task. How are the two critics combined?",
        probe=(
            "Shift the last bias of one target critic by -10, then by +10. Only the first may "
            "change the target by about that much."
        ),
        equation="y = r + gamma (1 - d) min_i Q'_i(s', a')",
        effect="The curves hardly differ on Pendulum: q1 is a little higher.",
        why=(
            "The maximum of two noisy estimates is too high on average. On Pendulum both critics "
            "agree, so little is added. In harder tasks the policy searches for such errors, and "
            "bootstrapping spreads them."
        ),
    ),
)
