"""Exercise 3.5: classic wrong answers are explained."""

import re

import pytest

from tests.school.exercises import answers

LOSS = "-log_alpha * gap.mean()"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    answers.mark_later(
        [
            ("-log_alpha", "log_alpha", "the equation begins with a minus"),
            ("-log_alpha", "-jnp.exp(log_alpha)", r"alpha was used in place of log\(alpha\)\. M"),
            ("-log_alpha", "jnp.exp(log_alpha)", "and the sign is wrong"),
            ("-log_alpha", "-jnp.log(log_alpha)", "log_alpha is a logarithm already"),
            ("gap.mean()", "gap.sum()", "The rows were added up"),
            ("gap.mean()", "gap", "Each row has a loss of its own"),
            ("+ target_entropy", "- target_entropy", "The target was subtracted"),
            (" + target_entropy", "", "The target entropy is missing"),
            ("stop_gradient(logp)", "stop_gradient(-logp)", "log pi has the wrong sign"),
            ("-log_alpha", "-jax.lax.stop_gradient(log_alpha)", "the temperature never learns"),
            ("-log_alpha", "-float(log_alpha)", r"no float\(\)"),
            (LOSS, "log_alpha * abs(gap.mean())", "Was an absolute gap used"),
            (LOSS, "-log_alpha * jnp.minimum(gap.mean(), 0.0)", "can never rise"),
            ("+ target_entropy", "- 1.0", "The target is fixed at -1"),
            (LOSS, "abs(log_alpha) * gap.mean()", "Was the absolute value of log_alpha used"),
            ("+ target_entropy", "+ float(target_entropy)", r"(?s)`jax.jit`.*no float\(\)"),
            ("jax.lax.stop_gradient(logp)", "logp", "This loss would train the policy"),
        ]
    ),
)
def test_a_wrong_answer_is_explained(old, new, words):
    mistake = answers.find_mistake("3.5", answers.change_solution("3.5", old, new))
    assert re.search(words, mistake), mistake


@pytest.mark.complete
def test_sac_of_the_reward_swings_the_pendulum_up():
    score, lines = answers.run_reward("3.5")
    assert score > -400
    assert len(lines) >= 5
