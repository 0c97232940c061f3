"""`purerl show` and `purerl list envs`: what the source and the stock environments say."""

import dataclasses
import inspect
import re

import gymnasium
import pytest

from purerl import algos
from purerl.runs import environments, show
from purerl.runs.config import from_json
from purerl.types import EnvSpec
from tests.mpi.launch import python


@pytest.mark.parametrize("name", algos.NAMES)
def test_show_agrees_with_the_module(name, capsys):
    assert show.show([name]) == 0
    said, algo = capsys.readouterr().out, algos.load(name)
    assert said.startswith(inspect.getdoc(algo).partition("\n")[0])
    for function in ("init", "loss", "update", "policy"):
        where = re.search(rf"^  {function}\(.*?algos/{name}\.py:(\d+)", said, re.MULTILINE)
        line = inspect.getsource(algo).splitlines()[int(where[1]) - 1]
        assert line.startswith(f"def {function}(")
    for cls, given in ((algo.Spec, None), (type(algo.SCHEDULE), algo.SCHEDULE)):
        for field in dataclasses.fields(cls):
            if field.name == "env":
                continue
            value = field.default if given is None else getattr(given, field.name)
            row = re.search(rf"^  {field.name} +(.*)$", said, re.MULTILINE)[1]
            shown = re.match(r"(\(.*?\)|\S+)", row)[1].replace("_", "")
            assert shown == str(value).replace("_", "") or shown == repr(value).replace("_", "")


def test_show_prints_the_source_and_refuses_what_is_none(capsys):
    assert show.show(["td3", "--source"]) == 0
    assert capsys.readouterr().out == inspect.getsource(algos.load("td3"))
    with pytest.raises(SystemExit, match="2"):
        show.show(["td4"])
    assert "Did you mean td3?" in capsys.readouterr().err


CLASSIC = [one for one in environments.STOCK if not one.extra]  # the others: compared by hand


@pytest.mark.parametrize("one", CLASSIC, ids=lambda one: one.id)
def test_stock_environments_are_as_gymnasium_makes_them(one):
    env = gymnasium.make(one.id)
    spec = EnvSpec.of(env)
    assert spec.obs_shape == (one.observations,)
    assert env.spec.max_episode_steps == one.limit
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
    for words in (("list", "envs", "dqn"), ("show", "sac")):
        done = python("-c", probe, *words)
        assert done.code == 0, done.err
    done = python("-m", "purerl", "list", "envs", "dqn")
    assert "CartPole-v1" in done.out
    assert "Pendulum-v1" not in done.out
    done = python("-m", "purerl", "list", "envs", "dqm")
    assert done.code == 2
    assert "Did you mean dqn?" in done.err
