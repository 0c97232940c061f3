"""`purerl lab`: start a lab, guess, and get hints."""

import pytest

from purerl import errors
from purerl_school.labs import planting, training
from tests.cli.commands.call import call
from tests.mpi.launch import python


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_lab_is_started_guessed_and_solved(capsys):
    assert call("lab", "ppo") == 0
    assert "lab_ppo_1 contains lab 1 of ppo, difficulty 1" in capsys.readouterr().out
    planted = planting.plant("ppo", 1)
    assert call("lab", "check", "lab_ppo_1/ppo.py:1") == errors.WRONG_ANSWER
    assert capsys.readouterr().err.startswith("purerl lab: wrong: line 1 is not the error")
    assert call("lab", "check", "lab_ppo_1/ppo.py", planted.body[0]) == errors.WRONG_ANSWER
    assert "close" in capsys.readouterr().err
    assert call("lab", "list") == 0
    assert "1+" in capsys.readouterr().out
    assert call("lab", "check", f"lab_ppo_1/ppo.py:{planted.lines[0]}") == 0
    assert capsys.readouterr().out.startswith("right: ")
    assert call("lab", "list") == 0
    assert "1*" in capsys.readouterr().out
    assert call("lab", "hint") == 0
    assert capsys.readouterr().out.startswith("hint 1 of 3: ")
    assert call("lab", "hint", "lab_ppo_1") == 0
    assert capsys.readouterr().out.startswith("hint 2 of 3: ")
    assert call("lab", "solution") == 0
    assert "ppo 1: wrong sign" in capsys.readouterr().out


def test_labs_are_chosen_by_number_difficulty_seed_and_what_is_started(capsys):
    assert call("lab", "sac", "--number", "1") == 0
    assert capsys.readouterr().out.startswith("lab_sac_1 contains lab 1 of sac")
    for words, name in (
        ([], "lab_vpg_1"),
        (["--number", "5"], "lab_vpg_5"),
        (["--difficulty", "3"], "lab_vpg_6"),
        (["--difficulty", "2", "--folder", "mine"], "mine"),
    ):
        assert call("lab", "vpg", *words) == 0
        assert capsys.readouterr().out.startswith(f"{name} contains lab ")
    assert call("lab", "vpg", "--difficulty", "3") == 2
    assert "all labs of vpg of difficulty 3 have a folder here" in capsys.readouterr().err
    assert call("lab", "vpg", "--number", "5") == 2
    assert "lab_vpg_5 already exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pppo"], "expected one of list, train, check, hint, solution, acer, "),
        (["pppo"], "Did you mean 'ppo'?"),
        (["DroQ"], "Did you mean 'redq'?"),
        (["vpg", "--number", "7"], "vpg has the labs 1 to 6, got 7"),
        (["ppo", "--number", "1", "--seed", "1"], "Give either"),
        (["ppo", "--difficulty", "4"], "the difficulty must be 1, 2 or 3, got 4"),
        (["ppo", "there"], "unexpected argument 'there' after ppo"),
        (["list", "there"], "unexpected argument 'there' after list"),
        (["hint", "x", "3"], "unexpected argument 3 after x"),
        (["hint", "--seed", "3"], "--seed is not for hint"),
        (["hint"], "Labs here: none"),
        (["hint", "nowhere"], "nowhere is not the folder of a lab"),
        (["check"], "check needs a folder and a line"),
        (["check", "ppo.py"], "check needs a folder and a line"),
        (["check", "ppo.py:x"], "check needs a folder and a line"),
        (["check", "ppo.py:3"], "is not the folder of a lab"),
    ],
)
def test_mistakes_are_explained(words, message, capsys):
    assert call("lab", *words) == 2
    assert message in capsys.readouterr().err


def test_a_line_of_another_file_is_refused(capsys):
    call("lab", "ppo", "--number", "1")
    assert call("lab", "check", "lab_ppo_1/README.md:3") == 2
    assert "the error is in lab_ppo_1/ppo.py, got lab_ppo_1/README.md" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("lab_ppo_1", "{}"), ("lab_ppo_1:{}",), ("lab_ppo_1/:{}",)])
def test_the_folder_stands_for_the_copy(words, capsys):
    call("lab", "ppo", "--number", "1")
    line = planting.plant("ppo", 1).lines[0]
    assert call("lab", "check", *(word.format(line) for word in words)) == 0
    assert call("lab", "check", *(word.format(1) for word in words)) == errors.WRONG_ANSWER
    assert "line 1 is not the error" in capsys.readouterr().err


def test_starting_and_checking_a_lab_needs_no_jax(tmp_path):
    probe = f"import os, sys; os.chdir({str(tmp_path)!r});"
    probe += "from purerl.__main__ import main; codes = [main(x.split()) for x in ("
    probe += "'lab list', 'lab sac --number 2', 'lab check lab_sac_2/sac.py:1', 'lab hint')];"
    probe += "assert not {'jax', 'flax', 'gymnasium'} & set(sys.modules); print(codes)"
    done = python("-c", probe)
    assert "[0, 0, 8, 0]" in done.out, done.err


def test_train_prints_the_metrics_of_the_copy_beside_the_right_ones(capsys, monkeypatch, here):
    call("lab", "td3", "--number", "2")
    setup, asked = training.SETUPS["td3"], []

    def train(algo, given, seeds):
        asked.append((algo.__name__, given, seeds))
        for i in range(20):
            yield [{"steps": 400 * (i + 1)} | dict.fromkeys(setup.metrics, 7.0) | {"q1": None}]

    monkeypatch.setattr(training, "train", train)
    capsys.readouterr()
    done = here("lab", "train", "--seed", "3")
    assert done.code == 0, done.err
    assert asked == [("lab_td3_2.td3", setup, [3])]
    lines = done.out.splitlines()
    assert lines[1].startswith("      400 steps: return 7 (")
    assert lines[21].split() == ["steps", "1,600", "3,200", "4,800", "6,400", "8,000"]
    assert [line.split()[0] for line in lines[22:]] == [*setup.metrics]
    assert lines[23].split()[:2] == ["q1", "-"]
