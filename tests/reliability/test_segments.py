"""The replay buffer of a run stays in a bounded number of files, however often it is saved."""

import pytest

from purerl.loops import snapshot
from purerl.runs.record import checkpoint
from tests.loops.test_snapshot import advance_until, begin, freeze_to_bits


@pytest.mark.parametrize("name", ["MAX_SEGMENTS", "MAX_ALL_SEGMENTS"])
def test_many_segments_are_merged_into_one(tmp_path, monkeypatch, name):
    monkeypatch.setattr(checkpoint, name, 3)
    carry, segments, numbers = begin("td3"), (), []
    for step in range(10, 331, 10):
        carry, _ = advance_until(carry, step)
        segments = checkpoint.save(tmp_path, carry, {}, segments, keep=1)
        numbers.append(len(segments))
        loaded = checkpoint.load(tmp_path, {}, 0)
        assert (loaded.step, loaded.segments) == (step, segments)
    assert numbers == ([1, 2, 3] * 11)[:33]
    thawed, _ = snapshot.thaw(begin("td3"), loaded.frozen)
    assert freeze_to_bits(thawed) == freeze_to_bits(carry)
    assert len(list((tmp_path / "replay").iterdir())) == len(segments)
