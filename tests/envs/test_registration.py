"""Environments that a user names without importing their package."""

import importlib.util
import sys
import types

import gymnasium
import numpy as np
import pytest

import purerl
from purerl.envs import registration
from purerl.loops.hindsight import rewards
from purerl.runs.record import status
from purerl.runs.settings import environments
from purerl.spaces import EnvSpec
from tests.cli.commands.call import call

robotics = pytest.mark.skipif(
    importlib.util.find_spec(registration.PACKAGE) is None, reason="needs purerl[robotics]"
)


def test_environments_of_purerl_need_no_namespace():
    assert registration.register_env("BitFlipping-v0") == "purerl/BitFlipping-v0"
    assert registration.register_env("purerl/BitFlipping-v0") == "purerl/BitFlipping-v0"
    assert registration.register_env("CartPole-v1") == "CartPole-v1"
    assert registration.register_env("Nothing-v0") == "Nothing-v0"
    assert registration.register_env("my_package:BitFlipping-v0") == "my_package:BitFlipping-v0"
    environments.check_available("BitFlipping-v0")
    assert status.is_id("BitFlipping-v0")


@pytest.fixture
def without_robotics(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: find(name) if name != registration.PACKAGE else None,
    )
    monkeypatch.delitem(sys.modules, registration.PACKAGE, raising=False)
    for name in [name for name in gymnasium.registry if name.startswith(registration.FAMILIES)]:
        monkeypatch.delitem(gymnasium.registry, name)


@pytest.mark.parametrize("env", ["FetchReach-v4", "HandReach-v3"])
def test_a_missing_package_is_reported_with_the_install_command(
    env, without_robotics, capsys, monkeypatch
):
    monkeypatch.setattr(purerl, "setup", lambda **how: None)
    assert call("train", "ddpg", "--env", env) == 2
    text = f"environment {env}: it needs robotics. Type: pip install 'purerl[robotics]'"
    assert text in capsys.readouterr().err
    assert status.is_id(env)  # another process may have it
    gymnasium.register(env, "nothing:here")
    assert not registration.lacks_robotics(env)
    del gymnasium.registry[env]


class Joint:
    """An enum member as that of MuJoCo 4: no NumPy integer equals it."""

    def __init__(self, value):
        self.value = value

    def __int__(self):
        return self.value

    def __eq__(self, other):
        return type(other) is int and other == self.value

    __hash__ = None


@pytest.mark.parametrize("kind", [Joint, int])
def test_joint_types_are_repaired_if_they_do_not_equal_numpy_integers(kind):
    members = {"mjJNT_SLIDE": kind(2), "mjJNT_HINGE": kind(3)}
    mujoco = types.ModuleType("mujoco")
    mujoco.mjtJoint = types.SimpleNamespace(__members__=members, **members)
    mujoco.other = object()
    repaired = registration.repair_joint_types(mujoco)
    joints = repaired.mjtJoint
    assert np.int32(3) in (joints.mjJNT_SLIDE, joints.mjJNT_HINGE)
    assert repaired.other is mujoco.other
    assert (repaired is mujoco) is (kind is int)


@robotics
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("one", [s for s in environments.STOCK if s.extra == "robotics"], ids=str)
def test_robots_and_mazes_have_the_spaces_of_the_table_and_reward_functions(one):
    env = environments.make_env_fn(one.id)()
    spec = EnvSpec.of(env)
    assert (spec.obs_shape, spec.act_dim) == ((one.observations,), one.actions)
    assert env.spec.max_episode_steps == one.limit
    outcome = rewards.try_step(env, spec)
    assert outcome.success == ("success" if "Maze" in one.id else "is_success")
    found = rewards.find_relabelling(env, outcome, "future", 4.0, False)
    assert not found.in_jax
    assert not found.reward.one_by_one
    goals = np.stack([outcome.achieved_goal] * 5)
    gain, ends = found.compute(goals, goals, np.ones(5, bool))
    assert gain.tolist() == [1.0 if "Maze" in one.id else 0.0] * 5
    assert not ends.any()
    env.close()
