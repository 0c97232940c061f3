"""Folders of labs: what a student gets, and what a guess answers."""

import json
import subprocess
import sys

import pytest

from purerl.errors import WRONG_ANSWER, ConfigError, WrongAnswer, exit_code_of
from purerl_school.labs import folder, pictures, planting
from tests.mpi.launch import ROOT, clean

PPO = planting.plant("ppo", 4)  # in critic_loss


@pytest.fixture
def lab(tmp_path, monkeypatch):
    stored = pictures.read_curves("ppo")
    stored["curves"]["4"] = stored["curves"]["right"]
    monkeypatch.setattr(pictures, "read_curves", lambda algo: stored)
    return folder.start_lab("ppo", 4, tmp_path / "lab_ppo_4")


def test_a_new_lab_has_its_files_and_never_replaces_a_folder(lab):
    names = {path.name for path in lab.folder.iterdir()}
    assert names == {"ppo.py", "README.md", "curves.svg", "lab.json"}
    assert lab.file.read_text() == PPO.source
    state = json.loads((lab.folder / "lab.json").read_text())
    assert state == {"algo": "ppo", "number": 4, "hints": 0, "solved": False}
    text = (lab.folder / "README.md").read_text()
    assert "Difficulty 2: the other metrics show where it is." in text
    assert "{" not in text
    for secret in (planting.get_lab("ppo", 4).new, PPO.function, str(PPO.lines[0])):
        assert secret not in text
    with pytest.raises(ConfigError, match=r"already exists; purerl never overwrites"):
        folder.start_lab("ppo", 4, lab.folder)


def test_a_lab_without_stored_curves_has_no_picture(tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "has_curves", lambda algo, number: False)
    lab = folder.start_lab("ppo", 4, tmp_path / "lab")
    assert not lab.picture.exists()
    assert "no stored curves of this lab. Train it" in (lab.folder / "README.md").read_text()


@pytest.mark.complete
def test_the_copy_of_a_lab_can_be_imported_in_its_folder(lab):
    done = subprocess.run(
        [sys.executable, "-c", "import ppo; print(ppo.critic_loss.__name__, ppo.__file__)"],
        cwd=lab.folder,
        env=clean(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["critic_loss", str(lab.file)], done.stderr


def test_the_right_line_is_right_and_solves_the_lab(lab):
    assert folder.check_line(lab, PPO.lines[0]).startswith("right: line")
    assert folder.read_lab(lab.folder).solved


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (PPO.lines[0] - 1, "close: .* this is the right function"),
        (PPO.body[0], "close: "),
        (PPO.body[-1], "close: "),
        (PPO.body[0] - 1, "wrong: .* this is not the function"),
        (PPO.body[-1] + 1, "wrong: "),
        (1, "wrong: "),
    ],
)
def test_another_line_is_close_in_the_right_function_and_else_wrong(lab, line, message):
    with pytest.raises(WrongAnswer, match=message) as caught:
        folder.check_line(lab, line)
    assert exit_code_of(caught.value) == WRONG_ANSWER
    assert not folder.read_lab(lab.folder).solved


def test_lines_are_found_in_an_edited_copy(lab):
    lines = PPO.source.splitlines()
    place = PPO.lines[0] - 1
    lines[place] = "    error = jnp.square(v - batch.ret)"  # mended
    lines[50:50] = ["# a comment", "import math"]
    del lines[10:13]
    lab.file.write_text("\n".join(lines))
    assert folder.check_line(lab, place + 1 - 1).startswith("right")
    with pytest.raises(WrongAnswer, match="close"):
        folder.check_line(lab, place + 1)
    with pytest.raises(ConfigError, match="is one that you have added"):
        folder.check_line(lab, 49)


@pytest.mark.parametrize("line", [0, -1, 10_000])
def test_lines_outside_of_the_file_are_refused(lab, line):
    with pytest.raises(ConfigError, match=rf"has the lines 1 to \d+, got {line}"):
        folder.check_line(lab, line)


def test_three_hints_come_one_after_the_other(lab):
    error = planting.get_lab("ppo", 4)
    found = []
    for _ in range(4):
        found.append(folder.give_hint(folder.read_lab(lab.folder)))
    assert found[0] == f"hint 1 of 3: {error.clue}"
    assert found[1] == f"hint 2 of 3: {error.probe}"
    assert found[2] == found[3] == "hint 3 of 3: The error is in critic_loss."


def test_a_solution_has_the_line_the_equation_and_the_reasons():
    error, text = planting.get_lab("ppo", 4), folder.explain("ppo", 4)
    for part in (error.old, error.new, error.equation, error.effect, error.why, "critic_loss"):
        assert part in text.replace("\n", " ")
    assert max(map(len, text.splitlines())) <= 100
    assert f"line {PPO.lines[0]}" in text


def test_the_lab_of_the_current_folder_or_the_only_one_below_is_found(lab, monkeypatch):
    monkeypatch.chdir(lab.folder)
    assert folder.find_lab(None).number == 4
    monkeypatch.chdir(lab.folder.parent)
    assert folder.find_lab(None).number == 4
    folder.start_lab("sac", 1, lab.folder.parent / "lab_sac_1")
    with pytest.raises(ConfigError, match="Labs here: lab_ppo_4, lab_sac_1"):
        folder.find_lab(None)
    assert [one.algo for one in folder.list_folders()] == ["ppo", "sac"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is not the folder of a lab: it has no lab.json"),
        ("{", "is damaged"),
        ('{"algo": "ppo"}', "is damaged"),
        ('{"algo": "ppo", "number": "one"}', "is damaged"),
        ('{"algo": "ppo", "number": 99}', "is damaged: ppo has the labs 1 to"),
    ],
)
def test_folders_without_a_lab_and_damaged_files_are_refused(tmp_path, content, message):
    if content is not None:
        (tmp_path / "lab.json").write_text(content)
    with pytest.raises(ConfigError, match=message):
        folder.read_lab(tmp_path)
