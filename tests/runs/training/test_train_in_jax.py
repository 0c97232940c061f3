"""Runs in environments written in JAX: same folder, same commands, resumed bit for bit."""

import dataclasses

import chex
import numpy as np
import pytest

import purerl
from purerl.algos import dqn, ppo
from purerl.envs.classic.cartpole import CartPole
from purerl.errors import ConfigError, Diverged
from purerl.loops import scan
from purerl.runs.record import checkpoint_folders, progress, status
from purerl.runs.settings import config as configs
from purerl.runs.settings import environments
from purerl.runs.training import diagnosis, epochs, train
from purerl.runs.training.progress_bar import Screen
from tests.loops.scan.drift import BOX, DISCRETE, Drift

OFF = {"steps": 240, "steps_per_epoch": 80, "num_envs": 2, "start_steps": 20, "update_after": 20}
OFF |= {"update_every": 8, "batch_size": 8, "replay_size": 100, "num_test_episodes": 2}
ON = {"steps": 256, "steps_per_epoch": 64, "rollout_steps": 32, "num_envs": 4}
SEQUENCES = ON | {"replay_size": 128, "replay_start": 32}
COMMON = {"hidden": (8,), "quiet": True, "seed": 1, "save_freq": 1, "preset": "none"}
RUNS = {"dqn": OFF, "ppo": ON | {"train_pi_iters": 2, "train_v_iters": 2}, "acer": SEQUENCES}
RUNS["pqn"] = ON | {"minibatch_size": 16, "train_q_iters": 2, "num_test_episodes": 1}


MORE = (("acer", 1), ("pqn", 1), ("dqn", 2))
COMPLETE = [pytest.param(*one, marks=pytest.mark.complete) for one in MORE]


@pytest.mark.parametrize(("algo", "number"), [("dqn", 1), ("ppo", 1), ("ppo", 2), *COMPLETE])
def test_a_run_resumed_in_the_middle_ends_with_the_same_bits(algo, number, tmp_path):
    name, settings = "jax:CartPole-v1", COMMON | RUNS[algo] | {"devices": number}
    whole = purerl.train(algo, name, data_dir=tmp_path / "whole", **settings)
    first = purerl.train(
        algo,
        name,
        data_dir=tmp_path / "parts",
        **settings | {"steps": 160 if algo == "dqn" else 128},
    )
    outcome = train.resume(first.folder, steps=settings["steps"], screen=Screen(quiet=True))
    assert outcome.step == whole.step > first.step
    chex.assert_trees_all_equal(outcome.carry.learner, whole.state)
    assert checkpoint_folders.list_steps(first.folder)
    for file in ("progress.txt", "episodes.csv"):
        rows = [(run.folder / file).read_text().splitlines() for run in (whole, first)]
        untimed = [[drop_times(line) for line in lines] for lines in rows]
        assert untimed[0] == untimed[1]


def drop_times(line):
    """Return the cells of a line except the last two, which are times in progress.txt."""
    return line.split("\t")[:-2] or line


def test_a_run_evaluates_acts_films_and_exports_like_any_other(tmp_path):
    run = purerl.train("ppo", "jax:CartPole-v1", data_dir=tmp_path, **COMMON | RUNS["ppo"])
    loaded = purerl.load(run.folder)
    played = loaded.evaluate(episodes=4, seed=3)
    found = scan.evaluate(ppo, loaded.params, CartPole(), seed=3, epoch=0, episodes=4)
    assert list(played.returns) == found["test_returns"]
    assert loaded.policy(np.zeros(4, np.float32)) in (0, 1)
    assert loaded.video(tmp_path / "film.gif", max_steps=5).stat().st_size > 1_000
    assert (loaded.export(folder=tmp_path / "policy") / "policy.py").exists()
    assert status.format_command("resume", run.folder) == f"purerl resume {run.folder}"
    assert run.folder.parent.name == "jax-cartpole-v1-ppo"


def test_an_object_is_trained_in_and_given_again_to_load_and_resume(tmp_path):
    env = dataclasses.replace(CartPole(), params=CartPole().params._replace(force=0.0))
    run = purerl.train("dqn", env, data_dir=tmp_path, **COMMON | OFF)
    assert run.config.env == "CartPole()"
    loaded = purerl.load(run.folder, env_fn=env)
    assert loaded.evaluate(2, seed=5) == run.evaluate(2, seed=5)
    assert loaded.evaluate(8) != purerl.load(run.folder, env_fn=CartPole()).evaluate(8)
    with pytest.raises(ConfigError, match="was a Python function"):
        purerl.load(run.folder).evaluate(1)
    outcome = train.resume(run.folder, env, steps=320, screen=Screen(quiet=True))
    assert outcome.step == 320


def test_a_request_to_stop_ends_the_run_between_two_programs(tmp_path, monkeypatch):
    """The requests are read after every program; the resumed run has the same bits."""
    settings = COMMON | RUNS["ppo"]
    whole = purerl.train("ppo", "jax:CartPole-v1", data_dir=tmp_path / "whole", **settings)
    programs = []

    def stop(asked, ranks):
        programs.append(1)
        return len(programs) == 3

    monkeypatch.setattr(epochs, "agree_to_stop", stop)
    part = purerl.train("ppo", "jax:CartPole-v1", data_dir=tmp_path / "part", **settings)
    assert 0 < part.step < whole.step
    assert part.status == "stopped"
    monkeypatch.undo()
    outcome = train.resume(part.folder, screen=Screen(quiet=True))
    chex.assert_trees_all_equal(outcome.carry.learner, whole.state)


@dataclasses.dataclass(frozen=True)
class Spike(Drift):
    """One reward of the third episode has a square that overflows."""

    def step(self, key, state, action, params):
        state, obs, reward, terminated, info = super().step(key, state, action, params)
        reward = np.float32(1e30) * (state[1] == 5) + reward
        return state, obs, reward, terminated, info


SPLIT = pytest.param("ddpg", 2, marks=pytest.mark.complete)


@pytest.mark.parametrize(
    ("algo", "number"), [("ddpg", 1), SPLIT, pytest.param("vpg", 1, marks=pytest.mark.complete)]
)
def test_doctor_finds_the_update_that_diverged(algo, number, tmp_path, monkeypatch):
    env, settings = Spike(BOX), (OFF if algo == "ddpg" else ON) | {"devices": number}
    with pytest.raises(Diverged):
        purerl.train(algo, env, data_dir=tmp_path, **COMMON | settings)
    (path,) = tmp_path.rglob("config.json")
    real, targets = scan.advance, set()

    def advance(carry):
        targets.add(carry.envs.pace.target)
        return real(carry)

    monkeypatch.setattr(scan, "advance", advance)
    finding = diagnosis.diagnose(path.parent, env)
    assert targets == {0.0}  # each program has one burst or rollout
    assert finding.update > 0
    assert finding.bad
    assert finding.saved.exists()


def test_runs_train_in_the_environment_itself_and_not_in_its_gymnasium_wrapper():
    assert type(environments.choose_training_env(None, "jax:CartPole-v1", None)) is CartPole
    env = Drift(DISCRETE)
    assert environments.choose_training_env(env, "Drift()", None) is env


def test_a_wrapper_of_gymnasium_is_refused():
    content = {"algo": "dqn", "env": "jax:CartPole-v1", "options": {"wrapper": "flatten"}}
    with pytest.raises(ConfigError, match="wrapper=flatten is for environments of Gymnasium"):
        configs.from_json(content)


def test_an_unknown_name_in_jax_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match=r"Did you mean jax:CartPole-v1\?"):
        environments.make_env_fn("jax:CartPol-v1")
    with pytest.raises(ConfigError, match=r"Did you mean jax:Pendulum-v1\?"):
        environments.check_available("jax:Pendulm-v1")


def test_sizes_and_schedule_are_described_as_in_the_other_loop():
    env = Drift(DISCRETE)
    schedule = dqn.SCHEDULE.__class__(steps=240, batch_size=8, replay_size=100)
    args = (dqn, dqn.Spec(env.spec, hidden=(8,)), env, schedule)
    carry = scan.start(*args, seed=0)
    (one,) = scan.start(*args, seeds=(0,)).carries  # has shapes in the place of arrays
    assert progress.describe_sizes(one) == progress.describe_sizes(carry)
    assert "observations (3,) float32, actions one of 3" in progress.describe_sizes(carry)
    assert "updates every" in progress.describe_schedule(carry)
