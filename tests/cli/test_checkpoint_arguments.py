"""Arguments of commands that use a run: checkpoint, environment and episodes."""

import sys

import gymnasium
import pytest

from purerl.cli import checkpoint_arguments
from purerl.cli.commands import train_and_resume
from purerl.errors import ConfigError
from purerl.runs.record import folder
from purerl.runs.settings.config import from_json, to_json
from tests.cli.test_main import FAULTY
from tests.mpi.launch import python

LIGHT = "import sys; from purerl.__main__ import main\ntry: main(sys.argv[1:])\n"
LIGHT += "except SystemExit: pass\nassert not {'jax', 'gymnasium', 'flax'} & set(sys.modules)"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return the current folder, which contains a module but is not on the import path."""
    (tmp_path / "mine_alone.py").write_text(FAULTY.format(kind="none"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [x for x in sys.path if x not in ("", str(tmp_path))])
    yield tmp_path
    sys.modules.pop("mine_alone", None)
    gymnasium.registry.pop("Faulty-v0", None)


def test_the_module_of_env_may_be_in_the_current_folder(module):
    before = [*sys.path]
    checkpoint_arguments.parse_env("CartPole-v1")
    assert sys.path == before
    with pytest.raises(ConfigError):
        from_json({"algo": "ppo", "env": "mine_alone:Faulty-v0"})
    checkpoint_arguments.parse_env("mine_alone:Faulty-v0")().close()
    checkpoint_arguments.parse_env("mine_alone:Faulty-v0")
    assert sys.path == [str(module), *before]


def test_a_run_continues_only_in_its_own_environment(tmp_path):
    config = from_json({"algo": "vpg", "env": "CartPole-v1"})
    run = folder.create_folder(to_json(config), str(tmp_path))
    with pytest.raises(ConfigError, match="was trained in CartPole-v1, not in CartPole-v0"):
        train_and_resume.resume([str(run), "--env", "CartPole-v0"])
    checkpoint_arguments.parse_env("CartPole-v1", run)
    checkpoint_arguments.parse_env("its_module:CartPole-v1", run)


@pytest.mark.parametrize(
    ("own", "env", "same"),
    [
        ("mine:Own-v0", "mine:Own-v0", True),
        ("mine:Own-v0", "moved:Own-v0", True),
        ("mine:Own-v0", "mine:Other-v0", False),
        ("mine:Own-v0", "CartPole-v1", False),
        ("word", "mine:Own-v0", True),  # a run of a Python function, which has no id
    ],
)
def test_a_custom_environment_is_compared_by_its_id(tmp_path, own, env, same):
    config = from_json({"algo": "vpg", "env": own}, lambda: gymnasium.make("CartPole-v1"))
    run = folder.create_folder(to_json(config), str(tmp_path))
    if same:
        checkpoint_arguments.parse_env(env, run)
        return
    with pytest.raises(ConfigError, match=f"was trained in {own}, not in {env}"):
        checkpoint_arguments.parse_env(env, run)


def test_checkpoint_accepts_last_best_and_steps():
    words = ("last", "best", "-1", "0", "10_000")
    assert [checkpoint_arguments.parse_checkpoint(word) for word in words] == [
        "last", "best", "last", 0, 10_000,
    ]  # fmt: skip


def test_help_needs_no_jax_and_shows_spinning_ups_flags():
    for name, words in (
        ("eval", ("--max_ep_len", "--json", "--stochastic", "number of episodes (default: 20)")),
        (
            "watch",
            (
                "--len",
                "-nr",
                "--itr",
                "--deterministic",
                "-n N",
                "--save",
                "default: 1)",
                "default: 320 for a GIF",
            ),
        ),
        ("export", ("--format {numpy,stablehlo}", "--out")),
    ):
        done = python("-c", LIGHT, name, "--help")
        assert done.code == 0, done.err
        assert all(word in done.out for word in words), done.out
