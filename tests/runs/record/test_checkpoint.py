"""Checkpoints: the newest undamaged one is loaded, and a kill loses little."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from purerl import errors
from purerl.loops import snapshot
from purerl.runs.record import checkpoint, checkpoint_folders
from purerl.runs.record import files as storage
from purerl.runs.record.arrays import write_arrays
from purerl.runs.record.files import File
from purerl.runs.settings.config import from_json
from purerl.runs.training.saving import describe_run
from tests.loops.test_snapshot import advance_until, begin, freeze_to_bits

ABOUT = {"algorithm": "td3", "ranks": 1}


def saved(run, name="td3", at=(60, 100, 200), keep=9):
    """Save checkpoints at some steps; return the state of the run at each of them."""
    carry, segments, states = begin(name), (), {}
    run.mkdir(exist_ok=True)
    for step in at:
        carry, _ = advance_until(carry, step)
        segments = checkpoint.save(run, carry, ABOUT, segments, keep, {"step": step})
        states[step] = freeze_to_bits(carry)
    carry.envs.close()
    return states


def thawed(run, name="td3", **options):
    loaded = checkpoint.load(run, ABOUT, 0, **options)
    carry, lost = snapshot.thaw(begin(name), loaded.frozen)
    assert not lost
    return loaded, carry


@pytest.mark.parametrize(("name", "at"), [("td3", (60, 100, 200)), ("ppo", (60, 120))])
def test_every_checkpoint_restores_the_run_bit_for_bit(tmp_path, name, at):
    states = saved(tmp_path, name, at)
    assert checkpoint_folders.list_steps(tmp_path) == list(at)
    for step, state in states.items():
        loaded, carry = thawed(tmp_path, name, step=step)
        assert freeze_to_bits(carry) == state
        assert loaded.manifest["notes"] == {"step": step}
    loaded, carry = thawed(tmp_path, name)
    assert loaded.step == at[-1]
    assert not loaded.skipped


def test_a_resumed_run_that_saves_again_ends_like_an_uninterrupted_one(tmp_path):
    saved(tmp_path, at=(60, 100))
    loaded, carry = thawed(tmp_path)
    carry, _ = advance_until(carry, 130)
    checkpoint.save(tmp_path, carry, ABOUT, loaded.segments)
    _, carry = thawed(tmp_path)
    carry, _ = advance_until(carry, 330)
    whole, _ = advance_until(begin("td3"), 330)
    assert freeze_to_bits(carry) == freeze_to_bits(whole)


def test_a_checkpoint_is_on_disk_before_its_name(tmp_path, monkeypatch):
    """A crash after the rename must find all files of the checkpoint and their names."""
    events = []

    def record_fsync(descriptor):
        events.append(os.fstat(descriptor).st_ino)

    def record_replace(source, target, replace=os.replace):
        events.append(Path(target).name)
        replace(source, target)

    monkeypatch.setattr(storage.os, "fsync", record_fsync)
    monkeypatch.setattr(storage.os, "replace", record_replace)
    saved(tmp_path, at=(60,))
    made = checkpoint_folders.checkpoint_folder(tmp_path, 60)
    parts = (made / "rank0.npz", made / "manifest.json", made, made.name, made.parent)
    order = [x if isinstance(x, str) else x.stat().st_ino for x in parts]
    assert [x for x in events if x in order] == order
    replay = tmp_path / "replay"
    (segment,) = replay.iterdir()
    assert events[:3] == [segment.stat().st_ino, segment.name, replay.stat().st_ino]


def test_a_checkpoint_writes_only_new_rows(tmp_path):
    saved(tmp_path, at=(60, 100, 130))
    sizes = {p.name: p.stat().st_size for p in (tmp_path / "replay").iterdir()}
    assert sorted(sizes) == [
        f"0-{a:012d}-{b:012d}.npz" for a, b in ((0, 60), (60, 100), (100, 130))
    ]
    assert sizes["0-000000000100-000000000130.npz"] < sizes["0-000000000000-000000000060.npz"]


def test_old_checkpoints_and_unneeded_segments_are_deleted(tmp_path):
    carry, segments = begin("td3"), ()
    for step in range(20, 331, 20):
        carry, _ = advance_until(carry, step)
        notes = {"step": step, "score": -3.0 if step in (40, 100) else -4.0}
        segments = checkpoint.save(tmp_path, carry, ABOUT, segments, 2, notes)
    assert checkpoint_folders.list_steps(tmp_path) == [40, 300, 320]
    assert checkpoint_folders.read_best(tmp_path) == (40, -3.0)
    for step in (40, 300, 320):
        thawed(tmp_path, step=step)
    first = sorted(int(p.name[2:14]) for p in (tmp_path / "replay").iterdir())
    assert first == [0, 20, *range(140, 320, 20)]  # the ring holds 150 rows
    assert not list((tmp_path / "checkpoints").glob(".tmp*"))


def test_after_any_damage_an_older_checkpoint_is_loaded_and_the_damage_reported(tmp_path):
    states = saved(tmp_path / "good", at=(60, 100))
    files = [p.relative_to(tmp_path / "good") for p in (tmp_path / "good").rglob("*.*")]
    newest = [p for p in files if "000000000100" in str(p) and p.suffix in (".npz", ".json")]
    assert len(newest) == 3  # a manifest, the arrays, a segment
    rng = random.Random(0)
    for number in range(60):
        run = tmp_path / "bad"
        shutil.copytree(tmp_path / "good", run)
        path = run / newest[number % 3]
        content = bytearray(path.read_bytes())
        way = ("flip", "cut", "zero", "delete")[number // 3 % 4]
        place = rng.randrange(len(content))
        if way == "flip":
            content[place] ^= 1 << rng.randrange(8)
        elif way == "zero":
            place = rng.randrange(len(content) // 2)
            content[place : place + 64] = bytes(64)
        path.write_bytes(content[:place] if way == "cut" else content)
        if way == "delete":
            path.unlink()
        loaded, carry = thawed(run)
        if loaded.step == 100:  # white space in the manifest
            assert freeze_to_bits(carry) == states[100], (path, way)
        else:
            assert freeze_to_bits(carry) == states[60]
            assert path.name in loaded.skipped[0]
        shutil.rmtree(run)


def test_without_a_usable_checkpoint_the_reasons_are_listed(tmp_path):
    with pytest.raises(errors.NoCheckpoint, match="no checkpoint that can be used"):
        checkpoint.load(tmp_path, ABOUT, 0)
    saved(tmp_path, at=(60, 100))
    with pytest.raises(
        errors.NoCheckpoint, match=r"no checkpoint of step 70\. Its steps: \[60, 100\]"
    ):
        checkpoint.load(tmp_path, ABOUT, 0, step=70)
    for step in (60, 100):
        (tmp_path / "checkpoints" / f"{step:012d}" / "rank0.npz").unlink()
    with pytest.raises(errors.NoCheckpoint, match=r"(?s)can be used\n.*rank0\.npz.*\n.*rank0\.npz"):
        checkpoint.load(tmp_path, ABOUT, 0)


def test_settings_newer_than_a_checkpoint_must_be_off(tmp_path):
    """Options of hindsight for DDPG are such settings: two are numbers that are 0. n_step is 1."""
    saved(tmp_path, at=(60,))
    path = tmp_path / "checkpoints" / "000000000060" / "manifest.json"
    content = storage.read_sealed_json(path)
    about = describe_run(from_json({"algo": "ddpg", "env": "Pendulum-v1"}))
    new = ("random_action", "action_l2", "clip_targets")
    spec = {name: x for name, x in about["spec"].items() if name not in new}
    assert {name: about["spec"][name] for name in new} == dict.fromkeys(new, 0)
    old = {name: x for name, x in about["schedule"].items() if name != "n_step"}
    content |= {"about": about | {"spec": spec, "schedule": old}}
    path.write_bytes(storage.seal_json(content))
    assert checkpoint.load(tmp_path, about, 0).step == 60
    far = about | {"schedule": about["schedule"] | {"n_step": 2}}
    with pytest.raises(errors.NoCheckpoint, match="schedule.n_step was None, now it is 2"):
        checkpoint.load(tmp_path, far, 0)
    for name, value in (
        ("random_action", 0.3),
        ("clip_targets", True),
        ("more", ""),
        ("n_step", 1),
    ):
        wrong = about | {"spec": about["spec"] | {name: value}}
        with pytest.raises(errors.NoCheckpoint, match=f"spec.{name} was None, now it is {value!r}"):
            checkpoint.load(tmp_path, wrong, 0)


def test_a_checkpoint_of_another_run_or_format_is_refused(tmp_path):
    saved(tmp_path, at=(60,))
    wrong = ABOUT | {"algorithm": "sac"}
    with pytest.raises(errors.NoCheckpoint, match="algorithm was 'td3', now it is 'sac'"):
        checkpoint.load(tmp_path, wrong, 0)
    path = tmp_path / "checkpoints" / "000000000060" / "manifest.json"
    content = storage.read_sealed_json(path)
    spec = {"gamma": 0.99, "hidden": [16], **{f"x{i}": 0 for i in range(9)}}
    path.write_bytes(storage.seal_json(content | {"about": ABOUT | {"spec": spec, "ranks": 2}}))
    wrong = ABOUT | {"spec": spec | {"gamma": 0.98}}
    with pytest.raises(errors.NoCheckpoint) as caught:
        checkpoint.load(tmp_path, wrong, 0)
    said = str(caught.value)
    assert "other settings: ranks was 2, now it is 1; spec.gamma was 0.99, now it is 0.98." in said
    assert said.endswith(f"Type: purerl resume {tmp_path} --num-cpu 2")
    with pytest.raises(errors.NoCheckpoint, match=r"spec\.x2 was 0, now it is 1, and 6 more\.$"):
        checkpoint.load(tmp_path, {"spec": {k: 1 for k in spec}}, 0)
    path.write_bytes(storage.seal_json(content | {"format": 2}))
    with pytest.raises(errors.NoCheckpoint, match="has format 2, but this purerl reads format 1"):
        checkpoint.load(tmp_path, ABOUT, 0)
    for change in (
        {"files": {"../../rank0.npz": content["files"]["rank0.npz"]}},
        {"files": {"/etc/passwd": [1, "x"]}},
        {"segments": [[["../x.npz", 0, 60, 1, "x"]]]},
        {"facts": []},
        {"step": 61},
        {"segments": None},
    ):
        path.write_bytes(storage.seal_json(content | change))
        with pytest.raises(errors.NoCheckpoint, match="is not a complete manifest|contradict each"):
            checkpoint.load(tmp_path, ABOUT, 0)


def test_a_gap_between_segments_is_noticed(tmp_path):
    saved(tmp_path, at=(60, 100, 130))
    path = tmp_path / "checkpoints" / "000000000130" / "manifest.json"
    content = storage.read_sealed_json(path)
    del content["segments"][0][1]
    path.write_bytes(storage.seal_json(content))
    loaded = checkpoint.load(tmp_path, ABOUT, 0)
    assert loaded.step == 100
    assert "must continue the replay buffer with rows 60 to 129" in loaded.skipped[0]


def test_a_failing_disk_leaves_earlier_checkpoints_intact(tmp_path, monkeypatch):
    states = saved(tmp_path, at=(60, 100))
    loaded, carry = thawed(tmp_path)
    carry, _ = advance_until(carry, 130)

    real = storage.os.fsync

    def failing(turn):
        """Return an `fsync` that fails when it is called for the n-th time."""
        left = iter(range(turn - 1, -1, -1))

        def fsync(descriptor):
            if next(left, -1) == 0:
                raise OSError(28, "No space left on device")
            real(descriptor)

        return fsync

    for turn in range(1, 7):
        with monkeypatch.context() as patch:
            patch.setattr(storage.os, "fsync", failing(turn))
            with pytest.raises(errors.StorageError, match="disk is full"):
                checkpoint.save(tmp_path, carry, ABOUT, loaded.segments)
        assert checkpoint_folders.list_steps(tmp_path)[:2] == [60, 100]
        assert not list((tmp_path / "checkpoints").glob(".tmp*"))
        newest, again = thawed(tmp_path)
        assert freeze_to_bits(again) == (
            states[100] if newest.step == 100 else freeze_to_bits(carry)
        )
    checkpoint.save(tmp_path, carry, ABOUT, loaded.segments)
    assert checkpoint.load(tmp_path, ABOUT, 0).step == 130


WRITER = """
import sys; from pathlib import Path
import purerl; purerl.setup()
from purerl.runs.record import checkpoint
from tests.loops.test_snapshot import begin, advance_until
from tests.runs.record.test_checkpoint import ABOUT
carry, segments, run = begin("td3"), (), Path(sys.argv[1])
run.mkdir()
while True:
    for step in range(20, 331, 10):
        carry, _ = advance_until(carry, step)
        segments = checkpoint.save(run, carry, ABOUT, segments, keep=2)
        print(step, flush=True)
    carry, segments = begin("td3"), ()
"""


@pytest.mark.reliability
def test_a_kill_at_any_moment_leaves_the_last_announced_checkpoint(tmp_path):
    """Kill twelve processes that save without a pause."""
    rng = random.Random(1)
    for number in range(12):
        run = tmp_path / str(number)
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(run)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout
        process.stdout.readline()
        time.sleep(rng.random() * 0.4)
        process.send_signal(signal.SIGKILL)
        said = process.stdout.read().split()
        process.wait()
        process.stdout.close()
        loaded, carry = thawed(run)
        assert not loaded.skipped
        if said:
            assert loaded.step >= int(said[-1]) or loaded.step == 330
        assert np.isfinite(carry.obs).all()


def copy_steps(run):
    """Save three checkpoints; return the states, and a function that restores the folder."""
    states = saved(run / "whole")
    return states, lambda: shutil.copytree(run / "whole", run / "live", dirs_exist_ok=True)


def test_a_checkpoint_that_is_deleted_while_it_is_read_is_no_damage(tmp_path, monkeypatch):
    states, restore = copy_steps(tmp_path)
    real = checkpoint_folders.read_manifest
    for moment in ("before", "after"):  # the manifest is read
        run = restore()

        def deleted(run, step, moment=moment):
            content = real(run, step) if moment == "after" else None
            if step == 200:
                shutil.rmtree(run / "checkpoints" / "000000000200")
            return content or real(run, step)

        monkeypatch.setattr(checkpoint_folders, "read_manifest", deleted)
        loaded = checkpoint.load(run, ABOUT, 0)
        assert (loaded.step, loaded.skipped) == (100, ())
        carry, _ = snapshot.thaw(begin("td3"), loaded.frozen)
        assert freeze_to_bits(carry) == states[100]


def test_a_checkpoint_that_is_replaced_while_it_is_read_is_read_again(tmp_path, monkeypatch):
    carry = begin("td3")
    carry, _ = advance_until(carry, 60)
    checkpoint.save(tmp_path, carry, ABOUT, (), 9, {"step": 1})
    real = checkpoint_folders.read_manifest

    def replaced(run, step):
        content = real(run, step)
        monkeypatch.setattr(checkpoint_folders, "read_manifest", real)
        # other bytes at the same step, as after an evaluation that was interrupted
        made = run / "checkpoints" / f".tmp-{step:012d}"
        old = made.with_name(f"{made.name}-old")
        shutil.copytree(run / "checkpoints" / f"{step:012d}", made)
        arrays = checkpoint.read_arrays(made / "rank0.npz", File(*content["files"]["rank0.npz"]))
        arrays["host ep_return"] = arrays["host ep_return"] + 1
        file = storage.write_file(made / "rank0.npz", partial(write_arrays, arrays))
        new = content | {"files": {"rank0.npz": file}}
        (made / "manifest.json").write_bytes(storage.seal_json(new))
        made.with_name(f"{step:012d}").rename(old)
        made.rename(run / "checkpoints" / f"{step:012d}")
        return content

    monkeypatch.setattr(checkpoint_folders, "read_manifest", replaced)
    loaded = checkpoint.load(tmp_path, ABOUT, 0)
    assert (loaded.step, loaded.skipped) == (60, ())


def test_saving_a_step_again_never_shows_an_incomplete_checkpoint(tmp_path, monkeypatch):
    carry = begin("td3")
    carry, _ = advance_until(carry, 60)
    segments = checkpoint.save(tmp_path, carry, ABOUT, (), 9, {"step": 1})
    real, seen = checkpoint.files.remove, []

    def remove(path):
        folder = tmp_path / "checkpoints" / "000000000060"
        seen.append(sorted(p.name for p in folder.iterdir()))
        assert path != folder
        real(path)

    monkeypatch.setattr(checkpoint.files, "remove", remove)
    checkpoint.save(tmp_path, carry, ABOUT, segments, 9, {"step": 2})
    assert {*map(tuple, seen)} == {("manifest.json", "rank0.npz")}
    assert checkpoint.load(tmp_path, ABOUT, 0).manifest["notes"] == {"step": 2}
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["000000000060"]


def test_the_best_checkpoint_is_looked_up_again_if_it_was_deleted(tmp_path, monkeypatch):
    run = copy_steps(tmp_path)[1]()
    marks = iter([(60, 1.0), (100, 2.0)])
    monkeypatch.setattr(checkpoint_folders, "read_best", lambda run: next(marks, (100, 2.0)))
    shutil.rmtree(run / "checkpoints" / "000000000060")
    assert checkpoint.load(run, ABOUT, 0, step="best").step == 100


def test_a_best_checkpoint_that_does_not_exist_is_refused(tmp_path, monkeypatch):
    run = copy_steps(tmp_path)[1]()
    monkeypatch.setattr(checkpoint_folders, "read_best", lambda run: (80, 1.0))
    with pytest.raises(errors.NoCheckpoint, match="deleted the checkpoint 100 times"):
        checkpoint.load(run, ABOUT, 0, step="best")


@pytest.mark.parametrize("ranks", [1, 28, 1_000])
def test_the_manifest_of_many_ranks_fits_its_limit(tmp_path, ranks):
    (tmp_path / "checkpoints" / f"{10**11:012d}").mkdir(parents=True)
    step, segments = 10**11, []
    for rank in range(ranks):
        names = [f"{rank}-{step - 1:012d}-{step:012d}.npz"] * checkpoint.limit_segments(ranks)
        segments.append([checkpoint.Segment(n, step - 1, step, 10**9, "f" * 64) for n in names])
    facts = {"steps": step, "calls": step, "updates": step, "epoch": 10**6}
    content = {"format": 1, "step": step, "about": ABOUT, "notes": {}, "seen": {}, "best": None}
    content |= {"files": {f"rank{i}.npz": [10**9, "f" * 64] for i in range(ranks)}}
    content |= {"facts": [facts | {"episodes": [10**6] * 64}] * ranks, "segments": segments}
    content |= {"rows": [step] * ranks}
    sealed = storage.seal_json(content)
    (tmp_path / "checkpoints" / f"{step}" / "manifest.json").write_bytes(sealed)
    assert len(checkpoint_folders.read_manifest(tmp_path, step)["segments"]) == ranks
    assert checkpoint.limit_segments(14) == checkpoint.MAX_SEGMENTS == 1_000
