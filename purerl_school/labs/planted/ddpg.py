"""Errors for DDPG."""

from purerl_school.labs.planted import PlantedError

LABS = (
    PlantedError(
        name="wrong sign of the actor loss",
        level=1,
        old="loss_pi = -nets.apply(critic, frozen, obs, pi).mean()",
        new="loss_pi = nets.apply(critic, frozen, obs, pi).mean()",
        clue="Does the policy get better or worse than its first version?",
        probe=(
            "Take one small gradient step of the actor's loss. The value of the policy's actions "
            "must rise."
        ),
        equation="L = -E[Q(s, mu(s))]",
        effect="The return gets worse and stays at the worst. loss_pi and q have the same sign.",
        why=(
            "The policy searches for the actions with the lowest value. The critic learns the "
            "value of this policy correctly, so its metrics look healthy."
        ),
    ),
    PlantedError(
        name="actor loss of the target policy",
        level=1,
        old="pi = nets.apply(actor, params.actor, obs)",
        new="pi = nets.apply(actor, params.target_actor, obs)",
        clue="Does the policy move at all?",
        probe=(
            "Take the gradient of the actor's loss with respect to params.actor. It must not be 0."
        ),
        equation="L(theta) = -E[Q(s, mu_theta(s))]",
        effect="The return stays that of the first policy.",
        why=(
            "The loss depends on the target policy, but the update uses the gradient with respect "
            "to the online one, which is 0. The target follows the online policy, so it never "
            "moves."
        ),
    ),
    PlantedError(
        name="no discount in the target",
        level=2,
        old="target = batch.rew + spec.gamma * (1.0 - batch.terminated) * next_q",
        new="target = batch.rew + (1.0 - batch.terminated) * next_q",
        clue="What range can q have, with rewards between -16.3 and 0?",
        probe="Call critic_loss with gamma=0. The mean target must be the mean reward.",
        equation="y = r + gamma (1 - d) Q'(s', mu'(s'))",
        effect=(
            "q and target are lower with every seed, and loss_q is larger. The return hardly "
            "differs."
        ),
        why=(
            "Without a discount, the sum of rewards has no limit in a task that never terminates. "
            "Each pass through the target adds another reward to the value."
        ),
    ),
    PlantedError(
        name="target critic never moves",
        level=2,
        old=(
            "target_critic=optax.incremental_update(params.critic, params.target_critic, fraction),"
        ),
        new="target_critic=params.target_critic,",
        clue="How many rewards does q contain? Compare its size with that of one reward.",
        probe="Call update with polyak=0. Both targets must equal the online networks.",
        equation="phi' <- polyak phi' + (1 - polyak) phi",
        effect="q and target stay near the mean of a single reward, and loss_q is small.",
        why=(
            "The target is the reward plus a value of the initial network, which is about 0. So "
            "the critic knows only the next reward, and the policy is greedy for it."
        ),
    ),
    PlantedError(
        name="mask of the wrong flag",
        level=3,
        old="target = batch.rew + spec.gamma * (1.0 - batch.terminated) * next_q",
        new="target = batch.rew + spec.gamma * (1.0 - batch.truncated) * next_q",
        clue="Pendulum never terminates. Which rows does this task not contain?",
        probe=(
            "Call critic_loss twice, with all rows terminated and with all rows truncated. Only "
            "the first may remove the next value."
        ),
        equation="y = r + gamma (1 - d) Q'(s', mu'(s')), d = terminated",
        effect="loss_q is many times as large as the right one. The return may still rise.",
        why=(
            "On Pendulum one row of 200 is truncated and none is terminated, so few targets are "
            "wrong. In a task with falls, every fall would count as if life went on."
        ),
    ),
    PlantedError(
        name="next action from the online policy",
        level=3,
        old="next_act = nets.apply(actor, params.target_actor, next_obs)",
        new="next_act = nets.apply(actor, params.actor, next_obs)",
        clue="Which of the four networks has no effect on any loss?",
        probe="Change the parameters of the target policy. The target must change.",
        equation="y = r + gamma (1 - d) Q'(s', mu'(s'))",
        effect="The curves hardly differ.",
        why=(
            "The online policy is a little ahead of the target policy, so the target moves "
            "faster. It is a form of DDPG that often works, but not the one of the paper."
        ),
    ),
)
