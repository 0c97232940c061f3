"""Errors for DQN."""

from purerl_school.labs.planted import PlantedError

LABS = (
    PlantedError(
        name="greedy action is the worst",
        level=1,
        old="return q_value(params, obs).argmax(axis=-1).astype(jnp.int32)",
        new="return q_value(params, obs).argmin(axis=-1).astype(jnp.int32)",
        clue="Exploration falls. Is the greedy policy better than random actions?",
        probe="Compare policy(params, obs) with the values of q_value(params, obs).",
        equation="a = argmax_a Q(s, a)",
        effect=(
            "The return falls while epsilon does, to less than that of random actions. q rises "
            "above 100, the largest possible value."
        ),
        why=(
            "The values may be right, but the policy takes the action with the lowest one. The "
            "data then contains only bad behaviour."
        ),
    ),
    PlantedError(
        name="exploration rate rises",
        level=1,
        old="epsilon = jnp.float32(spec.eps_start + fraction * (spec.eps_end - spec.eps_start))",
        new="epsilon = jnp.float32(spec.eps_start + fraction * (spec.eps_start - spec.eps_end))",
        clue="Which metric leaves the range that it must stay in?",
        probe="Call update with eps_decay=1. epsilon must be eps_end.",
        equation="epsilon = start + (k / decay) (end - start)",
        effect="The return stays at that of random actions. epsilon rises to almost 2.",
        why=(
            "The rate moves away from its end value. Above 1 every action is random. The greedy "
            "policy may be good, but training never shows it."
        ),
    ),
    PlantedError(
        name="terminal states bootstrap",
        level=2,
        old="target = batch.rew + spec.gamma * (1.0 - batch.terminated) * next_value",
        new="target = batch.rew + spec.gamma * next_value",
        clue="Compare q with the discounted return that the policy obtains.",
        probe="Call critic_loss on rows with terminated. Its target must be the mean reward.",
        equation="y = r + gamma (1 - d) max_a' Q'(s', a')",
        effect=(
            "q and target rise without a limit, far above 100, the largest possible value. The "
            "return falls."
        ),
        why=(
            "A fall no longer ends the sum of rewards. The critic never learns values of states "
            "after a fall, so the target takes whatever the network extrapolates there, and "
            "bootstrapping amplifies it."
        ),
    ),
    PlantedError(
        name="target network never renewed",
        level=2,
        old="params = Params(critic, target_critic, epsilon, spec, stats)",
        new="params = Params(critic, params.target_critic, epsilon, spec, stats)",
        clue="How large can q become if the target never changes?",
        probe="Call update with target_every=1. The target must equal the network.",
        equation="phi' <- phi, every target_every updates",
        effect="q and target stay near 1, and loss_q is small.",
        why=(
            "The target is the reward plus a value of the initial network, which is about 0. So "
            "the critic learns one step of reward and nothing about later ones."
        ),
    ),
    PlantedError(
        name="setting double inverted",
        level=3,
        old="chooser = q_value(params, batch.next_obs) if spec.double else next_q",
        new="chooser = next_q if spec.double else q_value(params, batch.next_obs)",
        clue="Check whether each setting does what its help says.",
        probe=(
            "With double=True, change the online critic so that it prefers another next action. "
            "The target must change."
        ),
        equation="double: y = r + gamma (1 - d) Q'(s', argmax_a' Q(s', a'))",
        effect="The curves hardly differ.",
        why=(
            "The copy runs plain DQN, a valid algorithm. Nothing in the curves can show it. "
            "Somebody who compares the two with this code reports the result of the other one."
        ),
    ),
    PlantedError(
        name="next value from the online network",
        level=3,
        old="next_value = nets.categorical.chosen(next_q, chooser.argmax(axis=1))",
        new="next_value = nets.categorical.chosen(chooser, chooser.argmax(axis=1))",
        clue="Which network must change if the target is to change?",
        probe="Multiply the parameters of the target network by 2. The target must change.",
        equation="y = r + gamma (1 - d) Q'(s', argmax_a' Q(s', a'))",
        effect="q and target grow without limit. Many errors look like this.",
        why=(
            "The target network has no effect any more. The target moves with every update, and "
            "each error in a value raises the values that follow it."
        ),
    ),
)
