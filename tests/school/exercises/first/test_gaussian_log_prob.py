"""Exercise 1.1: classic wrong answers are explained."""

import re

import pytest

from tests.school.exercises import answers

ONCE = "-0.5 * ((z**2 + 2.0 * log_std).sum(axis=-1) + jnp.log(2.0 * jnp.pi))"
WHOLE = "-0.5 * (z**2 + 2.0 * log_std + jnp.log(2.0 * jnp.pi)).sum(axis=-1)"
LATE = "-0.5 * ((z**2 + jnp.log(2.0 * jnp.pi)).sum(axis=-1) + 2.0 * log_std)"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    answers.mark_later([
        (WHOLE, f"-({WHOLE})", "The sign is wrong"),
        (WHOLE, f"jnp.exp({WHOLE})", "This is the density itself"),
        ("-0.5", "-1.0", "The factor 1/2 is missing"),
        ("sum(axis=-1)", "mean(axis=-1)", "a mean over the dimensions"),
        ("sum(axis=-1)", "sum(axis=0)", r"must have shape \(5,\), got \(3,\)"),
        ("sum(axis=-1)", "sum()", "Were the rows added up"),
        ("sum(axis=-1)", "sum(axis=-1, keepdims=True)", "A last axis of size 1 is left"),
        (".sum(axis=-1)", "", "The last axis must be summed"),
        (" + jnp.log(2.0 * jnp.pi)", "", "The term log 2 pi is missing"),
        (WHOLE, ONCE, "must count once for each dimension"),
        ("2.0 * log_std", "0.0 * log_std", "The term with log_std is missing"),
        ("2.0 * log_std", "log_std", "The term with log_std counts half"),
        ("z**2", "z", "The square of the distance is missing"),
        ("jnp.exp(log_std)", "jnp.exp(0.5 * log_std)", "divided by the standard deviation before"),
        ("jnp.exp(log_std)", "log_std", "Take its exponential first|not finite"),
        ("z = (", "log_std = 0.5 * log_std\n    z = (", "the logarithm of the variance"),
        (WHOLE, LATE, "Your function raised ValueError: Incompatible shapes"),
        ("z**2", "(x - mean) ** 2 / jnp.exp(log_std) ** 2", "Divide by the standard deviation"),
        ("2.0 * log_std", "jnp.log(jnp.exp(log_std) ** 2)", "Divide by the standard deviation"),
        ("/ jnp.exp(log_std)", "/ jax.lax.stop_gradient(jnp.exp(log_std))", "gradient in log_std"),
        ("(x - mean)", "(x - jax.lax.stop_gradient(mean))", "No gradient arrives"),
        ("return ", "", "returned None"),
    ]),
)  # fmt: skip
def test_a_wrong_answer_is_explained(old, new, words):
    mistake = answers.find_mistake("1.1", answers.change_solution("1.1", old, new))
    assert re.search(words, mistake), mistake


def test_log_std_for_rows_in_place_of_dimensions_is_explained():
    solution = answers.load("1.1")

    def by_row(x, mean, log_std):
        return solution(x, mean, log_std if log_std.ndim == 2 else log_std[:, None])

    assert "The log_std of a dimension was used for a row" in answers.find_mistake("1.1", by_row)


@pytest.mark.complete
def test_the_policy_of_the_reward_hits_its_goals():
    score, lines = answers.run_reward("1.1")
    assert score > -0.2
    assert len(lines) >= 5
