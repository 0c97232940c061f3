"""`purerl list`: environments and runs, without JAX; and examples in the help of commands."""

import json
import re

import pytest

from purerl import algos
from purerl.loops import faults
from purerl.runs import console
from purerl.runs.record import status as places
from purerl.runs.settings import environments
from purerl.runs.settings.config import from_json
from purerl.spaces import EnvSpec
from tests.cli.commands.call import call
from tests.mpi.launch import python

CLASSIC = [one for one in environments.STOCK if not one.extra]  # the others were compared by hand


@pytest.mark.parametrize("one", CLASSIC, ids=lambda one: one.id)
def test_the_table_of_environments_agrees_with_gymnasium(one):
    env = environments.make_env_fn(one.id)()
    spec = EnvSpec.of(env)
    assert spec.obs_shape == (one.observations,)
    assert faults.get_time_limit(env) == one.limit
    number = env.action_space.n if one.is_discrete else spec.act_dim
    assert number == one.actions
    env.close()
    for name in algos.NAMES:
        content = {"algo": name, "env": one.id}
        if name in one.fits:
            from_json(content)
        else:
            with pytest.raises(ValueError, match="action space"):
                from_json(content)


def test_list_envs_needs_neither_jax_nor_gymnasium():
    probe = "import sys; from purerl.__main__ import main; code = main(sys.argv[1:]);"
    probe += (
        "assert not {'jax', 'gymnasium', 'flax', 'numpy.random'} & set(sys.modules); sys.exit(code)"
    )
    done = python("-c", probe, "list", "envs", "dqn")
    assert done.code == 0, done.err
    done = python("-m", "purerl", "list", "envs", "dqn")
    assert "CartPole-v1" in done.out
    assert "Pendulum-v1" not in done.out
    done = python("-m", "purerl", "list", "envs", "dqm")
    assert done.code == 2
    assert "Did you mean dqn?" in done.err


def test_columns_are_aligned_if_letters_are_wide():
    rows = [("run", "algo"), ("\u5b57\u5b57\u5b57", "ppo"), ("e\u0301te\u0301", "sac")]
    lines = console.align_columns(rows).splitlines()
    assert lines == ["run     algo", "\u5b57\u5b57\u5b57  ppo", "e\u0301te\u0301     sac"]


def put(run, algo, status="done"):
    run.mkdir(parents=True)
    config = {"algo": algo, "env": "E-v0", "seed": 0, "name": "x", "schedule": {"steps": 9}}
    (run / "config.json").write_text(json.dumps(config))
    places.write_status(run, {"status": status})


def test_list_runs_selects_an_algorithm_and_refuses_unknown_names(tmp_path, capsys):
    put(tmp_path / "a" / "a_s0", "ppo")
    put(tmp_path / "b" / "b_s0", "mine.fate")

    def listed(*words):
        assert call("list", *words, "--data-dir", tmp_path) == 0
        return [line.split()[0] for line in capsys.readouterr().out.splitlines()]

    assert listed("runs") == ["run", "a/a_s0", "b/b_s0"]
    assert listed("runs", "ppo") == ["run", "a/a_s0"]
    assert listed("runs", "mine.fate") == ["run", "b/b_s0"]
    assert listed("runs", "sac") == ["no"]
    for words, message in (
        (["run"], "expected algos, envs or runs, got 'run'. Did you mean 'runs'?"),
        (["runs", "pppo"], "Did you mean ppo?"),
        (["algos", "ppo"], "unexpected argument 'ppo'. Try `purerl show ppo`."),
    ):
        assert call("list", *words, "--data-dir", tmp_path) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", ["resume", "list", "inspect", "eval", "watch", "export"])
def test_help_has_examples(command, capsys):
    assert call(command, "--help") == 0
    said = capsys.readouterr().out
    assert re.search(rf"^examples:\n  purerl {command} ", said, re.MULTILINE), said
