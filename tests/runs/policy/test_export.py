"""Exported policies act like their originals and work without purerl."""

import dataclasses
import json
import sys

import jax
import numpy as np
import pytest
from flax import linen as nn

from purerl import algos, errors
from purerl.errors import ConfigError
from purerl.runs.policy import export, numpy_policy
from purerl.runs.record import files
from purerl.spaces import Box, Discrete, EnvSpec, MultiDiscrete
from tests.runs.policy.compare import assert_same, draw_observations
from tests.runs.trained import make_run

LONG = EnvSpec((3,), Box((-1e-3, 5.0, -40.0), (2e-3, 1e4, 0.0)))
SWITCHES = EnvSpec((3,), MultiDiscrete((2, 4, 3), start=(0, -2, 7)))
INTEGERS = EnvSpec((3,), Discrete(4, start=-7), "uint8")


@pytest.mark.parametrize(
    ("case", "env", "changes"),
    [
        ("sac", LONG, {"normalise_obs": True}),
        ("ddpg", LONG, {"hidden": ()}),
        pytest.param("crossq", LONG, {}, marks=pytest.mark.complete),
        pytest.param("tqc", LONG, {"normalise_obs": True}, marks=pytest.mark.complete),
        pytest.param("sac_discrete", INTEGERS, {"normalise_obs": True}, marks=pytest.mark.complete),
        pytest.param("xqc", LONG, {}, marks=pytest.mark.complete),
        pytest.param("xqc", LONG, {"hidden": ()}, marks=pytest.mark.complete),
        ("ppo-box", LONG, {"initializer": "orthogonal", "head_scale": 3.0}),
        ("ppo-discrete", INTEGERS, {"normalise_obs": True}),
        ("dqn", INTEGERS, {"hidden": (16,), "normalise_obs": True}),
        pytest.param("redq", LONG, {"layer_norm": True}, marks=pytest.mark.complete),
        ("td3", LONG, {"normalise_obs": True, "layer_norm": True}),
        pytest.param("vpg-discrete", INTEGERS, {}, marks=pytest.mark.complete),
        pytest.param("acer", INTEGERS, {}, marks=pytest.mark.complete),
        ("ppo-discrete", SWITCHES, {}),
    ],
)
@pytest.mark.parametrize("form", ["numpy", "stablehlo"])
def test_an_export_keeps_bounds_starts_dtypes_and_sizes(case, env, changes, form, tmp_path):
    if form == "stablehlo":
        pytest.importorskip("flatbuffers")
    run = make_run(case, tmp_path, env=env, **changes)
    assert_same(run, load_export(run.export(form)))


def test_layer_normalisation_is_exported(tmp_path):
    run = make_run("pqn", tmp_path, env=INTEGERS, hidden=(16, 7), normalise_obs=True)
    draw = np.random.default_rng(0)
    critic = jax.tree.map(lambda x: draw.normal(size=x.shape).astype(x.dtype), run.params.critic)
    run = dataclasses.replace(run, params=run.params.replace(critic=critic))
    assert_same(run, load_export(run.export("numpy")))


def load_export(path):
    """Load an export with the tools of its format."""
    if (path / "policy.py").exists():
        return numpy_policy.load(path)
    exported = jax.export.deserialize(bytearray((path / "policy.stablehlo").read_bytes()))
    return lambda obs: np.asarray(exported.call(obs))


@pytest.mark.parametrize("case", ["sac", "dqn", "ppo-options", "trpo-discrete"])
def test_a_stablehlo_export_acts_the_same_on_any_number_of_rows(case, tmp_path):
    pytest.importorskip("flatbuffers")
    run = make_run(case, tmp_path)
    path = run.export("stablehlo")
    assert {p.name for p in path.iterdir()} == {"policy.json", "policy.stablehlo"}
    policy, obs = load_export(path), draw_observations(run)
    assert_same(run, policy)
    np.testing.assert_allclose(policy(obs[:1]), policy(obs)[:1], rtol=1e-5)
    about = json.loads((path / "policy.json").read_text())
    assert about["platforms"] == ["cpu", "cuda", "tpu"]
    assert about["input"] == [["rows", 3], "float32"]
    box = isinstance(run.params.spec.env.action, Box)
    assert about["output"] == ([["rows", 2], "float32"] if box else [["rows"], "int32"])


class Actor(nn.Module):
    @nn.compact
    def __call__(self, obs):
        return nn.tanh(nn.Dense(2)(obs))


def test_policies_with_a_torso_can_only_be_exported_to_stablehlo(tmp_path):
    pytest.importorskip("flatbuffers")
    images = EnvSpec((36, 36, 1), Box((-1.0,), (3.0,)), "uint8")
    run = make_run("td3", tmp_path, env=images, torso="nature_cnn")
    with pytest.raises(ConfigError, match=r"reads images with torso 'nature_cnn'.*stablehlo"):
        run.export("numpy")
    obs = draw_observations(run)
    wanted, found = run.policy(obs), load_export(run.export("stablehlo"))(obs)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_custom_networks_can_only_be_exported_to_stablehlo(tmp_path):
    pytest.importorskip("flatbuffers")
    run = make_run("td3", tmp_path, actor=Actor())
    with pytest.raises(ConfigError, match=r"this actor is custom.*export\('stablehlo'\)"):
        run.export()
    assert_same(run, load_export(run.export("stablehlo")))
    critic = make_run("dqn", tmp_path, critic=nn.Dense(3))
    with pytest.raises(ConfigError, match="this critic is custom"):
        critic.export()


def test_a_second_export_gets_the_next_number_and_unknown_formats_are_refused(tmp_path):
    run = make_run("td3", tmp_path)
    names = [run.export().name for _ in range(2)]
    assert names == ["000000000000-numpy-1", "000000000000-numpy-2"]
    with pytest.raises(ConfigError, match="format must be one of numpy, stablehlo, got 'onnx'"):
        run.export("onnx")


def test_an_export_that_acts_differently_is_removed(tmp_path, monkeypatch):
    run = make_run("sac", tmp_path)
    wrong = algos.ALGORITHMS["sac"]._replace(squashed=False)
    monkeypatch.setitem(algos.ALGORITHMS, "sac", wrong)
    with pytest.raises(ConfigError, match="does not act like the original"):
        run.export()
    assert not list((tmp_path / "export").iterdir())
    discrete = make_run("dqn", tmp_path)
    monkeypatch.setattr(
        export.numpy_policy, "choose_action", lambda about, out: out.argmin(axis=-1) + 1
    )
    with pytest.raises(ConfigError, match="does not act like the original"):
        discrete.export()


def test_an_export_to_a_full_disk_leaves_no_files(tmp_path, monkeypatch):
    run = make_run("td3", tmp_path)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(errors.StorageError, match="disk is full"):
        run.export()
    assert not list((tmp_path / "export").iterdir())


def test_a_policy_of_another_format_is_refused(tmp_path):
    path = make_run("td3", tmp_path).export()
    about = json.loads((path / "policy.json").read_text())
    (path / "policy.json").write_text(json.dumps(about | {"format": 2}))
    with pytest.raises(ValueError, match="must have format 1, got 2"):
        numpy_policy.load(path)


def test_without_flatbuffers_the_error_names_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "flatbuffers", None)
    monkeypatch.delitem(sys.modules, "jax._src.export.serialization", raising=False)
    with pytest.raises(ConfigError, match=r"pip install 'purerl\[export\]'"):
        make_run("td3", tmp_path).export("stablehlo")
