"""Exercise 2.1: classic wrong answers are explained."""

import re

import pytest

from tests.school.exercises import answers

EXPLAINED = "1.0 - (ret - val).var() / ret.var()"
GRADS = "score * (ret - val)[:, None]"
VARIANCE = "((grads - gradient) ** 2).sum(axis=1).mean()"
SQUARE = "((ret - val) ** 2).mean()"
ADV = "(ret - val)[:, None]"
STANDARD = "((ret - val - (ret - val).mean()) / ((ret - val).std() + 1e-8))[:, None]"
WRONG_AXIS = "(score * (ret - val) if score.shape[0] == score.shape[1] else score * ADV)"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    answers.mark_later([
        (EXPLAINED, "(ret - val).var() / ret.var()", "The 1 - is missing"),
        (EXPLAINED, f"1.0 - {SQUARE} / ret.var()", "Var subtracts the mean error first"),
        (EXPLAINED, EXPLAINED.replace("/ ret.", "/ val."), "values in the denominator"),
        (EXPLAINED, EXPLAINED.replace("var", "std"), "These are standard deviations"),
        (EXPLAINED, f"jnp.maximum({EXPLAINED}, 0.0)", "It may be negative"),
        (
            EXPLAINED,
            "jnp.corrcoef(ret, val)[0, 1] ** 2",
            "the variance of the values in the denominator",
        ),
        (EXPLAINED, "1.0 - (ret - val) ** 2 / ret.var()", "It is one number for all rows"),
        (GRADS, "score * (val - ret)[:, None]", "The sign is wrong"),
        (GRADS, "score * ret[:, None]", "The values are not subtracted"),
        (GRADS, f"score * {STANDARD}", "The advantages are standardised"),
        (GRADS, f"score * ({ADV} - (ret - val).mean())", "The mean advantage is subtracted"),
        (GRADS, WRONG_AXIS.replace("ADV", ADV), r"Write adv\[:, None\]"),
        (GRADS, "score * (ret - val)", "Your function raised ValueError: Incompatible shapes"),
        ("grads.mean(axis=0)", "grads.sum(axis=0)", "a sum over the rows"),
        ("grads.mean(axis=0)", "score.mean(axis=0) * (ret - val).mean()", "a mean of the scores"),
        ("grads.mean(axis=0)", "grads.mean(axis=1)", "Incompatible shapes"),
        (VARIANCE, "(grads**2).sum(axis=1).mean()", "The mean gradient is not subtracted"),
        (VARIANCE, VARIANCE.replace(".sum(axis=1)", ""), "a mean over the parameters"),
        (VARIANCE, VARIANCE.replace("mean", "sum"), "a sum over the rows"),
        (VARIANCE, "grads.var(axis=0, ddof=1).sum()", "divides by N - 1"),
        (VARIANCE, f"jnp.sqrt({VARIANCE})", "a standard deviation"),
        (VARIANCE, f"{VARIANCE} / len(ret)", "the variance of the mean"),
        (VARIANCE, "grads.var(axis=0)", "the sum over the parameters"),
        (VARIANCE, "grads.var() * 3.0", "One mean of all parameters"),
        (VARIANCE, "(ret - val).var()", "The scores are missing"),
        (VARIANCE, "score.var(axis=0).sum()", "variance is"),
        ("return explained, gradient, variance", "return explained, variance", "three arrays"),
    ]),
)  # fmt: skip
def test_a_wrong_answer_is_explained(old, new, words):
    mistake = answers.find_mistake("2.1", answers.change_solution("2.1", old, new))
    assert re.search(words, mistake), mistake


@pytest.mark.complete
def test_the_study_shows_what_trained_values_do():
    returns, lines = answers.run_reward("2.1")
    assert returns[80] > returns[0] + 10.0
    assert len(lines) >= 10
