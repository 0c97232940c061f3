"""Finding the runs that paths lead to."""

import pytest

from purerl.errors import ConfigError
from tests.runs.analysis.made_tables import found, ours, seeds


def test_a_path_is_a_run_a_folder_a_table_or_how_a_name_begins(tmp_path, monkeypatch):
    data = tmp_path / "data"
    seeds(data, "xyz-1", [1, 2])
    seeds(data, "xyz-20", [3])
    seeds(data, "other", [4])
    one = ["xyz-1_CartPole-v1_s0", "xyz-1_CartPole-v1_s1"]
    both = [*one, "xyz-20_CartPole-v1_s0"]
    home = {"data_dir": str(data)}
    assert found(data / "xyz-1" / one[1]) == ([one[1]], [])
    assert found(data / "xyz-1" / one[1] / "progress.txt")[0] == [one[1]]
    assert found(data / "xyz-1")[0] == one
    assert found(data / "xyz")[0] == both
    assert found(f"{data}/xyz*")[0] == both
    assert found("xyz-1", **home)[0] == one  # a name that is there is not the start of others
    assert found("xyz-", **home)[0] == both
    assert found("xyz*", **home)[0] == both
    assert len(found(data)[0]) == 4
    assert found(data, data / "xyz-1")[0] == found(data)[0]  # each once
    (tmp_path / "xyz").mkdir()  # a folder without runs is not what was meant
    monkeypatch.chdir(tmp_path)
    assert found("xyz", **home)[0] == both
    monkeypatch.setenv("PURERL_DATA_DIR", str(data))
    assert found("other")[0] == ["other_CartPole-v1_s0"]
    for word in ("nothing", "", f"{data}/xy/", "../nothing*"):
        with pytest.raises(ConfigError, match=r"no runs at .*progress.txt or monitor.csv"):
            found(word, **home)


@pytest.mark.parametrize("status", ["status.json", "manifest.json"])
def test_a_run_without_a_finished_epoch_is_named(tmp_path, monkeypatch, status):
    new = ours(tmp_path / "data" / "new" / "new_s0", [], "new")
    (new / "progress.txt").unlink()
    (new / status).write_text("{}")
    monkeypatch.chdir(tmp_path)
    for word in ("new", "data/new/new_s0", "ne"):
        with pytest.raises(ConfigError, match=r"new_s0 has no finished epoch yet\.$"):
            found(word, data_dir="data")
    seeds(tmp_path / "data", "old", [1])
    kept = (["old_CartPole-v1_s0"], ["left out: data/new/new_s0 has no finished epoch yet."])
    assert found("data") == kept


def test_folders_are_selected_and_excluded_by_parts_of_their_path(tmp_path):
    for name in ("ppo-small", "ppo-large", "sac-small"):
        seeds(tmp_path, name, [0])
    assert len(found(tmp_path, select=["ppo"])[0]) == 2
    assert found(tmp_path, select=["ppo", "small"])[0] == ["ppo-small_CartPole-v1_s0"]
    assert found(tmp_path, exclude=["ppo", "large"])[0] == ["sac-small_CartPole-v1_s0"]
    with pytest.raises(ConfigError, match="select and exclude leave none"):
        found(tmp_path, select=["ppo"], exclude=["ppo"])


def test_checkpoints_are_not_searched_and_numbers_are_in_their_order(tmp_path):
    for name in ("c10", "c2"):
        seeds(tmp_path, name, [0])
    ours(tmp_path / "c2" / "c2_CartPole-v1_s0" / "checkpoints" / "x", [1])
    assert found(tmp_path)[0] == ["c2_CartPole-v1_s0", "c10_CartPole-v1_s0"]
