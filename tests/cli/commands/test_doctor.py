"""`purerl doctor`: report on the machine, check of a run, cause of a divergence."""

import ctypes.util
import os
import platform
import shutil
import sys

import jax

from purerl.cli.commands import doctor
from tests.cli.commands.call import call
from tests.runs.trained import train_tiny_run


def test_doctor_finds_the_cause_of_a_divergence_and_reports_damage(here, tmp_path):
    words = ("train", "ddpg", "--env", "Pendulum-v1", "--hidden", "4", "--steps", "400")
    words += ("--start-steps", "100", "--update-after", "200", "--batch-size", "10")
    words += ("--preset", "none", "--save-freq", "100", "--data-dir", str(tmp_path))
    done = here(*words, "--q-lr", "1e30")
    assert done.code == 3, done.err
    (path,) = tmp_path.rglob("config.json")
    assert f"Find the cause: purerl doctor {path.parent}" in done.err
    done = here("doctor", path.parent)
    assert done.code == 3, done.err
    assert "checkpoint 100: intact" in done.out
    assert "first bad update: " in done.out
    assert "not finite: " in done.out
    (path.parent / "checkpoints" / "000000000100" / "rank0.npz").write_bytes(b"x")
    done = here("doctor", path.parent, "--checkpoint", "100")
    assert done.code == 6
    assert "must have" in done.out
    assert here("doctor", tmp_path / "nothing").code == 2


def test_doctor_describes_the_machine():
    found = doctor.describe_machine()
    assert {"python", "jax", "devices", "threads", "mpi", "extras", "cache"} <= set(found)
    assert found["devices"].count("(cpu)") == len(jax.devices())
    assert (found["platform"], found["XLA_FLAGS"]) == ("cpu", os.environ["XLA_FLAGS"] or "unset")
    assert "xla_cpu_prefer_vector_width=512" in found["compiler"]
    assert found["threads"].startswith("1 for XLA in the commands and after purerl.setup()")


def test_doctor_prints_a_report_to_paste_without_the_home_folder(here, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/cache")
    monkeypatch.setenv("HOME", f"{tmp_path}/")
    done = here("doctor")
    first, empty, opening, *report, closing = done.out.splitlines()
    assert (first, empty) == ("Paste these lines into a report:", "")
    assert (opening, closing) == ("```text", "```")
    assert report[0].split() == ["python", platform.python_version()]
    assert report[-1].startswith("cache      ~/cache/purerl/jax: 0 files")
    assert str(tmp_path) not in done.out


def test_the_launcher_next_to_this_python_is_found_without_path(tmp_path, monkeypatch):
    launcher = tmp_path / "bin" / "mpiexec"
    launcher.parent.mkdir()
    launcher.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    assert doctor.describe_machine()["mpi"] == f"1 rank, launcher {launcher}"
    launcher.unlink()
    assert doctor.describe_machine()["mpi"] == "1 rank, launcher missing"


def test_libraries_for_drawing_without_a_display_are_loaded(monkeypatch):
    monkeypatch.setattr(ctypes.util, "find_library", {"EGL": "libEGL.so.1"}.get)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: name)
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    assert doctor.list_headless_libraries() == "libEGL.so.1 loads; MUJOCO_GL=glfw"
    monkeypatch.undo()
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: f"lib{name}-is-not-there.so")
    assert doctor.list_headless_libraries() == "neither libEGL nor libOSMesa; MUJOCO_GL=unset"
    for name, said in (("", "none"), (":77", ":77 (does not respond)")):
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        monkeypatch.setenv("DISPLAY", name)
        assert doctor.describe_machine()["display"] == said


def test_doctor_reports_a_damaged_checkpoint(tmp_path, capsys):
    run = shutil.copytree(train_tiny_run("ppo").folder, tmp_path / "run")
    assert call("doctor", run) == 0
    assert "nothing to replay" in capsys.readouterr().out
    (run / "checkpoints" / "000000000120" / "rank0.npz").write_bytes(b"x")
    assert call("doctor", run) == 6
    said = capsys.readouterr().out
    assert "checkpoint 60: intact" in said
    assert "rank0.npz must have" in said
    assert "resume will use the checkpoint of step 60" in said
    (run / "checkpoints" / "000000000060" / "rank0.npz").write_bytes(b"x")
    assert call("doctor", run) == 6
    assert "no checkpoint can be used" in capsys.readouterr().out
