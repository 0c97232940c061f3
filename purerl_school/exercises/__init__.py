"""Exercises that check themselves: fill in one pure function, and read which case it gets wrong.

    from purerl_school import exercises
    exercises.list_exercises()
    exercises.start("1.1")            # writes exercises/exercise_1_1.py
    exercises.check("1.1", log_prob)  # your function, or the path of your file

The command `purerl exercise` does the same. Importing this imports no JAX.
"""

import difflib
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from purerl.errors import ConfigError
from purerl.runs.console import align_columns, print_lines
from purerl_school.exercises import student, texts
from purerl_school.exercises.student import FOLDER

__all__ = ["EXERCISES", "Exercise", "check", "hint", "list_exercises", "solution", "start"]


class Exercise(NamedTuple):
    """Facts about an exercise that need no JAX."""

    folder: str  # below purerl_school/exercises
    function: str  # the function that the student fills in
    title: str


EXERCISES = {
    "1.1": Exercise("first/gaussian_log_prob", "log_prob", "Log-probability of a Gaussian"),
    "1.2": Exercise("first/gaussian_policy", "sample_action", "A diagonal Gaussian policy"),
    "1.3": Exercise("first/td3_losses", "compute_losses", "The losses of TD3"),
    "2.1": Exercise("studies/value_function", "measure_gradient", "What does a value function do?"),
    "2.2": Exercise("studies/silent_bug", "critic_loss", "A silent bug"),
    "3.1": Exercise("algorithms/rewards_to_go", "reward_to_go", "Rewards-to-go"),
    "3.2": Exercise("algorithms/gae", "gae", "Generalised advantage estimation"),
    "3.3": Exercise("algorithms/clipped_objective", "actor_loss", "PPO's clipped objective"),
    "3.4": Exercise("algorithms/dqn_target", "target", "DQN's target"),
    "3.5": Exercise("algorithms/temperature", "alpha_loss", "SAC's temperature"),
    "3.6": Exercise("algorithms/relabelling", "relabel", "Relabelling with goals in hindsight"),
    "3.7": Exercise("algorithms/custom_loop", "advance", "A custom loop"),
}
"""All exercises by their number, in the order in which to do them."""


def find(number: str) -> Exercise:
    """Return the exercise with a number, or suggest the nearest number."""
    if number not in EXERCISES:
        near = difflib.get_close_matches(number, EXERCISES, 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        numbers = ", ".join(EXERCISES)
        raise ConfigError(f"the exercise must be one of {numbers}, got {number!r}.{hint}")
    return EXERCISES[number]


def list_exercises(folder: str | Path = FOLDER) -> None:
    """Print all exercises, and which of them are solved.

    Args:
        folder: Folder with the student's files.
    """
    solved = student.read_solved(Path(folder))
    rows = [(number, one.title, solved.get(number, "")) for number, one in EXERCISES.items()]
    print_lines(align_columns([("", "exercise", "solved"), *rows]))


def start(number: str, folder: str | Path = FOLDER) -> Path:
    """Write the file of an exercise, print the task, and return the path of the file.

    Args:
        number: Number of the exercise, for example `1.1`.
        folder: Folder for the student's files. An existing file is never overwritten.
    """
    exercise = find(number)
    path = student.write_start(Path(folder) / student.name_file(number), texts.read_start(exercise))
    print_lines(texts.read_task(exercise))
    print_lines(f"\nWritten: {path}\nYour function is {exercise.function}.")
    return path


def hint(number: str, step: int = 1) -> None:
    """Print a hint: 1 is the smallest, and 3 almost the answer."""
    exercise = find(number)
    if step not in texts.HINTS:
        raise ConfigError(f"the hint must be 1, 2 or 3, got {step!r}.")
    print_lines(texts.read_section(exercise, f"Hint {step}"))


def solution(number: str) -> None:
    """Print the solution of an exercise, with its explanation."""
    exercise = find(number)
    print_lines(texts.read_section(exercise, "Solution") + "\n")
    print_lines(texts.read_solution(exercise).rstrip())


def check(number: str, answer: Callable[..., Any] | str | Path, reward: bool = True) -> bool:
    """Check an answer, print the first case that fails and why, and return whether all pass.

    Args:
        number: Number of the exercise, for example `1.1`.
        answer: The function, or the path of the file that contains it.
        reward: Whether to train with the function for up to a minute if all checks pass.
    """
    from purerl_school.exercises import checking  # start-up time

    exercise = find(number)
    edge, total = " " * 7, len(checking.find_checks(exercise))
    for index, outcome in enumerate(checking.run_checks(exercise, answer)):
        print_lines(f"{'ok   ' if outcome.passed else 'WRONG'}  {outcome.case}")
        if not outcome.passed:
            message = outcome.message
            print_lines(textwrap.fill(message, 100, initial_indent=edge, subsequent_indent=edge))
            print_lines(f"{index} of {total} checks pass so far.")
            return False
    print_lines(f"All {total} checks pass. Exercise {number} is solved.")
    if not callable(answer):
        student.mark_solved(Path(answer).parent, number)
    if reward:
        checking.run_reward(exercise, answer, print_lines)
    return True
