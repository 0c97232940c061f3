"""The checkpoint from which runs continue: one that all of them have."""

import pytest

from purerl.errors import ConfigError, NoCheckpoint
from purerl.runs.record import checkpoint_folders, status
from purerl.runs.training import restoring, train


@pytest.fixture
def make_runs(tmp_path, monkeypatch):
    """Make runs that have only names of checkpoints, and a status."""

    def make(*steps, states=("running", "running")):
        runs = [tmp_path / f"x_s{i}" for i in range(len(steps))]
        for run, there, state in zip(runs, steps, states, strict=False):
            run.mkdir()
            status.write_status(run, {"status": state})
            for step in there:
                checkpoint_folders.checkpoint_folder(run, step).mkdir(parents=True)
        return runs

    return make


def test_runs_continue_from_the_newest_step_that_all_have(make_runs):
    runs = make_runs([10, 20, 30], [5, 10, 20])
    assert restoring.list_candidates(runs, "last") == [20, 10]
    assert restoring.list_candidates(runs, 10) == [10]
    assert restoring.list_candidates(runs[:1], "last") == [None]
    with pytest.raises(NoCheckpoint, match="no best checkpoint"):
        restoring.list_candidates(runs, "best")
    with pytest.raises(ConfigError, match="must be 'last', 'best' or a step"):
        restoring.list_candidates(runs, "x")


def test_runs_without_a_common_step_are_refused(make_runs):
    runs = make_runs([10, 20], [15])
    with pytest.raises(NoCheckpoint) as caught:
        restoring.list_candidates(runs, "last")
    assert str(caught.value).split("\n  ") == [
        "these runs have no checkpoint of the same step. Continue each of them alone.",
        f"{runs[0]}: 10, 20",
        f"{runs[1]}: 15",
    ]


@pytest.mark.parametrize(
    ("steps", "states", "starts_again"),
    [
        (([], []), ("stopped", "failed"), True),
        (([10], []), ("running", "running"), True),  # killed between the first two saves
        (([10], []), ("done", "running"), False),
        (([10], []), ("stopped", "stopped"), False),
        (([10, 20], []), ("running", "running"), False),
    ],
)
def test_only_runs_killed_in_their_first_save_start_again(make_runs, steps, states, starts_again):
    runs = make_runs(*steps, states=states)
    if starts_again:
        assert restoring.list_candidates(runs, "last") == []
    else:
        with pytest.raises(NoCheckpoint, match="x_s1: none"):
            restoring.list_candidates(runs, "last")


def test_a_run_is_given_once(make_runs):
    (run,) = make_runs([10])
    with pytest.raises(ConfigError, match="a run is given twice"):
        train.resume_together([run, run.parent / ".." / run.parent.name / run.name])
