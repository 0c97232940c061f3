"""Answers to exercises: the solution, the start file, and solutions with one change."""

from pathlib import Path

import jax.numpy as jnp
import pytest

import purerl_school
from purerl_school import exercises
from purerl_school.exercises import checking, student


def folder_of(number):
    return Path(purerl_school.__file__).parent / "exercises" / exercises.find(number).folder


def load(number, file="solution.py"):
    return student.load_answer(folder_of(number) / file, exercises.find(number).function)


def change_solution(number, old, new):
    """Return the function of the solution after a change of its source."""
    source = (folder_of(number) / "solution.py").read_text()
    assert source.count(old) == 1, f"{old!r} must be in the solution once"
    names = {"jnp": jnp}
    exec(compile(source.replace(old, new), "changed.py", "exec"), names)
    return names[exercises.find(number).function]


def mark_later(cases, quick=8):
    """Mark all cases but the first ones for `make test-all`."""
    later = [pytest.param(*case, marks=pytest.mark.complete) for case in cases[quick:]]
    return [*cases[:quick], *later]


def find_mistake(number, answer):
    """Return the case and the message of the first check that fails, or an empty text."""
    outcomes = checking.run_checks(exercises.find(number), answer)
    return next((f"{one.case}: {one.message}" for one in outcomes if not one.passed), "")


def run_reward(number):
    """Run the training of an exercise with its solution; return its score and its lines."""
    lines = []
    return checking.run_reward(exercises.find(number), load(number), lines.append), lines
