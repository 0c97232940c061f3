"""Paths that are not runs, and the runs that may have been meant."""

import json

import pytest

from purerl.errors import ConfigError
from purerl.runs.record import lookup


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
    assert lookup.read_config(run)["seed"] == 3


def test_a_folder_of_runs_is_refused_with_the_runs_below(run):
    with pytest.raises(
        ConfigError, match=rf"is no run: it has no config\.json\. Runs in it: {run}"
    ):
        lookup.read_config(run.parent)


@pytest.mark.parametrize("name", ["pole", "pole_s3"])
def test_the_name_of_a_run_is_refused_with_its_path(run, tmp_path, name):
    with pytest.raises(ConfigError, match=rf"{name} is no run: .* Did you mean {run}\?$"):
        lookup.read_config(tmp_path / name)


def test_without_a_guess_only_the_reason_is_given(run, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"/nowhere is no run: it has no config\.json\.$"):
        lookup.read_config(tmp_path / "nowhere")
    (tmp_path / "user.json").write_text("[]")
    monkeypatch.setenv("PURERL_CONFIG", str(tmp_path / "user.json"))
    with pytest.raises(ConfigError, match=r"pole_s3 is no run: it has no config\.json\.$"):
        lookup.read_config(tmp_path / "pole_s3")


def test_a_configuration_that_cannot_be_read_is_refused(run, tmp_path):
    (run / "config.json").write_text("[]")
    with pytest.raises(ConfigError, match="must hold an object"):
        lookup.read_config(run)
    (run / "config.json").unlink()
    (run / "config.json").symlink_to(tmp_path / "data" / "other" / "other_s0" / "config.json")
    with pytest.raises(ConfigError, match="is no run: .* no plain file"):
        lookup.read_config(run)
