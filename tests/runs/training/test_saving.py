"""Checkpoints during a run: when they are made, which stay, and failures of the disk."""

import dataclasses
import os
import shutil
import signal

import gymnasium
import pytest

from purerl import errors
from purerl.errors import EnvFault
from purerl.loops import gym
from purerl.runs.record import (
    checkpoint,
    checkpoint_folders,
    folder,
    progress,
    safe_files,
    status,
)
from purerl.runs.settings.config import Options, from_json
from purerl.runs.training import epochs, saving, train
from purerl.runs.training.progress_bar import Screen
from tests.loops.hindsight import reach
from tests.loops.hindsight.reach import Reach
from tests.runs.record.test_checkpoint_folders import damage
from tests.runs.script import final, quietly, settings, table, the_run, tiny


def test_a_nan_score_is_never_the_best(tmp_path, monkeypatch):
    scores = iter([float("nan"), -2.0, -3.0])
    monkeypatch.setattr(epochs, "_compute_score", lambda record, before: next(scores, -4.0))
    config = settings("vpg")
    schedule = dataclasses.replace(config.schedule, steps=2_000)
    config = dataclasses.replace(config, schedule=schedule)
    outcome = train.train(config, data_dir=str(tmp_path), screen=Screen(quiet=True))
    assert checkpoint_folders.read_best(outcome.run) == (1_000, -2.0)


def test_rows_that_the_disk_refused_are_written_before_the_next_checkpoint(tmp_path, monkeypatch):
    write, refused = progress.Logs.write, []

    def refuse_each_row_once(logs):
        for record, _ in logs.waiting:
            if record["epoch"] not in refused:
                refused.append(record["epoch"])
                raise errors.StorageError(28, "No space left on device")
        write(logs)

    monkeypatch.setattr(progress.Logs, "write", refuse_each_row_once)
    run = quietly(tiny(save_freq=100), tmp_path).run
    assert refused == [1, 2]
    assert (run / "stdout.log").read_text().count("trying again after the next epoch") == 2
    assert [row["Epoch"] for row in table(run / "progress.txt", "\t")] == ["1", "2"]


def test_a_full_disk_ends_a_run_after_three_failed_checkpoints(tmp_path, monkeypatch):
    real, failed = checkpoint.save, []

    def save(run, carry, *rest):
        if carry.steps < 200:
            return real(run, carry, *rest)
        failed.append(carry.steps)
        with safe_files.explain_errors(run / "x.npz"):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save", save)
    config = tiny(save_freq=100)
    config = dataclasses.replace(config, schedule=dataclasses.replace(config.schedule, steps=900))
    with pytest.raises(errors.StorageError) as caught:
        quietly(config, tmp_path)
    assert failed == [200, 300, 400]
    assert saving.PATIENCE == 3
    run = the_run(tmp_path)
    assert str(caught.value).startswith(f"{run}/x.npz could not be written: the disk is full")
    assert caught.value.__notes__ == [
        "the checkpoint of step 400 was not saved: failure 3 in a row.",
        f"the checkpoint of step 100 is kept. Continue: purerl resume {run}",
    ]
    said = (run / "stdout.log").read_text()
    reported = [f"the checkpoint of step {n} was not saved: {run}" in said for n in failed]
    assert reported == [True, True, False]


def test_failed_checkpoints_that_are_not_in_a_row_end_no_run(tmp_path, monkeypatch):
    real = checkpoint.save

    def save(run, carry, *rest):
        if carry.steps in (200, 300, 500, 600):
            raise errors.StorageError(28, "full")
        return real(run, carry, *rest)

    monkeypatch.setattr(checkpoint, "save", save)
    config = tiny(save_freq=100)
    config = dataclasses.replace(config, schedule=dataclasses.replace(config.schedule, steps=700))
    assert quietly(config, tmp_path).step == 700


class Breaks(gymnasium.Wrapper):
    """Environment that raises an error at step `at`, counted over all environments."""

    at, steps = 0, 0

    def __init__(self):
        super().__init__(gymnasium.make("CartPole-v1"))

    def step(self, action):
        Breaks.steps += 1
        if Breaks.steps == Breaks.at:
            raise ArithmeticError("boom")
        return self.env.step(action)


@pytest.mark.parametrize("algo", ["dqn", "vpg", pytest.param("acer", marks=pytest.mark.complete)])
def test_a_failing_environment_loses_only_its_burst(tmp_path, monkeypatch, algo):
    def made(name, steps=400):
        content = {"algo": algo, "env": name, "spec": {"hidden": [4]}, "seed": 2}
        schedule = {"steps": steps, "steps_per_epoch": 100, "num_envs": 2}
        if algo == "dqn":
            small = {"start_steps": 20, "update_after": 20, "update_every": 20, "batch_size": 8}
            schedule |= small | {"updates_per_burst": 1, "num_test_episodes": 0}
        if algo == "acer":
            schedule |= {"rollout_steps": 20, "replay_start": 40}
        options = {"save_freq": None}
        content |= {"schedule": schedule, "options": options, "name": name}
        return from_json(content, Breaks)

    monkeypatch.setattr(Breaks, "steps", 0)
    whole = quietly(made("x"), tmp_path / "whole", env_fn=Breaks).run
    monkeypatch.setattr(Breaks, "steps", 0)
    monkeypatch.setattr(Breaks, "at", 333)
    with pytest.raises(EnvFault, match="boom") as caught:
        quietly(made("x"), tmp_path / "cut", env_fn=Breaks)
    run = the_run(tmp_path / "cut")
    step = {"dqn": 320, "vpg": 300, "acer": 320}[algo]
    assert checkpoint_folders.list_steps(run) == [step]
    assert f"the checkpoint of step {step} is kept" in str(caught.value.__notes__)
    train.resume(run, env_fn=Breaks, screen=Screen(quiet=True))
    assert final(run) == final(whole)
    monkeypatch.setattr(Breaks, "steps", 0)
    monkeypatch.setattr(Breaks, "at", 13)
    with pytest.raises(EnvFault):
        quietly(made("y"), tmp_path / "first", env_fn=Breaks)
    assert not checkpoint_folders.list_steps(the_run(tmp_path / "first"))


QUIET = Screen(quiet=True)


def test_a_test_environment_that_fails_loses_nothing(tmp_path, monkeypatch):
    config = tiny(save_freq=None)
    schedule = dataclasses.replace(config.schedule, num_test_episodes=1)
    config = dataclasses.replace(config, schedule=schedule)
    whole = quietly(config, tmp_path / "whole").run
    monkeypatch.setattr(Breaks, "steps", 0)
    monkeypatch.setattr(Breaks, "at", 3)
    with pytest.raises(EnvFault, match="boom"):
        quietly(config, tmp_path / "cut", eval_env_fn=Breaks)
    run = the_run(tmp_path / "cut")
    assert checkpoint_folders.list_steps(run) == [100]
    train.resume(run, screen=Screen(quiet=True))
    assert final(run) == final(whole)


def test_an_environment_that_fails_to_compute_rewards_of_goals_is_named(tmp_path):
    """Its rows are stored by then, so the checkpoint before remains the newest one."""

    class Fails(Reach):
        bursts = 0

        def compute_reward(self, achieved, desired, info):
            is_burst = len(achieved) == 3 * 16
            Fails.bursts += is_burst
            if is_burst and Fails.bursts == 3:
                raise ArithmeticError("boom")
            return super().compute_reward(achieved, desired, info)

    schedule = {name: x for name, x in vars(reach.schedule()).items() if x is not None}
    schedule |= {"steps": 120, "log_info": []}
    content = {"algo": "td3", "env": "fails", "spec": {"hidden": [4]}, "schedule": schedule}
    config = from_json(content | {"options": {"save_freq": 12}}, Fails)
    with pytest.raises(EnvFault, match="raised ArithmeticError in compute_reward: boom"):
        train.train(config, Fails, Screen(quiet=True), data_dir=str(tmp_path))
    assert checkpoint_folders.list_steps(the_run(tmp_path))[-1] == 36
    assert train.resume(the_run(tmp_path), Fails, screen=Screen(quiet=True)).step == 120


def read_epochs(run):
    rows = [int(row["Epoch"]) for row in table(run / "progress.txt", "\t")]
    ended = {int(row["epoch"]) for row in table(run / "episodes.csv")}
    assert len((run / "metrics.jsonl").read_text().splitlines()) == len(rows)
    assert sorted(ended) == rows
    return rows


@pytest.fixture
def scores(monkeypatch):
    """Let the epochs of a run have these scores, then -9."""

    def of(*given):
        left = iter(given)
        monkeypatch.setattr(epochs, "_compute_score", lambda record, before: next(left, -9.0))

    return of


def configured(steps, save_freq=500, keep=2):
    """A run whose epochs have 500 steps."""
    config = settings("vpg")
    schedule = dataclasses.replace(config.schedule, steps=steps)
    return dataclasses.replace(config, schedule=schedule, options=Options(save_freq, keep=keep))


class Stopping:
    """A sink that asks its run to stop at a step."""

    def __init__(self, step):
        self.step = step

    def write(self, step, row):
        if step == self.step:
            os.kill(os.getpid(), signal.SIGTERM)

    def close(self):
        pass


def test_a_run_that_went_back_keeps_all_later_rows_and_checkpoints(tmp_path, scores):
    scores(-1.0)
    run = train.train(configured(3_000), data_dir=str(tmp_path), screen=QUIET).run
    assert checkpoint_folders.list_steps(run) == [500, 2_500, 3_000]
    outcome = train.resume(run, steps=3_500, at="best", screen=QUIET, sinks=(Stopping(1_000),))
    assert (outcome.code, outcome.step) == (errors.STOPPED, 1_000)
    assert checkpoint_folders.list_steps(run) == [500, 1_000]
    assert read_epochs(run) == [1, 2]
    lines = (run / "stdout.log").read_text()
    assert "deleted the checkpoints after step 500: 2,500, 3,000\n" in lines
    outcome = train.resume(run, screen=QUIET)
    assert (outcome.code, outcome.step) == (0, 3_500)
    assert "continues at step 1,000\n" in (run / "stdout.log").read_text()
    assert checkpoint_folders.list_steps(run) == [500, 3_000, 3_500]
    assert read_epochs(run) == [1, 2, 3, 4, 5, 6, 7]


def test_a_resume_marks_the_best_checkpoint_if_a_kill_prevented_it(tmp_path, scores, monkeypatch):
    scores(-3.0, -2.0)
    run = train.train(configured(1_000), data_dir=str(tmp_path), screen=QUIET).run
    (run / "checkpoints" / "best.json").unlink()
    folder.update_status(run, status="running")
    train.resume(run, screen=QUIET)
    assert checkpoint_folders.read_best(run) == (1_000, -2.0)


def test_a_damaged_checkpoint_is_reported_once(tmp_path, scores):
    scores(-1.0)
    run = train.train(configured(2_000, keep=3), data_dir=str(tmp_path), screen=QUIET).run
    damage(run, 1_500)
    train.resume(run, steps=3_500, screen=QUIET)
    lines = (run / "stdout.log").read_text()
    assert lines.count("damaged checkpoint, never loaded") == 1
    assert checkpoint_folders.list_steps(run) == [500, 2_500, 3_000, 3_500]


@pytest.mark.parametrize(("save_freq", "kept"), [(2_000, [1_000, 2_000]), (None, [2_000])])
def test_the_best_epoch_so_far_is_saved_at_its_end(tmp_path, scores, save_freq, kept):
    scores(float("nan"), -2.0, -2.0)
    made = configured(2_000, save_freq, keep=5)
    run = train.train(made, data_dir=str(tmp_path), screen=QUIET).run
    assert checkpoint_folders.list_steps(run) == kept
    assert checkpoint_folders.read_best(run) == ((1_000, -2.0) if save_freq else (2_000, -9.0))


def test_new_bests_cause_no_extra_saves_on_a_failing_disk(tmp_path, scores, monkeypatch):
    def full(*args, **options):
        raise errors.StorageError(28, "full")

    monkeypatch.setattr(checkpoint, "save", full)
    scores(*range(-50, 0))
    with pytest.raises(errors.StorageError) as caught:
        train.train(configured(6_000, 2_000), data_dir=str(tmp_path), screen=QUIET)
    note = "the checkpoint of step 4,000 was not saved: failure 3 in a row."
    assert note in caught.value.__notes__


def meddle_at(monkeypatch, step, meddle):
    """Call a function with the run's folder after the first advance beyond a step."""
    real, left = gym.advance, [meddle]

    def advance(carry, should_stop):
        carry, record = real(carry, should_stop)
        if carry.steps >= step and left:
            left.pop()()
        return carry, record

    monkeypatch.setattr(gym, "advance", advance)


def small(algo, **options):
    config = settings(algo, steps=2_000, steps_per_epoch=500)
    return dataclasses.replace(config, options=Options(**{"save_freq": 500, **options}))


@pytest.mark.parametrize(
    ("algo", "save_freq", "what"),
    [
        ("vpg", 500, "delete"),
        ("dqn", 500, "move"),
        ("vpg", None, "replace"),
        pytest.param("dqn", None, "delete", marks=pytest.mark.complete),
        pytest.param("vpg", None, "move", marks=pytest.mark.complete),
        pytest.param("dqn", 500, "replace", marks=pytest.mark.complete),
    ],
)
def test_a_run_whose_folder_is_deleted_or_moved_ends_and_makes_none(
    tmp_path, monkeypatch, algo, save_freq, what
):
    def meddle():
        run = the_run(tmp_path)
        run.rename(tmp_path / "moved")
        if what == "delete":
            shutil.rmtree(tmp_path / "moved")
        if what == "replace":
            run.mkdir()
            (run / "config.json").write_text("{}")

    meddle_at(monkeypatch, 900, meddle)  # in the second epoch
    config = small(algo, save_freq=save_freq)
    with pytest.raises(errors.RunLost, match="was deleted or moved while its run was") as caught:
        quietly(config, tmp_path)
    assert errors.exit_code_of(caught.value) == 5
    assert caught.value.__notes__ == ["no checkpoint is left at this path."]
    left = [str(path.relative_to(tmp_path)) for path in tmp_path.glob(f"{config.name}/*")]
    name = f"{config.name}/{config.name}_s5"
    assert left == ([name] if what == "replace" else [])
    if what == "replace":  # nothing was written to the other run
        assert [path.name for path in (tmp_path / name).iterdir()] == ["config.json"]
    if what == "move":
        monkeypatch.undo()
        train.resume(tmp_path / "moved", screen=Screen(quiet=True))
        whole = quietly(config, tmp_path / "whole").run
        assert final(tmp_path / "moved") == final(whole)


def test_a_run_without_its_configuration_ends_until_that_is_put_back(tmp_path, monkeypatch):
    def meddle():
        (the_run(tmp_path) / "config.json").rename(tmp_path / "config")

    meddle_at(monkeypatch, 900, meddle)
    config = small("dqn")
    with pytest.raises(errors.RunLost, match=r"config\.json was deleted or moved") as caught:
        quietly(config, tmp_path)
    run = tmp_path / config.name / f"{config.name}_s5"
    assert caught.value.__notes__ == [
        f"the checkpoint of step 500 is kept. Continue: purerl resume {run}"
    ]
    assert status.read_status(run)["status"] == "failed"
    (tmp_path / "config").rename(run / "config.json")
    monkeypatch.undo()
    train.resume(run, screen=Screen(quiet=True))
    assert final(run) == final(quietly(config, tmp_path / "whole").run)


@pytest.mark.parametrize("what", ["all", "one"])
def test_a_run_whose_replay_files_are_deleted_saves_all_rows_again_and_ends(
    tmp_path, monkeypatch, what
):
    def meddle():
        segments = sorted((the_run(tmp_path) / "replay").iterdir())
        for path in segments if what == "all" else segments[:1]:
            path.unlink()
        if what == "all":
            (the_run(tmp_path) / "replay").rmdir()

    meddle_at(monkeypatch, 1_200, meddle)
    config = small("dqn")
    with pytest.raises(errors.RunLost, match="files in .*/replay were deleted or mov") as caught:
        quietly(config, tmp_path)
    run = the_run(tmp_path)
    assert caught.value.__notes__ == [
        f"the checkpoint of step 1,500 is kept. Continue: purerl resume {run}"
    ]
    monkeypatch.undo()
    train.resume(run, screen=Screen(quiet=True))
    assert final(run) == final(quietly(config, tmp_path / "whole").run)
