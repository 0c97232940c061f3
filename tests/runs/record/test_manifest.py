"""Which checkpoints are kept, and what becomes of those that are newer than the one wanted."""

import dataclasses
import os
import shutil
import signal

import pytest

from purerl import errors
from purerl.runs.record import checkpoint, folder, manifest
from purerl.runs.settings.config import Options
from purerl.runs.training import train
from purerl.runs.training.progress_bar import Screen
from tests.loops.test_snapshot import begin, go_on
from tests.runs.record.test_checkpoint import ABOUT
from tests.runs.script import settings
from tests.runs.training.test_train import table

QUIET = Screen(quiet=True)


def scored(run, scores, keep=9, start=0):
    """Checkpoints 10 steps apart, made where epochs ended with these scores."""
    carry, segments, said = begin("td3"), (), []
    for number, score in enumerate(scores, 1):
        step = start + 10 * number
        carry, _ = go_on(carry, step)
        notes = {"step": step, "score": score}
        segments = checkpoint.save(run, carry, ABOUT, segments, keep, notes, said.append)
    carry.envs.close()
    return said


def damage(run, step):
    path = run / "checkpoints" / f"{step:012d}" / "manifest.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 3'))


def epochs(run):
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
        monkeypatch.setattr(train, "_score", lambda record, before: next(left, -9.0))

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


def test_what_is_done_after_going_back_stays_and_no_row_is_lost(tmp_path, scores):
    scores(-1.0)
    run = train.train(configured(3_000), data_dir=str(tmp_path), screen=QUIET).run
    assert manifest.list_steps(run) == [500, 2_500, 3_000]
    outcome = train.resume(run, steps=3_500, at="best", screen=QUIET, sinks=(Stopping(1_000),))
    assert (outcome.code, outcome.step) == (train.STOPPED, 1_000)
    assert manifest.list_steps(run) == [500, 1_000]
    assert epochs(run) == [1, 2]
    lines = (run / "stdout.log").read_text()
    assert "deleted the checkpoints that came after step 500: 2,500, 3,000\n" in lines
    outcome = train.resume(run, screen=QUIET)
    assert (outcome.code, outcome.step) == (0, 3_500)
    assert "goes on at 1,000\n" in (run / "stdout.log").read_text()
    assert manifest.list_steps(run) == [500, 3_000, 3_500]
    assert epochs(run) == [1, 2, 3, 4, 5, 6, 7]


class Killed(BaseException):
    """Stands for a kill."""


def dying(patch, call):
    """Raise before the n-th change of the disk, as the parts of a checkpoint's folder are."""
    left = iter(range(call - 1, -1, -1))

    def deadly(real):
        def change(*args, **kwargs):
            if next(left, -1) == 0:
                raise Killed
            return real(*args, **kwargs)

        return change

    for name in ("rename", "replace", "unlink", "rmdir"):
        patch.setattr(os, name, deadly(getattr(os, name)))


@pytest.mark.parametrize("best", [20, 40])
def test_a_kill_at_any_change_while_going_back_leaves_a_run_that_had_come_less_far(tmp_path, best):
    scored(tmp_path / "whole", [-1.0 if 10 * i == best else -2.0 for i in range(1, 6)])
    for call in range(1, 100):
        run = tmp_path / str(call)
        shutil.copytree(tmp_path / "whole", run)
        with pytest.MonkeyPatch.context() as patch:
            dying(patch, call)
            try:
                assert manifest.delete_later(run, 30) == [40, 50]
                break
            except Killed:
                pass
        left = manifest.list_steps(run)
        assert left == [10, 20, 30, 40, 50][: len(left)]
        loaded = checkpoint.load(run, ABOUT, 0)
        assert (loaded.step, loaded.skipped) == (left[-1], ())
        assert manifest.read_best(run)[0] in left
    assert call > 8
    assert manifest.list_steps(run) == [10, 20, 30]
    assert manifest.read_best(run) == ((20, -1.0) if best == 20 else (10, -2.0))


def test_a_kill_before_the_best_is_marked_loses_no_mark(tmp_path, monkeypatch):
    def killed(*args):
        raise Killed

    scored(tmp_path, [-2.0])
    with monkeypatch.context() as patch:
        patch.setattr(manifest, "prune", killed)
        with pytest.raises(Killed):
            scored(tmp_path, [-1.0], start=10)
    assert manifest.read_best(tmp_path) == (10, -2.0)
    manifest.prune(tmp_path, 1)
    assert manifest.read_best(tmp_path) == (20, -1.0)
    assert manifest.list_steps(tmp_path) == [20]


def test_what_a_kill_left_is_put_right_when_the_run_goes_on(tmp_path, scores, monkeypatch):
    scores(-3.0, -2.0)
    run = train.train(configured(1_000), data_dir=str(tmp_path), screen=QUIET).run
    (run / "checkpoints" / "best.json").unlink()
    folder.update_status(run, status="running")
    train.resume(run, screen=QUIET)
    assert manifest.read_best(run) == (1_000, -2.0)


def test_a_best_that_is_damaged_is_dropped_and_nothing_grows(tmp_path):
    assert not scored(tmp_path, [-1.0, -3.0, -2.0, -4.0], keep=2)
    assert manifest.list_steps(tmp_path) == [10, 30, 40]
    damage(tmp_path, 10)
    (tmp_path / "replay" / "0-000000000900-000000000910.npz").write_bytes(b"")
    said = []
    manifest.prune(tmp_path, 2, said.append)
    assert len(said) == 1
    assert "a damaged checkpoint is never loaded" in said[0]
    assert manifest.list_steps(tmp_path) == [30, 40]
    assert manifest.read_best(tmp_path) == (30, -2.0)
    assert len(list((tmp_path / "replay").iterdir())) == 4
    carry, _ = go_on(begin("td3"), 50)
    checkpoint.save(tmp_path, carry, ABOUT, (), 2)
    assert manifest.list_steps(tmp_path) == [30, 40, 50]


def test_a_score_of_an_epoch_before_makes_no_checkpoint_the_best(tmp_path):
    scored(tmp_path, [-2.0])
    carry, _ = go_on(begin("td3"), 20)
    for notes in ({"step": 10, "score": -1.0}, {"step": 20, "score": None}, {"step": 20}):
        checkpoint.save(tmp_path, carry, ABOUT, (), notes=notes)
        assert manifest.read_best(tmp_path) == (10, -2.0)


def test_while_a_damaged_one_is_among_the_newest_segments_stay(tmp_path):
    scored(tmp_path, [-1.0, -1.0], keep=1)
    (tmp_path / "replay" / "0-000000000900-000000000910.npz").write_bytes(b"")
    damage(tmp_path, 20)
    said = []
    manifest.prune(tmp_path, 1, said.append)
    assert len(said) == 1
    assert manifest.list_steps(tmp_path) == [10, 20]
    assert len(list((tmp_path / "replay").iterdir())) == 3
    carry, _ = go_on(begin("td3"), 30)
    checkpoint.save(tmp_path, carry, ABOUT, (), 1)
    assert manifest.list_steps(tmp_path) == [10, 30]
    assert len(list((tmp_path / "replay").iterdir())) == 2


def test_a_run_says_of_a_damaged_checkpoint_once(tmp_path, scores):
    scores(-1.0)
    run = train.train(configured(2_000, keep=3), data_dir=str(tmp_path), screen=QUIET).run
    damage(run, 1_500)
    train.resume(run, steps=3_500, screen=QUIET)
    lines = (run / "stdout.log").read_text()
    assert lines.count("a damaged checkpoint is never loaded") == 1
    assert manifest.list_steps(run) == [500, 2_500, 3_000, 3_500]


@pytest.mark.parametrize(("save_freq", "kept"), [(2_000, [1_000, 2_000]), (None, [2_000])])
def test_an_epoch_that_is_the_best_so_far_is_saved_where_it_ends(tmp_path, scores, save_freq, kept):
    scores(float("nan"), -2.0, -2.0)
    made = configured(2_000, save_freq, keep=5)
    run = train.train(made, data_dir=str(tmp_path), screen=QUIET).run
    assert manifest.list_steps(run) == kept
    assert manifest.read_best(run) == ((1_000, -2.0) if save_freq else (2_000, -9.0))


def test_a_disk_that_fails_is_not_asked_more_often_for_the_best(tmp_path, scores, monkeypatch):
    def full(*args, **options):
        raise errors.StorageError(28, "full")

    monkeypatch.setattr(checkpoint, "save", full)
    scores(*range(-50, 0))
    with pytest.raises(errors.StorageError) as caught:
        train.train(configured(6_000, 2_000), data_dir=str(tmp_path), screen=QUIET)
    assert "the checkpoint of step 4,000 was not made, number 3 in a row." in caught.value.__notes__
