"""Checks of exercise 3.3: values and gradients of single rows, then of a batch."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from purerl_school.exercises.checking import Mistakes, expect_close, expect_no_gradient, to_jax

Answer = Callable[..., Any]
OLD = -1.5  # old log-probability of each row
NO_GRADIENT = "The gradient is 0. A stop_gradient holds logp or the ratio fixed."


def check_start_of_an_update(answer: Answer) -> None:
    """A batch in which old and new policy are equal, so the ratio is 1."""
    logp, adv = np.array([-0.5, -1.0, -1.5]), np.array([3.0, -1.0, 4.0])
    mistakes: Mistakes = {
        "The sign is wrong: an optimizer would make good actions less likely. L has a minus.": 2.0,
        "The rows were added up. Take their mean.": -6.0,
        "The advantages were standardised. Use them as they are.": 0.0,
        "The ratio is a difference of log-probabilities. It is exp(logp - old_logp).": (
            -np.minimum(0.0, 0.8 * adv).mean()
        ),
        "This is the loss of the plain policy gradient, with log-probabilities. Use the ratio.": (
            -(logp * adv).mean()
        ),
    }
    _expect_value(answer, logp, logp, adv, 0.2, -2.0, mistakes)
    slopes = {
        NO_GRADIENT: np.zeros(3),
        "The ratio is upside down: new over old is exp(logp - old_logp).": adv / 3,
        "The ratio divides log-probabilities. It is exp(logp - old_logp).": -adv / 3 / logp,
        "Each ratio met each advantage. Shapes [B, 1] and [B] broadcast to [B, B].": (
            np.full(3, -adv.sum() / 9)
        ),
    }
    _expect_slope(answer, logp, logp, adv, 0.2, -adv / 3, slopes)


def check_ratio(answer: Answer) -> None:
    """A ratio inside of the clip range."""
    mistakes = {
        "The ratio was approximated. It is exp(logp - old_logp).": -2 * (1 + np.log(1.1)),
    }
    _expect_row(answer, 1.1, 2.0, -2.2, -2.2, mistakes)


def check_good_action_above(answer: Answer) -> None:
    """A good action (advantage 2) with a ratio of 1.5, above the clip range."""
    mistakes = {
        "The loss is not flat here. Either nothing was clipped, or the maximum of the two products "
        "was taken in place of the minimum.": -3.0,
        "The log-probability was clipped, not the ratio.": -2 * np.exp(0.2),
        "The range is not symmetric: clip to 1 - clip_ratio and 1 + clip_ratio.": -2 / 0.8,
    }
    _expect_row(answer, 1.5, 2.0, -2.4, 0.0, mistakes)


def check_good_action_below(answer: Answer) -> None:
    """A good action (advantage 2) with a ratio of 0.5, below the clip range."""
    mistakes = {
        "The clipped term was used alone. It is flat here, so nothing brings the policy back. Take "
        "the minimum of both products.": -1.6,
    }
    _expect_row(answer, 0.5, 2.0, -1.0, -1.0, mistakes)


def check_bad_action_below(answer: Answer) -> None:
    """A bad action (advantage -2) with a ratio of 0.5, below the clip range."""
    mistakes = {
        "The minimum of the ratios was taken, and then multiplied. Multiply by the advantage "
        "first: a negative number turns the order around.": 1.0,
    }
    _expect_row(answer, 0.5, -2.0, 1.6, 0.0, mistakes)


def check_bad_action_above(answer: Answer) -> None:
    """A bad action (advantage -2) with a ratio of 1.5, above the clip range."""
    mistakes = {
        "The clipped term was used. It is flat here, so nothing lowers the probability again. Take "
        "the minimum of both products.": 2.4,
    }
    _expect_row(answer, 1.5, -2.0, 3.0, 3.0, mistakes)


def check_clip_ratio(answer: Answer) -> None:
    """Another clip range, 0.4."""
    mistakes: Mistakes = {
        "The clip range is fixed at 0.2. Use clip_ratio.": -2.4,
    }
    logp = np.array([OLD + np.log(2.0)])
    _expect_value(answer, logp, np.array([OLD]), np.array([2.0]), 0.4, -2.8, mistakes)


def check_batch(answer: Answer) -> None:
    """A batch of four rows, one of each kind."""
    ratio, adv = np.array([1.5, 0.5, 0.5, 1.5]), np.array([1.0, 2.0, -3.0, -4.0])
    old = np.array([-0.5, -1.0, -2.0, -3.0])
    rows = -np.minimum(ratio * adv, np.clip(ratio, 0.8, 1.2) * adv)
    mistakes: Mistakes = {
        "The mean over rows was taken before the minimum.": (
            -min((ratio * adv).mean(), (np.clip(ratio, 0.8, 1.2) * adv).mean())
        ),
    }
    _expect_value(answer, old + np.log(ratio), old, adv, 0.2, rows.mean(), mistakes)
    slope = np.array([0.0, -1.0, 0.0, 6.0]) / 4
    _expect_slope(answer, old + np.log(ratio), old, adv, 0.2, slope, {})


def check_data_has_no_gradient(answer: Answer) -> None:
    """The gradients of old log-probabilities and of advantages."""
    ratio, adv = np.array([1.1, 0.9]), np.array([1.0, -2.0])
    old = np.array([-0.5, -1.0])
    arguments = to_jax((old + np.log(ratio), old, adv))
    for position, name in ((1, "old_logp"), (2, "adv")):
        got = jax.grad(lambda *x: answer(*x, 0.2), argnums=position)(*arguments)
        hint = f"{name} is data. Put jax.lax.stop_gradient around it."
        expect_no_gradient(got, name, hint)


def _expect_row(
    answer: Answer, ratio: float, adv: float, value: float, slope: float, mistakes: Mistakes
) -> None:
    """Compare the loss of one row, and its gradient in the log-probability."""
    rows = (np.array([OLD + np.log(ratio)]), np.array([OLD]), np.array([adv]))
    _expect_value(answer, *rows, 0.2, value, mistakes)
    hints = {
        NO_GRADIENT: [0.0],
        "The value is right, but it has a gradient. Does it come from the clipped term?": (
            [-ratio * adv]
        ),
    }
    _expect_slope(answer, *rows, 0.2, [slope], {k: v for k, v in hints.items() if v != [slope]})


def _expect_value(
    answer: Answer, logp: Any, old: Any, adv: Any, clip: float, value: Any, mistakes: Mistakes
) -> None:
    expect_close(answer(*to_jax((logp, old, adv)), clip), value, "loss", mistakes=mistakes)


def _expect_slope(
    answer: Answer, logp: Any, old: Any, adv: Any, clip: float, slope: Any, mistakes: Mistakes
) -> None:
    got = jax.grad(answer)(*to_jax((logp, old, adv)), clip)
    expect_close(got, slope, "gradient in logp", mistakes=mistakes)
