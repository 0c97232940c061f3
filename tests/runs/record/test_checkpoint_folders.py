"""Pruning of checkpoints, deletion of later ones, and hashes of configuration and logs."""

import os
import shutil

import pytest

from purerl.runs.record import checkpoint, checkpoint_folders
from tests.loops.test_snapshot import advance_until, begin
from tests.runs.record.test_checkpoint import ABOUT


def scored(run, scores, keep=9, start=0):
    """Save a checkpoint every 10 steps, each with the score of an epoch; return the messages."""
    carry, segments, said = begin("td3"), (), []
    run.mkdir(exist_ok=True)
    for number, score in enumerate(scores, 1):
        step = start + 10 * number
        carry, _ = advance_until(carry, step)
        notes = {"step": step, "score": score}
        segments = checkpoint.save(run, carry, ABOUT, segments, keep, notes, said.append)
    carry.envs.close()
    return said


def damage(run, step):
    path = run / "checkpoints" / f"{step:012d}" / "manifest.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 3'))


class Killed(BaseException):
    """An exception that simulates a kill."""


def dying(patch, call):
    """Raise `Killed` before the n-th rename or deletion."""
    left = iter(range(call - 1, -1, -1))

    def deadly(real):
        def change(*args, **kwargs):
            if next(left, -1) == 0:
                raise Killed
            return real(*args, **kwargs)

        return change

    for name in ("rename", "replace", "unlink", "rmdir"):
        patch.setattr(os, name, deadly(getattr(os, name)))


def test_deletions_are_on_disk_before_the_logs_are_cut(tmp_path, monkeypatch):
    """After a crash, a checkpoint would count rows that the logs no longer contain."""
    scored(tmp_path, [-1.0] * 3)
    synced = []

    def record(descriptor):
        synced.append((os.fstat(descriptor).st_ino, checkpoint_folders.list_steps(tmp_path)))

    monkeypatch.setattr(os, "fsync", record)
    assert checkpoint_folders.delete_later(tmp_path, 10) == [20, 30]
    assert ((tmp_path / "checkpoints").stat().st_ino, [10]) == synced[-1]


@pytest.mark.parametrize("best", [20, 40])
def test_a_kill_while_going_back_leaves_a_shorter_valid_run(tmp_path, best):
    scored(tmp_path / "whole", [-1.0 if 10 * i == best else -2.0 for i in range(1, 6)])
    for call in range(1, 100):
        run = tmp_path / str(call)
        shutil.copytree(tmp_path / "whole", run)
        with pytest.MonkeyPatch.context() as patch:
            dying(patch, call)
            try:
                assert checkpoint_folders.delete_later(run, 30) == [40, 50]
                break
            except Killed:
                pass
        left = checkpoint_folders.list_steps(run)
        assert left == [10, 20, 30, 40, 50][: len(left)]
        loaded = checkpoint.load(run, ABOUT, 0)
        assert (loaded.step, loaded.skipped) == (left[-1], ())
        assert checkpoint_folders.read_best(run)[0] in left
    assert call > 8
    assert checkpoint_folders.list_steps(run) == [10, 20, 30]
    assert checkpoint_folders.read_best(run) == ((20, -1.0) if best == 20 else (10, -2.0))


def test_a_kill_before_pruning_only_delays_the_best_mark(tmp_path, monkeypatch):
    def killed(*args):
        raise Killed

    scored(tmp_path, [-2.0])
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "prune", killed)
        with pytest.raises(Killed):
            scored(tmp_path, [-1.0], start=10)
    assert checkpoint_folders.read_best(tmp_path) == (10, -2.0)
    checkpoint_folders.prune(tmp_path, 1)
    assert checkpoint_folders.read_best(tmp_path) == (20, -1.0)
    assert checkpoint_folders.list_steps(tmp_path) == [20]


def test_a_damaged_best_checkpoint_is_deleted_and_replaced(tmp_path):
    assert not scored(tmp_path, [-1.0, -3.0, -2.0, -4.0], keep=2)
    assert checkpoint_folders.list_steps(tmp_path) == [10, 30, 40]
    damage(tmp_path, 10)
    (tmp_path / "replay" / "0-000000000900-000000000910.npz").write_bytes(b"")
    said = []
    checkpoint_folders.prune(tmp_path, 2, said.append)
    assert len(said) == 1
    assert "damaged checkpoint, never loaded" in said[0]
    assert checkpoint_folders.list_steps(tmp_path) == [30, 40]
    assert checkpoint_folders.read_best(tmp_path) == (30, -2.0)
    assert len(list((tmp_path / "replay").iterdir())) == 4
    carry, _ = advance_until(begin("td3"), 50)
    checkpoint.save(tmp_path, carry, ABOUT, (), 2)
    assert checkpoint_folders.list_steps(tmp_path) == [30, 40, 50]


def test_the_score_of_an_earlier_epoch_does_not_count(tmp_path):
    scored(tmp_path, [-2.0])
    carry, _ = advance_until(begin("td3"), 20)
    for notes in ({"step": 10, "score": -1.0}, {"step": 20, "score": None}, {"step": 20}):
        checkpoint.save(tmp_path, carry, ABOUT, (), notes=notes)
        assert checkpoint_folders.read_best(tmp_path) == (10, -2.0)


def test_the_best_mark_is_not_read_through_a_link(tmp_path):
    run = tmp_path / "run"
    scored(run, [-2.0])
    (run / "checkpoints").rename(tmp_path / "outside")
    (run / "checkpoints").symlink_to(tmp_path / "outside")
    assert checkpoint_folders.read_best(run) is None


def test_segments_stay_while_a_damaged_checkpoint_exists(tmp_path):
    scored(tmp_path, [-1.0, -1.0], keep=1)
    (tmp_path / "replay" / "0-000000000900-000000000910.npz").write_bytes(b"")
    damage(tmp_path, 20)
    said = []
    checkpoint_folders.prune(tmp_path, 1, said.append)
    assert len(said) == 1
    assert checkpoint_folders.list_steps(tmp_path) == [10, 20]
    assert len(list((tmp_path / "replay").iterdir())) == 3
    carry, _ = advance_until(begin("td3"), 30)
    checkpoint.save(tmp_path, carry, ABOUT, (), 1)
    assert checkpoint_folders.list_steps(tmp_path) == [10, 30]
    assert len(list((tmp_path / "replay").iterdir())) == 2


FILES = {
    "config.json": "{}\n",
    "metrics.jsonl": '{"Epoch": 1}\n',
    "episodes.csv": "epoch\n1\n",
    "progress.txt": "Epoch\tA\n1\t2\n\n",
}


@pytest.fixture
def run(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_later_rows_and_columns_are_not_changes(run):
    then = checkpoint_folders.hash_logs(run)
    assert set(then) == set(FILES)
    assert not checkpoint_folders.find_changes(run, then)
    for name in ("metrics.jsonl", "episodes.csv"):
        (run / name).write_text(FILES[name] + "later\n")
    (run / "progress.txt").write_text("Epoch\tA\tLate\n1\t2\t\n\n3\t4\t5\n")
    assert not checkpoint_folders.find_changes(run, then)


@pytest.mark.parametrize("name", FILES)
def test_a_changed_cut_or_deleted_file_is_named(run, name):
    then = checkpoint_folders.hash_logs(run)
    text = FILES[name].rstrip("\n")
    for other in (text[:-1] + "9", text[:-1]):
        (run / name).write_text(other)
        (message,) = checkpoint_folders.find_changes(run, then)
        assert name in message
        assert "was changed after the checkpoint" in message
    (run / name).unlink()
    (message,) = checkpoint_folders.find_changes(run, then)
    assert "is missing" in message


def test_a_configuration_must_not_grow(run):
    then = checkpoint_folders.hash_logs(run)
    (run / "config.json").write_text(FILES["config.json"] + " ")
    assert "config.json was changed" in checkpoint_folders.find_changes(run, then)[0]
