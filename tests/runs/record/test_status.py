"""Status files of runs, suggested commands, and errors for wrong folders."""

import fcntl
import json
import os
import pwd
import shutil
from pathlib import Path

import pytest

import purerl
from purerl.errors import ConfigError
from purerl.runs.record import status
from tests.cli.commands.call import call


def test_suggested_commands_can_be_copied(tmp_path):
    run = tmp_path / "my runs" / "a"
    run.mkdir(parents=True)
    quoted = f"'{run}'"
    assert status.format_command("watch", run) == f"purerl watch {quoted}"
    (run / "config.json").write_text(json.dumps({"env": "mine:Own v0"}))
    status.write_status(run, {"ranks": 2})
    assert status.format_command("watch", run) == f"purerl watch {quoted} --env 'mine:Own v0'"
    assert status.format_command("plot", run) == f"purerl plot {quoted}"
    assert status.format_command("resume", run, steps=8) == (
        f"purerl resume {quoted} --steps 8 --env 'mine:Own v0' --num-cpu 2"
    )


def test_looking_at_a_run_never_makes_it_seem_to_run(tmp_path):
    lock = tmp_path / ".lock"
    assert not status.is_running(tmp_path)
    with open(lock, "w") as other:
        fcntl.flock(other, fcntl.LOCK_SH)  # another process looks at the same time
        assert not status.is_running(tmp_path)
        fcntl.flock(other, fcntl.LOCK_EX)
        assert status.is_running(tmp_path)
    assert not status.is_running(tmp_path)


@pytest.fixture
def run(tmp_path, monkeypatch):
    for name in ("pole/pole_s3", "other/other_s0"):
        path = tmp_path / "data" / name
        path.mkdir(parents=True)
        config = {"algo": "ppo", "env": "E-v0", "seed": 3, "schedule": {"steps": 9}}
        (path / "config.json").write_text(json.dumps(config))
    monkeypatch.setenv("PURERL_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data" / "pole" / "pole_s3"


def test_the_configuration_of_a_run_is_read(run):
    assert status.read_config(run)["seed"] == 3


def test_a_folder_of_runs_is_refused_with_the_runs_inside(run):
    with pytest.raises(
        ConfigError, match=rf"is not a run: it has no config\.json\. It contains these runs: {run}"
    ):
        status.read_config(run.parent)


@pytest.mark.parametrize("name", ["pole", "pole_s3"])
def test_the_name_of_a_run_is_refused_with_its_path(run, tmp_path, name):
    with pytest.raises(ConfigError, match=rf"{name} is not a run: .* Did you mean {run}\?$"):
        status.read_config(tmp_path / name)


def test_without_a_similar_run_only_the_reason_is_given(run, tmp_path, monkeypatch):
    with pytest.raises(
        ConfigError, match=r"/nowhere is not a run: there is no such folder\. purerl list runs"
    ):
        status.read_config(tmp_path / "nowhere")
    (tmp_path / "user.json").write_text("[]")
    monkeypatch.setenv("PURERL_CONFIG", str(tmp_path / "user.json"))
    with pytest.raises(
        ConfigError, match=r"pole_s3 is not a run: there is no such folder\. purerl list runs"
    ):
        status.read_config(tmp_path / "pole_s3")


def test_a_configuration_that_cannot_be_read_is_refused(run, tmp_path):
    (run / "config.json").write_text("[]")
    with pytest.raises(ConfigError, match="must contain a JSON object"):
        status.read_config(run)
    (run / "config.json").unlink()
    (run / "config.json").symlink_to(tmp_path / "data" / "other" / "other_s0" / "config.json")
    with pytest.raises(ConfigError, match="is not a run: .* not a regular file"):
        status.read_config(run)


def test_a_run_is_found_by_its_path_its_folder_its_name_or_the_start_of_it(tmp_path, monkeypatch):
    home = tmp_path / "data"
    monkeypatch.setenv("PURERL_DATA_DIR", str(home))
    monkeypatch.chdir(tmp_path)
    run = make_folder(home / "pole-ppo" / "pole-ppo_s0")
    for given in (run, run.parent, "pole-ppo/pole-ppo_s0", "pole-ppo", "pole", "pole-ppo/pole-p"):
        assert status.find_run(Path(given)) == run, given
    assert status.find_run(Path("data/pole-ppo")) == Path("data/pole-ppo/pole-ppo_s0")
    assert status.find_run(Path("pendulum")) == Path("pendulum")
    assert status.find_run(tmp_path / "pole") == tmp_path / "pole"  # an absolute path is no name
    make_folder(home / "other" / "other_s10")
    assert status.find_run(Path("other/other_s1")) == Path("other/other_s1")
    make_folder(home / "pole-ppo" / "pole-ppo_s1")
    for given in ("pole-ppo", "pole", "pole-ppo/pole"):
        with pytest.raises(ConfigError, match=r"matches 2 runs: .*_s0, .*_s1\. Choose one"):
            status.find_run(Path(given))
    assert status.find_run(Path("pole-ppo/pole-ppo_s0")) == run
    (tmp_path / "user.json").write_text("[]")
    monkeypatch.setenv("PURERL_CONFIG", str(tmp_path / "user.json"))
    assert status.find_run(run) == run  # the user's defaults are not needed


def make_folder(run):
    run.mkdir(parents=True)
    config = {"algo": "ppo", "env": "E", "seed": 0, "schedule": {"steps": 1}}
    (run / "config.json").write_text(json.dumps(config))
    return run


def test_the_command_for_several_runs_names_them_or_the_folder_that_has_only_them(tmp_path):
    config = {"algo": "ppo", "env": "CartPole-v1", "seed": 0, "schedule": {"steps": 9}}
    runs = [tmp_path / "x" / f"x_s{i}" for i in range(3)]
    other = tmp_path / "y" / "y_s0"
    for run in (*runs, other):
        run.mkdir(parents=True)
        (run / "config.json").write_text(json.dumps(config))
    all_of_them = status.format_command("resume", *runs, steps=8)
    assert all_of_them == f"purerl resume {tmp_path / 'x'} --together --steps 8"
    apart = status.format_command("resume", other, runs[0])
    assert apart == f"purerl resume {other} {runs[0]} --together"
    two = status.format_command("resume", *runs[:2])
    assert two == f"purerl resume {runs[0]} {runs[1]} --together"
    assert status.format_command("resume", runs[0]) == f"purerl resume {runs[0]}"
    (runs[0] / "config.json").write_text(json.dumps(config | {"env": "<lambda>"}))
    names = [str(run) for run in runs]
    call = f"in Python: purerl.runs.training.train.resume_together({names}, env_fn=...)"
    assert status.format_command("resume", *runs) == call


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({}, []),
        ({"env": "CartPole"}, []),  # the newest version
        ({"env": "my_module:Mine-v0"}, []),
        ({"env": "make_mine"}, ["env_fn=..."]),
        ({"env": "<lambda>"}, ["env_fn=..."]),
        ({"env": "Mine-v0"}, ["env_fn=..."]),
        ({"spec": {"actor": {"repr": "Mine()"}}}, ["spec=..."]),
        ({"algo": "custom"}, ["algo=..."]),
        ({"algo": "custom.ppo", "env": "make_mine"}, ["env_fn=...", "algo=..."]),
        ({"algo": "my_package.redq"}, []),
    ],
)
def test_a_command_is_printed_only_where_it_can_restore_the_run(tmp_path, changes, parts):
    config = {"algo": "ppo", "env": "CartPole-v1", "spec": {"gamma": 0.9}} | changes
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert status.list_custom_parts(config) == parts
    resume = status.format_command("resume", tmp_path, steps=800)
    watch = status.format_command("watch", tmp_path)
    doctor = status.format_command("doctor", tmp_path)
    if parts:
        assert doctor.startswith("in Python: purerl.runs.training.diagnosis.diagnose(")
        several = status.format_command("resume", tmp_path, ranks=2)
        assert several.startswith("in Python on 2 ranks: purerl.runs.training.train.resume(")
        given = ", ".join([*parts, "steps=800"])
        call = f"purerl.runs.training.train.resume(pathlib.Path({str(tmp_path)!r}), {given})"
        assert resume == f"in Python: {call}"
        assert watch == f"in Python: purerl.load({str(tmp_path)!r}, {', '.join(parts)}).video()"
    else:
        assert resume.startswith(f"purerl resume {tmp_path} --steps 800")
        assert watch.startswith(f"purerl watch {tmp_path}")
    assert status.format_command("plot", tmp_path) == f"purerl plot {tmp_path}"


def delete_before_scan(monkeypatch, name):
    """Delete the folder of this name just before it is scanned, as a running process may do."""
    real = os.scandir

    def scan(path="."):
        if isinstance(path, str | Path) and Path(path).name == name:
            monkeypatch.setattr(os, "scandir", real)
            shutil.rmtree(path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scan)


@pytest.mark.parametrize("name", ["000000000010", "checkpoints", "other", "other_s0"])
def test_a_folder_that_vanishes_while_runs_are_listed_is_ignored(run, monkeypatch, capsys, name):
    (run / "checkpoints" / "000000000010").mkdir(parents=True)
    data = run.parent.parent
    delete_before_scan(monkeypatch, name)
    assert call("list", "runs", "--data-dir", data) == 0
    said = capsys.readouterr()
    assert "pole/pole_s3" in said.out
    assert not said.err


def test_a_run_that_ends_while_it_is_listed_is_not_killed(run, monkeypatch):
    status.write_status(run, {"status": "running"})

    def ends(path):
        status.write_status(run, {"status": "done"})
        return False

    monkeypatch.setattr(status, "is_running", ends)
    assert status.read_run(run).status == "done"


def test_the_status_is_read_while_its_old_file_is_replaced(run, monkeypatch):
    status.write_status(run, {"status": "done"})
    (run / status.STATUS).rename(run / status.OLD_STATUS)
    real, read = status.read_json, []

    def replaced(path):
        read.append(path.name)
        if path.name == status.OLD_STATUS:  # the writer comes first
            path.rename(run / status.STATUS)
        return real(path)

    monkeypatch.setattr(status, "read_json", replaced)
    assert status.read_status(run) == {"status": "done"}
    assert read == [status.STATUS, status.OLD_STATUS, status.STATUS]


def test_a_user_without_a_home_folder_has_the_default_data_folder(monkeypatch):
    def fail(user):
        raise KeyError(user)

    for name in ("PURERL_DATA_DIR", "PURERL_CONFIG", "PURERL_DATESTAMP", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", fail)
    assert status.read_user_defaults()["data_dir"] == "runs"
    with pytest.raises(ConfigError, match="^~/x has no meaning, because there is no such home"):
        status.expand_home("~/x")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert purerl.find_cache() == ""
    monkeypatch.setenv("HOME", "/home/me")
    assert purerl.find_cache() == "/home/me/.cache/purerl/jax"
