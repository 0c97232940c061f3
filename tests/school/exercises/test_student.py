"""The student's folder: start files, answers, and the list of solved exercises."""

import pytest

from purerl.errors import ConfigError, StorageError, WrongAnswer
from purerl_school.exercises import student


def test_a_start_file_is_never_overwritten(tmp_path):
    path = tmp_path / "new" / "exercise_1_1.py"
    assert student.write_start(path, "first") == path
    with pytest.raises(ConfigError, match=r"exercise_1_1\.py already exists; .*another folder"):
        student.write_start(path, "second")
    assert path.read_text() == "first"


def test_a_file_that_cannot_be_written_is_a_storage_error(tmp_path):
    with pytest.raises(StorageError, match="the name is too long"):
        student.write_start(tmp_path / ("x" * 300), "x")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def answer(:", r"cannot be imported: SyntaxError: .*line 1"),
        ("import math\nmath.sqrt(-1)\n", r"cannot be imported: ValueError: .*\(line 2: math\.sqrt"),
        ("def other(): pass", "has no function answer. Keep the name"),
        ("answer = 3", "has no function answer"),
    ],
)
def test_files_without_an_answer_are_explained(tmp_path, source, message):
    path = tmp_path / "exercise.py"
    path.write_text(source)
    with pytest.raises(WrongAnswer, match=message):
        student.load_answer(path, "answer")


@pytest.mark.parametrize(("name", "message"), [("no.py", "is not a file"), ("x.txt", "suffix .py")])
def test_paths_that_are_no_python_files_are_refused(tmp_path, name, message):
    (tmp_path / "x.txt").write_text("")
    with pytest.raises(ConfigError, match=message):
        student.load_answer(tmp_path / name, "answer")


def test_a_file_is_read_again_after_it_was_changed(tmp_path):
    path = tmp_path / "exercise.py"
    for number in (1, 2):
        path.write_text(f"def answer(): return {number}{' ' * number}")
        assert student.load_answer(path, "answer")() == number


def test_a_file_may_contain_dataclasses(tmp_path):
    path = tmp_path / "exercise.py"
    path.write_text(
        "from __future__ import annotations\nimport dataclasses\n"
        "@dataclasses.dataclass\nclass Case:\n    x: int = 1\n"
        "def answer(): return Case().x\n"
    )
    assert student.load_answer(path, "answer")() == 1


def test_solved_exercises_keep_the_date_of_the_first_time(tmp_path):
    assert student.read_solved(tmp_path) == {}
    student.mark_solved(tmp_path, "1.2")
    student.mark_solved(tmp_path, "1.1")
    assert list(student.read_solved(tmp_path)) == ["1.1", "1.2"]
    (tmp_path / student.SOLVED).write_text('{"1.1": "2020-01-01"}')
    student.mark_solved(tmp_path, "1.1")
    assert student.read_solved(tmp_path) == {"1.1": "2020-01-01"}
