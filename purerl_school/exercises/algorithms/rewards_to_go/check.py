"""Checks of exercise 3.1: small rollouts whose rewards-to-go are known."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from purerl_school.exercises.checking import Mistakes, apply, expect_close

Answer = Callable[..., Any]


class Rows(NamedTuple):
    """Arguments of the answer, in float64."""

    rew: np.ndarray
    next_val: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


def check_one_episode(answer: Answer) -> None:
    """One episode that ends in a terminal state."""
    rows = _make_rows([1, 2, 3], [40, 50, 60], "--T")
    mistakes = {
        "All steps have the return of the whole episode. Leave out the rewards before each step.": (
            [5.23, 5.23, 5.23]
        ),
        "The discount factor is missing.": [6, 5, 3],
        "Each reward is discounted by its distance from the first row. Discount it by its distance "
        "from the step itself.": [5.23, 4.23, 2.43],
        "The sums run forwards in time. Sum the rewards that follow a step.": [1, 2.9, 5.61],
        "The sum stops one row too early. The reward of a terminated step counts.": [2.8, 2, 3],
        "The reward of the step itself is missing.": [4.23, 2.7, 0],
        "The result is in reversed order. The loop runs backwards, so reverse its list.": (
            [3, 4.7, 5.23]
        ),
        "V(s_{t+1}) of the terminal state was added. A terminal state has no future.": (
            [5.23 + 0.9**3 * 60, 4.7 + 0.9**2 * 60, 3 + 0.9 * 60]
        ),
        "V(s_{t+1}) was added at every step. Inside an episode, R_{t+1} follows.": (
            [1 + 0.9 * 40, 2 + 0.9 * 50, 3]
        ),
    }
    _expect(answer, rows, [5.23, 4.7, 3], mistakes)


def check_two_episodes(answer: Answer) -> None:
    """Two terminated episodes in one array."""
    rows = _make_rows([1, 2, 4, 8], [10, 20, 30, 40], "-T-T")
    mistakes = {
        "The rewards of the second episode flow into the first one.": (
            _solve(rows, lambda t, x: 0.0 if t == 3 else x)
        ),
    }
    _expect(answer, rows, [2.8, 2, 11.2, 8], mistakes)


def check_cut_at_the_end(answer: Answer) -> None:
    """An episode that the end of the array cuts, so the last row has no flag."""
    rows = _make_rows([1, 2, 3], [40, 50, 10], "---")
    mistakes = {
        "Nothing was added after the last row. Its episode goes on, so add gamma V(s_T).": (
            [5.23, 4.7, 3]
        ),
        "V(s_T) was added without gamma.": [5.23 + 8.1, 4.7 + 9, 13],
        "V(s_T) replaced the last reward. Add gamma V(s_T) to it.": [1 + 1.8 + 8.1, 11, 10],
    }
    _expect(answer, rows, [12.52, 12.8, 12], mistakes)


def check_time_limit(answer: Answer) -> None:
    """A row whose episode was cut by the time limit."""
    rows = _make_rows([1, 2, 4, 8], [10, 20, 30, 40], "-L-T")
    right = [1 + 0.9 * 20, 20, 11.2, 8]
    value_before = [1 + 0.9 * (2 + 0.9 * 10), 2 + 0.9 * 10, 11.2, 8]
    value_after = [1 + 0.9 * (2 + 0.9 * 30), 2 + 0.9 * 30, 11.2, 8]
    mistakes = {
        "A time limit counts as a terminal state. Bootstrap there: add gamma V(s_{t+1}).": (
            [2.8, 2, 11.2, 8]
        ),
        "The sum runs across the time limit into the next episode.": (
            _solve(rows, lambda t, x: 0.0 if rows.terminated[t] else x)
        ),
        "The value and the rewards of the next episode were both added at the time limit.": (
            _solve(rows, lambda t, x: 0.0 if rows.terminated[t] else x + 20 * rows.truncated[t])
        ),
        "V was taken one row too early. next_val[t] is already the value after step t.": (
            value_before
        ),
        "V was taken one row too late. next_val[t] is already the value after step t.": value_after,
    }
    _expect(answer, rows, right, mistakes)


def check_both_flags(answer: Answer) -> None:
    """A step that is terminated and truncated at once."""
    rows = _make_rows([1, 2, 4], [10, 20, 30], "-BT")
    mistakes = {
        "The step bootstraps, but it is terminal. `terminated` wins over `truncated`.": (
            [1 + 0.9 * 20, 20, 4]
        ),
    }
    _expect(answer, rows, [2.8, 2, 4], mistakes)


def check_jit(answer: Answer) -> None:
    """The function inside of `jax.jit`."""
    rows = _make_rows([1, 2, 4, 8], [10, 20, 30, 40], "-LT-")
    right = [1 + 0.9 * 20, 20, 4, 8 + 0.9 * 40]
    _expect(jax.jit(answer), rows, right, {})


def _make_rows(rew: list[float], next_val: list[float], ends: str) -> Rows:
    """Return rows; `ends` has T for terminated, L for a time limit, B for both, - for neither."""
    flags = [np.array([end in kinds for end in ends]) for kinds in ("TB", "LB")]
    return Rows(np.array(rew, float), np.array(next_val, float), *flags)


def _solve(rows: Rows, follow: Callable[[int, float], float]) -> np.ndarray:
    """Return sums for which `follow` says what comes after step t, from the sum of the next row."""
    result, later = [], rows.next_val[-1]
    for t in reversed(range(len(rows.rew))):
        later = rows.rew[t] + 0.9 * follow(t, later)
        result.append(later)
    return np.array(result[::-1])


def _expect(answer: Answer, rows: Rows, right: Any, mistakes: Mistakes) -> None:
    """Compare the answer for a discount of 0.9 with the right sums."""
    expect_close(apply(answer, *rows, 0.9), right, "reward-to-go", mistakes=mistakes)
