"""`purerl exercise`: files, checks, hints, solutions and exit codes."""

import json

import pytest

import purerl
from purerl_school.exercises import FOLDER
from tests.cli.commands.call import call
from tests.school.exercises import answers


@pytest.fixture
def exercise(tmp_path, monkeypatch, capsys):
    """Run `purerl exercise` in an empty folder; return code, standard output and error output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(purerl, "setup", lambda: None)  # JAX has started

    def run(*words):
        code = call("exercise", *words)
        return code, *capsys.readouterr()

    return run


def test_an_exercise_from_its_start_to_its_solution(exercise, tmp_path):
    code, out, _ = exercise("start", "1.1")
    path = tmp_path / FOLDER / "exercise_1_1.py"
    assert (code, path.exists()) == (0, True)
    assert "# Exercise 1.1: " in out
    assert "purerl exercise check 1.1" in out
    code, out, _ = exercise("check", "1.1")
    assert code == 8
    assert "The function is not filled in yet" in out
    assert "2" not in exercise("list")[1].splitlines()[1].split()[-1]
    path.write_text((answers.folder_of("1.1") / "solution.py").read_text())
    code, out, _ = exercise("check", "1.1", "--no-reward")
    assert code == 0
    assert "Exercise 1.1 is solved." in out
    assert "Training" not in out
    assert exercise("list")[1].splitlines()[1].split()[-1].startswith("20")
    assert "already exists" in exercise("start", "1.1")[2]


def test_the_training_run_follows_a_right_answer(exercise, tmp_path, monkeypatch):
    from purerl_school.exercises.first.gaussian_log_prob import reward

    monkeypatch.setattr(reward, "ITERATIONS", 1)
    path = tmp_path / "mine.py"
    path.write_text((answers.folder_of("1.1") / "solution.py").read_text())
    code, out, _ = exercise("check", "1.1", path)
    assert code == 0
    assert out.count("iteration") == reward.PARTS


def test_a_score_is_printed_as_json(exercise, tmp_path):
    path = tmp_path / "mine.py"
    source = (answers.folder_of("1.1") / "solution.py").read_text()
    path.write_text("print('hello')\n" + source.replace("axis=-1", "axis=-1, keepdims=True"))
    code, out, err = exercise("check", "1.1", path, "--json")
    assert code == 8
    found = json.loads(out)
    assert found["total"] == len(found["checks"])
    assert found["score"] == found["passed"] / found["total"] < 1
    assert not found["checks"][0]["passed"]
    assert "A last axis of size 1" in found["checks"][0]["message"]
    assert "hello" in err
    path.write_text(source)
    code, out, _ = exercise("check", "1.1", path, "--json")
    assert (code, json.loads(out)["score"]) == (0, 1.0)


def test_hints_lead_to_the_next(exercise):
    assert "purerl exercise hint 1.1 2" in exercise("hint", "1.1")[1]
    code, out, _ = exercise("hint", "1.1", "3")
    assert code == 0
    assert "jnp.exp(log_std)" in out
    assert "The next hint" not in out


def test_the_solution_has_its_explanation_and_its_code(exercise):
    code, out, _ = exercise("solution", "1.1")
    assert code == 0
    assert "independent" in out
    assert "def log_prob(" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["chek", "1.1"], "Did you mean 'check'?"),
        (["start"], "start needs the number of an exercise, for example 1.1"),
        (["start", "9.9"], "must be one of 1.1"),
        (["check", "1.1"], "exercise_1_1.py is not a file. Write it with `purerl exercise start 1"),
        (["hint", "1.1", "4"], "the hint must be 1, 2 or 3, got '4'"),
        (["list", "1.1"], "unexpected argument '1.1' after list"),
        (["solution", "1.1", "x"], "unexpected argument 'x' after solution"),
        (["hint", "1.1", "--json"], "--json is only for check"),
    ],
)
def test_mistakes_in_the_command_have_exit_code_2(exercise, words, message):
    code, _, err = exercise(*words)
    assert code == 2
    assert message in err
