"""`purerl inspect`: settings of a run, arrays of a checkpoint."""

import shutil

from tests.cli.commands.call import call
from tests.cli.commands.test_list import put
from tests.runs.trained import begun


def test_inspect_prints_settings_and_refuses_other_folders(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PURERL_DATA_DIR", str(tmp_path))
    put(run := tmp_path / "a" / "a_s0", "ppo")
    assert call("inspect", run) == 0
    said = capsys.readouterr().out.splitlines()
    assert {'algo = "ppo"', "schedule.steps = 9", "status: done", "checkpoints: none"} <= {*said}
    assert call("inspect", "a_s0") == 2
    assert f"is not a run: there is no such folder. Did you mean {run}?" in capsys.readouterr().err
    (run / "config.json").write_text("[]")
    assert call("inspect", run) == 2


def test_inspect_shows_the_newest_intact_checkpoint_and_reports_damage(tmp_path, capsys):
    run = shutil.copytree(begun("ppo").folder, tmp_path / "run")
    shutil.copytree(run / "checkpoints" / f"{0:012d}", run / "checkpoints" / f"{7:012d}")
    (run / "checkpoints" / f"{7:012d}" / "rank0.npz").write_bytes(b"")
    assert call("inspect", run) == 6
    said = capsys.readouterr()
    assert "000000000007/rank0.npz" in said.err
    assert "checkpoints: 0, 7" in said.out
    assert "checkpoint of step 0," in said.out


def test_inspecting_a_damaged_checkpoint_has_exit_code_6(tmp_path, capsys):
    run = shutil.copytree(begun("ppo").folder, tmp_path / "run")
    path = run / "checkpoints" / f"{0:012d}"
    assert call("inspect", path) == 0
    assert "checkpoint of step 0," in capsys.readouterr().out
    (path / "rank0.npz").write_bytes(b"x")
    assert call("inspect", path) == 6
    assert "rank0.npz must have" in capsys.readouterr().err
