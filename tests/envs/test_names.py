"""Names of environments written in JAX."""

import subprocess
import sys
import types

import pytest

from purerl.envs import names
from purerl.envs.catch import Catch
from purerl.errors import ConfigError


@pytest.mark.parametrize("name", names.list_names())
def test_each_name_makes_its_environment(name):
    env = names.make(name)
    assert type(env).__name__ == name.removeprefix("jax:").partition("-")[0]
    assert names.make(name) is env
    assert hash(env) == hash(type(env)())


def test_prefixes_select_environments_in_jax():
    wanted = ["jax:Catch-v0", "gymnax:x", "brax:ant", "playground:CheetahRun"]
    assert all(map(names.is_jax_name, wanted))
    assert not any(map(names.is_jax_name, ["CartPole-v1", "jax", "ale_py:ALE/Pong-v5", "Jax:x"]))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("jax:Cartpole-v1", "there is no environment 'jax:Cartpole-v1'. Did you mean jax:CartPole"),
        ("jax:zzz", "there is no environment 'jax:zzz'. Known names are jax:CartPole-v1, jax:Pen"),
        (
            "CartPole-v1",
            "must begin with jax:, gymnax:, brax:, playground:. Did you mean jax:C",
        ),
        ("zzz", "'zzz' names no environment written in JAX"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest_one(name, message):
    with pytest.raises(ConfigError, match=message):
        names.make(name)


@pytest.mark.parametrize(
    ("name", "module", "command"),
    [
        ("gymnax:CartPole-v1", "gymnax", "pip install gymnax 'gymnasium>=1.4'"),
        ("brax:ant", "brax", "pip install brax"),
        ("playground:CheetahRun", "mujoco_playground", "pip install playground"),
    ],
)
def test_a_missing_package_is_reported_with_its_command(monkeypatch, name, module, command):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=f"{name} needs a package that is not .* {command}$"):
        names.make(name)


def test_a_broken_package_is_not_reported_as_missing(monkeypatch):
    def fail(package):
        raise ModuleNotFoundError("No module named 'flex'", name="flex")

    monkeypatch.setattr(names.importlib, "import_module", fail)
    with pytest.raises(ModuleNotFoundError, match="flex"):
        names.make("gymnax:CartPole-v1")


def test_names_of_other_libraries_are_looked_up_there(monkeypatch):
    """Each library has its own list of names and its own function that makes an environment."""
    from purerl.envs import adapters

    made = []
    library = types.SimpleNamespace(
        registered_envs=["Toy-v0"],
        make=lambda name: (made.append(name), None),
        _envs={"toy": None},
        get_environment=made.append,
        registry=types.SimpleNamespace(ALL_ENVS=("ToyRun",), load=made.append),
    )
    monkeypatch.setattr(names, "_import_library", lambda *_: library)
    for function in ("from_gymnax", "from_brax", "from_playground"):
        monkeypatch.setattr(adapters, function, lambda *_, function=function: function)
    wanted = {
        "gymnax:Toy-v0": "from_gymnax",
        "brax:toy": "from_brax",
        "playground:ToyRun": "from_playground",
    }
    for name, function in wanted.items():
        assert names._make_foreign(name) == function
        wrong = name.replace("oy", "oyy")
        with pytest.raises(ConfigError, match=f"no environment '{wrong}'. Did you mean {name}"):
            names._make_foreign(wrong)
    assert made == ["Toy-v0", "toy", "ToyRun"]


def test_names_need_no_jax():
    code = "import sys, purerl.envs.names; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_name_and_its_class_are_one_environment():
    assert names.make("jax:Catch-v0") == Catch()
