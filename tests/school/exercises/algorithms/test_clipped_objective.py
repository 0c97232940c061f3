"""Exercise 3.3: classic wrong answers are explained."""

import re

import pytest

from tests.school.exercises import answers

BOTH = "jnp.minimum(ratio * adv, clipped * adv)"
CLIP = "jnp.clip(ratio, 1.0 - clip_ratio, 1.0 + clip_ratio)"
RATIO = "jnp.exp(logp - old_logp)"
STOP = "jax.lax.stop_gradient((old_logp, adv))"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    answers.mark_later([
        (f"-{BOTH}", BOTH, "would make good actions less likely"),
        (".mean()", ".sum()", "The rows were added up"),
        (".mean()", "", "Is the mean over the rows missing"),
        (RATIO, "(logp - old_logp)", "The ratio is a difference of log-probabilities"),
        (STOP, f"{STOP}\n    adv = (adv - adv.mean()) / adv.std()", "were standardised"),
        (f"-{BOTH}", "-(logp * adv)", "loss of the plain policy gradient"),
        (RATIO, "jnp.exp(old_logp - logp)", "The ratio is upside down"),
        (RATIO, "(logp / old_logp)", "The ratio divides log-probabilities"),
        (RATIO, f"jax.lax.stop_gradient({RATIO})", "The gradient is 0"),
        (BOTH, BOTH.replace(" * adv", "[:, None] * adv"), r"\[B, 1\] and \[B\] broadcast"),
        (RATIO, "(1.0 + logp - old_logp)", "The ratio was approximated"),
        (BOTH, "(ratio * adv)", "A good action .* above.* nothing was clipped"),
        (BOTH, BOTH.replace("minimum", "maximum"), "maximum of the two products"),
        (CLIP, "jnp.exp(jnp.clip(logp - old_logp, -clip_ratio, clip_ratio))",
         "The log-probability was clipped"),
        (CLIP, f"ratio + jax.lax.stop_gradient({CLIP} - ratio)", "right, but it has a gradient"),
        ("1.0 + clip_ratio", "1.0 / (1.0 - clip_ratio)", "The range is not symmetric"),
        (BOTH, "(clipped * adv)", "A good action .* below.* The clipped term was used alone"),
        (BOTH, "(jnp.minimum(ratio, clipped) * adv)", "The minimum of the ratios was taken"),
        (BOTH, f"jnp.where(adv > 0, {BOTH}, clipped * adv)", "A bad action .* above"),
        ("1.0 - clip_ratio, 1.0 + clip_ratio", "0.8, 1.2", "The clip range is fixed at 0.2"),
        (BOTH, "jnp.minimum((ratio * adv).mean(), (clipped * adv).mean())",
         "The mean over rows was taken before the minimum"),
        (STOP, "(old_logp, jax.lax.stop_gradient(adv))", "old_logp is data"),
        (STOP, "(jax.lax.stop_gradient(old_logp), adv)", "adv is data"),
    ]),
)  # fmt: skip
def test_a_wrong_answer_is_explained(old, new, words):
    mistake = answers.find_mistake("3.3", answers.change_solution("3.3", old, new))
    assert re.search(words, mistake), mistake


@pytest.mark.complete
def test_ppo_of_the_reward_learns_cartpole():
    score, lines = answers.run_reward("3.3")
    assert score > 200
    assert len(lines) >= 5
