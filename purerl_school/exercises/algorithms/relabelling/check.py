"""Checks of exercise 3.6: two short episodes in which every number is different."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from purerl.types import ExtendedTransition
from purerl_school.exercises.checking import Mistakes, expect_close, reject, to_jax

Answer = Callable[..., Any]
FIELDS = ("obs", "act", "rew", "next_obs", "terminated", "truncated")

SIZE = 2  # numbers of a goal

# Steps 0 to 2 are one episode and 3 to 4 another one. Goals are (x, 10 x) for a position x.
BEFORE = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [6.0, 60.0], [7.0, 70.0]])
AFTER = np.array([[2.0, 20.0], [3.0, 30.0], [4.0, 40.0], [7.0, 70.0], [8.0, 80.0]])
DESIRED = np.array([[9.0, 90.0]] * 3 + [[5.0, 50.0]] * 2)
POSITION = np.array([100.0, 101.0, 102.0, 200.0, 201.0])  # what the policy sees besides the goal
REW = np.array([-11.0, -12.0, -13.0, -14.0, -15.0])  # from no function, so that they are recognised
ACT = np.array([0.1, 0.2, 0.3, 0.4, 0.5])[:, None]
TERMINATED = np.array([False, False, True, False, False])
TRUNCATED = np.array([False, False, False, False, True])


class Sample(NamedTuple):
    """Rows to relabel."""

    rows: np.ndarray
    future: np.ndarray
    relabelled: np.ndarray


MIXED = Sample(
    np.array([0, 1, 2, 3, 0], np.int32),
    np.array([2, 1, 2, 4, 1], np.int32),
    np.array([True, True, True, False, True]),
)
NONE = MIXED._replace(relabelled=np.zeros(5, bool))


def check_fields(answer: Answer) -> None:
    """A batch without new goals, which equals the stored rows."""
    batch = _call(answer, NONE)
    for name, stored in zip(FIELDS, _make_data()[:6], strict=True):
        mistakes = {
            "These rows were not asked for. Take the rows `index`.": stored,
            "These are the rows `future`. They only give goals.": stored[NONE.future],
        }
        if stored.shape[1:] == (1 + SIZE,):
            mistakes |= _list_layouts(stored[NONE.rows])
        hint = "Rows that are not relabelled keep what was stored."
        _expect(batch, name, stored[NONE.rows], mistakes, hint)


def check_obs(answer: Answer) -> None:
    """The observations of relabelled rows."""
    _check_goals(answer, "obs", POSITION)


def check_next_obs(answer: Answer) -> None:
    """The next observations of relabelled rows."""
    _check_goals(answer, "next_obs", POSITION + 0.5)


def check_reward(answer: Answer) -> None:
    """The rewards of relabelled rows, for the goals achieved after the steps."""
    achieved, goal = AFTER[MIXED.rows], _goals(AFTER[MIXED.future])
    stored, new = REW[MIXED.rows], MIXED.relabelled

    def choose(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        return np.where(new, _reward(achieved, desired), stored)

    mistakes = {
        "The rewards were not computed again.": stored,
        "The reward belongs to the state after the step. It needs next_achieved_goal, not "
        "achieved_goal.": choose(BEFORE[MIXED.rows], goal),
        "The arguments of reward_fn are swapped: achieved first, then desired.": (
            choose(goal, achieved)
        ),
        "The reward was computed with the old goal.": choose(achieved, DESIRED[MIXED.rows]),
        "The goal achieved by the future step was used. The reward needs the goal achieved by the "
        "step itself.": choose(AFTER[MIXED.future], goal),
        "The rewards of the future steps were copied. Compute them with reward_fn.": (
            np.where(new, REW[MIXED.future], stored)
        ),
    }
    _expect(_call(answer, MIXED), "rew", choose(achieved, goal), mistakes)


def check_ends(answer: Answer) -> None:
    """The flag `terminated` of relabelled rows."""
    achieved, goal = AFTER[MIXED.rows], _goals(AFTER[MIXED.future])
    stored, new = TERMINATED[MIXED.rows], MIXED.relabelled
    over = _is_over(achieved, goal)
    mistakes = {
        "The stored flags were kept. A success in hindsight ends its episode, too.": stored,
        "All flags are False. Compute them with terminated_fn.": np.zeros(5, bool),
        "The flags belong to the state after the step. They need next_achieved_goal.": (
            np.where(new, _is_over(BEFORE[MIXED.rows], goal), stored)
        ),
        "The arguments of terminated_fn are swapped: achieved first, then desired.": (
            np.where(new, _is_over(goal, achieved), stored)
        ),
    }
    _expect(_call(answer, MIXED), "terminated", np.where(new, over, stored), mistakes)


def check_nothing_else(answer: Answer) -> None:
    """Actions and time limits, which do not depend on the goal."""
    index, future = np.array([4, 3], np.int32), np.array([4, 4], np.int32)
    batch = _call(answer, Sample(index, future, np.array([True, True])))
    mistakes: Mistakes = {"These are the actions of the future steps.": ACT[future]}
    _expect(batch, "act", ACT[index], mistakes)
    mistakes = {
        "The flags of the future steps were taken.": [True, True],
        "The time limit was removed. It does not depend on the goal.": [False, False],
    }
    _expect(batch, "truncated", [True, False], mistakes)


def check_jit(answer: Answer) -> None:
    """The function inside of `jax.jit`."""
    data, sample = to_jax((_make_data(), tuple(MIXED)))

    def run(data: Any, sample: Any) -> Any:
        return answer(data, *sample, _reward, _is_over)

    batch = jax.jit(run)(data, sample)
    goal = _goals(AFTER[MIXED.future])
    right = np.where(MIXED.relabelled, _reward(AFTER[MIXED.rows], goal), REW[MIXED.rows])
    _expect(batch, "rew", right, {})


def _check_goals(answer: Answer, field: str, position: np.ndarray) -> None:
    """Compare observations whose first number is `position`, with new goals behind it."""
    position = position[MIXED.rows]

    def put(goal: np.ndarray) -> np.ndarray:
        return np.concatenate([position[:, None], goal], axis=1)

    mistakes = {
        "The goals were not replaced.": put(DESIRED[MIXED.rows]),
        "The new goal is the one achieved before the future step. Use next_achieved_goal.": (
            put(_goals(BEFORE[MIXED.future]))
        ),
        "The new goal is the one achieved by the step itself. Use the rows `future`.": (
            put(_goals(AFTER[MIXED.rows]))
        ),
    }
    _expect(_call(answer, MIXED), field, put(_goals(AFTER[MIXED.future])), mistakes)


def _list_layouts(obs: np.ndarray) -> dict[str, np.ndarray]:
    """Return observations with their goal at a wrong place."""
    goal = obs[:, -SIZE:]
    return {
        "The goal stands before the observation. The last G numbers are the goal.": (
            np.concatenate([goal, obs[:, :-SIZE]], axis=1)
        ),
        "A goal was appended, and the old one is still there.": (
            np.concatenate([obs, goal], axis=1)
        ),
    }


def _goals(new: np.ndarray) -> np.ndarray:
    """Return the goals of the mixed batch: new ones for the rows `relabelled`."""
    return np.where(MIXED.relabelled[:, None], new, DESIRED[MIXED.rows])


def _reward(achieved: Any, desired: Any) -> Any:
    """Return a reward that is not symmetric, so that swapped arguments show."""
    return (achieved - 2.0 * desired).sum(axis=1)


def _is_over(achieved: Any, desired: Any) -> Any:
    """Return whether the achieved goal is at most 1 below the desired one."""
    return achieved[:, 0] >= desired[:, 0] - 1.0


def _make_data() -> ExtendedTransition:
    obs = np.concatenate([POSITION[:, None], DESIRED], axis=1)
    next_obs = np.concatenate([POSITION[:, None] + 0.5, DESIRED], axis=1)
    extra = {"achieved_goal": BEFORE, "next_achieved_goal": AFTER}
    return ExtendedTransition(obs, ACT, REW, next_obs, TERMINATED, TRUNCATED, extra)


def _call(answer: Answer, sample: Sample) -> Any:
    """Return the batch, after a check that it is one."""
    batch = answer(*to_jax((_make_data(), *sample)), _reward, _is_over)
    lacks = [name for name in FIELDS if not hasattr(batch, name)]
    if lacks:
        reject(f"Return a purerl.types.Batch. The result has no field {lacks[0]}: {batch!r:.80}")
    return batch


def _expect(batch: Any, field: str, right: Any, mistakes: Mistakes, hint: str = "") -> None:
    expect_close(getattr(batch, field), right, f"field {field}", hint, mistakes)
