"""The errors of the labs: each is planted at one place, and the copy is still Python."""

import ast
import re

import pytest

from purerl import algos
from purerl.errors import ConfigError
from purerl_school.labs import planting
from tests.mpi.launch import ROOT, python

LABS = [(a, n) for a in planting.NAMES for n in range(1, len(planting.list_labs(a)) + 1)]


def test_every_algorithm_has_labs():
    assert {*planting.NAMES} == {*algos.NAMES}


def test_the_page_of_bug_labs_lists_all_of_them():
    page = (ROOT / "docs" / "learn" / "bug_labs.md").read_text()
    listed = re.findall(r"\[1 to (\d+)\]\(\.\./labs/(\w+)\.md\)", page)
    number = {algo: len(planting.list_labs(algo)) for algo in planting.NAMES}
    assert {algo: int(last) for last, algo in listed} == number
    assert len(listed) == len(number)


@pytest.mark.parametrize("algo", planting.NAMES)
def test_each_algorithm_has_two_labs_of_each_difficulty_in_order(algo):
    levels = [lab.level for lab in planting.list_labs(algo)]
    assert levels == sorted(levels)
    assert min(levels.count(level) for level in planting.LEVELS) >= 2


@pytest.mark.parametrize(("algo", "number"), LABS)
def test_a_copy_is_python_and_differs_in_the_lines_of_the_error_only(algo, number):
    lab, planted = planting.get_lab(algo, number), planting.plant(algo, number)
    compile(planted.source, f"{algo}.py", "exec")
    right, copy = planting.read_right(algo).splitlines(), planted.source.splitlines()
    assert len(right) == len(copy)
    differing = [i for i, pair in enumerate(zip(right, copy, strict=True), 1) if len({*pair}) > 1]
    assert differing
    assert {*differing} <= {*planted.lines} <= {*planted.body}
    assert ast.dump(ast.parse("\n".join(right))) != ast.dump(ast.parse(planted.source))
    assert copy[planted.body[0] - 1].startswith(f"def {planted.function}(")
    assert len(planted.lines) <= 3
    assert max(map(len, copy)) <= 100, "a long line gives the error away"
    assert all(lab[:2])
    assert all(text.strip() == text != "" for text in lab[4:])


@pytest.mark.parametrize("algo", planting.NAMES)
def test_errors_of_an_algorithm_are_different(algo):
    labs = planting.list_labs(algo)
    assert len({lab.new for lab in labs}) == len({lab.name for lab in labs}) == len(labs)


def test_hints_do_not_contain_the_line():
    for algo, number in LABS:
        lab = planting.get_lab(algo, number)
        assert lab.old not in lab.clue + lab.probe
        assert lab.new not in lab.clue + lab.probe


def test_a_text_that_is_missing_or_there_twice_is_refused(monkeypatch):
    lab = planting.get_lab("ppo", 1)
    for old in ("no such text", "params"):
        monkeypatch.setattr(planting, "get_lab", lambda *_, o=old: lab._replace(old=o))
        with pytest.raises(ValueError, match="must contain the text of lab 1 once, got"):
            planting.plant("ppo", 1)


def test_unknown_labs_are_refused(monkeypatch):
    with pytest.raises(ConfigError, match="vpg has the labs 1 to 6, got 7"):
        planting.get_lab("vpg", 7)
    with pytest.raises(ConfigError, match="Did you mean ppo"):
        planting.list_labs("pppo")
    monkeypatch.setattr(planting, "NAMES", ("ppo",))
    with pytest.raises(ConfigError, match="sac has no labs yet. Choose one of ppo"):
        planting.list_labs("sac")


def test_the_next_lab_is_the_first_that_is_not_taken():
    assert planting.choose_number("vpg", None, None, ()) == 1
    assert planting.choose_number("vpg", None, None, (1, 2)) == 3
    assert planting.choose_number("vpg", 3, None, (5,)) == 6
    with pytest.raises(ConfigError, match="all labs of vpg of difficulty 3"):
        planting.choose_number("vpg", 3, None, (5, 6))


def test_a_seed_chooses_a_lab_of_the_difficulty():
    chosen = {planting.choose_number("vpg", 2, seed, (3, 4)) for seed in range(20)}
    assert chosen == {3, 4}
    assert {planting.choose_number("vpg", None, seed, ()) for seed in range(60)} == {*range(1, 7)}
    chosen = [planting.choose_number("vpg", None, 7, taken) for taken in ((), range(1, 7))]
    assert chosen[0] == chosen[1]


def test_planting_needs_no_jax():
    probe = "import sys; from purerl_school.labs import folder, pictures, planting;"
    probe += "planting.plant('sac', 3); assert not {'jax', 'flax', 'gymnasium'} & set(sys.modules)"
    assert python("-c", probe).code == 0
