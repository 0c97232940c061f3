"""Mutants whose effect is small or rare, or only on several ranks or after a crash."""

from tests.mutants import Mutant

SAC, SQUASHED, RNG = "purerl/algos/sac.py", "purerl/nets/squashed.py", "purerl/rng.py"
T_SAC, T_SQUASHED = "tests/algos/test_sac.py", "tests/nets/test_squashed.py"

MUTANTS = [
    # The log-density of SAC and its gradient.
    Mutant(SAC, "squashed.log_prob(dist, u, noise)", "squashed.log_prob(jax.lax.stop_gradient(dist), u, noise)", T_SAC),
    Mutant(SAC, "squashed.log_prob(dist, u, noise)", "squashed.log_prob(dist, jax.lax.stop_gradient(u), noise)", T_SAC),
    Mutant(SAC, "squashed.log_prob(dist, u, noise)", "squashed.log_prob(dist, u)", T_SAC),
    Mutant(SQUASHED, "sample(dist, noise), noise)", "sample(dist, noise))", T_SQUASHED),
    Mutant(SQUASHED, "    if noise is None:\n        noise", "    if True:\n        noise", T_SQUASHED),
    Mutant(SAC, "LOG_STD = (-20.0, 2.0)", "LOG_STD = (-5.0, 2.0)", T_SAC),
    Mutant(RNG, "    return jax.random.normal(batch.key, shape, jnp.float32)", "    return jnp.repeat(jax.random.normal(batch.key, (shape[0], 1, dim)), draws, axis=1)", "tests/test_rng.py"),
]  # fmt: skip
