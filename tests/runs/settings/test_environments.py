"""Environments that cannot be used are refused before a run is made."""

import re
import sys
import types
import warnings

import gymnasium
import pytest

from purerl import errors
from purerl.runs.settings import environments


@pytest.mark.filterwarnings("ignore:.*out of date")
@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("Pendulum-v0", "environment Pendulum-v0: "),
        ("Pendullum-v1", "Did you mean: `Pendulum`"),
        ("FrozenLake-v1", "observations must be a Box"),
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
    monkeypatch.setattr(gymnasium, "make", lambda env_id: env_id)
    assert environments.make_env_fn("CartPole-v1")() == "CartPole-v1"
    assert not handlers
    for _ in range(2):
        assert environments.make_env_fn("HalfCheetah-v5")() == "HalfCheetah-v5"
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
