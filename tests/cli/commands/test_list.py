"""`purerl show` and `purerl list envs`: what the source and the stock environments say."""

import dataclasses
import inspect
import json
import re
import shutil

import gymnasium
import pytest

from purerl import algos
from purerl.cli import formulas
from purerl.cli.commands import list as looking
from purerl.cli.commands import show
from purerl.runs import console
from purerl.runs.record import status as places
from purerl.runs.settings import environments
from purerl.runs.settings.config import from_json
from purerl.spaces import EnvSpec
from tests.mpi.launch import python
from tests.runs.trained import begun


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


@pytest.mark.parametrize("name", algos.NAMES)
def test_show_has_equations_that_a_terminal_can_show(name, capsys, monkeypatch):
    show.show([name])
    said = capsys.readouterr().out
    assert not re.search(r"\\|[{}]|math::|:math:| $", said.partition("Spec:")[0], re.MULTILINE)
    assert "π_θ(a" in said or "Q_φ(s, a)" in said or "Q_φ_i(s, a)" in said
    assert formulas.readable(said, "ascii").partition("Functions")[0].isascii()


def test_equations_are_those_of_the_source():
    text = """Title.

.. math::
    r = \\frac{\\pi_\\theta(a | s)}{\\pi_{old}(a | s)}, \\qquad
    x &= \\sqrt{\\frac{2 \\delta}{x^T (F + c I) x}} \\, x \\\\

Where :math:`\\mathbb{E}\\,[\\bar{\\mathcal{H}}] \\le \\tilde a^{t' - t}` is."""
    assert (
        formulas.readable(text)
        == """Title.

    r = (π_θ(a | s) / π_old(a | s)),
    x = sqrt((2 δ) / (x^T (F + c I) x)) x

Where E[H_bar] <= a_tilde^(t' - t) is."""
    )
    assert "pi_theta(a | s) / pi_old" in formulas.readable(text, "ascii")


def test_show_prints_the_source_and_refuses_what_is_none(capsys):
    assert show.show(["td3", "--source"]) == 0
    assert capsys.readouterr().out == inspect.getsource(algos.load("td3"))
    with pytest.raises(SystemExit, match="2"):
        show.show(["td4"])
    assert "Did you mean td3?" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        show.show(["TD3"])
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


def test_columns_stand_below_each_other_where_letters_are_wide():
    rows = [("run", "algo"), ("\u5b57\u5b57\u5b57", "ppo"), ("e\u0301te\u0301", "sac")]
    lines = console.align_columns(rows).splitlines()
    assert lines == ["run     algo", "\u5b57\u5b57\u5b57  ppo", "e\u0301te\u0301     sac"]


def put(run, algo, status="done"):
    run.mkdir(parents=True)
    config = {"algo": algo, "env": "E-v0", "seed": 0, "name": "x", "schedule": {"steps": 9}}
    (run / "config.json").write_text(json.dumps(config))
    places.write_status(run, {"status": status})


def test_list_runs_shows_those_of_an_algorithm_and_refuses_what_is_none(tmp_path, capsys):
    put(tmp_path / "a" / "a_s0", "ppo")
    put(tmp_path / "b" / "b_s0", "mine.fate")

    def listed(*words):
        assert looking.list_all([*words, "--data-dir", str(tmp_path)]) == 0
        return [line.split()[0] for line in capsys.readouterr().out.splitlines()]

    assert listed("runs") == ["run", "a/a_s0", "b/b_s0"]
    assert listed("runs", "ppo") == ["run", "a/a_s0"]
    assert listed("runs", "mine.fate") == ["run", "b/b_s0"]
    assert listed("runs", "sac") == ["no"]
    for words, message in (
        (["run"], "expected algos, envs or runs, got 'run'. Did you mean 'runs'?"),
        (["runs", "pppo"], "Did you mean ppo?"),
        (["algos", "ppo"], "one word too many, 'ppo'"),
    ):
        with pytest.raises(SystemExit, match="2"):
            looking.list_all([*words, "--data-dir", str(tmp_path)])
        assert message in capsys.readouterr().err


def test_inspect_says_a_setting_in_a_line_and_what_is_no_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PURERL_DATA_DIR", str(tmp_path))
    put(run := tmp_path / "a" / "a_s0", "ppo")
    assert looking.inspect([str(run)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert {'algo = "ppo"', "schedule.steps = 9", "status: done", "checkpoints: none"} <= {*said}
    assert looking.inspect(["a_s0"]) == 2
    assert f"a_s0 is no run: it has no config.json. Did you mean {run}?" in capsys.readouterr().err
    (run / "config.json").write_text("[]")
    assert looking.inspect([str(run)]) == 2


def test_inspect_takes_the_newest_checkpoint_that_is_whole_and_names_the_others(tmp_path, capsys):
    run = shutil.copytree(begun("ppo").folder, tmp_path / "run")
    shutil.copytree(run / "checkpoints" / f"{0:012d}", run / "checkpoints" / f"{7:012d}")
    (run / "checkpoints" / f"{7:012d}" / "rank0.npz").write_bytes(b"")
    assert looking.inspect([str(run)]) == 6
    said = capsys.readouterr()
    assert "000000000007/rank0.npz" in said.err
    assert "checkpoints: 0, 7" in said.out
    assert "checkpoint of step 0," in said.out


@pytest.mark.parametrize("command", ["resume", "list", "inspect", "eval", "watch", "export"])
def test_help_has_examples(command):
    done = python("-m", "purerl", command, "--help")
    assert re.search(rf"^examples:\n  purerl {command} ", done.out, re.MULTILINE), done.err
