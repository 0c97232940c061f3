"""Exported policies act as the ones they were made from, and need nothing of purerl."""

import dataclasses
import json
import subprocess
import sys

import jax
import numpy as np
import pytest
from flax import linen as nn

import purerl
from purerl import errors, nets
from purerl.errors import ConfigError
from purerl.runs.policy import export, numpy_policy
from purerl.runs.record import files
from purerl.spaces import Box, Discrete, EnvSpec
from tests.cases import CASES
from tests.mpi.launch import python
from tests.runs.trained import begun, untrained

LONG = EnvSpec((3,), Box((-1e-3, 5.0, -40.0), (2e-3, 1e4, 0.0)))
INTEGERS = EnvSpec((3,), Discrete(4, start=-7), "uint8")


def observations(run, number=export.ROWS):
    """Rows that the networks tell apart, around where the statistics are."""
    rng, env = np.random.default_rng(5), run.params.spec.env
    if np.dtype(env.obs_dtype).kind != "f":
        return rng.integers(0, 6, (number, *env.obs_shape)).astype(env.obs_dtype)
    stats = getattr(run.params, "obs_stats", None)
    middle = 0 if stats is None else np.asarray(stats.mean)
    return (middle + 4 * rng.normal(size=(number, *env.obs_shape))).astype(np.float32)


def assert_same(run, policy):
    """Equal to rounding: in units of the box; actions of Discrete spaces exactly."""
    env = run.params.spec.env
    obs = observations(run)
    found, wanted = policy(obs), np.asarray(run.algo.policy(run.params, obs))
    assert found.shape == wanted.shape
    if isinstance(env.action, Box):
        assert found.dtype == np.float32
        np.testing.assert_allclose(env.normalise(found), env.normalise(wanted), atol=5e-6)
        assert (found >= np.float32(env.action.low)).all()
        assert (found <= np.float32(env.action.high)).all()
        assert np.abs(env.normalise(wanted)).std() > 0.01
    else:
        np.testing.assert_array_equal(found, wanted)
        assert len(set(wanted.tolist())) > 1


@pytest.mark.parametrize("case", CASES)
def test_on_numpy_it_acts_the_same_for_every_algorithm(case, tmp_path):
    run = untrained(case, tmp_path)
    path = run.export(folder=tmp_path / "made")
    policy = numpy_policy.load(path)
    assert_same(run, policy)
    obs = observations(run, 6)
    assert isinstance(policy(obs[0]), int) or policy(obs[0]).shape == (2,)
    np.testing.assert_allclose(
        policy(obs.reshape(2, 3, 3)).reshape(6, -1), policy(obs).reshape(6, -1), rtol=1e-6
    )
    with pytest.raises(ValueError, match=r"obs must have shape \[..., \*\(3,\)\], got \(4,\)"):
        policy(np.zeros(4))


@pytest.mark.parametrize("activation", sorted(nets.ACTIVATIONS))
def test_on_numpy_every_activation_is_the_one_of_training(activation, tmp_path):
    run = untrained("td3", tmp_path, activation=activation)
    path = run.export()
    assert path.parent == tmp_path / "export"
    assert_same(run, numpy_policy.load(path))
    x = np.concatenate([np.linspace(-30, 30, 601), [-1e4, 1e4, -200, 200, 0]]).astype(np.float32)
    wanted = nets.ACTIVATIONS[activation](x)
    np.testing.assert_allclose(
        numpy_policy.ACTIVATIONS[activation](x), wanted, rtol=2e-6, atol=2e-6
    )


@pytest.mark.parametrize(
    ("case", "env", "changes"),
    [
        ("sac", LONG, {}),
        ("ddpg", LONG, {"hidden": ()}),
        ("ppo-box", LONG, {"initializer": "orthogonal", "head_scale": 3.0}),
        ("ppo-discrete", INTEGERS, {"normalise_obs": True}),
        ("dqn", INTEGERS, {"hidden": (16,)}),
        ("vpg-discrete", INTEGERS, {}),
    ],
)
@pytest.mark.parametrize("form", ["numpy", "stablehlo"])
def test_bounds_starts_dtypes_and_sizes_come_along(case, env, changes, form, tmp_path):
    if form == "stablehlo":
        pytest.importorskip("flatbuffers")
    run = untrained(case, tmp_path, env=env, **changes)
    assert_same(run, read(run.export(form)))


def read(path):
    """Read an export with its own tools."""
    if (path / "policy.py").exists():
        return numpy_policy.load(path)
    exported = jax.export.deserialize(bytearray((path / "policy.stablehlo").read_bytes()))
    return lambda obs: np.asarray(exported.call(obs))


@pytest.mark.parametrize("case", ["sac", "dqn", "ppo-options", "trpo-discrete"])
def test_as_stablehlo_it_acts_the_same_on_any_number_of_rows(case, tmp_path):
    pytest.importorskip("flatbuffers")
    run = untrained(case, tmp_path)
    path = run.export("stablehlo")
    assert {p.name for p in path.iterdir()} == {"policy.json", "policy.stablehlo"}
    policy, obs = read(path), observations(run)
    assert_same(run, policy)
    np.testing.assert_allclose(policy(obs[:1]), policy(obs)[:1], rtol=1e-5)
    about = json.loads((path / "policy.json").read_text())
    assert about["platforms"] == ["cpu", "cuda", "tpu"]
    assert about["input"] == [["rows", 3], "float32"]
    box = isinstance(run.params.spec.env.action, Box)
    assert about["output"] == ([["rows", 2], "float32"] if box else [["rows"], "int32"])


def test_rounding_never_leads_out_of_the_box():
    rng = np.random.default_rng(2)
    low = rng.normal(size=500)
    high = low + 3 * rng.random(500) + 0.01
    about = {"spaces": {"box": {"low": low.tolist(), "high": high.tolist()}}, "tanh": True}
    for sign in (-1, 1):
        act = numpy_policy.choose_action(about, np.full((1, 500), sign * 50, np.float32))
        assert (act >= low.astype(np.float32)).all()
        assert (act <= high.astype(np.float32)).all()


def test_before_the_first_update_nothing_is_normalised(tmp_path):
    run = untrained("ppo-options", tmp_path)
    fresh = run.algo.init(jax.random.key(0), run.params.spec).params
    run = dataclasses.replace(run, params=fresh)
    assert_same(run, numpy_policy.load(run.export()))


RUN_IT = """
import sys, json
for name in ("jax", "jaxlib", "flax", "optax", "gymnasium", "purerl", "scipy"):
    sys.modules[name] = None
import numpy as np
sys.path.insert(0, sys.argv[1])
from policy import load
policy = load()
one = policy(np.zeros(4))
print(json.dumps([one, policy(np.eye(4)).tolist(), type(one).__name__]))
"""


def test_the_folder_needs_numpy_alone_and_is_taken_by_a_command(tmp_path):
    run, made = begun("ppo"), tmp_path / "a b" / "made"
    words = ("-m", "purerl", "export", str(run.folder), "--out", str(made), "--checkpoint", "0")
    done = python(*words)
    assert done.code == 0, done.err
    assert "written and checked" in done.out
    done = subprocess.run(
        [sys.executable, "-I", "-c", RUN_IT, str(made)], capture_output=True, text=True, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    loaded = purerl.load(run.folder, 0)
    wanted = [loaded.policy(np.zeros(4)), loaded.policy(np.eye(4)).tolist(), "int"]
    assert json.loads(done.stdout) == wanted
    about = json.loads((made / "policy.json").read_text())
    assert (about["algo"], about["env"], about["step"]) == ("ppo", "CartPole-v1", 0)
    again = python(*words)
    assert again.code == 2
    assert "exists, and nothing is ever written over" in again.err
    assert not [p for p in made.parent.iterdir() if p != made]


class Actor(nn.Module):
    @nn.compact
    def __call__(self, obs):
        return nn.tanh(nn.Dense(2)(obs))


def test_networks_of_ones_own_go_to_stablehlo_only(tmp_path):
    pytest.importorskip("flatbuffers")
    run = untrained("td3", tmp_path, actor=Actor())
    with pytest.raises(ConfigError, match=r"this actor is one's own.*export\('stablehlo'\)"):
        run.export()
    assert_same(run, read(run.export("stablehlo")))
    critic = untrained("dqn", tmp_path, critic=nn.Dense(3))
    with pytest.raises(ConfigError, match="this critic is one's own"):
        critic.export()


def test_a_second_export_gets_a_neighbour_and_another_format_is_refused(tmp_path):
    run = untrained("td3", tmp_path)
    names = [run.export().name for _ in range(2)]
    assert names == ["000000000000-numpy-1", "000000000000-numpy-2"]
    with pytest.raises(ConfigError, match="format must be one of numpy, stablehlo, got 'onnx'"):
        run.export("onnx")


def test_what_does_not_act_the_same_is_removed(tmp_path, monkeypatch):
    run = untrained("sac", tmp_path)
    monkeypatch.setitem(export.ACTING, "sac", ("actor", False))  # no tanh
    with pytest.raises(ConfigError, match="does not act as the policy does"):
        run.export()
    assert not list((tmp_path / "export").iterdir())
    discrete = untrained("dqn", tmp_path)
    monkeypatch.setattr(export.numpy_policy, "action", lambda about, out: out.argmin(axis=-1) + 1)
    with pytest.raises(ConfigError, match="does not act as the policy does"):
        discrete.export()


def test_a_disk_that_fails_leaves_nothing(tmp_path, monkeypatch):
    run = untrained("td3", tmp_path)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(errors.StorageError, match="disk is full"):
        run.export()
    assert not list((tmp_path / "export").iterdir())


def test_a_policy_of_another_format_is_refused(tmp_path):
    path = untrained("td3", tmp_path).export()
    about = json.loads((path / "policy.json").read_text())
    (path / "policy.json").write_text(json.dumps(about | {"format": 2}))
    with pytest.raises(ValueError, match="must have format 1, got 2"):
        numpy_policy.load(path)


def test_without_flatbuffers_it_is_said_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "flatbuffers", None)
    monkeypatch.delitem(sys.modules, "jax._src.export.serialization", raising=False)
    with pytest.raises(ConfigError, match=r"pip install 'purerl\[export\]'"):
        untrained("td3", tmp_path).export("stablehlo")
