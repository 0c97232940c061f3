"""Checks of exercise 3.2: the two limits of lambda, then each kind of end."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from purerl_school.exercises.checking import Mistakes, apply, expect_close

Answer = Callable[..., Any]
GAMMA = 0.9


class Rows(NamedTuple):
    """Arguments of the answer, in float64."""

    rew: np.ndarray
    val: np.ndarray
    next_val: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


def check_lambda_zero(answer: Answer) -> None:
    """Lambda 0, so each advantage is the error of one step."""
    rows = _make_rows([1, 2, 3], [10, 20, 30], [20, 30, 40], "--T")
    mistakes = {
        "V(s_t) was not subtracted, or it was added again at the end.": [19, 29, 3],
        "V(s_t) was added. An advantage is the difference to V(s_t).": [29, 49, 33],
        "V(s_{t+1}) is not discounted by gamma.": [11, 12, -27],
        "V(s_{t+1}) of a terminal state was used. A terminated step has no next value.": [9, 9, 9],
        "V(s_{t+1}) is missing inside the episode. Only a terminated step has none.": (
            [-9, -18, -27]
        ),
        "The mask is inverted: use 1 - terminated.": [-9, -18, 9],
        "lambda is missing in the recursion.": [5.23 - 10, 4.7 - 20, 3 - 30],
        "The result is in reversed order. The loop runs backwards, so reverse its list.": (
            [-27, 9, 9]
        ),
        "The loop leaves out the last row.": [9, 9, 0],
    }
    _expect(answer, rows, 0.0, [9, 9, -27], mistakes)


def check_lambda_one(answer: Answer) -> None:
    """Lambda 1, so each advantage is the reward-to-go minus the value."""
    rows = _make_rows([1, 2, 3], [10, 20, 30], [20, 30, 40], "--T")
    mistakes = {
        "gamma is missing in the recursion.": [9 + 9 - 27, 9 - 27, -27],
        "The recursion restarts one row too early. The flag belongs to the last step.": (
            [9 + 0.9 * 9, 9, -27]
        ),
        "These are the errors of one step. Add gamma lambda times the next advantage.": [9, 9, -27],
        "The recursion runs forwards in time. Begin with the last row.": (
            [9, 9 + 0.9 * 9, -27 + 0.9 * (9 + 0.9 * 9)]
        ),
    }
    _expect(answer, rows, 1.0, [5.23 - 10, 4.7 - 20, 3 - 30], mistakes)


def check_lambda_between(answer: Answer) -> None:
    """Lambda 0.5 in one episode."""
    rows = _make_rows([1, 2, 3], [10, 20, 30], [20, 30, 40], "--T")
    delta = np.array([9.0, 9.0, -27.0])
    mistakes = {
        "Each new error was multiplied by 1 - lambda. The recursion adds it whole.": (
            _solve(0.5 * delta, 0.45 * np.ones(3))
        ),
    }
    _expect(answer, rows, 0.5, [9 + 0.45 * -3.15, 9 + 0.45 * -27, -27], mistakes)


def check_terminated_in_the_middle(answer: Answer) -> None:
    """A terminal state in the middle of the array."""
    rows = _make_rows([1, 2, 3, 4], [10, 20, 30, 40], [20, 70, 40, 50], "-T-T")
    delta = np.array([9.0, -18.0, 9.0, -36.0])
    mistakes = {
        "Advantages of the next episode flow into this one.": _solve(delta, 0.45 * np.ones(4)),
        "V(s_{t+1}) of a terminal state was used.": _solve(
            np.array([9.0, 45.0, 9.0, 9.0]), np.array([0.45, 0, 0.45, 0])
        ),
    }
    _expect(answer, rows, 0.5, [9 + 0.45 * -18, -18, 9 + 0.45 * -36, -36], mistakes)


def check_time_limit(answer: Answer) -> None:
    """A row whose episode was cut by the time limit."""
    rows = _make_rows([1, 2, 3, 4], [10, 20, 30, 40], [20, 70, 40, 50], "-L-T")
    weight = np.array([0.45, 0, 0.45, 0])
    mistakes = {
        "A time limit counts as a terminal state. Only terminated removes V(s_{t+1}).": (
            _solve(np.array([9.0, -18.0, 9.0, -36.0]), weight)
        ),
        "Advantages of the next episode flow into this one. A time limit ends an episode, too.": (
            _solve(np.array([9.0, 45.0, 9.0, -36.0]), np.array([0.45, 0.45, 0.45, 0]))
        ),
        "The next row of val was used. It belongs to the next episode. Use next_val.": (
            _solve(np.array([9.0, 9.0, 9.0, -36.0]), weight)
        ),
    }
    _expect(answer, rows, 0.5, [9 + 0.45 * 45, 45, 9 + 0.45 * -36, -36], mistakes)


def check_last_row(answer: Answer) -> None:
    """A last row without a flag: its episode continues after the array."""
    rows = _make_rows([1, 2, 3], [10, 20, 30], [20, 30, 80], "---")
    weight = 0.45 * np.ones(3)
    mistakes = {
        "The last row has no next value. Its episode goes on, so use next_val there, too.": (
            _solve(np.array([9.0, 9.0, -27.0]), weight)
        ),
        "The value of the last row itself was used as its next value. Use next_val.": (
            _solve(np.array([9.0, 9.0, 0.0]), weight)
        ),
        "V(s_T) was used twice: in the last error, and as the advantage after it.": (
            _solve(np.array([9.0, 9.0, 45.0 + 0.45 * 80]), weight)
        ),
    }
    _expect(answer, rows, 0.5, [9 + 0.45 * (9 + 0.45 * 45), 9 + 0.45 * 45, 45], mistakes)


def check_both_flags(answer: Answer) -> None:
    """A step that is terminated and truncated at once."""
    rows = _make_rows([1, 2, 3], [10, 20, 30], [20, 70, 80], "-BT")
    mistakes = {
        "The step uses V(s_{t+1}), but it is terminal. `terminated` wins over `truncated`.": (
            [9 + 0.45 * 45, 45, -27]
        ),
        "The two flags were added, which gives 2. Combine them with `or`.": (
            _solve(np.array([9.0, -18.0, -27.0]), np.array([0.45, -0.45, 0]))
        ),
    }
    _expect(answer, rows, 0.5, [9 + 0.45 * -18, -18, -27], mistakes)


def check_several_environments(answer: Answer) -> None:
    """Two environments side by side, `[T, N]`, inside of `jax.jit`."""
    one = _make_rows([1, 2, 3], [10, 20, 30], [20, 70, 40], "-LT")
    two = _make_rows([1, 2, 3], [10, 20, 30], [20, 30, 80], "---")
    rows = Rows(*(np.stack(pair, axis=1) for pair in zip(one, two, strict=True)))
    right = [[9 + 0.45 * 45, 9 + 0.45 * (9 + 0.45 * 45)], [45, 9 + 0.45 * 45], [-27, 45]]
    delta = np.array([[9.0, 9.0], [45.0, 9.0], [-27.0, 45.0]])
    across = np.array([[0.45, 0.45], [0, 0.45], [0, 0.45]])
    mistakes = {
        "The recursion runs over environments. Time is the first axis.": np.stack(
            [_solve(d, w) for d, w in zip(delta, across, strict=True)]
        ),
    }
    _expect(jax.jit(answer), rows, 0.5, right, mistakes)


def _make_rows(rew: Any, val: Any, next_val: Any, ends: str) -> Rows:
    """Return rows; `ends` has T for terminated, L for a time limit, B for both, - for neither."""
    flags = [np.array([end in kinds for end in ends]) for kinds in ("TB", "LB")]
    return Rows(*(np.array(x, float) for x in (rew, val, next_val)), *flags)


def _solve(delta: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return x with x[t] = delta[t] + weight[t] x[t + 1]."""
    result, later = np.zeros_like(delta), 0.0
    for t in reversed(range(len(delta))):
        result[t] = later = delta[t] + weight[t] * later
    return result


def _expect(answer: Answer, rows: Rows, lam: float, right: Any, mistakes: Mistakes) -> None:
    """Compare the answer for a discount of 0.9 with the right advantages."""
    expect_close(apply(answer, *rows, GAMMA, lam), right, "advantage", mistakes=mistakes)
