"""Runs of several seeds in one program: each as if alone, stopped, killed, failed and resumed."""

import dataclasses
import io
import itertools
import math
import os
import shutil
import signal

import chex
import gymnasium
import numpy as np
import pytest

import purerl
from purerl import errors
from purerl.loops import scan
from purerl.runs.record import checkpoint, checkpoint_folders, folder, safe_files, status
from purerl.runs.training import epochs, train
from purerl.runs.training.progress_bar import Screen
from tests.loops.scan.drift import DISCRETE, Drift, Params, mark_complete
from tests.runs.record.test_checkpoint_folders import damage
from tests.runs.script import final, kept, table
from tests.runs.training.test_train_in_jax import RUNS

COMMON = {"hidden": (8,), "quiet": True, "preset": "none"}
NAME, SEEDS = "jax:CartPole-v1", (1, 2)
SETTINGS = {name: COMMON | schedule | {"save_freq": 1} for name, schedule in RUNS.items()}


@pytest.fixture(scope="module", autouse=True)
def short_programs():
    """Let each program make one burst or rollout."""
    with pytest.MonkeyPatch.context() as patch:
        pace = "purerl.loops.adapters.in_jax.Pace.choose_steps"
        patch.setattr(pace, lambda _, unit, most: unit)
        yield


def train_seeds(path, algo="ppo", seeds=SEEDS, env=NAME, **changes):
    return purerl.train(algo, env, data_dir=path, seeds=seeds, **SETTINGS[algo] | changes)


def find_runs(path):
    return sorted(one.parent for one in path.rglob("config.json"))


def resume_seeds(path, screen=None):
    return train.resume_together(find_runs(path), screen=screen or Screen(quiet=True))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the ends of undisturbed runs."""
    runs = train_seeds(tmp_path_factory.mktemp("whole"))
    return [final(run.folder) for run in runs]


def read_numbers(run):
    rows = table(run / "progress.txt", "\t")
    return [[float(x or "nan") for key, x in row.items() if key != "Time"] for row in rows]


@pytest.mark.parametrize("env", mark_complete((NAME, "CartPole-v1"), ("CartPole-v1",)))
@pytest.mark.parametrize("algo", mark_complete(RUNS, ("acer", "ppo", "pqn")))
def test_each_seed_has_the_folder_of_its_single_run(algo, env, tmp_path):
    found = []
    runs = train_seeds(tmp_path / "together", algo, env=env, on_record=found.append)
    assert [record["seed"] for record in found[:2]] == list(SEEDS)
    for seed, run in zip(SEEDS, runs, strict=True):
        alone = purerl.train(algo, env, data_dir=tmp_path / "x", seed=seed, **SETTINGS[algo])
        assert run.folder.name == alone.folder.name
        files = [{path.name for path in one.folder.iterdir()} for one in (run, alone)]
        assert files[0] == files[1]
        assert len({(one.folder / "config.json").read_text() for one in (run, alone)}) == 1
        states = [status.read_status(one.folder) for one in (run, alone)]
        assert states[0].keys() == states[1].keys()
        np.testing.assert_allclose(states[0].pop("score"), states[1].pop("score"), rtol=1e-3)
        for name in ("seed", "status", "step", "steps", "ranks"):
            assert states[0][name] == states[1][name]
        assert kept(run.folder)[0] == kept(alone.folder)[0]
        assert kept(run.folder)[1][0] == kept(alone.folder)[1][0]
        np.testing.assert_allclose(*map(read_numbers, (run.folder, alone.folder)), 2e-3, 2e-4)
        assert len({(one.folder / "episodes.csv").read_text() for one in (run, alone)}) == 1
        frozen = [checkpoint.load(one.folder, {}, 0).frozen for one in (run, alone)]
        assert frozen[0].facts == frozen[1].facts
        for name, x in frozen[1].learner.items():
            np.testing.assert_allclose(frozen[0].learner[name], x, rtol=2e-3, atol=2e-4)


def stop_after(number):
    """Ask a run to stop after some programs."""
    left = iter([False] * (number - 1))
    return lambda asked, ranks: next(left, True)


def test_stopped_seeds_continue_together_to_the_same_bits_and_alone_nearly(
    tmp_path, monkeypatch, whole
):
    monkeypatch.setattr(epochs, "agree_to_stop", stop_after(3))
    runs = train_seeds(tmp_path / "runs")
    monkeypatch.undo()
    assert [(run.step, run.status) for run in runs] == [(96, "stopped")] * 2
    said = (runs[1].folder / "stdout.log").read_text()
    assert f"stopped at step 96 of 256. Continue: purerl resume {runs[0].folder.parent} --t" in said
    copy = shutil.copytree(runs[0].folder, tmp_path / "copy")
    alone = train.resume(copy, screen=Screen(quiet=True))
    together = resume_seeds(tmp_path / "runs")
    assert [outcome.code for outcome in (alone, *together)] == [errors.DONE] * 3
    assert [final(run.folder) for run in runs] == whole
    ends = (alone.carry.learner, together[0].carry.learner)
    chex.assert_trees_all_close(*ends, rtol=2e-3, atol=2e-4)


class Killed(BaseException):
    """An exception that simulates a kill."""


def kill_at(monkeypatch, number):
    """Kill the process just before a seed saves a checkpoint, the `number`-th one of all seeds."""
    real, calls = checkpoint.save, []

    def save(run, carry, *rest):
        calls.append(run)
        if len(calls) == number:
            raise Killed
        return real(run, carry, *rest)

    monkeypatch.setattr(checkpoint, "save", save)


@pytest.mark.parametrize(("number", "there"), [(2, [[32], []]), (6, [[64, 96], [32, 64]])])
def test_seeds_killed_between_two_saves_continue_from_the_step_that_both_have(
    number, there, tmp_path, monkeypatch, whole
):
    kill_at(monkeypatch, number)
    with pytest.raises(Killed):
        train_seeds(tmp_path, keep=1)
    monkeypatch.undo()
    runs = find_runs(tmp_path)
    assert [checkpoint_folders.list_steps(run) for run in runs] == there
    for run in runs:
        folder.update_status(run, status="running", reason=None)
    screen = Screen(io.StringIO())
    if not there[1]:
        kill_at(monkeypatch, 1)
        with pytest.raises(Killed):
            resume_seeds(tmp_path, screen=screen)
        monkeypatch.undo()
        assert not any(map(checkpoint_folders.list_steps, runs))
    resume_seeds(tmp_path, screen=screen)
    assert [final(run) for run in runs] == whole
    said = screen.stream.getvalue()
    if there[1]:
        assert "seed 1: continues at step 64. The 32 steps up to the newest checkpoint are" in said
        assert "seed 2: continues at step 64\n" in said
        assert "seed 1: deleted the checkpoints after step 64: 96\n" in said
    else:
        assert f"is no checkpoint yet in {runs[1]}. All runs start again from step 0.\n" in said
    assert [checkpoint_folders.list_steps(run)[-2:] for run in runs] == [[224, 256]] * 2


def test_a_damaged_checkpoint_of_one_seed_is_skipped_in_all(tmp_path, monkeypatch, whole):
    monkeypatch.setattr(epochs, "agree_to_stop", stop_after(3))
    train_seeds(tmp_path)
    monkeypatch.undo()
    runs = find_runs(tmp_path)
    damage(runs[1], 96)
    screen = Screen(io.StringIO())
    resume_seeds(tmp_path, screen=screen)
    said = screen.stream.getvalue()
    assert f"step 96 is skipped: {runs[1]} has no checkpoint that can be used" in said
    assert "seed 1: continues at step 64. The 32 steps" in said
    assert [final(run) for run in runs] == whole


def test_a_full_disk_of_one_folder_ends_all_seeds_saved(tmp_path, monkeypatch):
    real = checkpoint.save

    def save(run, carry, *rest):
        if run.name.endswith("s2") and carry.steps > 32:
            with safe_files.explain_errors(run / "x.npz"):
                raise OSError(28, "No space left on device")
        return real(run, carry, *rest)

    monkeypatch.setattr(checkpoint, "save", save)
    with pytest.raises(errors.StorageError, match="the disk is full") as caught:
        train_seeds(tmp_path, keep=1)
    first, second = find_runs(tmp_path)
    assert checkpoint_folders.list_steps(first) == [32, 128]  # the newest that both have stays
    assert checkpoint_folders.list_steps(second) == [32]
    assert [status.read_status(run)["status"] for run in (first, second)] == ["stopped", "failed"]
    assert caught.value.__notes__ == [
        "the checkpoint of step 128 was not saved: failure 3 in a row.",
        f"the checkpoint of step 32 is kept. Continue: purerl resume {second}",
        f"The other seeds: the checkpoint of step 128 is kept. Continue: purerl resume {first}",
    ]


def test_a_seed_with_a_bad_number_is_named_and_the_others_are_saved(tmp_path):
    """The fault is in a program that ends an epoch, whose record is not lost."""
    env = Drift(DISCRETE, params=Params(bad_reward_at=1, bad_above=1.3))
    short = {"steps_per_epoch": 32}
    whole = train_seeds(tmp_path / "whole", seeds=(0, 5), env=env, **short)
    with pytest.raises(errors.NonFiniteError, match="environment step 216") as caught:
        train_seeds(tmp_path / "parts", seeds=(0, 2, 5), env=env, **short)
    assert errors.exit_code_of(caught.value) == 3
    first, bad, last = find_runs(tmp_path / "parts")
    seed, cause, others = caught.value.__notes__
    assert seed == "The seed is 2."
    assert "checkpoint of step 192 is kept. Find the cause: " in cause
    assert str(bad) in cause
    assert others.startswith("The other seeds: the checkpoint of step 224 is kept. Continue: ")
    assert f"resume_together({[str(first), str(last)]}, " in others
    states = [status.read_status(run) for run in (first, bad, last)]
    assert [state["status"] for state in states] == ["stopped", "failed", "stopped"]
    assert states[0]["reason"] == f"{bad.name} failed"
    train.resume_together([first, last], env, screen=Screen(quiet=True))
    for run, expected in zip((first, last), whole, strict=True):
        np.testing.assert_allclose(*map(read_numbers, (run, expected.folder)), 2e-3, 2e-4)
        mine, theirs = (table(one / "episodes.csv") for one in (run, expected.folder))
        assert [row["length"] for row in mine] == [row["length"] for row in theirs]


def test_a_lost_folder_ends_all_seeds_after_the_epoch_is_saved(tmp_path, monkeypatch):
    real, calls = scan.advance, []

    def advance(together, should_stop):
        calls.append(together)
        if len(calls) == 4:
            shutil.rmtree(find_runs(tmp_path)[0])
        return real(together, should_stop)

    monkeypatch.setattr(scan, "advance", advance)
    with pytest.raises(errors.RunLost, match="jax-cartpole-v1-ppo_s1 was deleted") as caught:
        train_seeds(tmp_path, save_freq=1_000)
    monkeypatch.undo()
    (left,) = find_runs(tmp_path)
    assert "The other seeds: the checkpoint of step 128 is kept." in caught.value.__notes__[-1]
    assert len(table(left / "progress.txt", "\t")) == 1  # the record of the second is pending
    resume_seeds(tmp_path)
    assert len(table(left / "progress.txt", "\t")) == 4


def improve_the_first_seed(monkeypatch):
    """Let the first of two seeds have a new best score at each epoch, and the other one none."""
    scores = itertools.chain.from_iterable((1e3 + i, math.nan) for i in range(9))
    monkeypatch.setattr(epochs, "_compute_score", lambda record, before: next(scores))


def test_a_new_best_is_saved_alone_and_both_continue_from_an_earlier_step(
    tmp_path, monkeypatch, whole
):
    improve_the_first_seed(monkeypatch)
    kill_at(monkeypatch, 5)
    with pytest.raises(Killed):
        train_seeds(tmp_path, keep=1, save_freq=1_000)
    monkeypatch.undo()
    runs = find_runs(tmp_path)
    assert [checkpoint_folders.list_steps(run) for run in runs] == [[64, 192], [64]]
    resume_seeds(tmp_path)
    assert [final(run) for run in runs] == whole


def test_the_step_that_seeds_continue_from_is_kept_until_they_have_another(tmp_path, monkeypatch):
    monkeypatch.setattr(epochs, "agree_to_stop", stop_after(2))
    train_seeds(tmp_path, keep=1, save_freq=1_000)
    monkeypatch.undo()
    improve_the_first_seed(monkeypatch)
    kill_at(monkeypatch, 3)
    with pytest.raises(Killed):
        resume_seeds(tmp_path)
    assert [checkpoint_folders.list_steps(run) for run in find_runs(tmp_path)] == [[64, 192], [64]]


class Breaks(gymnasium.Wrapper):
    """Environment that raises an error at the 300th step of all of them."""

    steps, left_open = 0, set()

    def __init__(self, env):
        super().__init__(env)
        self.left_open.add(id(self))

    def close(self):
        self.left_open.discard(id(self))
        super().close()

    def step(self, action):
        Breaks.steps += 1
        if Breaks.steps == 300:
            raise ArithmeticError("boom")
        return self.env.step(action)


def test_seeds_in_environments_of_gymnasium_are_saved_if_one_of_these_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(Breaks, "steps", 0)
    settings = SETTINGS["ppo"] | {"data_dir": tmp_path, "seeds": SEEDS, "save_freq": 1_000}
    with pytest.raises(errors.EnvFault, match="boom") as caught:
        purerl.train("ppo", lambda: Breaks(gymnasium.make("CartPole-v1")), **settings)
    assert not Breaks.left_open
    seed = caught.value.seed
    assert f"The seed is {seed}." in caught.value.__notes__
    runs = find_runs(tmp_path)
    states = {int(run.name[-1]): status.read_status(run)["status"] for run in runs}
    assert states == {seed: "failed", 3 - seed: "stopped"}
    (step,) = {checkpoint_folders.list_steps(run)[-1] for run in runs}
    assert step == 128

    def env_fn():
        return gymnasium.make("CartPole-v1")

    outcomes = train.resume_together(runs, env_fn, screen=Screen(quiet=True))
    assert [one.step for one in outcomes] == [256, 256]


def test_a_stopped_evaluation_of_one_seed_is_repeated_after_resuming(tmp_path, monkeypatch):
    runs = train_seeds(tmp_path / "whole", "dqn")
    whole = [final(run.folder) for run in runs]
    real, calls = scan.evaluate_epoch, []

    def evaluate(carry, env, should_stop):
        calls.append(carry.seed)
        if calls == [1, 2]:  # in the first epoch, when the first seed is tested
            os.kill(os.getpid(), signal.SIGTERM)
        return real(carry, env, should_stop)

    monkeypatch.setattr(scan, "evaluate_epoch", evaluate)
    runs = train_seeds(tmp_path / "parts", "dqn")
    assert [(run.step, run.status) for run in runs] == [(80, "stopped")] * 2
    assert [(run.folder / "progress.txt").exists() for run in runs] == [True, False]
    resume_seeds(tmp_path / "parts")
    assert calls == [1, 2, 2, 1, 2, 1, 2]
    assert [final(run.folder) for run in runs] == whole


def test_the_screen_has_one_table_for_all_seeds(tmp_path):
    screen = Screen(io.StringIO())
    config = train_seeds(tmp_path / "first")[0].config
    made = [dataclasses.replace(config, seed=seed) for seed in SEEDS]
    outcomes = train.train_together(made, screen=screen, data_dir=tmp_path)
    said = screen.stream.getvalue()
    assert all((one.run / "stdout.log").read_text() == said for one in outcomes)
    rows = [line.split() for line in said.splitlines() if line[:10].strip().isdigit()]
    assert [row[0] for row in rows] == ["64", "128", "192", "256"]
    tables = [table(one.run / "progress.txt", "\t") for one in outcomes]
    for row, each in zip(rows, zip(*tables, strict=True), strict=True):
        means = [float(one["AverageEpRet"]) for one in each]
        expected = [sum(means) / 2, min(means), max(means)]
        np.testing.assert_allclose([float(x) for x in row[1:4]], expected, atol=0.051)
    scores = sorted(one.score for one in outcomes)
    text = f"return {sum(scores) / 2:.1f} ({scores[0]:.1f} to {scores[1]:.1f}); everything is in"
    assert text in said
