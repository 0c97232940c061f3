"""Checks of exercise 1.1: the log-probability of a diagonal Gaussian."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purerl_school.exercises.checking import (
    Mistakes,
    apply,
    expect_close,
    expect_gradient,
    expect_jit,
    expect_shape,
    make_numbers,
    reject,
    to_jax,
)

Answer = Callable[..., Any]
WHAT = "log-probability"
LOG_2_PI = np.log(2.0 * np.pi)


def check_shape(answer: Answer) -> None:
    """The shape of the result: one number for each of 5 rows."""
    x, mean, log_std = make_case(5, 3)
    expect_shape(apply(answer, x, mean, log_std), (5,), WHAT)


def check_standard_normal(answer: Answer) -> None:
    """One dimension, mean 0, standard deviation 1: a value from a table."""
    x, zero = np.array([[0.0], [2.0]]), np.zeros((2, 1))
    compare(answer, (x, zero, zero), np.array([-0.9189385, -2.9189385]))


def check_standard_deviation(answer: Answer) -> None:
    """One dimension with a standard deviation of 1/2 and of 2."""
    x, mean, log_std = np.ones((2, 1)), np.zeros((2, 1)), np.log([[0.5], [2.0]])
    expected = np.array([-2.2257914, -1.7370857])
    expect_close(
        apply(answer, x, mean, log_std), expected, WHAT, "", list_mistakes(x, mean, log_std)
    )


def check_several_dimensions(answer: Answer) -> None:
    """Three dimensions, each with its own mean and standard deviation."""
    x, mean, log_std = make_case(4, 3)
    expected = reference(x, mean, log_std)
    expect_close(
        apply(answer, x, mean, log_std), expected, WHAT, "", list_mistakes(x, mean, log_std)
    )


def check_shared_log_std(answer: Answer) -> None:
    """A log_std of shape [A], the same for all rows, and as many rows as dimensions."""
    x, mean, _ = make_case(3, 3)
    log_std = np.array([-1.0, 0.0, 0.5])
    late = -0.5 * (((x - mean) / np.exp(log_std)) ** 2 + LOG_2_PI).sum(axis=1) - log_std
    rows, unused = reference(x, mean, log_std[:, None]), reference(x, mean, 0.0 * log_std)
    mistakes = {
        "The log_std of a dimension was used for a row. The last axis has the dimensions.": rows,
        "The term with log_std was added after the sum, so it is not summed itself.": late,
        "The numbers look as if log_std were 0. Is it used if its shape is [A]?": unused,
    }
    hint = "With a log_std of shape [B, A] your numbers are right."
    expect_close(apply(answer, x, mean, log_std), reference(x, mean, log_std), WHAT, hint, mistakes)


def check_small_standard_deviation(answer: Answer) -> None:
    """A standard deviation so small that its square is 0 in float32."""
    log_std = np.full((2, 1), -60.0)
    expected = np.array([60.0, 60.0]) - 0.5 * LOG_2_PI
    mean = np.array([[1.0], [-2.0]])
    got = apply(answer, mean, mean, log_std)
    if not np.isfinite(np.asarray(got)).all():
        reject(
            "The log-probability is not finite. Divide by the standard deviation before you "
            "square, and use log_std itself in place of the logarithm of exp(log_std)."
        )
    expect_close(got, expected, WHAT)


def check_gradients(answer: Answer) -> None:
    """The gradients in the mean and in log_std, which the policy gradient uses."""
    x, mean, log_std = make_case(4, 2)
    row = to_jax(x)
    hint = "The function must use the argument itself, without stop_gradient or a copy in NumPy."
    zero = {"No gradient arrives: stop_gradient, or an argument that is not used.": 0.0 * mean}
    expect_gradient(
        lambda m: answer(row, m, to_jax(log_std)).sum(),
        lambda m: reference(x, m, log_std).sum(),
        mean,
        "gradient in the mean",
        hint,
        zero,
    )
    expect_gradient(
        lambda s: answer(row, to_jax(mean), s).sum(),
        lambda s: reference(x, mean, s).sum(),
        log_std,
        "gradient in log_std",
        hint,
        zero,
    )


def check_jit(answer: Answer) -> None:
    """The same numbers inside jit."""
    expect_jit(answer, *make_case(4, 2))


def compare(answer: Answer, case: Sequence[np.ndarray], expected: np.ndarray) -> None:
    """Compare the log-probabilities of a case, and explain classic mistakes."""
    expect_close(apply(answer, *case), expected, WHAT, "", list_mistakes(*case))


def make_case(rows: int, dims: int) -> list[np.ndarray]:
    """Return actions, means and log standard deviations."""
    x, mean, log_std = (make_numbers(seed, rows, dims) for seed in range(3))
    return [x, mean, 0.5 * log_std]


def reference(x: np.ndarray, mean: np.ndarray, log_std: np.ndarray) -> np.ndarray:
    """Return the right log-probabilities, from the densities of the dimensions."""
    std = np.exp(log_std)
    density = np.exp(-((x - mean) ** 2) / (2.0 * std**2)) / np.sqrt(2.0 * np.pi * std**2)
    return np.log(density).sum(axis=1)


def list_mistakes(x: np.ndarray, mean: np.ndarray, log_std: np.ndarray) -> Mistakes:
    """Return the numbers that classic mistakes give."""
    dims = x.shape[1]
    right, std = reference(x, mean, log_std), np.exp(log_std)
    square = ((x - mean) / std) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):  # log_std may be 0
        no_exp = -0.5 * (((x - mean) / log_std) ** 2 + 2.0 * log_std + LOG_2_PI).sum(axis=1)
    return {
        "The sign is wrong: a log-density falls with the distance from the mean.": -right,
        "This is the density itself. Its logarithm is wanted.": np.exp(right),
        "The factor 1/2 is missing.": 2.0 * right,
        "This is a mean over the dimensions of an action. Log-probabilities add up: use sum.": (
            right / dims
        ),
        "The sum must be over the last axis, the dimensions; this is a sum over the rows.": (
            -0.5 * (square + 2.0 * log_std + LOG_2_PI).sum(axis=0)
        ),
        "The term log 2 pi is missing.": right + 0.5 * dims * LOG_2_PI,
        "The constant log 2 pi must count once for each dimension.": (
            right + 0.5 * (dims - 1) * LOG_2_PI
        ),
        "The term with log_std is missing.": right + log_std.sum(axis=1),
        "The term with log_std counts half: it is 2 log_std inside the bracket.": (
            right + 0.5 * log_std.sum(axis=1)
        ),
        "The distance must be divided by the standard deviation before it is squared.": (
            -0.5 * ((x - mean) ** 2 / std + 2.0 * log_std + LOG_2_PI).sum(axis=1)
        ),
        "The square of the distance is missing.": (
            -0.5 * ((x - mean) / std + 2.0 * log_std + LOG_2_PI).sum(axis=1)
        ),
        "log_std was used as the standard deviation. Take its exponential first.": no_exp,
        "log_std was used as the logarithm of the variance.": reference(x, mean, 0.5 * log_std),
    }
