"""`purerl train`: alternative names of settings, presets, help, refused mistakes, dry runs."""

import json
import re
import shlex
import warnings
from pathlib import Path

import numpy as np
import pytest

import purerl
from purerl import algos
from purerl.buffers import replay
from purerl.cli import main
from purerl.cli.commands import train_and_resume
from purerl.errors import ConfigError
from purerl.runs.console import print_lines
from purerl.runs.record import folder, status
from purerl.runs.settings import aliases, config, environments
from purerl.runs.training import requirements, train
from purerl.runs.training.train import Outcome
from tests.cli.commands.call import call


@pytest.fixture
def trained(monkeypatch, tmp_path):
    """Record the configurations that would be trained, and train nothing."""
    found = []

    def train(made, env_fn, **where):
        found.append((made, where))
        return Outcome(tmp_path, 0, 0, 0.0, None, made)

    monkeypatch.setenv("PURERL_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(train_and_resume.runs, "train", train)
    monkeypatch.setattr(train_and_resume.purerl, "setup", lambda devices: None)
    return found


ENV = ["--env", "CartPole-v1"]


@pytest.mark.parametrize(
    ("words", "part", "fields"),
    [
        ("--total-timesteps 8e3", "schedule", {"steps": 8000}),
        ("--total_timesteps 8000", "schedule", {"steps": 8000}),
        ("--epochs 3 --steps_per_epoch 100", "schedule", {"steps": 300, "steps_per_epoch": 100}),
        ("--hid 16 --l 3", "spec", {"hidden": (16, 16, 16)}),
        ("--hid [16,8]", "spec", {"hidden": (16, 8)}),
        ("--l 1", "spec", {"hidden": (64,)}),
        ("--act torch.nn.ReLU", "spec", {"activation": "relu"}),
        ("--log-std-init -1e-1", "spec", {"log_std_init": -0.1}),
        ("--set spec.hidden=8,8 gamma=0.5", "spec", {"hidden": (8, 8), "gamma": 0.5}),
        ("--set schedule.steps=4e3 options.keep=9", "schedule", {"steps": 4000}),
        ("--set gamma=0.5 --set lam=0.25 keep=9", "spec", {"gamma": 0.5, "lam": 0.25}),
        ("--set normalise_obs=true", "spec", {"normalise_obs": True}),
        ("--set options.keep=9 --save-freq none", "options", {"keep": 9, "save_freq": None}),
    ],
)
def test_settings_accept_names_of_other_libraries(words, part, fields, trained):
    assert train_and_resume.train(["ppo", *ENV, *words.split()]) == 0
    ((made, _),) = trained
    got = getattr(made, part)
    assert {name: getattr(got, name) for name in fields} == fields


def test_flags_of_the_run_folder_accept_spinning_ups_names(trained):
    words = ["vpg", "--env-id", "Acrobot-v1", "--exp_name", "x", "--data_dir", "d", "--dt"]
    assert train_and_resume.train([*words, "--seed", "3", "4"]) == 0
    assert [(made.name, made.seed) for made, _ in trained] == [("x", 3), ("x", 4)]
    assert trained[0][1] == {"notes": [], "data_dir": "d", "datestamp": True}
    assert train_and_resume.train(["ppo", *ENV, "--preset", "none"]) == 0
    assert trained[-1][1] == {"notes": [], "data_dir": None, "datestamp": None}


def test_a_seed_given_twice_trains_once_with_a_note(trained, capsys):
    assert train_and_resume.train(["ppo", *ENV, "--seed", "7", "8", "7"]) == 0
    assert [made.seed for made, _ in trained] == [7, 8]
    assert "seed: dropped duplicate values, using 7, 8\n" in capsys.readouterr().out


def test_seeds_train_together_in_one_process(trained, monkeypatch, capsys):
    asked = []

    def train_together(made, env_fn, **where):
        asked.append([one.seed for one in made])
        return [Outcome(Path(), code, 0, 0.0, None, None) for code in (0, 75)]

    monkeypatch.setattr(train_and_resume.runs, "train_together", train_together)
    words = ["ppo", *ENV, "--seed", "0", "3", "--together"]
    assert train_and_resume.train(words) == 75
    assert (asked, trained) == ([[0, 3]], [])
    assert call("train", *words, "--num-cpu", "2") == 2
    assert "--together trains all seeds in one process" in capsys.readouterr().err
    assert call("sweep", *words) == 2
    assert "unknown flag --together" in capsys.readouterr().err


def test_runs_continue_together_by_name_or_as_all_runs_of_a_folder(tmp_path, monkeypatch, capsys):
    asked = []

    def resume_together(runs, env_fn, **options):
        asked.append([run.name for run in runs])
        return [Outcome(runs[0], 0, 0, 0.0, None, None)]

    monkeypatch.setattr(train_and_resume.runs, "resume_together", resume_together)
    monkeypatch.setattr(train_and_resume.purerl, "setup", lambda devices: None)
    for seed in range(3):
        content = {"algo": "ppo", "env": "CartPole-v1", "seed": seed, "schedule": {"steps": 9}}
        (tmp_path / f"x_s{seed}").mkdir()
        (tmp_path / f"x_s{seed}" / "config.json").write_text(json.dumps(content))
    runs = [str(tmp_path / f"x_s{seed}") for seed in range(3)]
    for words in ([str(tmp_path), "--together"], [*runs[1:], "--together"], [runs[0]]):
        assert call("resume", *words) == 0
    assert asked == [["x_s0", "x_s1", "x_s2"], ["x_s1", "x_s2"], ["x_s0"]]
    assert call("resume", *runs) == 2
    assert "several runs continue only in one program. Add --together" in capsys.readouterr().err
    assert call("resume", tmp_path) == 2
    assert "matches 3 runs" in capsys.readouterr().err


def test_unfinished_runs_of_all_seeds_are_reported_before_training(trained):
    content = {"algo": "ppo", "env": "CartPole-v1"}
    made = [config.from_json(content | {"seed": seed}) for seed in (0, 1, 2)]
    paths = [folder.create_folder(config.to_json(one)) for one in made]
    for path, state in zip(paths, ("stopped", "done", "running"), strict=True):
        folder.update_status(path, status=state)
    with pytest.raises(ConfigError) as refused:
        train_and_resume.train(["ppo", *ENV, "--seed", "5", "0", "1", "2"])
    assert not trained
    said = str(refused.value)
    assert [f"{path} exists and is not finished" in said for path in paths] == [True, False, True]
    assert train_and_resume.train(["ppo", *ENV, "--seed", "5", "1"]) == 0
    assert len(trained) == 2


def test_a_configuration_file_may_have_only_some_settings(trained, tmp_path):
    file = tmp_path / "settings.json"
    nested = {"algo": "ppo", "spec": {"gamma": 0.9, "lam": 0.8}, "schedule": {"steps": 8000}}
    bare = {"gamma": 0.9, "lam": 0.8, "steps": 8000}
    for content in (nested, bare):
        file.write_text(json.dumps(content))
        assert train_and_resume.train(["ppo", *ENV, "--config", str(file), "--gamma", "0.7"]) == 0
        made = trained[-1][0]
        assert (made.spec.gamma, made.spec.lam, made.schedule.steps) == (0.7, 0.8, 8000)


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        ("--gamma 2 --hidden 0 --steps 0 --keep 0", ["gamma must", "hidden[0]", "steps", "keep"]),
        ("--gamma x --lr 1 --hidden 64;64", ["--gamma: expected a number", "--lr", "--hidden"]),
        ("--lr 1e-3", ["unknown flag --lr. Did you mean --pi-lr or --vf-lr?"]),
        ("--ga 0.9", ["unknown flag --ga."]),
        ("--set gama=1 x lr=2", ["--set gama=1: ", "--set x: expected KEY=VALUE", "--set lr=2"]),
        ("--set gamma=1 gamma=0", ["gamma is given twice"]),
        ("--gamma 1 --set spec.gamma=0", ["--set spec.gamma=0: gamma is given twice"]),
        ("--hid 32 --set hidden=64", ["--set hidden=64: hidden is given twice"]),
        ("--set seed=1", ["use the flag --seed instead"]),
        ("--set actor=x", ["in Python, as Spec(actor"]),
        ("--steps 100 --epochs 3", ["steps and epochs both set the run's length"]),
        ("--hid 64 64 --l 2", ["use purerl sweep with --grid hid=64,64."]),
        ("--num_cpu some", ["expected an integer, got 'some'"]),
        ("--num-cpu 0", ["expected auto or an integer of at least 1"]),
        ("--seed -1", ["seed must be an integer"]),
        ("--name ../x", ["name must consist of letters"]),
        ("--activation rleu", ["activation must be one of elu, gelu"]),
        ("--gamma nan --steps 1.5", ["--total-timesteps: expected an integer", "gamma must be a"]),
        ("--name ../x --steps 0", ["name must consist of letters", "steps must be an integer"]),
        ("--hid 8 --hidden 9", ["--hid and --hidden: the setting is given twice"]),
        ("--hid 8 --hid 16", ["--hid: the setting is given twice"]),
        ("--tensorboard --no-tensorboard", ["--tensorboard: the setting is given twice"]),
        ("--dry-run=3", ["argument --dry-run: expected no value, got '3'"]),
    ],
)
def test_mistakes_are_reported_all_at_once_and_without_an_environment(
    words, messages, trained, capsys, monkeypatch
):
    monkeypatch.setattr(environments, "read_env_spec", lambda *_: pytest.fail("made"))
    with pytest.raises(SystemExit) as stop:
        train_and_resume.train(["ppo", *ENV, *words.split()])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert all(message in said for message in messages), said
    assert not trained


def test_names_of_other_libraries_lead_to_the_setting(capsys):
    with pytest.raises(SystemExit):
        train_and_resume.train(["trpo", *ENV, "--algo", "npg"])
    assert "unknown flag --algo. Did you mean --method?" in capsys.readouterr().err


def test_errors_that_may_follow_from_an_unreadable_value_are_not_printed(trained, capsys):
    with pytest.raises(SystemExit):
        train_and_resume.train(["ppo", *ENV, "--gamma", "x", "--set", "gamma=2", "--lam", "2"])
    said = capsys.readouterr().err
    assert "lam must be" in said
    assert "gamma must be" not in said


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("a:b:c", "env must be a Gymnasium id such as CartPole-v1, or module:Id, got 'a:b:c'."),
        ("A,B", "got 'A,B'. For several, use purerl sweep with --grid env=A,B"),
        ("CartPole-v9", "[ `v0`, `v1` ]. Did you mean CartPole-v1?"),
        ("HalfCheetah-v2", " Did you mean HalfCheetah-v5?"),
        ("Pendulum-v0", "environment Pendulum-v0: Environment version v0 for `Pendulum` is de"),
    ],
)
def test_an_unknown_environment_id_gives_one_line(env, message, trained, capsys):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert main.main(["train", "ppo", "--env", env]) == 2
    assert not caught
    (said,) = capsys.readouterr().err.splitlines()
    assert message in said


def helped(capsys, *words):
    with pytest.raises(SystemExit) as stop:
        train_and_resume.train(list(words))
    assert stop.value.code == 0
    return capsys.readouterr().out


TITLES = ["Run:", "Algorithm:", "Network:", "Logging and checkpoints:", "Compute:", "examples:"]


@pytest.mark.parametrize("algo", algos.NAMES)
def test_help_fits_on_a_page_and_help_all_has_every_setting(algo, capsys, monkeypatch):
    monkeypatch.setattr(environments, "read_env_spec", lambda *_: pytest.fail("made"))
    monkeypatch.setenv("COLUMNS", "80")
    short = helped(capsys, algo, "--gamma", "x", "--help")
    assert len(short.splitlines()) <= 60
    assert max(map(len, short.splitlines())) <= 80
    assert re.search(r"^  --help-all +show \d+ more settings", short, re.MULTILINE)
    full = helped(capsys, algo, "--help-all")
    for text in (short, full):
        assert [line for line in text.splitlines() if line in TITLES] == TITLES
    assert "--steps INT " in short
    assert re.search("--steps( INT)?, --total-timesteps INT", full)  # before and after Python 3.13
    for name, setting in aliases.list_settings(algo).items():
        if setting.part != "run":
            assert f"  --{name.replace('_', '-')}" in full
    assert "--keep" not in short


@pytest.mark.parametrize("algo", ["ppo", "sac", "dqn"])
def test_help_has_groups_examples_and_narrow_lines(algo, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    text = helped(capsys, algo, "--help")
    assert max(map(len, text.splitlines())) <= 100
    env = "Pendulum-v1" if algo == "sac" else "CartPole-v1"
    assert f"purerl train {algo} --env {env}\n" in text
    parts = dict(re.findall(r"^([A-Z][^\n]*):\n(.*?)\n\n", text, re.DOTALL | re.MULTILINE))
    assert "--steps INT " in parts["Run"]
    assert "--gamma FLOAT" in parts["Algorithm"]
    assert "--hidden" in parts["Network"]
    assert "--save-freq" in parts["Logging and checkpoints"]
    assert "--num-envs" in parts["Compute"]
    monkeypatch.setenv("COLUMNS", "60")
    for flag in ("--help", "--help-all"):
        said = helped(capsys, algo, flag)
        long = [line for line in said.splitlines() if len(line) > 60]
        assert all(line.startswith(("  purerl ", "usage:")) for line in long)


@pytest.mark.parametrize("name", ["-runs", "--steps", "a\tb", "it's", 'say "x"', "$HOME *"])
def test_a_printed_command_can_be_typed(name, tmp_path, capsys, monkeypatch):
    asked = []

    def resume(runs, env_fn, **options):
        asked.append((*runs, options["steps"]))
        return [Outcome(runs[0], 0, 0, 0.0, None, None)]

    monkeypatch.setattr(train_and_resume.runs, "resume_together", resume)
    monkeypatch.setattr(train_and_resume.purerl, "setup", lambda devices: None)
    monkeypatch.chdir(tmp_path)
    run = Path(name, "x_s0")
    run.mkdir(parents=True)
    (run / "config.json").write_text('{"algo": "ppo", "env": "CartPole-v1"}')
    print_lines(status.format_command("resume", run, steps=800))
    program, *words = shlex.split(capsys.readouterr().out)
    assert (program, call(*words), asked) == ("purerl", 0, [(run, 800)])


def test_a_run_in_an_environment_of_a_function_is_resumed_in_python(tmp_path, capsys):
    (tmp_path / "config.json").write_text('{"algo": "ppo", "env": "<lambda>"}')
    assert call("resume", tmp_path) == 2
    said = capsys.readouterr().err
    assert "is a Python function, which a command cannot make" in said
    assert f"in Python: purerl.runs.training.train.resume(pathlib.Path('{tmp_path}'), env_f" in said


@pytest.mark.parametrize("columns", ["0", "1", "2"])
def test_help_is_printed_on_the_narrowest_terminal(columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    assert call("train", "ppo", "--help") == 0
    assert "--gamma" in capsys.readouterr().out


def test_the_examples_in_the_help_can_be_run(trained, capsys):
    with pytest.raises(SystemExit):
        train_and_resume.train(["dqn", "--help"])
    examples = re.findall(r"^  purerl train (.*)$", capsys.readouterr().out, re.MULTILINE)
    assert len(examples) == 3
    for line in examples:
        assert train_and_resume.train([w for w in line.split() if w != "--dry-run"]) == 0
    assert trained[-1][0].spec.gamma == 0.98


def test_a_dry_run_reports_sizes_speed_and_time_and_creates_nothing(here, tmp_path):
    words = ("ppo", "--env", "CartPole-v1", "--steps-per-epoch", "200", "--steps", "2000", "--seed")
    data = tmp_path / "data"
    words += ("0", "1", "--preset", "none", "--data-dir", str(data), "--dry-run")
    run = here("train", *words)
    assert run.code == 0, run.err
    assert "observations  (4,) float32" in run.out
    actor = 4 * 64 + 64 + 64 * 64 + 64 + 64 * 2 + 2
    assert re.search(rf"^actor +{actor:,} parameters  4x64 64x64 64x2$", run.out, re.MULTILINE)
    assert re.search(r"^speed +[\d,]+ environment steps/s with [\d,.]+ updates/s$", run.out, re.M)
    assert re.search(r"^time needed +about .* for 2,000 steps$", run.out, re.MULTILINE)
    assert "for 2 seeds" in run.out
    assert not data.exists()


def test_an_off_policy_dry_run_counts_replay_buffer_and_test_episodes(here):
    words = ("ddpg", "--env", "Pendulum-v1", "--hidden", "8", "--start-steps", "1e5", "--cpu", "2")
    run = here("train", *words, "--steps", "1e5", "--dry-run")
    assert run.code == 0, run.err
    row = 4 * (3 + 1 + 1 + 3) + 2  # obs, act, rew, next_obs in float32; two flags
    assert f"replay buffer {row} MB" in run.out
    assert "for test episodes of 200 steps" in run.out
    assert "if each of the 2 ranks has its own core" in run.out


def made(**schedule):
    content = {"algo": "sac", "env": "Pendulum-v1", "schedule": schedule}
    return config.from_json(content, spaces=config.make_placeholder_spaces("sac", content))


def test_a_replay_buffer_that_exceeds_the_memory_is_refused_with_its_size(monkeypatch, tmp_path):
    monkeypatch.setattr(replay, "free_memory", lambda: 2**30)
    requirements.check_memory(made(replay_size=10**6), 1)
    with pytest.raises(ConfigError, match=r"replay_size = 100,000,000 takes 1\.7 GiB"):
        train.train(made(replay_size=10**8), data_dir=str(tmp_path))
    assert not [*tmp_path.iterdir()]
    monkeypatch.setattr(replay, "free_memory", lambda: None)
    requirements.check_memory(made(replay_size=2**30), 1)


@pytest.mark.parametrize(
    ("algo", "words"),
    [
        ("dqn", "--start-steps 10 --update-after 10 --update-every 10 --batch-size 4"),
        pytest.param("ppo", "--set train_pi_iters=1 train_v_iters=1", marks=pytest.mark.complete),
    ],
)
def test_an_environment_with_images_trains_from_the_command_line(
    algo, words, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(train_and_resume.purerl, "setup", lambda devices: None)
    monkeypatch.setenv("PURERL_DATA_DIR", str(tmp_path))
    words = [*words.split(), "--steps=20", "--steps-per-epoch=10", "--num-test-episodes=0"]
    assert train_and_resume.train([algo, "--env=tests.pixels:Square-v0", "--hid=8", *words]) == 0
    assert (
        "observations are images (36x36x3): torso nature_cnn reads them" in capsys.readouterr().out
    )
    (path,) = tmp_path.glob("**/config.json")
    content = json.loads(path.read_text())
    assert content["spec"]["torso"] == "nature_cnn"
    assert content["spaces"]["obs_dtype"] == "uint8"
    run = purerl.load(path.parent)
    assert run.policy(np.zeros((2, 36, 36, 3), np.uint8)).shape == (2,)


def test_hindsight_is_refused_without_goals_and_without_a_replay_buffer(trained, capsys):
    assert call("train", "ppo", "--env", "BitFlipping-v0", "--no-her") == 2
    assert (
        "unknown flag --no-her. In purerl this is a setting of algorithms that replay"
        in capsys.readouterr().err
    )
    assert call("train", "dqn", "--env", "CartPole-v1", "--her") == 2
    assert "her is for environments with goals, whose observations" in capsys.readouterr().err
    words = ("--no-her", "--her-strategy", "final", "--her-k", "2", "--set", "clip_targets=true")
    assert call("train", "dqn", "--env", "BitFlipping-v0", *words) == 0
    schedule = trained[-1][0].schedule
    assert (schedule.her, schedule.her_strategy, schedule.her_k) == (False, "final", 2)
