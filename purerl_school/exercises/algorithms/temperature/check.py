"""Checks of exercise 3.5: value, sign, size and place of the gradient."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from purerl_school.exercises.checking import (
    Mistakes,
    apply,
    expect_close,
    expect_no_gradient,
    reject,
    to_jax,
)

Answer = Callable[..., Any]
LOG_ALPHA = np.array(np.log(0.2))
LOGP = np.array([-0.9, 0.3])  # mean -0.3, so the entropy is 0.3


def check_value(answer: Answer) -> None:
    """The loss at a temperature of 0.2, an entropy of 0.3 and a target of -1."""
    log_alpha = float(LOG_ALPHA)
    mistakes: Mistakes = {
        "The sign is wrong: the equation begins with a minus.": -1.3 * log_alpha,
        "alpha was used in place of log(alpha). Multiply by log_alpha itself.": 1.3 * 0.2,
        "alpha was used in place of log(alpha), and the sign is wrong.": -1.3 * 0.2,
        "The rows were added up. Take their mean.": 2.6 * log_alpha,
        "The target was subtracted. log pi is minus the entropy, so add the target.": (
            -0.7 * log_alpha
        ),
        "The target entropy is missing.": 0.3 * log_alpha,
        "log pi has the wrong sign. The equation has log pi, which is minus the entropy.": (
            0.7 * log_alpha
        ),
        "Each row has a loss of its own. Take their mean.": -log_alpha * (LOGP - 1),
    }
    got = apply(answer, LOG_ALPHA, LOGP, -1.0)
    if got is not None and np.isnan(np.asarray(got, float)).any():
        reject("The loss is not a number. log_alpha is a logarithm already: do not take log again.")
    expect_close(got, 1.3 * log_alpha, "loss", mistakes=mistakes)


def check_gradient(answer: Answer) -> None:
    """The gradient in `log_alpha`, by which the temperature learns."""
    mistakes: Mistakes = {
        "The gradient is 0, so the temperature never learns. Stop only the gradient of logp.": 0.0,
    }
    _expect_slope(answer, LOG_ALPHA, LOGP, -1.0, 1.3, mistakes)


def check_entropy_too_low(answer: Answer) -> None:
    """An entropy below its target: the temperature must rise."""
    mistakes: Mistakes = {
        "The temperature falls, but the entropy is too low already. Was an absolute gap used?": 1.0,
        "The gap was clipped at 0, so the temperature can never rise.": 0.0,
    }
    _expect_slope(answer, LOG_ALPHA, np.array([2.5, 1.5]), -1.0, -1.0, mistakes)


def check_entropy_at_target(answer: Answer) -> None:
    """An entropy at its target: the temperature must stay."""
    mistakes: Mistakes = {
        "The target is fixed at -1. Use target_entropy.": -4.0,
    }
    _expect_slope(answer, LOG_ALPHA, np.array([4.0, 6.0]), -5.0, 0.0, mistakes)


def check_large_temperature(answer: Answer) -> None:
    """A temperature of 3, so that log(alpha) is positive."""
    mistakes: Mistakes = {
        "The temperature rises, but the entropy is too high. Was the absolute value of log_alpha "
        "used?": -1.3,
    }
    log_alpha = np.array(np.log(3.0))
    _expect_slope(answer, log_alpha, LOGP, -1.0, 1.3, mistakes)
    expect_close(apply(answer, log_alpha, LOGP, -1.0), 1.3 * np.log(3.0), "loss")


def check_policy_has_no_gradient(answer: Answer) -> None:
    """The gradient in `logp`, which must not move the policy."""
    log_alpha, logp = to_jax((LOG_ALPHA, LOGP))
    got = jax.grad(lambda x: answer(log_alpha, x, -1.0))(logp)
    hint = "This loss would train the policy. Put jax.lax.stop_gradient around logp."
    expect_no_gradient(got, "logp", hint)


def check_jit(answer: Answer) -> None:
    """The function inside of `jax.jit`."""
    got = apply(jax.jit(answer), LOG_ALPHA, LOGP, -1.0)
    expect_close(got, 1.3 * float(LOG_ALPHA), "loss")


def _expect_slope(
    answer: Answer, log_alpha: Any, logp: Any, target: float, slope: float, mistakes: Mistakes
) -> None:
    got = jax.grad(answer)(*to_jax((log_alpha, logp)), target)
    expect_close(got, slope, "gradient in log_alpha", mistakes=mistakes)
