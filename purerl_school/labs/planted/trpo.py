"""Errors for TRPO."""

from purerl_school.labs.planted import PlantedError

LABS = (
    PlantedError(
        name="wrong sign of the surrogate",
        level=1,
        old="loss_pi = -(batch.weight * ratio * batch.adv).mean()",
        new="loss_pi = (batch.weight * ratio * batch.adv).mean()",
        clue="Does the policy get better or worse than random actions?",
        probe=(
            "Take one small gradient step on a batch whose advantages are all 1. The actions "
            "taken must become more likely."
        ),
        equation="L = -E[w (pi(a|s) / pi_old(a|s)) A]",
        effect="The return falls below that of random actions and stays there.",
        why=(
            "The line search works as it should: it accepts steps that lower the loss. But a "
            "lower loss now means a worse policy."
        ),
    ),
    PlantedError(
        name="steps uphill",
        level=1,
        old="move = jax.tree.map(lambda s: -scale * s, step)",
        new="move = jax.tree.map(lambda s: scale * s, step)",
        clue="Does the policy move at all? What does the line search report?",
        probe="Call line_search with a small step. The surrogate loss must fall.",
        equation="theta = theta_old - beta^j step",
        effect=(
            "The return stays at that of random actions. accepted is 0, and backtrack_iters is 10."
        ),
        why=(
            "The step increases the loss at every length, so the line search rejects it ten times "
            "and keeps the old policy. The line search hides the error: nothing gets worse."
        ),
    ),
    PlantedError(
        name="missing square root in the step length",
        level=2,
        old="return unravel(jnp.sqrt(2.0 * spec.delta / (x @ product(x) + 1e-8)) * x)",
        new="return unravel(2.0 * spec.delta / (x @ product(x) + 1e-8) * x)",
        clue="A full step should almost reach the limit delta. Does the line search accept it?",
        probe="Call natural_step, and compute step^T (F + c I) step. It must be 2 delta.",
        equation="step = sqrt(2 delta / (x^T (F + c I) x)) x",
        effect="The return rises, but backtrack_iters is 1 to 4 where it should be 0.",
        why=(
            "The quadratic model of the KL is half of step^T F step. Only with the root it equals "
            "delta. Without it the length depends on the scale of the gradient. Here the steps are "
            "too long, and the line search mends them."
        ),
    ),
    PlantedError(
        name="step length multiplied by the attempt",
        level=2,
        old="scale = jnp.float32(spec.backtrack_coeff) ** j",
        new="scale = jnp.float32(spec.backtrack_coeff) * j",
        clue="Steps are accepted, and yet something is exactly 0.",
        probe="Call line_search with a small step. The parameters must change by the whole step.",
        equation="theta = theta_old - beta^j step, j = 0, 1, ...",
        effect="All steps are accepted, but kl is 0 in half of the epochs, and learning is slow.",
        why=(
            "The first attempt is j = 0. beta^0 is 1, a full step; beta times 0 is no step at "
            "all. A step of length 0 raises neither loss nor KL, so it is accepted."
        ),
    ),
    PlantedError(
        name="damping with the wrong setting",
        level=3,
        old="return mpi.pmean(ravel_pytree(hessian(unravel(x)))[0]) + spec.damping_coeff * x",
        new="return mpi.pmean(ravel_pytree(hessian(unravel(x)))[0]) + spec.delta * x",
        clue="The policy's steps have the right direction, almost. Test the natural step alone.",
        probe="Call natural_step with damping_coeff of 0.1 and of 100. The steps must differ.",
        equation="x = (F + c I)^-1 g, c = damping_coeff",
        effect="The return hardly differs.",
        why=(
            "delta is 0.01 and the damping 0.1, so the matrix is damped less. Ten iterations of "
            "conjugate gradients still give a useful direction. A damping that has no effect "
            "shows when somebody needs it."
        ),
    ),
    PlantedError(
        name="line search without the test of the loss",
        level=3,
        old="accepted = (kl <= spec.delta) & (loss <= old_loss)",
        new="accepted = kl <= spec.delta",
        clue="The line search must reject some steps. Try one that makes the loss worse.",
        probe="Call line_search with the negative of a small step. No step may be accepted.",
        equation="accept if KL <= delta and L(new) <= L(old)",
        effect="The curves hardly differ.",
        why=(
            "A natural step of the right length nearly always lowers the loss, so the test rarely "
            "decides. It protects against the batches where the linear model is wrong."
        ),
    ),
)
