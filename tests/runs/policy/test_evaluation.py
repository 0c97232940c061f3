"""`purerl eval`: its statistics, its files, its codes."""

import json
import math
import re
import shutil

import pytest

from purerl.cli import run_arguments
from purerl.runs.policy.evaluation import Evaluation, command, reserve_path
from tests.mpi.launch import python
from tests.runs.trained import begun

PURERL = ("-m", "purerl")
LIGHT = "import sys; from purerl.__main__ import main\ntry: main(sys.argv[1:])\n"
LIGHT += "except SystemExit: pass\nassert not {'jax', 'gymnasium', 'flax'} & set(sys.modules)"


def here(monkeypatch, *words):
    """Evaluate in this process, and return the exit code."""
    monkeypatch.setattr("purerl.setup", lambda: None)
    try:
        return command([*words])
    except SystemExit as error:
        return error.code


def test_statistics_are_those_of_a_textbook():
    # Student's 97.5 % quantiles for 2 and 9 degrees of freedom: 4.303 and 2.262 (any table)
    few = Evaluation((10.0, 12.0, 17.0), (1, 2, 6))
    assert (few.mean, few.min, few.max, few.mean_length) == (13.0, 10.0, 17.0, 3.0)
    assert few.std == pytest.approx(math.sqrt((9 + 1 + 16) / 3))
    half = 4.303 * math.sqrt(26 / 2) / math.sqrt(3)
    assert few.ci95 == pytest.approx((13 - half, 13 + half), abs=2e-3)
    many = Evaluation(tuple(float(i) for i in range(10)), (1,) * 10)
    half = 2.262 * math.sqrt(82.5 / 9 / 10)
    assert many.ci95 == pytest.approx((4.5 - half, 4.5 + half), abs=1e-3)
    one = Evaluation((3.0,), (4,))
    assert one.ci95 == (-math.inf, math.inf)
    assert (one.std, one.plain()["ci95"]) == (0.0, None)
    assert json.loads(json.dumps(few.plain(), allow_nan=False))["returns"] == [10.0, 12.0, 17.0]


def test_help_needs_no_jax_and_names_what_spinning_up_called_it():
    for name, words in (
        ("eval", ("--max_ep_len", "--json", "--stochastic", "how many (default: 20)")),
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
                "default: 320 of a GIF",
            ),
        ),
        ("export", ("--format {numpy,stablehlo}", "--out")),
    ):
        done = python("-c", LIGHT, name, "--help")
        assert done.code == 0, done.err
        assert all(word in done.out for word in words), done.out


def test_several_runs_are_evaluated_and_one_that_cannot_be_does_not_stop_the_others(tmp_path):
    good, bad = tmp_path / "good", tmp_path / "bad\x1b[31m"
    for path in (good, bad):
        shutil.copytree(begun("ppo").folder, path)
    for made in (bad / "checkpoints").glob("0*"):
        (made / "rank0.npz").unlink()
    out = tmp_path / "new" / "all.jsonl"
    words = ("eval", str(good), str(bad), str(good), "--episodes", "4", "--checkpoint", "0")
    done = python(*PURERL, *words, "--json", "--out", str(out))
    assert done.code == 6
    assert "rank0.npz is missing" in done.err
    assert "\x1b" not in done.err
    assert "Traceback" not in done.err
    first, second = map(json.loads, done.out.splitlines())
    assert first["returns"] == second["returns"]
    assert first["mean"] == sum(first["returns"]) / 4
    assert (first["step"], first["checkpoint"], first["episodes"]) == (0, 0, 4)
    assert out.read_text() == done.out
    kept = sorted((good / "eval").iterdir())
    assert [path.name for path in kept] == ["000000000000-1.json", "000000000000-2.json"]
    assert json.loads(kept[0].read_text()) == first
    done = python(*PURERL, *words, "--out", str(out))
    assert done.code == 2
    assert "all.jsonl exists, and nothing is ever written over" in done.err


def test_the_line_says_how_sure_it_is_and_explores_when_asked(tmp_path, monkeypatch, capsys):
    run = shutil.copytree(begun("sac").folder, tmp_path / "run")
    words = (str(run), "--episodes", "3", "--max-ep-len", "11", "--seed", "4", "--stochastic")
    assert here(monkeypatch, *words) == 0
    kept = json.loads((run / "eval" / "000000000000-1.json").read_text())
    found = begun("sac").evaluate(3, seed=4, deterministic=False, max_ep_len=11)
    assert kept["lengths"] == [11, 11, 11]
    assert kept["returns"] == pytest.approx(found.returns)
    assert kept["deterministic"] is False
    assert f"return {found.mean:.1f} (95 %: {found.ci95[0]:.1f} .. {found.ci95[1]:.1f})" in (
        capsys.readouterr().out
    )
    assert found.returns != begun("sac").evaluate(3, seed=4, max_ep_len=11).returns
    assert here(monkeypatch, str(run), "--episodes", "1", "--max-ep-len", "2") == 0
    assert re.search(r": return -\d+\.\d, length 2, 1 episode\n", capsys.readouterr().out)


FAULTY = """
import gymnasium
class Faulty(gymnasium.Wrapper):
    def step(self, action):
        raise ArithmeticError("boom")
gymnasium.register("Faulty-v0", lambda: Faulty(gymnasium.make("CartPole-v1")))
"""


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--env", "Faulty:Faulty-v0"), 4, "environment 0 raised ArithmeticError in step: boom"),
        (("--env", "Pendulum-v1"), 2, "spec.env must be that of env_fn"),
        (("--episodes", "0"), 2, "episodes must be an integer of at least 1"),
        (("--seed", "-1"), 2, "seed must be"),
        (("--checkpoint", "newest"), 2, "expected last, best or a step, got 'newest'"),
        (("--checkpoint", "7"), 6, "no checkpoint of step 7"),
        (("--stochastic", "--deterministic"), 2, "not allowed with"),
    ],
)
def test_faults_have_their_codes(tmp_path, monkeypatch, capsys, words, code, message):
    (tmp_path / "Faulty.py").write_text(FAULTY)
    monkeypatch.syspath_prepend(tmp_path)
    assert here(monkeypatch, str(begun("ppo").folder), *words) == code
    said = capsys.readouterr()
    assert message in said.err
    assert not said.out
    assert not (begun("ppo").folder / "eval").exists()


def test_an_interrupted_command_ends_as_a_shell_expects():
    def interrupted():
        raise KeyboardInterrupt

    assert run_arguments.run_command("eval", interrupted) == 130
    with pytest.raises(ZeroDivisionError):  # what nobody expects keeps its traceback
        run_arguments.run_command("eval", lambda: 1 / 0)


def test_a_name_that_is_taken_is_passed_over(tmp_path):
    (tmp_path / "a-1.json").write_text("mine")
    assert reserve_path(tmp_path, "a", ".json") == tmp_path / "a-2.json"
    assert reserve_path(tmp_path, "a", ".json") == tmp_path / "a-3.json"
    assert (tmp_path / "a-1.json").read_text() == "mine"


def test_words_for_a_checkpoint():
    words = ("last", "best", "-1", "0", "10_000")
    assert [run_arguments.parse_checkpoint(word) for word in words] == [
        "last", "best", "last", 0, 10_000,
    ]  # fmt: skip
