"""Environments that cannot be used are refused before a run is made."""

import re
import sys
import types
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import purerl
from purerl import errors
from purerl.runs.settings import environments
from purerl.runs.settings.config import Options
from purerl.spaces import EnvSpec
from tests.cli.commands.call import call


@pytest.mark.filterwarnings("ignore:.*out of date")
@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("Pendulum-v0", "environment Pendulum-v0: "),
        ("Pendullum-v1", "Did you mean: `Pendulum`"),
        ("nosuch:Env-v0", "No module named 'nosuch'"),
    ],
)
def test_environments_that_cannot_be_used_are_refused(env_id, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        environments.read_env_spec(env_id, environments.make_env_fn(env_id))


def test_a_missing_extra_is_reported_with_the_install_command(monkeypatch):
    def make(env_id):
        raise gymnasium.error.DependencyNotInstalled("go elsewhere")

    monkeypatch.setattr(gymnasium, "make", make)
    monkeypatch.setattr(environments.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(errors.ConfigError) as error:
        environments.check_available("LunarLander-v3")
    text = "environment LunarLander-v3: it needs box2d. Type: pip install 'purerl[box2d]'"
    assert str(error.value) == text
    with pytest.raises(errors.ConfigError, match=r"Ant-v5: it needs mujoco\. .*purerl\[mujoco\]"):
        environments.read_env_spec("Ant-v5", lambda: make("Ant-v5"))
    with pytest.raises(errors.ConfigError, match="Mine-v0: go elsewhere"):
        environments.read_env_spec("Mine-v0", lambda: make("Mine-v0"))


def test_an_environment_that_exits_python_or_cannot_be_closed_is_refused():
    with pytest.raises(errors.ConfigError, match=r"environment Mine-v0: SystemExit: 0$"):
        environments.read_env_spec("Mine-v0", lambda: sys.exit(0))
    env = gymnasium.make("CartPole-v1")
    env.close = lambda: sys.exit("stays open")
    with pytest.raises(errors.ConfigError, match="Mine-v0 raised SystemExit in close: stays open"):
        environments.read_env_spec("Mine-v0", lambda: env)


def test_warnings_while_an_environment_is_made_are_shown():
    def made():
        warnings.warn("old, but it works", DeprecationWarning, stacklevel=1)
        return gymnasium.make("CartPole-v1")

    with pytest.warns(DeprecationWarning, match="old, but it works"):
        environments.read_env_spec("word: no id", made)


def test_mujoco_reports_each_warning_once_and_writes_no_file(monkeypatch, tmp_path):
    handlers = []
    module = types.SimpleNamespace(
        get_mju_user_warning=lambda: handlers[-1] if handlers else None,
        set_mju_user_warning=handlers.append,
    )
    monkeypatch.setitem(sys.modules, "mujoco", module)
    monkeypatch.setattr(environments.importlib.util, "find_spec", lambda name: name)
    made = types.SimpleNamespace(observation_space=spaces.Box(0, 1))
    monkeypatch.setattr(gymnasium, "make", lambda env_id: made)
    assert environments.make_env_fn("CartPole-v1")() is made
    assert not handlers
    for _ in range(2):
        assert environments.make_env_fn("HalfCheetah-v5")() is made
    (report,) = handlers
    messages = (
        "attribute x is deprecated and will be removed",
        "Nan in QACC. The simulation is unstable. Time = 0.02.",
        "Nan in QACC. The simulation is unstable. Time = 0.04.",
        "Out of memory",
    )
    with pytest.warns(errors.EnvWarning) as caught:
        list(map(report, messages))
    assert [str(one.message) for one in caught] == [
        "MuJoCo: Nan in QACC. The simulation is unstable. Time = 0.02.",
        "MuJoCo: Out of memory",
    ]


def test_making_a_mujoco_environment_leaves_no_file(monkeypatch, tmp_path, capfd):
    mujoco = pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    old = mujoco.get_mju_user_warning()
    try:
        environments.make_env_fn("HalfCheetah-v5")().close()
    finally:
        mujoco.set_mju_user_warning(old)
    assert not list(tmp_path.iterdir())
    assert "WARNING" not in "".join(capfd.readouterr())


class Mixed(gymnasium.Env):
    """An environment whose observations have parts."""

    observation_space = spaces.Dict(
        place=spaces.Discrete(3), speed=spaces.Box(-1, 1, (2,)), flags=spaces.MultiBinary(2)
    )
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"place": 1, "speed": np.float32([0.5, -0.5]), "flags": np.int8([0, 1])}, {}

    def step(self, action):
        return self.reset()[0], 1.0, False, True, {}


class Words(Mixed):
    """An environment whose observations cannot become a vector."""

    observation_space = spaces.Graph(spaces.Discrete(2), None)


class Grid(gymnasium.Env):
    """A 2x3 picture of numbers; the right two-part action is a success."""

    observation_space = spaces.Box(-1, 1, (2, 3))
    action_space = spaces.MultiDiscrete([2, 3])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.full((2, 3), 0.5, np.float32), {}

    def step(self, action):
        success = action.tolist() == [1, 2]
        return self.reset()[0], float(success), True, False, {"is_success": success}


@pytest.fixture
def registered():
    gymnasium.register("purerl-test/Grid-v0", Grid, max_episode_steps=5)
    gymnasium.register("purerl-test/Mixed-v0", Mixed, max_episode_steps=5)
    gymnasium.register("purerl-test/Words-v0", Words, max_episode_steps=5)
    yield
    for name in ("Grid", "Mixed", "Words"):
        del gymnasium.registry[f"purerl-test/{name}-v0"]


def test_observations_with_parts_are_flattened(registered):
    made = environments.make_env_fn("purerl-test/Mixed-v0")()
    assert made.reset(seed=0)[0].tolist() == [0, 1, 0, 0.5, -0.5, 0, 1]
    spec = environments.read_env_spec("any", environments.make_env_fn("purerl-test/Mixed-v0"))
    assert (spec.obs_shape, spec.obs_dtype) == ((7,), "float32")
    lake = environments.read_env_spec("any", environments.make_env_fn("FrozenLake-v1"))
    assert lake.obs_shape == (16,)
    with pytest.raises(ValueError, match="observations must be a Box"):
        environments.read_env_spec("any", environments.make_env_fn("purerl-test/Words-v0"))


@pytest.mark.parametrize("algo", ["ppo", pytest.param("dqn", marks=pytest.mark.complete)])
def test_an_environment_with_discrete_observations_trains_and_is_loaded_again(algo, tmp_path):
    how = {"steps": 200, "hidden": (8,), "num_test_episodes": 1, "quiet": True}
    run = purerl.train(algo, "FrozenLake-v1", data_dir=str(tmp_path), **how)
    loaded = purerl.load(run.folder)
    assert loaded.evaluate(episodes=2).mean == run.evaluate(episodes=2).mean


def test_the_command_line_flattens_a_box_and_logs_values_of_info(
    registered, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(purerl, "setup", lambda *args, **kwargs: None)
    env = "purerl-test/Grid-v0"
    words = f"train ppo --env {env} --data-dir {tmp_path} --steps 40 --steps-per-epoch 20"
    words += " --rollout-steps 20 --hidden 4 --num-test-episodes 1 --wrapper flatten"
    assert call(*words.split(), "--log-info", "is_success") == 0
    shown = capsys.readouterr().out
    assert "actions one of 2 and one of 3" in shown
    header = next(line for line in shown.splitlines() if line.split()[:2] == ["step", "return"])
    assert "is_success" in header.split()
    (run,) = tmp_path.glob("*/*/config.json")
    loaded = purerl.load(run.parent)
    assert loaded.params.spec.env.obs_shape == (6,)
    assert loaded.policy(np.zeros(6, np.float32)).shape == (2,)
    returns = loaded.metrics["AverageEpRet"]
    np.testing.assert_array_equal(loaded.metrics["EpIsSuccess"], returns)
    np.testing.assert_array_equal(
        loaded.metrics["TestEpIsSuccess"], loaded.metrics["AverageTestEpRet"]
    )
    assert loaded.evaluate(episodes=2).lengths == (1, 1)
    assert call("resume", run.parent, "--steps", 60) == 0
    assert len(purerl.load(run.parent).metrics["EpIsSuccess"]) == 3


@pytest.mark.parametrize("is_vector", [False, True])
def test_the_environment_of_a_function_is_flattened_on_request(is_vector):
    def env_fn():
        return gymnasium.vector.SyncVectorEnv([Grid, Grid]) if is_vector else Grid()

    spec = EnvSpec.of(environments.choose_env_fn(env_fn, "any", "flatten")())
    assert spec.obs_shape == (6,)
    assert environments.choose_env_fn(env_fn, "any", None) is env_fn
    cart = environments.choose_env_fn(None, "CartPole-v1", "flatten")()
    assert cart.observation_space.shape == (4,)
    with pytest.raises(ValueError, match="^wrapper must be one of flatten, got 'flat'"):
        Options(wrapper="flat")
