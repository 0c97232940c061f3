"""Rows and lines of each epoch, and logs that are cut back to a checkpoint."""

import dataclasses
import errno
import functools
import io
import json
import types

import gymnasium
import pytest

from purerl import errors
from purerl.algos import acer, dqn
from purerl.loops import gym as loop
from purerl.runs.record import checkpoint_folders, files, progress
from purerl.schedules import OffPolicySchedule, SequenceSchedule
from purerl.spaces import EnvSpec
from tests.runs.script import table


def test_logs_are_cut_back_to_the_checkpoint(tmp_path):
    record = {"epoch": 1, "steps": 10, "updates": 1, "ep_returns": [1.0, 2.0], "ep_lengths": [5, 5]}
    logs = progress.Logs(tmp_path, {})
    logs.add(record)
    logs.write()
    notes = logs.notes()
    for _ in range(2):
        logs.add(record | {"epoch": 2})
    logs.write()
    again = progress.Logs(tmp_path, notes)
    again.add(record | {"epoch": 9})
    again.write()
    assert [row["Epoch"] for row in table(tmp_path / "progress.txt", "\t")] == ["1", "9"]
    assert [row["epoch"] for row in table(tmp_path / "episodes.csv")] == ["1", "1", "9", "9"]
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 2


def test_the_time_of_a_continued_run_includes_the_time_before(tmp_path):
    record = {"epoch": 1, "steps": 10, "updates": 1, "ep_returns": [], "ep_lengths": []}
    logs = progress.Logs(tmp_path, {"seconds": 1e6})
    assert logs.add(record)["Time"] >= 1e6
    assert logs.notes()["seconds"] >= 1e6


@pytest.mark.parametrize("name", ["progress.txt", "metrics.jsonl", "episodes.csv"])
@pytest.mark.parametrize("left", [0, 3])
def test_rows_that_somebody_deleted_are_not_counted(tmp_path, name, left):
    record = {"steps": 10, "updates": 1, "ep_returns": [1.0], "ep_lengths": [5]}
    logs = progress.Logs(tmp_path, {})
    for epoch in range(1, 6):
        logs.add(record | {"epoch": epoch})
    logs.write()
    notes, path = logs.notes(), tmp_path / name
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:left]))
    logs = progress.Logs(tmp_path, notes)
    logs.add(record | {"epoch": 6})
    logs.write()
    notes = logs.notes()
    logs.add(record | {"epoch": 7})
    logs.write()
    again = progress.Logs(tmp_path, notes)  # as if epoch 7 was lost
    again.add(record | {"epoch": 7})
    again.write()
    full = [1, 2, 3, 4, 5, 6, 7]
    few = [*range(1, left + (name == "metrics.jsonl")), 6, 7]
    rows = [int(row["Epoch"]) for row in table(tmp_path / "progress.txt", "\t")]
    ended = [int(row["epoch"]) for row in table(tmp_path / "episodes.csv")]
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert rows == (few if name == "progress.txt" else full)
    assert ended == (few if name == "episodes.csv" else full)
    assert [json.loads(x)["Epoch"] for x in lines] == (few if name == "metrics.jsonl" else full)


RECORD = {
    "epoch": 1,
    "steps": 10,
    "updates": 1,
    "ep_returns": [1.0, 2.0],
    "ep_lengths": [5, 5],
    "q1": 3.0,
    "q1_std": 0.5,
    "q1_min": 2.0,
    "q1_max": 4.0,
    "kl": 0.1,
    "kl_std": 0.2,
}


def test_columns_have_spinning_ups_names():
    found = progress.make_row(RECORD, 1.5)
    assert found["AverageEpRet"] == 1.5
    spread = [found[f"{kind}Q1Vals"] for kind in ("Average", "Std", "Min", "Max")]
    assert spread == [3.0, 0.5, 2.0, 4.0]
    assert found["KL"] == 0.1
    assert "StdKL" not in found  # only losses and values have more than a mean


def test_the_header_is_repeated_when_the_columns_change():
    rows = progress.Table()
    first = rows.format_row([RECORD], 100, False)
    assert [line.split()[:2] for line in first] == [["step", "return"], ["10", "1.5"]]
    assert len(rows.format_row([RECORD], 100, False)) == 1
    wider = rows.format_row([RECORD | {"loss_q": 1.0}], 100, False)
    assert "loss_q" in wider[0]
    assert len(wider[0].split()) == len(wider[1].split())


def test_an_epoch_in_which_no_episode_ended_has_dashes():
    record = RECORD | {"ep_returns": [], "ep_lengths": [], "random_steps": 5}
    _, row = progress.Table().format_row([record], 100, False)
    assert row.split()[:3] == ["10", "-", "-"]


def test_the_result_of_an_evaluation_is_the_last_cell_of_its_row():
    header, row = progress.Table().format_row([RECORD], 100, True)
    row += progress.format_test([RECORD | {"test_returns": [3.0, 4.0]}])
    assert (header.split()[-1], row.split()[-1]) == ("test", "3.5")
    assert len(header) == len(row)
    assert progress.format_test([]) == ""


def test_a_row_of_several_runs_has_the_mean_and_the_range_over_runs(monkeypatch):
    monkeypatch.setattr(progress.time, "monotonic", iter([0.0, 2.0]).__next__)
    other = RECORD | {"ep_returns": [7.5], "ep_lengths": [9], "q1": 4.0, "test_returns": [1.0, 2.0]}
    several = [RECORD | {"test_returns": [3.0, 4.0]}, other, other | {"ep_returns": []}]
    header, row = progress.Table().format_row(several, 100, True)
    row += progress.format_test(several)
    shown = dict(zip(header.split()[:-2], row.split()[:-2], strict=True))
    assert shown == {
        **{"step": "10", "return": "4.5", "min": "1.5", "max": "7.5", "length": "8"},
        **{"q1": "3.667", "kl": "0.100", "steps/s": "15", "left": "0:18", "test": "2.2"},
    }
    assert row.split()[-2:] == ["1.5", "3.5"]
    assert len(header) == len(row)


@pytest.mark.parametrize("name", ["is_success", "success", "other"])
def test_the_success_of_test_episodes_has_a_cell_of_its_own(name, tmp_path):
    record = RECORD | {f"ep_{name}": [0.0, 1.0]}
    header, row = progress.Table().format_row([record], 100, True)
    tests = {"test_returns": [3.0], f"test_{name}": [1.0, 0.0, 1.0]}
    row += progress.format_test([record | tests])
    assert len(header) == len(row)
    shown = ["test", "3.0"] if name == "other" else ["test_success", "0.667"]
    assert [line.split()[-1] for line in (header, row)] == shown
    assert progress.list_logged_success(tmp_path) == ()
    logs = progress.Logs(tmp_path, {})
    logs.add(record)
    logs.write()
    assert progress.list_logged_success(tmp_path) == ((name,) if name != "other" else ())


@pytest.mark.parametrize("name", ["metrics.jsonl", "progress.txt", "episodes.csv"])
def test_rows_refused_by_a_full_disk_are_written_later_completely(tmp_path, monkeypatch, name):
    logs = progress.Logs(tmp_path, {})
    logs.add(RECORD)
    logs.write()
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}

    class Full(io.FileIO):
        def write(self, data):
            super().write(data[:3])
            raise OSError(errno.ENOSPC, "No space left on device")

    def opened(path, mode, **_):
        kind = Full if path.name == name else io.FileIO
        return io.TextIOWrapper(kind(path, mode), write_through=True)

    monkeypatch.setattr(files, "open", opened, raising=False)
    logs.add(RECORD | {"epoch": 2, "ep_returns": [7.0], "ep_lengths": [3]})
    with pytest.raises(errors.StorageError, match="the disk is full"):
        logs.write()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before
    assert (logs.rows, logs.episodes) == (1, 2)
    monkeypatch.undo()
    logs.add(RECORD | {"epoch": 3})
    logs.write()
    found = table(tmp_path / "progress.txt", "\t")
    assert [row["Epoch"] for row in found] == ["1", "2", "3"]
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["Epoch"] for line in lines] == [1, 2, 3]
    episodes = [row["epoch"] for row in table(tmp_path / "episodes.csv")]
    assert episodes == ["1", "1", "2", "3", "3"]


HEADERS = {
    "a letter": lambda line: line.replace("LossPi", "LossPj"),
    "a tab": lambda line: line.replace("\tLossPi", "?LossPi"),
    "an end": lambda line: line[:20],
    "swapped names": lambda line: line.replace("LossPi", "x").replace("KL", "LossPi"),
    "zeros": lambda line: "\0" * len(line),
    "no header": None,
}


@pytest.mark.parametrize("damage", HEADERS)
def test_a_damaged_header_is_corrected_and_later_rows_keep_their_columns(tmp_path, damage):
    record = {"steps": 10, "updates": 1, "ep_returns": [1.0], "ep_lengths": [5], "loss_pi": 1.0}
    record |= {"kl": 0.5, "entropy": 0.25}
    ends = []
    for name in ("whole", "damaged"):
        run = tmp_path / name
        run.mkdir()
        logs = progress.Logs(run, {})
        for epoch in (1, 2):
            logs.add(record | {"epoch": epoch})
        logs.write()
        notes = json.loads(json.dumps(logs.notes()))
        logs.add(record | {"epoch": 3, "new_column": 3.0})  # after the checkpoint
        logs.write()
        path = run / "progress.txt"
        seen = {"progress.txt": checkpoint_folders.hash_logs(run)["progress.txt"]}
        if name == "damaged":
            header, *rows = path.read_text().splitlines()
            new = HEADERS[damage] and HEADERS[damage](header)
            path.write_text("\n".join([new, *rows] if new else rows) + "\n")
            said = checkpoint_folders.find_changes(run, seen, notes["columns"])
            assert any("other column names than before; they are corrected" in x for x in said)
        else:
            assert not checkpoint_folders.find_changes(run, seen, notes["columns"])
        logs = progress.Logs(run, notes)
        logs.add(record | {"epoch": 3, "another": 4.0})
        logs.write()
        found = table(path, "\t")
        ends.append([{k: v for k, v in row.items() if v and k != "Time"} for row in found])
        assert [row["Epoch"] for row in found] == ["1", "2", "3"]
    assert ends[0] == ends[1]


def test_the_header_of_a_run_without_a_checkpoint_is_written_again(tmp_path):
    logs = progress.Logs(tmp_path, {})
    logs.add(RECORD)
    logs.write()
    path = tmp_path / "progress.txt"
    path.write_text(path.read_text().replace("Epoch", "Epoxx"))
    logs = progress.Logs(tmp_path, {})
    logs.add(RECORD)
    logs.write()
    assert [row["Epoch"] for row in table(path, "\t")] == ["1"]
    assert "Epoxx" not in path.read_text()


def test_a_table_that_is_deleted_meanwhile_gets_its_header_again(tmp_path):
    logs = progress.Logs(tmp_path, {})
    for epoch in (1, 2):
        logs.add(RECORD | {"epoch": epoch})
        logs.write()
        if epoch == 1:
            (tmp_path / "progress.txt").unlink()
    assert [row["Epoch"] for row in table(tmp_path / "progress.txt", "\t")] == ["2"]


def test_a_run_that_ends_before_its_first_update_says_so():
    schedule = OffPolicySchedule(steps=500, update_after=2_000, start_steps=0).resolve(1)
    said = progress.describe_schedule(types.SimpleNamespace(schedule=schedule, steps=0))
    assert said == (
        "warning: this run ends before its first update (update_after 2,000); a row every 50 steps"
    )
    learns = OffPolicySchedule(steps=2_000, update_after=2_000, start_steps=0).resolve(1)
    said = progress.describe_schedule(types.SimpleNamespace(schedule=learns, steps=0))
    assert said == "50 updates every 50 steps, a row every 100 steps"


def test_a_run_with_sequences_says_how_many_updates_it_replays():
    schedule = SequenceSchedule(steps=100_000)
    for changes, wanted in (
        ({}, "an update every 20 steps and on average 4 replayed ones after replay_start 8,000"),
        ({"replay_ratio": 0.0}, "an update every 20 steps"),
        (
            {"replay_start": 20_000, "steps": 10_000},
            "warning: this run ends before its first replayed update (replay_start 20,000)",
        ),
    ):
        resolved = dataclasses.replace(schedule, **changes).resolve(1)
        said = progress.describe_schedule(types.SimpleNamespace(schedule=resolved, steps=0))
        assert said == f"{wanted}, a row every {resolved.steps_per_epoch:,} steps"


def test_the_sizes_of_a_run_name_the_rows_of_its_replay_buffer():
    def describe(algo):
        env_fn = functools.partial(gymnasium.make, "CartPole-v1")
        spec = algo.Spec(EnvSpec.of(env_fn()), hidden=(4,))
        schedule = dataclasses.replace(algo.SCHEDULE, replay_size=4_000)
        return progress.describe_sizes(loop.start(algo, spec, env_fn, schedule, 0))

    assert "replay buffer of 200 sequences of 20 rows = 0 MB" in describe(acer)
    assert "replay buffer of 4,000 rows = 0 MB" in describe(dqn)
