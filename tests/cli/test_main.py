"""The command line: output, refused arguments and exit codes."""

import functools
import json
import signal
import subprocess
import sys

import gymnasium
import pytest

from purerl import errors
from purerl.cli.main import OVERVIEW, main
from purerl.mpi import library, world
from purerl.runs.record import checkpoint_folders, status
from tests.mpi.launch import ROOT, clean, python

PURERL = ("-m", "purerl")
SMALL = ("--env", "CartPole-v1", "--steps", "400", "--steps-per-epoch", "200", "--hidden", "8")
SMALL += ("--preset", "none")


def test_the_overview_and_lists_need_no_jax(tmp_path):
    probe = "import sys; from purerl.__main__ import main; code = main(sys.argv[1:]);"
    probe += "assert not {'jax', 'gymnasium', 'flax'} & set(sys.modules); sys.exit(code)"
    for words in ((), ("--help",), ("list", "algos"), ("list", "--data-dir", str(tmp_path))):
        done = python("-c", probe, *words)
        assert done.code == 0, done.err
        assert "sac" in done.out
    assert python(*PURERL).out == OVERVIEW
    assert "no runs in" in done.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("trian",), "unknown command 'trian'. Did you mean 'train'?"),
        (("train", "sca"), "got 'sca'. Did you mean sac?"),
        (("train", "droq"), "got 'droq'. Did you mean redq?"),
        (("train", "ppo"), "--env is missing"),
        (("train", "--algo", "ppo"), "the algorithm comes first, without a flag"),
        (("enjoy",), "In purerl this is the command watch, or eval."),
        (("train", "ppo", "--env", "Nothing-v0"), "environment Nothing-v0: "),
        (("train", "sac", "--env", "CartPole-v1"), "sac needs a Box action space"),
        (("train", "ppo", *SMALL, "--gamma", "2"), "gamma must be a number in [0.0, 1.0]"),
        (("train", "ppo", *SMALL, "--gama", "1"), "unknown flag --gama. Did you mean --gamma?"),
        (("train", "ppo", *SMALL, "--name", "../x"), "name must consist of letters"),
        (("train", "ppo", *SMALL, "--save-freq", "0"), "save_freq must be"),
        (("resume", "/nowhere"), "/nowhere is not a run"),
    ],
)
def test_mistakes_give_a_short_message_and_exit_code_2(words, message, here):
    done = here(*words)
    assert done.code == 2
    assert message in done.err
    assert len(done.err.splitlines()) <= 4


def test_each_seed_is_a_run_that_can_be_listed_inspected_and_resumed(tmp_path, here):
    more = ("--seed", "0", "1", "--name", "two", "--save-freq", "none")
    done = here("train", "ppo", *SMALL, *more, "--data-dir", tmp_path / "data")
    assert done.code == 0, done.err
    assert done.out.count("everything is in") == 2
    run = tmp_path / "data" / "two" / "two_s1"
    listed = here("list", "runs", "--data-dir", str(tmp_path / "data")).out
    assert [line.split()[4:6] for line in listed.splitlines()[1:]] == [["done", "400"]] * 2
    shown = here("inspect", str(run)).out
    assert "status: done" in shown
    assert "checkpoints: 400" in shown
    assert "rank0.npz learner .params.actor" in shown
    assert here("resume", run).code == 2  # complete
    done = here("resume", run, "--steps", "8e2")
    assert done.code == 0, done.err
    assert checkpoint_folders.list_steps(run) == [400, 800]
    assert status.read_status(run)["step"] == 800
    (run / "checkpoints" / "000000000800" / "rank0.npz").write_bytes(b"")
    done = here("inspect", str(run))
    assert done.code == 6
    assert "purerl inspect: " in done.err
    assert "checkpoints/000000000800/rank0.npz must have " in done.err
    assert "checkpoint of step 400" in done.out  # the newest intact one
    done = here("resume", run, "--steps", "300")
    assert done.code == 2
    assert done.err.splitlines()[-1].startswith("purerl resume: ")
    assert "steps" in done.err


def test_a_saved_configuration_can_be_used_again(tmp_path, here):
    data = ("--data-dir", tmp_path / "data")
    assert here("train", "ppo", *SMALL, *data, "--clip-ratio", "0.3", "--name", "first").code == 0
    saved = tmp_path / "data" / "first" / "first_s0" / "config.json"
    changed = ("--config", saved, "--name", "again", "--gamma", "0.5")
    assert here("train", "ppo", *changed, *data).code == 0
    again = json.loads((tmp_path / "data" / "again" / "again_s0" / "config.json").read_text())
    first = json.loads(saved.read_text())
    assert again["spec"] == first["spec"] | {"gamma": 0.5}
    assert again["schedule"] == first["schedule"]
    content = first | {"spec": first["spec"] | {"clip_ration": 0.1}}
    saved.write_text(json.dumps(content))
    done = here("train", "ppo", "--config", str(saved))
    assert "spec has no entry 'clip_ration'. Did you mean 'clip_ratio'?" in done.err
    saved.write_text(json.dumps(first | {"env": "os:Nothing-v0"}))
    done = here("train", "ppo", "--config", str(saved))
    assert "imports a module, which purerl never does" in done.err
    done = here("train", "td3", "--config", str(saved))
    assert "is for 'ppo', not 'td3'" in done.err


FAULTY = """
import gymnasium, numpy as np
class Faulty(gymnasium.Wrapper):
    steps = 0
    def step(self, action):
        self.steps += 1
        obs, *rest = super().step(action)
        if self.steps == 250 and {kind!r} == "raise":
            raise ArithmeticError("boom")
        return (obs * np.nan if self.steps == 250 else obs), *rest
gymnasium.register("Faulty-v0", lambda: Faulty(gymnasium.make("CartPole-v1")))
"""


@pytest.mark.parametrize(
    ("kind", "code", "message"),
    [
        ("raise", 4, "environment 0 raised ArithmeticError in step: boom"),
        ("nan", 3, "next_obs of environment 0 is not finite at environment step 250"),
    ],
)
def test_failures_have_exit_codes_and_keep_the_last_checkpoint(
    tmp_path, kind, code, message, here, monkeypatch
):
    (tmp_path / "faulty.py").write_text(FAULTY.format(kind=kind))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "faulty", raising=False)
    words = ("ppo", "--env", "faulty:Faulty-v0", *SMALL[2:], "--save-freq", "200")
    done = here("train", *words, "--data-dir", tmp_path / "data")
    del gymnasium.registry["Faulty-v0"]
    assert done.code == code, done.err
    assert message in done.err
    assert "Traceback" not in done.err
    run = tmp_path / "data" / "faulty-v0-ppo" / "faulty-v0-ppo_s0"
    assert checkpoint_folders.list_steps(run) == [200]
    assert status.read_status(run)["status"] == "failed"
    assert message in status.read_status(run)["reason"]
    assert "the checkpoint of step 200 is kept" in done.err
    if kind == "raise":
        assert "This happened after environment step 200 of the run." in done.err
        assert f"Continue: purerl resume {run} --env faulty:Faulty-v0" in done.err
    said = done.err.splitlines()[0].removeprefix("purerl train: ")
    assert f"purerl: {said}" in (run / "stdout.log").read_text().splitlines()
    assert "ArithmeticError" in (run / "stdout.log").read_text() or kind == "nan"
    done = here("resume", run)
    assert done.code == 2
    assert "imports a module" in done.err


def test_status_is_running_during_training_and_killed_after_a_kill(tmp_path):
    words = [sys.executable, *PURERL, "train", "ppo", "--env", "CartPole-v1", "--hidden", "8"]
    words += [
        "--preset",
        "none",
        "--steps",
        "10000000",
        "--steps-per-epoch",
        "1000",
        "--data-dir",
        str(tmp_path),
    ]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=clean(), cwd=ROOT)
    for line in process.stdout:
        if "steps/s" in line:
            break
    assert [one.status for one in status.list_runs(tmp_path)] == ["running"]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert [one.status for one in status.list_runs(tmp_path)] == ["killed"]


def test_user_defaults_come_from_a_file_or_environment_variables(tmp_path, monkeypatch):
    monkeypatch.setenv("PURERL_CONFIG", str(tmp_path / "mine.json"))
    monkeypatch.delenv("PURERL_DATA_DIR", raising=False)
    assert status.read_user_defaults() == {"data_dir": "runs", "datestamp": False}
    (tmp_path / "mine.json").write_text('{"data_dir": "elsewhere", "datestamp": true}')
    assert status.read_user_defaults() == {"data_dir": "elsewhere", "datestamp": True}
    monkeypatch.setenv("PURERL_DATA_DIR", "there")
    monkeypatch.setenv("PURERL_DATESTAMP", "0")
    assert status.read_user_defaults() == {"data_dir": "there", "datestamp": False}
    for wrong in ('{"datadir": "x"}', '{"datestamp": 1}', "[]", "{"):
        (tmp_path / "mine.json").write_text(wrong)
        with pytest.raises(errors.ConfigError, match=r"mine\.json"):
            status.read_user_defaults()


@pytest.mark.parametrize(("rank", "lines"), [("0", 1), ("1", 0)])
def test_ranks_without_an_mpi_library_print_one_line(monkeypatch, capsys, rank, lines):
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setenv("PMI_RANK", rank)
    monkeypatch.setattr(library.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(world, "get_world", functools.cache(world.get_world.__wrapped__))
    assert main(["train", "ppo", "--env", "CartPole-v1"]) == 2
    assert capsys.readouterr().err.count("Type: pip install 'purerl[mpi]'") == lines
