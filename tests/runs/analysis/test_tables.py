"""Find runs, read their tables, and find columns in them."""

import math

import numpy as np
import pytest

from purerl.errors import ConfigError
from purerl.runs.analysis import tables
from tests.runs.analysis.made_tables import find_names, write_foreign_run, write_run, write_seeds


def test_a_path_is_a_run_a_folder_a_table_or_the_beginning_of_a_name(tmp_path, monkeypatch):
    data = tmp_path / "data"
    write_seeds(data, "xyz-1", [1, 2])
    write_seeds(data, "xyz-20", [3])
    write_seeds(data, "other", [4])
    one = ["xyz-1_CartPole-v1_s0", "xyz-1_CartPole-v1_s1"]
    both = [*one, "xyz-20_CartPole-v1_s0"]
    home = {"data_dir": str(data)}
    assert find_names(data / "xyz-1" / one[1]) == ([one[1]], [])
    assert find_names(data / "xyz-1" / one[1] / "progress.txt")[0] == [one[1]]
    assert find_names(data / "xyz-1")[0] == one
    assert find_names(data / "xyz")[0] == both
    assert find_names(f"{data}/xyz*")[0] == both
    assert find_names("xyz-1", **home)[0] == one  # an existing name does not match longer names
    assert find_names("xyz-", **home)[0] == both
    assert find_names("xyz*", **home)[0] == both
    assert len(find_names(data)[0]) == 4
    assert find_names(data, data / "xyz-1")[0] == find_names(data)[0]  # each run once
    (tmp_path / "xyz").mkdir()  # a folder without runs is passed over
    monkeypatch.chdir(tmp_path)
    assert find_names("xyz", **home)[0] == both
    monkeypatch.setenv("PURERL_DATA_DIR", str(data))
    assert find_names("other")[0] == ["other_CartPole-v1_s0"]
    for word in ("nothing", "", f"{data}/xy/", "../nothing*"):
        with pytest.raises(ConfigError, match=r"no runs at .*progress.txt or monitor.csv"):
            find_names(word, **home)


@pytest.mark.parametrize("status", ["status.json", "manifest.json"])
def test_a_run_without_a_finished_epoch_is_named(tmp_path, monkeypatch, status):
    new = write_run(tmp_path / "data" / "new" / "new_s0", [], "new")
    (new / "progress.txt").unlink()
    (new / status).write_text("{}")
    monkeypatch.chdir(tmp_path)
    for word in ("new", "data/new/new_s0", "ne"):
        with pytest.raises(ConfigError, match=r"new_s0 has no finished epoch yet\.$"):
            find_names(word, data_dir="data")
    write_seeds(tmp_path / "data", "old", [1])
    kept = (["old_CartPole-v1_s0"], ["left out: data/new/new_s0 has no finished epoch yet."])
    assert find_names("data") == kept


def test_folders_are_selected_and_excluded_by_parts_of_their_path(tmp_path):
    for name in ("ppo-small", "ppo-large", "sac-small"):
        write_seeds(tmp_path, name, [0])
    assert len(find_names(tmp_path, select=["ppo"])[0]) == 2
    assert find_names(tmp_path, select=["ppo", "small"])[0] == ["ppo-small_CartPole-v1_s0"]
    assert find_names(tmp_path, exclude=["ppo", "large"])[0] == ["sac-small_CartPole-v1_s0"]
    with pytest.raises(ConfigError, match="select and exclude leave no run"):
        find_names(tmp_path, select=["ppo"], exclude=["ppo"])


def test_checkpoints_are_not_searched_and_numbers_are_sorted_by_value(tmp_path):
    for name in ("c10", "c2"):
        write_seeds(tmp_path, name, [0])
    write_run(tmp_path / "c2" / "c2_CartPole-v1_s0" / "checkpoints" / "x", [1])
    assert find_names(tmp_path)[0] == ["c2_CartPole-v1_s0", "c10_CartPole-v1_s0"]


TABLE = "Epoch\tAverageEpRet\tTotalEnvInteracts\n"


def read(tmp_path, text):
    run = write_foreign_run(tmp_path / "run", text)
    ((one, *_), notes) = tables.find_runs([str(run)])
    assert not notes
    return one


def test_a_table_with_missing_entries_and_an_incomplete_line_is_read(tmp_path):
    rows = "1\t2.5\t100\n2\t\t200\n3\n4\tinf\t400\n\n5\t1e200\t500\n6\tword\t600\n7\t7\t70"
    columns = read(tmp_path, TABLE + rows).columns
    assert columns["Epoch"].tolist() == [1, 2, 3, 4, 5, 6]
    np.testing.assert_array_equal(columns["AverageEpRet"], [2.5] + [math.nan] * 5)
    steps = [100, 200, math.nan, 400, 500, 600]
    np.testing.assert_array_equal(columns["TotalEnvInteracts"], steps)


def test_a_table_cut_at_any_byte_gives_its_complete_rows(tmp_path):
    whole = TABLE + "1\t10.5\t1000\n2\t20.5\t2000\n3\t30.5\t3000\n"
    path = write_foreign_run(tmp_path / "run", whole) / "progress.txt"
    for cut in range(len(whole)):
        path.write_text(whole[:cut])
        rows = whole[:cut].count("\n") - 1
        if rows < 1:
            with pytest.raises(ConfigError, match=f"left out: {path} "):
                tables.find_runs([str(path)])
        else:
            ((run, *_), _) = tables.find_runs([str(path)])
            assert run.columns["AverageEpRet"].tolist() == [10.5, 20.5, 30.5][:rows]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is not a table: its first line must contain column names"),
        (b"hello\nworld\n", "is not a table: its first line must contain column names"),
        (b"1\t2\n3\t4\n", "is not a table: its first line must contain column names"),
        (b"a\tb\n", "has no complete row yet"),
        (b"a\tb\n1\t2\n1\t2\t3\n", "is not a table: row 2 has 3 entries, the header 2"),
        (b"\xff\xfe\x00\n", "is not a text file"),
        (b"\x80\x04\x95pickle\n.", "is not a text file"),
    ],
)
def test_a_file_that_is_not_a_table_is_named_and_the_others_are_read(tmp_path, content, reason):
    bad = write_foreign_run(tmp_path / "bad", "") / "progress.txt"
    bad.write_bytes(content)
    write_seeds(tmp_path, "good", [1])
    names, notes = find_names(tmp_path)
    assert names == ["good_CartPole-v1_s0"]
    assert len(notes) == 1
    assert notes[0].startswith(f"left out: {bad} {reason}")
    with pytest.raises(ConfigError, match="left out"):
        find_names(bad)


def test_tables_may_be_long(tmp_path):
    row = "\t".join(["0.1234567890123456"] * 4) + "\n"
    run = write_foreign_run(tmp_path / "a", "Epoch\ta\tb\tAverageEpRet\n" + 60_000 * row)
    monitor = tmp_path / "b" / "monitor.csv"
    monitor.parent.mkdir()
    monitor.write_text('#{"t_start": 0}\nr,l,t\n' + 300_000 * "-1.0,200,1234.5\n")
    assert min(path.stat().st_size for path in (run / "progress.txt", monitor)) > 4 * 2**20
    (one, other), notes = tables.find_runs([str(run), str(monitor)])
    assert not notes
    assert one.columns["AverageEpRet"].shape == (60_000,)
    assert other.columns["EpRet"].sum() == -300_000


def test_short_rows_below_a_long_header_do_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MOST", 1_000)
    names = "\t".join(f"c{i}" for i in range(100))
    write_seeds(tmp_path, "good", [1])
    write_foreign_run(tmp_path / "bad", f"{names}\n" + "1\n" * 11)
    assert find_names(tmp_path) == (
        ["good_CartPole-v1_s0"],
        [f"left out: {tmp_path}/bad/progress.txt is too large: it has more than 1,000 cells."],
    )


def test_a_monitor_that_is_not_csv_is_named(tmp_path):
    (tmp_path / "monitor.csv").write_text('#{"t_start": 0}\nr,l,t\n"' + 140_000 * "1\n")
    with pytest.raises(ConfigError, match="is not a table: field larger than field limit"):
        tables.find_runs([str(tmp_path)])


def test_spinning_ups_runs_have_the_name_and_seed_of_their_configuration(tmp_path):
    text = TABLE + "1\t2\t100\n"
    odd = {"logger": {"<spinup.Logger at 0x7f>": {}}, "env_fn": "<function at 0x7f>"}
    for seed in (0, 10):
        write_foreign_run(tmp_path / "x" / f"x_s{seed}", text, exp_name="walker", seed=seed, **odd)
    write_foreign_run(tmp_path / "plain_s3", text)
    write_foreign_run(tmp_path / "net_64", text)
    broken = write_foreign_run(tmp_path / "broken_seed7", text)
    (broken / "config.json").write_text("{" * 10)
    runs, notes = tables.find_runs([str(tmp_path)])
    assert sorted((run.name, run.seed) for run in runs if run.seed is not None) == [
        ("broken", 7),
        ("plain", 3),
        ("walker", 0),
        ("walker", 10),
    ]
    assert [run.name for run in runs if run.seed is None] == ["net_64"]
    assert len(notes) == 1
    assert "without its configuration: " in notes[0]


def test_monitors_of_several_environments_are_one_run_in_the_order_of_time(tmp_path):
    folder = tmp_path / "sb3_s4"
    folder.mkdir()
    (folder / "0.monitor.csv").write_text(
        '#{"t_start": 1000.0, "env_id": "Pendulum-v1"}\nr,l,t\n-5.0,200,1.0\n-3.0,100,4.0\n-1,'
    )
    (folder / "1.monitor.csv").write_text('#{"t_start": 1000.5}\nr,l,t,x\n-9.0,50,1.5,"a,b"\n')
    ((run,), notes) = tables.find_runs([str(folder)])
    assert not notes
    assert (run.name, run.seed, run.settings) == ("sb3", 4, {"env": "Pendulum-v1"})
    assert {k: x.tolist() for k, x in run.columns.items()} == {
        "EpRet": [-5.0, -9.0, -3.0],
        "EpLen": [200, 50, 100],
        "TotalEnvInteracts": [200, 250, 350],
        "Time": [1.0, 2.0, 4.0],
    }
    assert tables.find_column(run, "Performance") == "EpRet"
    (folder / "0.monitor.csv").write_text("r,l,t\n1,2,3\n")
    with pytest.raises(ConfigError, match=r"0.monitor.csv is not a table: its first line must be"):
        tables.find_runs([str(folder)])


def test_columns_are_found_by_their_names_and_by_aliases(tmp_path):
    write_run(tmp_path / "run", [1.0, 2.0], test=[5.0, 6.0])
    ((run,), _) = tables.find_runs([str(tmp_path)])
    words = {
        "Performance": "AverageTestEpRet",
        "return": "AverageTestEpRet",
        "AverageEpRet": "AverageEpRet",
        "EpRet": "AverageEpRet",
        "average_ep_ret": "AverageEpRet",
        "steps": "TotalEnvInteracts",
        "time": "Time",
        "epoch": "Epoch",
        "updates": "",
    }
    assert {word: tables.find_column(run, word) for word in words} == words
    empty = run._replace(columns=run.columns | {"AverageTestEpRet": np.full(2, math.nan)})
    assert tables.find_column(empty, "Performance") == "AverageEpRet"
    assert tables.select_runs([run, empty], ["steps", "AverageTestEpRet"], []) == [run]
    with pytest.raises(ConfigError, match=r"no run has a column 'Tine'. Did you mean 'Time'\?"):
        tables.select_runs([run], ["steps", "Tine"], [])
