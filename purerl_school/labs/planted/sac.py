"""Errors for SAC."""

from purerl_school.labs.planted import PlantedError

LABS = (
    PlantedError(
        name="policy minimises the value",
        level=1,
        old="loss_pi = (temperature(params) * logp - q).mean()",
        new="loss_pi = (temperature(params) * logp + q).mean()",
        clue="Does the policy get better or worse than its first version?",
        probe=(
            "Take one small gradient step of the actor's loss, with alpha=0. The value of the "
            "policy's actions must rise."
        ),
        equation="L = E[alpha log pi(a|s) - min_i Q_i(s, a)]",
        effect="The return gets worse and stays at the worst. q1 falls far lower than it should.",
        why=(
            "The loss is minimised, so the value needs a minus. The critics correctly learn the "
            "value of a policy that seeks the lowest one."
        ),
    ),
    PlantedError(
        name="critics start each step from their targets",
        level=1,
        old="params = dataclasses.replace(params, critic=optax.apply_updates(params.critic, step))",
        new=(
            "params = dataclasses.replace(params, "
            "critic=optax.apply_updates(params.target_critic, step))"
        ),
        clue="Learning is many times too slow. Which network hardly moves?",
        probe="Call update twice. The critics must have moved by the sum of both steps.",
        equation="phi <- phi + step",
        effect=(
            "The return does not rise. q1 hardly moves and stays far from target, so loss_q stays "
            "large."
        ),
        why=(
            "Each update forgets all earlier steps but the half percent that the target has taken "
            "over. The critics learn about 200 times too slowly."
        ),
    ),
    PlantedError(
        name="wrong sign of the temperature's loss",
        level=2,
        old="loss_alpha = -params.log_alpha * (jax.lax.stop_gradient(logp) + wanted).mean()",
        new="loss_alpha = params.log_alpha * (jax.lax.stop_gradient(logp) + wanted).mean()",
        clue="Two metrics show where the policy's entropy goes, and where it should go.",
        probe=(
            "Take the gradient of alpha_loss for a policy with more entropy than wanted. The step "
            "must lower log_alpha."
        ),
        equation="L = -log alpha E[log pi(a|s) + H_wanted]",
        effect=(
            "alpha grows without a limit. logp stays at -0.68, that of uniform actions, and q1 "
            "rises to thousands."
        ),
        why=(
            "While the entropy is above its target, the temperature must fall. Now it rises, "
            "which raises the entropy further."
        ),
    ),
    PlantedError(
        name="log-density without the correction for tanh",
        level=2,
        old="return squashed.squash(u), squashed.log_prob(dist, u, noise)",
        new="return squashed.squash(u), nets.gaussian.log_prob(dist, u)",
        clue="How large can the entropy of an action in (-1, 1) be? Compare it with minus logp.",
        probe=(
            "Integrate the density that sample returns over actions in (-1, 1). The integral must "
            "be 1."
        ),
        equation="log pi(a|s) = log N(u; mean, std) - sum log(1 - tanh(u)^2), a = tanh(u)",
        effect=(
            "logp falls to -3.42 and stays there, and alpha falls steadily. The return is hardly "
            "worse."
        ),
        why=(
            "The Gaussian before the squashing gains entropy as its std grows, up to the bound of "
            "2 for log std: 2 + 1.42 = 3.42. So the entropy is always above its target, and the "
            "temperature falls to 0. The action itself, near -1 or 1, has little entropy."
        ),
    ),
    PlantedError(
        name="noise used twice",
        level=3,
        old="next_act, next_logp = sample(params, batch, batch.next_obs, draw=0)",
        new="next_act, next_logp = sample(params, batch, batch.next_obs, draw=1)",
        clue="A batch has two draws of noise. What is each of them for?",
        probe="Set batch.noise, and change draw 0 only. The critics' loss must change.",
        equation="a' ~ pi(.|s') and a~ ~ pi(.|s) are independent",
        effect="The curves hardly differ.",
        why=(
            "Target and policy now use the same normals. Each loss alone is still right on "
            "average, but their errors are correlated within an update."
        ),
    ),
    PlantedError(
        name="policy step against the old critics",
        level=3,
        old="grads_pi, info_pi = jax.grad(actor_loss, has_aux=True)(params, batch)",
        new="grads_pi, info_pi = jax.grad(actor_loss, has_aux=True)(state.params, batch)",
        clue="The losses are right. Check the order of the steps in update.",
        probe=(
            "Do the critics' step by hand, then take the gradient of the actor's loss. update "
            "must step the policy along it."
        ),
        equation="update phi, then theta with the new phi",
        effect="The curves hardly differ.",
        why=(
            "One critic step more or less changes the values little, so nothing in the curves "
            "shows the order. Bit-exact comparisons with a reference do."
        ),
    ),
)
