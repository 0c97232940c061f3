"""Presets: valid settings for every environment named, and one clear order of precedence."""

import json
import types

import pytest

import purerl
from purerl import algos
from purerl.cli.commands import train_and_resume
from purerl.errors import ConfigError
from purerl.runs.settings import aliases, environments, presets
from purerl.runs.settings import config as configs

ALL = [(algo, name) for algo in algos.NAMES for name in presets.read_presets(algo)]
OURS = {
    "CartPole-v1": presets.Preset("CartPole-v1", "return 7.0, seed 0", {"gamma": 0.5, "steps": 200})
}


class Unhashable:
    """An environment given as a function, without a hash."""

    __hash__ = None

    def __call__(self):
        raise NotImplementedError


@pytest.fixture
def ours(monkeypatch):
    """Replace the presets of all algorithms by a small one."""
    other = {"spinningup": presets.Preset("spinningup", "for a test", {"gamma": 0.25})}
    monkeypatch.setattr(presets, "read_presets", lambda algo: OURS | other)


@pytest.mark.parametrize(("algo", "name"), ALL)
def test_every_preset_has_valid_settings_and_names_what_it_reached(algo, name):
    preset = presets.read_presets(algo)[name]
    content = aliases.build_configuration(algo, {"env": name} | dict(preset.settings))
    config = configs.from_json(content, spaces=configs.make_placeholder_spaces(algo, content))
    settled, rounded = configs.settle(config, 1)
    assert not rounded
    settled.schedule.resolve(1)
    if name in ("spinningup", "droq"):  # for every environment
        assert "as in " in preset.about
        return
    assert algo in {one.id: one for one in environments.STOCK}[name].fits
    assert preset.about.startswith("return ")
    assert "seed" in preset.about
    assert "steps" in preset.settings


@pytest.mark.parametrize("algo", ["ppo", "trpo", "vpg"])
def test_spinning_ups_rollouts_are_a_preset(algo):
    settings = presets.read_presets(algo)["spinningup"].settings
    schedule = configs.from_json(
        aliases.build_configuration(algo, {"env": "CartPole-v1"} | dict(settings))
    ).schedule.settle()
    assert (schedule.steps, schedule.rollout_steps, schedule.steps_per_epoch) == (
        200_000, 4_000, 4_000,
    )  # fmt: skip
    assert (schedule.continue_episodes, schedule.max_ep_len) == (False, 1_000)


def test_droq_is_a_preset():
    content = {"env": "Hopper-v5"} | dict(presets.read_presets("redq")["droq"].settings)
    spec = configs.from_json(
        aliases.build_configuration("redq", content),
        spaces=configs.make_placeholder_spaces("redq", content),
    ).spec
    assert (spec.ensemble, spec.subset, spec.dropout, spec.layer_norm) == (2, 2, 0.01, True)


def test_the_preset_of_the_environment_is_chosen_unless_another_is_named(ours):
    assert presets.choose_preset("ppo", "CartPole-v1").settings["gamma"] == 0.5
    assert presets.choose_preset("ppo", "jax:CartPole-v1").name == "CartPole-v1"
    assert presets.choose_preset("ppo", "Acrobot-v1") is None
    assert presets.choose_preset("ppo", "jax:Acrobot-v1") is None
    assert presets.choose_preset("ppo", None) is None
    assert presets.choose_preset("ppo", Unhashable()) is None
    assert presets.choose_preset("ppo", "CartPole-v1", "none") is None
    assert presets.choose_preset("ppo", "Acrobot-v1", "spinningup").settings["gamma"] == 0.25
    assert presets.choose_preset("ppo", "Acrobot-v1", "CartPole-v1").name == "CartPole-v1"
    with pytest.raises(ConfigError, match="^preset: ppo has no preset 'Cartpole'. Did you mean Ca"):
        presets.choose_preset("ppo", "Acrobot-v1", "Cartpole")
    with pytest.raises(ConfigError, match="Choose from CartPole-v1, spinningup, none"):
        presets.choose_preset("ppo", "Acrobot-v1", "qqq")


def test_a_custom_algorithm_has_no_presets():
    assert presets.read_presets(types.ModuleType("mine")) == {}
    assert presets.read_presets("my.redq") == {}
    assert presets.choose_preset(types.ModuleType("mine"), "CartPole-v1") is None


def test_a_preset_is_described_as_flags_with_its_result():
    settings = {"hidden": [64, 64], "target_kl": None, "normalise_obs": True, "vf_lr": 1}
    line = presets.describe_preset(presets.Preset("X-v1", "return 1.0, seed 0", settings))
    assert line == (
        "preset X-v1 (return 1.0, seed 0): hidden=64,64 target_kl=none normalise_obs=true "
        "vf_lr=1. `--preset none` uses the defaults."
    )
    line = presets.describe_preset(presets.Preset("X-v1", "good", settings), {"hidden", "steps"})
    assert line.startswith("preset X-v1 without hidden (good): target_kl=none normalise_obs=true")
    assert presets._describe({"scores": [1.0, 2.0]}) == "return 1.5, mean of seeds 0 to 1"
    assert presets._describe({"scores": [1.0]}) == "return 1.0, seed 0"


@pytest.mark.parametrize(
    ("words", "gamma", "steps", "used"),
    [
        ("", 0.5, 200, True),
        ("--gamma 0.75", 0.75, 200, True),
        pytest.param("--set gamma=0.75 --steps 100", 0.75, 100, True, marks=pytest.mark.complete),
        ("--preset none --steps 100", 0.99, 100, False),
        ("--preset spinningup --steps 100", 0.25, 100, True),
    ],
)
def test_settings_of_the_command_line_override_a_preset(
    ours, tmp_path, monkeypatch, capsys, words, gamma, steps, used
):
    monkeypatch.setattr(purerl, "setup", lambda devices: None)  # conftest.py has called it
    line = f"ppo --env CartPole-v1 --hid 4 --l 1 {words} --data-dir {tmp_path}"
    assert train_and_resume.train(line.split()) == 0
    assert ("preset " in capsys.readouterr().out) == used
    (file,) = tmp_path.glob("*/*/config.json")
    content = json.loads(file.read_text())
    assert (content["spec"]["gamma"], content["schedule"]["steps"]) == (gamma, steps)
    line = f"ppo --env CartPole-v1 --config {file} --name b --data-dir {tmp_path}"
    assert train_and_resume.train(line.split()) == 0
    assert "preset" not in capsys.readouterr().out  # the file has all settings
    (other,) = tmp_path.glob("b/*/config.json")
    assert json.loads(other.read_text()) == content | {"name": "b"}


def test_purerl_train_uses_presets_like_the_command(ours, tmp_path, capsys):
    how = {"hidden": (4,), "data_dir": str(tmp_path)}
    run = purerl.train("ppo", "CartPole-v1", **how)
    assert (run.config.spec.gamma, run.config.schedule.steps) == (0.5, 200)
    assert (
        "preset CartPole-v1 (return 7.0, seed 0): gamma=0.5 steps=200." in capsys.readouterr().out
    )
    run = purerl.train("ppo", "CartPole-v1", gamma=0.75, name="b", **how)
    assert (run.config.spec.gamma, run.config.schedule.steps) == (0.75, 200)
    run = purerl.train("ppo", "CartPole-v1", preset="none", steps=100, name="c", **how)
    assert (run.config.spec.gamma, run.config.schedule.steps) == (0.99, 100)
    assert "preset" not in capsys.readouterr().out.partition("\n")[2].partition("gamma=0.75")[2]
