"""`purerl eval`: printed lines, files and exit codes."""

import errno
import json
import re
import shutil

import pytest

from purerl.cli import checkpoint_arguments
from purerl.errors import OutputClosed
from tests.cli.commands.call import call
from tests.runs.trained import begun


@pytest.fixture(autouse=True)
def no_setup(monkeypatch):
    monkeypatch.setattr("purerl.setup", lambda: None)


def test_a_failed_evaluation_does_not_stop_the_other_runs(here, tmp_path):
    good, bad = tmp_path / "good", tmp_path / "bad\x1b[31m"
    for path in (good, bad):
        shutil.copytree(begun("ppo").folder, path)
    for made in (bad / "checkpoints").glob("0*"):
        (made / "rank0.npz").unlink()
    out = tmp_path / "new" / "all.jsonl"
    words = ("eval", str(good), str(bad), str(good), "--episodes", "4", "--checkpoint", "0")
    done = here(*words, "--json", "--out", str(out))
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
    done = here(*words, "--out", str(out))
    assert done.code == 2
    assert "all.jsonl already exists; purerl never overwrites files" in done.err


def test_the_line_has_a_confidence_interval_and_stochastic_explores(tmp_path, capsys):
    run = shutil.copytree(begun("sac").folder, tmp_path / "run")
    words = (str(run), "--episodes", "3", "--max-ep-len", "11", "--seed", "4", "--stochastic")
    assert call("eval", *words) == 0
    kept = json.loads((run / "eval" / "000000000000-1.json").read_text())
    found = begun("sac").evaluate(3, seed=4, deterministic=False, max_ep_len=11)
    assert kept["lengths"] == [11, 11, 11]
    assert kept["returns"] == pytest.approx(found.returns)
    assert kept["deterministic"] is False
    assert f"return {found.mean:.1f} (95 %: {found.ci95[0]:.1f} .. {found.ci95[1]:.1f})" in (
        capsys.readouterr().out
    )
    assert found.returns != begun("sac").evaluate(3, seed=4, max_ep_len=11).returns
    assert call("eval", run, "--episodes", "1", "--max-ep-len", "2") == 0
    assert re.search(r": return -\d+\.\d, length 2, 1 episode\n", capsys.readouterr().out)


FAULTY = """
import gymnasium
class Faulty(gymnasium.Wrapper):
    def step(self, action):
        raise ArithmeticError("boom")
gymnasium.register("FaultyPole-v0", lambda: Faulty(gymnasium.make("CartPole-v1")))
"""


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ("--env", "Faulty:FaultyPole-v0"),
            4,
            "environment 0 raised ArithmeticError in step: boom",
        ),
        (("--env", "Pendulum-v1"), 2, "spec.env must equal the spaces"),
        (("--episodes", "0"), 2, "episodes must be an integer of at least 1"),
        (("--seed", "-1"), 2, "seed must be"),
        (("--checkpoint", "newest"), 2, "expected last, best or a step, got 'newest'"),
        (("--checkpoint", "7"), 6, "no checkpoint of step 7"),
        (("--stochastic", "--deterministic"), 2, "not allowed with"),
    ],
)
def test_failed_evaluations_have_exit_codes(tmp_path, monkeypatch, capsys, words, code, message):
    (tmp_path / "Faulty.py").write_text(FAULTY)
    monkeypatch.syspath_prepend(tmp_path)
    assert call("eval", begun("ppo").folder, *words) == code
    said = capsys.readouterr()
    assert message in said.err
    assert not said.out
    assert not (begun("ppo").folder / "eval").exists()


def test_interrupts_end_with_130_and_unexpected_errors_are_raised(monkeypatch):
    def interrupt(args, folder):
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint_arguments, "load_run", interrupt)
    assert call("eval", begun("ppo").folder, begun("ppo").folder) == 130
    monkeypatch.setattr(checkpoint_arguments, "load_run", lambda args, folder: 1 / 0)
    with pytest.raises(ZeroDivisionError):  # an unexpected error keeps its traceback
        call("eval", begun("ppo").folder)


def test_a_closed_output_ends_the_command_at_once(monkeypatch):
    def close(args, folder):
        folders.append(folder)
        raise OutputClosed(errno.EPIPE, "closed")

    folders = []
    monkeypatch.setattr(checkpoint_arguments, "load_run", close)
    assert call("eval", begun("ppo").folder, begun("ppo").folder) == 141
    assert len(folders) == 1
