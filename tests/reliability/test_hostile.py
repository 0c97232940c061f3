"""Folders from somebody else run no code, touch no other file, and take neither memory nor time."""

import json

from tests.mpi.launch import python
from tests.reliability.counts import sizes

# What table.py and looking.py do with these is not settled yet.
OPEN = ("1 GB with holes as progress.txt", "a step that is a link")


@sizes("hostile")
def test_hostile_folders_run_nothing_and_are_refused_soon(tmp_path, figures, number):
    done = python("-m", "tests.reliability.sweep", str(tmp_path), str(number))
    assert done.code == 0, done.err
    found = [json.loads(line) for line in done.out.splitlines()]
    assert len(found) >= min(number, 170)
    refused = 0
    for one in found:
        assert not one["marked"], one
        assert not one["touched"], one
        if one["case"] not in OPEN:
            assert not one["seen"], one
            assert one["mb"] < 200, one
            assert one["seconds"] < 2, one
        refused += bool(one["said"])
    assert refused > 0.7 * len(found)  # the others are read by nothing, or were meant to be good
    judged = [one for one in found if one["case"] not in OPEN]
    worst = {name: max(one[name] for one in judged) for name in ("mb", "seconds")}
    figures(cases=len(found), refused=refused, **worst)
