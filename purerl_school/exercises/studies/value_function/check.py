"""Checks of exercise 2.1: explained variance, and the variance of a policy gradient."""

from collections.abc import Callable
from typing import Any

import numpy as np

from purerl_school.exercises.checking import (
    apply,
    expect_close,
    expect_jit,
    expect_shape,
    make_numbers,
    reject,
)

Answer = Callable[..., Any]
ROWS, PARAMETERS = 6, 3


def check_shapes(answer: Answer) -> None:
    """The shapes of the three results."""
    explained, gradient, variance = call(answer, *make_case())
    expect_shape(explained, (), "explained variance", "It is one number for all rows.")
    expect_shape(gradient, (PARAMETERS,), "gradient")
    expect_shape(variance, (), "variance", "It is one number: the sum over the parameters.")


def check_perfect_values(answer: Answer) -> None:
    """Values that predict each return exactly."""
    score, ret, _ = make_case()
    explained, gradient, variance = call(answer, score, ret, ret)
    expect_close(explained, 1.0, "explained variance", mistakes={"The 1 - is missing.": 0.0})
    hint = "If each return was predicted, each estimate is 0."
    mistakes = {"The values are not subtracted from the returns.": average(score, ret)}
    expect_close(gradient, np.zeros(PARAMETERS), "gradient", hint, mistakes)
    expect_close(variance, 0.0, "variance", hint)


def check_constant_values(answer: Answer) -> None:
    """Values that are the same for all rows: they explain nothing."""
    score, ret, _ = make_case()
    for constant in (0.0, ret.mean(), 7.0):
        explained = call(answer, score, ret, np.full(ROWS, constant))[0]
        error = 1.0 - ((ret - constant) ** 2).mean() / ret.var()
        text = "This uses the mean square of the error. Var subtracts the mean error first."
        hint = "Is the variance of the values in the denominator?"
        expect_close(explained, 0.0, "explained variance", hint, {text: error})


def check_shifted_values(answer: Answer) -> None:
    """Values that are too large by 5 in all rows, and otherwise right."""
    score, ret, _ = make_case()
    explained = call(answer, score, ret, ret + 5.0)[0]
    error = 1.0 - 25.0 / ret.var()
    text = "This uses the mean square of the error. Var subtracts the mean error first."
    expect_close(explained, 1.0, "explained variance", mistakes={text: error})


def check_explained_variance(answer: Answer) -> None:
    """Values that are partly right, and values worse than a constant."""
    score, ret, val = make_case()
    for guess in (val, -val):
        right = explain(ret, guess)
        mistakes = {
            "This is the squared correlation, which forgives a wrong scale or sign.": (
                np.corrcoef(ret, guess)[0, 1] ** 2
            ),
            "This divides by the variance of the values. Divide by that of the returns.": (
                explain(guess, ret)
            ),
            "These are standard deviations. Take variances.": 1.0 - np.sqrt(1.0 - right),
            "The 1 - is missing.": 1.0 - right,
            "This is the variance of the values over that of the returns.": guess.var() / ret.var(),
            "It may be negative: values can be worse than a constant.": max(right, 0.0),
        }
        got = call(answer, score, ret, guess)[0]
        expect_close(got, right, "explained variance", mistakes=mistakes)


def check_gradient(answer: Answer) -> None:
    """The policy gradient: the mean of the estimates."""
    score, ret, val = make_case()
    adv = ret - val
    mistakes = {
        "The sign is wrong: the advantage is the return minus the value.": -average(score, adv),
        "The values are not subtracted from the returns.": average(score, ret),
        "This is a sum over the rows. Take the mean.": ROWS * average(score, adv),
        "The advantages are standardised. The equation uses them as they are.": (
            average(score, (adv - adv.mean()) / adv.std())
        ),
        "The mean advantage is subtracted. The equation uses advantages as they are.": (
            average(score, adv - adv.mean())
        ),
        "This is a mean of the scores times a mean of the advantages.": (
            score.mean(axis=0) * adv.mean()
        ),
    }
    expect_close(call(answer, score, ret, val)[1], average(score, adv), "gradient", "", mistakes)


def check_square_case(answer: Answer) -> None:
    """As many rows as parameters, so that a wrong axis raises no error."""
    _, ret, val = make_case()
    score = make_numbers(4, ROWS, ROWS)
    expected = average(score, ret - val)
    text = "The advantage of row i was multiplied with parameter i. Write adv[:, None]."
    mistakes = {text: (score * (ret - val)).mean(axis=0)}
    expect_close(call(answer, score, ret, val)[1], expected, "gradient", mistakes=mistakes)


def check_variance(answer: Answer) -> None:
    """The variance of the estimates, summed over the parameters."""
    score, ret, val = make_case()
    grads = score * (ret - val)[:, None]
    right = grads.var(axis=0).sum()
    means = grads.mean(axis=0)
    mistakes = {
        "The mean gradient is not subtracted.": (grads**2).sum(axis=1).mean(),
        "This is a mean over the parameters. Add them up.": right / PARAMETERS,
        "This is a sum over the rows. Take the mean.": right * ROWS,
        "This divides by N - 1. Take the population variance.": right * ROWS / (ROWS - 1),
        "This is a standard deviation: take the square.": np.sqrt(right),
        "This is the variance of the mean. The variance of one estimate is N times as large.": (
            right / ROWS
        ),
        "One mean of all parameters was subtracted. Each parameter has a mean of its own.": (
            grads.var() * PARAMETERS
        ),
        "The mean of a row was subtracted. The mean is over the rows.": (
            grads.var(axis=1).mean() * PARAMETERS
        ),
        "This is the variance of the advantages. The scores are missing.": (ret - val).var(),
        "This is the variance of the scores. The advantages are missing.": (
            score.var(axis=0).sum()
        ),
        "The values are not subtracted from the returns.": (
            (score * ret[:, None]).var(axis=0).sum()
        ),
        "This is the square of the mean gradient.": (means**2).sum(),
    }
    expect_close(call(answer, score, ret, val)[2], right, "variance", mistakes=mistakes)


def check_shift_of_both(answer: Answer) -> None:
    """The same number added to all returns and values: nothing changes."""
    score, ret, val = make_case()
    before, after = (call(answer, score, ret + shift, val + shift) for shift in (0.0, 3.0))
    for name, one, other in zip(
        ("explained variance", "gradient", "variance"), before, after, strict=True
    ):
        hint = "It changes if 3 is added to all returns and all values."
        expect_close(other, one, name, hint)


def check_jit(answer: Answer) -> None:
    """The same numbers inside jit."""
    expect_jit(answer, *make_case())


def call(answer: Answer, *case: np.ndarray) -> tuple[Any, Any, Any]:
    """Return the three results of an answer."""
    results = apply(answer, *case)
    if not isinstance(results, tuple) or len(results) != 3:
        reject("The function must return three arrays: explained variance, gradient, variance.")
    return results


def make_case() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return scores, returns, and values that are partly right."""
    ret = np.array([1.0, 4.0, -2.0, 3.0, 0.5, 6.0])
    return make_numbers(2, ROWS, PARAMETERS), ret, 0.5 * ret + 0.7 * make_numbers(3, ROWS)


def explain(ret: np.ndarray, val: np.ndarray) -> float:
    """Return the explained variance."""
    return 1.0 - float((ret - val).var() / ret.var())


def average(score: np.ndarray, adv: np.ndarray) -> np.ndarray:
    """Return the mean of the estimates `[P]`."""
    return np.asarray(np.einsum("np,n->p", score, adv) / len(adv))
