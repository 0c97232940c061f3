"""Properties of every exercise, and the functions for notebooks."""

import inspect
import re

import pytest

from purerl import errors
from purerl_school import exercises
from purerl_school.exercises import checking, texts
from tests.mpi.launch import python
from tests.school.exercises import answers

NUMBERS = list(exercises.EXERCISES)


@pytest.mark.parametrize("number", NUMBERS)
def test_the_solution_passes_all_checks(number):
    outcomes = list(checking.run_checks(exercises.find(number), answers.load(number)))
    assert len(outcomes) >= 4
    assert not [one for one in outcomes if not one.passed]


@pytest.mark.parametrize("number", NUMBERS)
def test_the_unfilled_start_file_gives_a_friendly_message(number):
    mistake = answers.find_mistake(number, answers.folder_of(number) / "start.py")
    assert re.search("The function is not filled in yet: |This is a mean over all pairs", mistake)


@pytest.mark.parametrize("number", NUMBERS)
def test_start_and_solution_have_the_same_signature(number):
    start, solution = (answers.load(number, file) for file in ("start.py", "solution.py"))
    assert inspect.signature(start) == inspect.signature(solution)
    assert inspect.getdoc(start) == inspect.getdoc(solution)


@pytest.mark.parametrize("number", NUMBERS)
def test_each_check_names_its_case_in_one_line(number):
    for check in checking.find_checks(exercises.find(number)):
        first = check.__doc__.splitlines()[0]
        assert first.endswith(".")
        assert len(first) <= 90


@pytest.mark.parametrize("number", NUMBERS)
def test_each_exercise_has_a_task_three_hints_and_a_solution(number):
    exercise = exercises.find(number)
    assert texts.read_task(exercise).startswith(f"# Exercise {number}: ")
    assert "Hint" not in texts.read_task(exercise)
    for title in ("Hint 1", "Hint 2", "Hint 3", "Solution"):
        assert len(texts.read_section(exercise, title)) > 40
    assert f"def {exercise.function}(" not in texts.read_task(exercise)
    assert f"purerl exercise check {number}" in texts.read_start(exercise)


@pytest.mark.parametrize("number", NUMBERS)
def test_checks_use_no_function_that_the_student_could_copy(number):
    source = (answers.folder_of(number) / "check.py").read_text()
    imported = set(re.findall(r"(?:from|import) (purerl[\w.]*)", source))
    own = f"purerl_school.exercises.{exercises.find(number).folder.replace('/', '.')}."
    imported = {name for name in imported if not name.startswith(own)}
    assert imported <= {"purerl_school.exercises.checking", "purerl.types", "purerl.spaces"}


def test_texts_need_no_jax(tmp_path):
    program = """
import sys, purerl_school
purerl_school.exercises.list_exercises()
purerl_school.exercises.start("1.1", sys.argv[1])
purerl_school.exercises.hint("1.1", 3)
purerl_school.exercises.solution("1.1")
assert "jax" not in sys.modules
"""
    done = python("-c", program, str(tmp_path))
    assert done.code == 0, done.err
    assert "# Exercise 1.1: " in done.out
    assert "z = (x - mean) / jnp.exp(log_std)" in done.out
    assert (tmp_path / "exercise_1_1.py").exists()


def test_check_prints_the_first_wrong_case_and_why(capsys):
    wrong = answers.change_solution("1.1", "-0.5", "0.5")
    assert not exercises.check("1.1", wrong)
    said = capsys.readouterr().out
    assert said.splitlines()[0].startswith("ok     The shape of the result")
    assert "WRONG  One dimension, mean 0" in said
    assert "The sign is wrong" in said
    assert said.count("WRONG") == 1


def test_check_takes_a_function_and_says_that_all_checks_pass(capsys):
    assert exercises.check("1.1", answers.load("1.1"), reward=False)
    assert "Exercise 1.1 is solved." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("number", "message"),
    [("1.11", "got '1.11'. Did you mean 1.1?"), ("x", r"must be one of 1.1.*, got 'x'.$")],
)
def test_unknown_exercises_are_refused(number, message):
    with pytest.raises(errors.ConfigError, match=message):
        exercises.find(number)


def test_a_fourth_hint_is_refused():
    with pytest.raises(errors.ConfigError, match="the hint must be 1, 2 or 3, got 4"):
        exercises.hint("1.1", 4)
