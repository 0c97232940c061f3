"""Errors for REINFORCE."""

from purerl_school.labs.planted import PlantedError

LABS = (
    PlantedError(
        name="wrong sign of the loss",
        level=1,
        old="loss_pi = -(batch.weight * logp * batch.adv).mean()",
        new="loss_pi = (batch.weight * logp * batch.adv).mean()",
        clue="Does the policy get better or worse than random actions?",
        probe=(
            "Take one small gradient step on a batch whose returns are all 1. The actions taken "
            "must become more likely."
        ),
        equation="L = -E[w log pi(a|s) R]",
        effect="The return falls below that of random actions and stays there.",
        why=(
            "The optimizer minimises the loss. Without the minus, it makes actions with high "
            "returns less likely."
        ),
    ),
    PlantedError(
        name="new and old policy swapped",
        level=1,
        old="lambda new, kept: jnp.where(counted, new, kept),",
        new="lambda new, kept: jnp.where(counted, kept, new),",
        clue="Does the policy move at all?",
        probe="Call update once and compare the policy's parameters before and after.",
        equation="theta <- theta + step, unless all weights are 0",
        effect="The return stays at that of random actions. kl and delta_loss_pi are 0.",
        why=(
            "jnp.where returns its second argument where the condition holds. The rows count in "
            "every update, so every update keeps the old policy."
        ),
    ),
    PlantedError(
        name="optimizer state thrown away",
        level=2,
        old='return State(params, {"actor": opt_actor}, state.step + 1), info',
        new="return State(params, state.opt_state, state.step + 1), info",
        clue="Compare the size of the steps: kl.",
        probe="Call update twice. The count in the optimizer's state must be 2.",
        equation="theta, m <- Adam(theta, m, g): the moments m are part of the state",
        effect="kl is several times larger in most updates. The return rises a little later.",
        why=(
            "Adam without a memory divides each gradient by its own size. Every parameter then "
            "moves by the full learning rate in every update, however noisy its gradient is."
        ),
    ),
    PlantedError(
        name="setting standardise inverted",
        level=2,
        old="adv = moments.standardise(ret, weight) if spec.standardise else ret",
        new="adv = ret if spec.standardise else moments.standardise(ret, weight)",
        clue="What size must loss_pi have if the returns are standardised?",
        probe="Compute the weighted mean of batch.adv. With the setting standardise it must be 0.",
        equation="A = (R - mean R) / std R",
        effect="loss_pi is many times as large as it should be, and learning is slower.",
        why=(
            "Raw returns on CartPole are all positive, so every action taken becomes more likely, "
            "the good ones a little more. The mean acts as a baseline, which reduces this noise."
        ),
    ),
    PlantedError(
        name="unfinished episodes count",
        level=3,
        old="weight = moments.scale_to_mean_one(ended.astype(jnp.float32))",
        new="weight = jnp.ones_like(ret)",
        clue="The error is in the rows that prepare returns. Look at the end of a rollout.",
        probe="Call prepare on a rollout that no episode ends in. All weights must be 0.",
        equation="w = 0 for the steps of an episode that the rollout cuts off",
        effect="The curves hardly differ at first.",
        why=(
            "The reward-to-go of an unfinished episode is too small, so its last actions look "
            "bad. These are few rows while episodes are short, and more the longer they get."
        ),
    ),
    PlantedError(
        name="returns run over a time limit",
        level=3,
        old="ret = returns.reward_to_go(rollout.rew, none, *ends, spec.gamma)",
        new="ret = returns.reward_to_go(rollout.rew, none, rollout.terminated, none, spec.gamma)",
        clue="Which flags end an episode? Check the returns of both kinds.",
        probe=(
            "Call prepare on two steps with the reward 1, the first with truncated. Its return "
            "must be 1."
        ),
        equation="R_t = r_t + gamma R_{t+1}, with R_{t+1} = 0 at the end of an episode of any kind",
        effect="The curves do not differ until episodes reach the time limit.",
        why=(
            "The rewards of the next episode are added to the last one's. On CartPole only "
            "episodes of 500 steps are truncated, so a short run never shows it."
        ),
    ),
)
