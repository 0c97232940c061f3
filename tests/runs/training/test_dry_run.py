"""`--dry-run` describes a run without saving anything."""

import dataclasses
import re
from types import SimpleNamespace

import numpy as np
import pytest

from purerl.errors import ConfigError
from purerl.runs.console import format_size
from purerl.runs.settings import environments
from purerl.runs.settings.config import from_json
from purerl.runs.training import dry_run
from tests.runs.script import settings, tiny


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(dry_run, "SECONDS", 0.0)


@pytest.mark.parametrize("algo", ["vpg", "dqn", pytest.param("acer", marks=pytest.mark.complete)])
def test_a_dry_run_prints_its_needs_and_saves_nothing(tmp_path, monkeypatch, capsys, algo):
    monkeypatch.chdir(tmp_path)
    small = {"dqn": {"batch_size": 8}, "acer": {"steps": 6_400, "rollout_steps": 160}}
    small["acer"] |= {"steps_per_epoch": 640}
    config = tiny() if algo == "vpg" else settings(algo, **small[algo])
    made = [dataclasses.replace(config, seed=seed) for seed in (0, 1)]
    dry_run.report_needs(made, None, 2)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{algo} on CartPole-v1: dry run, nothing is saved"
    assert lines[1] == "observations  (4,) float32"
    if algo == "acer":  # updates on replayed sequences are measured, too
        (line,) = [line for line in lines if line.startswith("speed")]
        steps, updates = (float(line.replace(",", "").split()[i]) for i in (1, 5))
        assert updates > 1.5 * steps / 160
    for words in ("total", "built and compiled in", "memory  ", "speed  ", "for 2 seeds"):
        assert any(words in line for line in lines), words
    assert any("if each of the 2 ranks has its own core" in line for line in lines)
    row = sum(np.asarray(x).nbytes for x in config.spec.env.example())
    size = format_size(row * config.schedule.replay_size if algo != "vpg" else 0)
    assert any(f"replay buffer {size}, about " in line for line in lines)
    assert not list(tmp_path.iterdir())


@pytest.mark.complete
def test_seeds_that_are_trained_together_are_measured_together(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small = {"steps": 1_000, "batch_size": 8, "update_every": 8, "replay_size": 1_000_000}
    content = {"algo": "dqn", "env": "jax:CartPole-v1", "schedule": small, "spec": {"hidden": [4]}}
    config = from_json(content)
    made = [dataclasses.replace(config, seed=seed) for seed in (0, 1)]
    dry_run.report_needs(made, None, 1, together=True)
    out = capsys.readouterr().out
    row = sum(x.nbytes for x in config.spec.env.example())
    assert f"replay buffer {format_size(2e6 * row)}, about " in out
    (time,) = re.findall(r"time needed +about (.*) for 1,000 steps", out)
    assert f"about {time} for 2 seeds" in out
    assert not list(tmp_path.iterdir())
    with pytest.raises(ConfigError, match="equal seeds"):
        dry_run.report_needs([config, config], None, 1, together=True)


def test_ranks_share_the_steps_of_a_run():
    config = settings("vpg", steps=80_000)
    for ranks, time in ((1, "13 min 20 s"), (4, "3 min 20 s")):
        line, *_ = dry_run._describe_time([config], None, None, 100.0, ranks)
        assert line.startswith(f"time needed   about {time} for 80,000 steps")


@pytest.mark.parametrize(
    ("env_id", "ranks", "at_once", "seconds"),
    # 10 evaluations with 5 episodes of at most 500 steps, at 0.1 s for each step of a call
    [
        ("CartPole-v1", 1, 1, 2500.0),
        ("CartPole-v1", 2, 1, 1500.0),  # 3 episodes on one rank, 2 on the other
        ("jax:CartPole-v1", 1, 5, 500.0),
        ("jax:CartPole-v1", 2, 3, 500.0),
    ],
)
def test_test_episodes_in_jax_take_the_time_of_one(monkeypatch, env_id, ranks, at_once, seconds):
    clock, played = [0.0], []

    def evaluate(algo, params, env, seed, epoch, episodes, max_ep_len):
        played.append((episodes, max_ep_len))
        clock[0] += 2.0
        return {"test_lengths": [20, 10, 10, 10, 10][:episodes]}

    monkeypatch.setattr(dry_run, "choose_loop", lambda _: SimpleNamespace(evaluate=evaluate))
    monkeypatch.setattr(dry_run, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    carry = SimpleNamespace(algo=None, learner=SimpleNamespace(params=None), seed=0)
    schedule = {"steps": 1_000, "steps_per_epoch": 100, "num_test_episodes": 5}
    config = from_json({"algo": "dqn", "env": env_id, "schedule": schedule})
    env_fn = environments.choose_training_env(None, env_id, None)
    found = dry_run._measure_tests(config, env_fn, carry, ranks)
    assert found == (pytest.approx(seconds), 500)
    assert played == [(at_once, 200)] * 2


def test_durations_have_units():
    durations = [dry_run.format_duration(x) for x in (3.21, 754, 9_000)]
    assert durations == ["3.2 s", "12 min 34 s", "2 h 30 min"]
