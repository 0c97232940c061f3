"""Group runs into conditions, and drop repeated seeds."""

import pytest

from purerl.errors import ConfigError
from purerl.runs.analysis import groups, tables
from tests.runs.analysis.made_tables import (
    compare_quietly,
    write_foreign_run,
    write_run,
    write_seeds,
)

TABLE = "Epoch\tAverageEpRet\tTotalEnvInteracts\n"


def labels(*paths):
    runs, notes = tables.find_runs([str(path) for path in paths])
    gathered = groups.make_conditions(groups.drop_duplicates(runs, notes))
    return {k: sorted(run.path.name for run in same) for k, same in gathered.items()}, notes


def test_runs_that_differ_only_in_their_seed_are_one_condition(tmp_path):
    write_seeds(tmp_path, "a", [1, 2], gamma=0.99)
    write_seeds(tmp_path, "b", [1, 2], gamma=0.99)
    write_seeds(tmp_path / "more", "a", [1], gamma=0.9, lr=[1, 2])
    got, notes = labels(tmp_path)
    assert not notes
    assert got == {
        "a (gamma=0.99)": ["a_CartPole-v1_s0", "a_CartPole-v1_s1"],
        "a (gamma=0.9, lr=[1, 2])": ["a_CartPole-v1_s0"],
        "b": ["b_CartPole-v1_s0", "b_CartPole-v1_s1"],
    }


def test_a_seed_counts_once(tmp_path):
    write_run(tmp_path / "new" / "a_s0", [1.0], seed=0)
    write_run(tmp_path / "new" / "a_s0-2", [1.0, 2.0], seed=0)
    write_run(tmp_path / "new" / "a_s1", [1.0], seed=1)
    got, notes = labels(tmp_path / "new")
    assert got == {"a": ["a_s0-2", "a_s1"]}
    new = tmp_path / "new"
    assert notes == [f"left out: {new}/a_s0 repeats settings and seed of {new}/a_s0-2."]
    write_run(tmp_path / "later" / "a_s2", [1.0], seed=2)
    assert labels(tmp_path)[0] == {"a": ["a_s0-2", "a_s1", "a_s2"]}
    write_run(tmp_path / "old" / "a_s1", [3.0], seed=1)  # the same settings, perhaps other code
    got, _ = labels(tmp_path / "new", tmp_path / "old")
    assert got == {f"a ({tmp_path}/new)": ["a_s0-2", "a_s1"], f"a ({tmp_path}/old)": ["a_s1"]}


def test_runs_without_a_seed_are_all_counted(tmp_path):
    for name in ("one", "two"):
        write_foreign_run(tmp_path / name, TABLE + "1\t2\t100\n", exp_name="x")
    got, notes = labels(tmp_path)
    assert (got, notes) == ({"x": ["one", "two"]}, [])


def test_a_legend_labels_paths_or_conditions_and_joins_equal_labels(tmp_path):
    paths = [
        write_seeds(tmp_path, "a", [1, 2]),
        write_seeds(tmp_path, "b", [3]),
        write_seeds(tmp_path, "c", [4]),
    ]
    runs, _ = tables.find_runs([str(path) for path in paths])

    def named(legend, number):
        got = groups.gather_conditions(runs, legend, number, False, [])
        return [(label, len(same)) for label, same in got.items()]

    assert named(["X", "Y", "X"], 3) == [("X", 3), ("Y", 1)]
    assert named(["X", "Y\x1b", "Z"], 1) == [("X", 2), ("Y?", 1), ("Z", 1)]
    with pytest.raises(ConfigError, match=r"per path \(1\) or per condition \(3: a, b, c\), got 2"):
        named(["X", "Y"], 1)


def test_with_count_every_run_is_labelled_by_its_folder(tmp_path):
    write_run(tmp_path / "x" / "a_s0", [1.0], seed=0)
    write_run(tmp_path / "x" / "a_s0-2", [1.0, 2.0], seed=0)
    write_run(tmp_path / "y" / "b_s7", [1.0], "b", seed=7)
    runs, _ = tables.find_runs([str(tmp_path)])
    notes = []
    each = groups.gather_conditions(runs, [], 1, True, notes)
    assert [(label, len(same)) for label, same in each.items()] == [
        ("a_s0", 1),
        ("a_s0-2", 1),
        ("b_s7", 1),
    ]
    assert notes == [
        f"also drawn: {tmp_path}/x/a_s0 repeats settings and seed of {tmp_path}/x/a_s0-2."
    ]
    each = groups.gather_conditions(runs, ["A", "B"], 1, True, [])
    assert list(each) == ["A: a_s0", "A: a_s0-2", "B: b_s7"]
    write_run(tmp_path / "y" / "a_s0", [3.0], seed=0)
    runs, _ = tables.find_runs([str(tmp_path)])
    each = groups.gather_conditions(runs, [], 1, True, [])
    assert list(each) == ["x/a_s0", "x/a_s0-2", "y/a_s0", "y/b_s7"]


def test_labels_from_files_are_short_and_without_control_characters(tmp_path):
    write_run(tmp_path / "x" / "run", [1.0], name="\x1b[31mred\n\u202ename" + "y" * 500)
    ((label,), _) = (list(part) for part in labels(tmp_path))
    assert label.startswith("?[31mred??name")
    assert len(label) == 80


def test_a_seed_with_equal_settings_counts_once_under_any_name(tmp_path):
    for name in ("same", "again", "more", "yet", "last"):
        write_run(tmp_path / name / f"{name}_s0", [17, 17], name, 0, clip=0.2)
    write_run(tmp_path / "again" / "again_s0-2", [17, 17, 17], "again", 0, clip=0.2)  # the longest
    write_seeds(tmp_path, "other", [18, 19, 20, 21, 22], clip=0.1)
    found = compare_quietly(tmp_path, group="clip")
    rows = {row.condition: (row.scores, row.seeds) for row in found.rows}
    assert rows == {"0.1": ((18, 19, 20, 21, 22), 5), "0.2": ((17,), 1)}
    assert found.pairs[0].verdict == "no claim: fewer than 5 seeds"
    kept = tmp_path / "again" / "again_s0-2"
    assert sum(note.endswith(f"settings and seed of {kept}.") for note in found.notes) == 5
