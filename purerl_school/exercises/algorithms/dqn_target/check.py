"""Checks of exercise 3.4: the maximum, the flags, double Q-learning and gradients."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from purerl_school.exercises.checking import (
    Mistakes,
    apply,
    expect_close,
    expect_no_gradient,
    to_jax,
)

Answer = Callable[..., Any]
GAMMA = 0.9
REW = np.array([1.0, 2.0, -1.0])
TARGET_Q = np.array([[1.0, 5.0], [10.0, 4.0], [-3.0, -2.0]])
ONLINE_Q = np.array([[7.0, 6.0], [8.0, 9.0], [-5.0, -4.0]])
MAXIMUM = np.array([5.0, 10.0, -2.0])  # of TARGET_Q
DOUBLE = np.array([1.0, 4.0, -2.0])  # of TARGET_Q, at the best actions of ONLINE_Q


def check_maximum(answer: Answer) -> None:
    """Rows without any flag."""
    mistakes = {
        "No next value was added. Is the mask inverted? It is 1 - terminated.": REW,
        "gamma is missing.": REW + MAXIMUM,
        "The reward is missing.": GAMMA * MAXIMUM,
        "The reward is discounted. gamma belongs to the next value.": GAMMA * (REW + MAXIMUM),
        "The minimum of the values was taken.": REW + GAMMA * TARGET_Q.min(axis=1),
        "The mean of the values was taken. DQN uses the best action.": (
            REW + GAMMA * TARGET_Q.mean(axis=1)
        ),
        "argmax returns an action, 0 or 1. Take the value of this action.": (
            REW + GAMMA * np.array([1, 0, 1])
        ),
        "The maximum is over the whole batch. Take it for each row.": REW + GAMMA * 10,
        "The online network was used. Targets come from the target network.": (
            REW + GAMMA * ONLINE_Q.max(axis=1)
        ),
        "The target network chose, and the online network gave the value. Both come from the "
        "target network.": REW + GAMMA * np.array([6.0, 8.0, -4.0]),
        "Each row got the actions of all rows. Take one value per row.": (
            REW + GAMMA * TARGET_Q[:, [1, 0, 1]]
        ),
        "This is double Q-learning, but double is False.": REW + GAMMA * DOUBLE,
        "Shapes [B, 1] and [B] broadcast to [B, B]. Remove the last axis of the next value.": (
            REW + GAMMA * MAXIMUM[:, None]
        ),
    }
    _expect(answer, "---", False, REW + GAMMA * MAXIMUM, mistakes)


def check_terminal_row(answer: Answer) -> None:
    """A terminal row."""
    mistakes = {
        "The terminal row bootstraps. Nothing follows a terminal state.": REW + GAMMA * MAXIMUM,
        "The reward of the terminal row is missing. Only the next value is removed.": (
            (REW + GAMMA * MAXIMUM) * [1, 0, 1]
        ),
    }
    _expect(answer, "-T-", False, [1 + 4.5, 2, -1 - 1.8], mistakes)


def check_time_limit(answer: Answer) -> None:
    """A row whose episode was cut by the time limit."""
    mistakes = {
        "A time limit counts as a terminal state. Only terminated removes the next value.": (
            [1, 2 + 9, -1 - 1.8]
        ),
        "A time limit removes the whole target.": [0, 2 + 9, -1 - 1.8],
    }
    _expect(answer, "L--", False, REW + GAMMA * MAXIMUM, mistakes)


def check_both_flags(answer: Answer) -> None:
    """A row that is terminated and truncated at once."""
    mistakes = {
        "The row bootstraps, but it is terminal. `terminated` wins over `truncated`.": (
            REW + GAMMA * MAXIMUM
        ),
    }
    _expect(answer, "B--", False, [1, 2 + 9, -1 - 1.8], mistakes)


def check_double(answer: Answer) -> None:
    """Double Q-learning."""
    mistakes = {
        "double makes no difference: this is the maximum of the target network.": (
            REW + GAMMA * MAXIMUM
        ),
        "The roles are swapped: the target network chose, and the online network gave the value.": (
            REW + GAMMA * np.array([6.0, 8.0, -4.0])
        ),
        "The online network chose the action and gave its value. The value comes from the target "
        "network.": REW + GAMMA * np.array([7.0, 9.0, -4.0]),
        "The smaller of the two maxima was taken. That is clipped double Q-learning, of TD3.": (
            REW + GAMMA * np.array([5.0, 9.0, -4.0])
        ),
        "Shapes [B, 1] and [B] broadcast to [B, B]. Remove the last axis of the next value.": (
            REW + GAMMA * DOUBLE[:, None]
        ),
    }
    _expect(answer, "---", True, REW + GAMMA * DOUBLE, mistakes)


def check_double_with_flags(answer: Answer) -> None:
    """Double Q-learning with a terminal row and a time limit."""
    mistakes = {
        "The terminal row bootstraps. Both forms need the mask.": REW + GAMMA * DOUBLE,
        "A time limit counts as a terminal state.": [1, 2 + 3.6, -1],
    }
    _expect(answer, "T-L", True, [1, 2 + 3.6, -1 - 1.8], mistakes)


def check_no_gradient(answer: Answer) -> None:
    """The gradient through the target, in both forms."""
    rew, target_q, online_q = to_jax((REW, TARGET_Q, ONLINE_Q))
    flags = to_jax((np.zeros(3, bool),) * 2)
    for double in (False, True):

        def total(*q: Any, double: bool = double) -> Any:
            return answer(rew, *flags, *q, GAMMA, double).sum()

        grads = jax.grad(total, argnums=(0, 1))(target_q, online_q)
        for name, got in zip(("target_q", "online_q"), grads, strict=True):
            hint = "The target is a number. Put jax.lax.stop_gradient around it."
            expect_no_gradient(got, f"{name} (double={double})", hint)


def check_jit(answer: Answer) -> None:
    """The function inside of `jax.jit`."""
    compiled = jax.jit(answer, static_argnums=6)
    _expect(compiled, "-T-", True, [1 + 0.9, 2, -1 - 1.8], {})


def _expect(answer: Answer, ends: str, double: bool, right: Any, mistakes: Mistakes) -> None:
    """Compare the targets; `ends` has T for terminated, L for a time limit, B for both."""
    flags = [np.array([end in kinds for end in ends]) for kinds in ("TB", "LB")]
    got = apply(answer, REW, *flags, TARGET_Q, ONLINE_Q, GAMMA, double)
    expect_close(got, right, "target", mistakes=mistakes)
