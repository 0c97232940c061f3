"""Loggers: Spinning Up's rows, without its crashes."""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import errors
from purerl.runs.record.logger import EpochLogger
from tests.mpi.launch import ranks


def table(folder):
    lines = (folder / "progress.txt").read_text().splitlines()
    return [line.split("\t") for line in lines]


def test_rows_have_the_columns_of_spinning_up(tmp_path, capsys):
    logger = EpochLogger(tmp_path / "run", exp_name="mine")
    for epoch in (1, 2):
        logger.store(Loss=1.0, VVals=np.array([1.0, 3.0]))
        logger.store(Loss=2.0 * epoch)
        assert logger.get_stats("Loss") == (0.5 + epoch, abs(epoch - 0.5))
        logger.log_tabular("Epoch", epoch)
        logger.log_tabular("Loss", average_only=True)
        logger.log_tabular("VVals", with_min_and_max=True)
        logger.dump_tabular()
    assert table(tmp_path / "run") == [
        ["Epoch", "Loss", "AverageVVals", "StdVVals", "MaxVVals", "MinVVals"],
        ["1", "1.5", "2.0", "1.0", "3.0", "1.0"],
        ["2", "2.5", "2.0", "1.0", "3.0", "1.0"],
    ]
    rows = [json.loads(x) for x in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert rows[1]["Epoch"] == 2
    said = capsys.readouterr().out
    assert "|           Epoch |               1 |" in said
    assert "|            Loss |             1.5 |" in said


def test_an_epoch_without_values_and_a_new_key_are_allowed(tmp_path):
    logger = EpochLogger(tmp_path, quiet=True)
    logger.log_tabular("Epoch", 1)
    logger.log_tabular("EpRet", with_min_and_max=True)
    logger.dump_tabular()
    logger.store(EpRet=5.0)
    logger.log_tabular("Epoch", 2)
    logger.log_tabular("EpRet", with_min_and_max=True)
    logger.log_tabular("New", "word")
    row = logger.dump_tabular()
    assert row["AverageEpRet"] == 5.0
    assert table(tmp_path) == [
        ["Epoch", "AverageEpRet", "StdEpRet", "MaxEpRet", "MinEpRet", "New"],
        ["1", "nan", "nan", "nan", "nan", ""],
        ["2", "5.0", "0.0", "5.0", "5.0", "word"],
    ]
    logger.log_tabular("Epoch", 3)
    logger.dump_tabular()
    assert table(tmp_path)[3] == ["3", "", "", "", "", ""]


def test_mistakes_are_named(tmp_path):
    logger = EpochLogger(tmp_path, quiet=True)
    logger.log_tabular("x", 1)
    with pytest.raises(ValueError, match="x is already in this row"):
        logger.log_tabular("x", 2)
    with pytest.raises(ValueError, match="without tabs"):
        logger.log_tabular("a\tb", 2)
    logger.dump_tabular()
    with pytest.raises(errors.StorageError, match="never overwrites files"):
        EpochLogger(tmp_path)
    again = EpochLogger(tmp_path, quiet=True, resume=True)
    again.log_tabular("x", 2)
    again.dump_tabular()
    assert table(tmp_path) == [["x"], ["1"], ["2"]]
    (tmp_path / "file").touch()
    with pytest.raises(errors.StorageError, match="could not be written"):
        EpochLogger(tmp_path / "file" / "below")


def test_configurations_and_states_are_plain_files(tmp_path):
    logger = EpochLogger(tmp_path, exp_name="mine", quiet=True)
    logger.save_config({"act": math.tanh, "hid": (64, 64), "lr": np.float32(0.5), "env": None})
    config = json.loads((tmp_path / "config.json").read_text())
    assert config == {"act": "tanh", "hid": [64, 64], "lr": 0.5, "env": None, "exp_name": "mine"}
    path = logger.save_state({"w": jnp.arange(3)}, itr=7)
    assert path == tmp_path / "state7.npz"
    found = np.load(path)
    assert found["['w']"].tolist() == [0, 1, 2]


def test_leaves_that_cannot_be_saved_are_named(tmp_path):
    logger = EpochLogger(tmp_path, quiet=True)
    for state, message in (
        ({"w": jnp.ones(2), "env": object()}, r"state\['env'\] is a object, but only arrays"),
        ([max], r"state\[0\] is a builtin_function_or_method, .* Remove it from the state"),
        ({"a": np.array([None, 1])}, r"state\['a'\] is a ndarray"),
        (jax.random.key(0), r"Save jax\.random\.key_data\(key\) instead"),
    ):
        with pytest.raises(TypeError, match=message):
            logger.save_state(state)
    assert not list(tmp_path.iterdir())
    path = logger.save_state({"word": "x", "number": 3, "flag": True})
    assert np.load(path)["['word']"] == "x"


def test_two_loggers_of_a_process_do_not_write_to_one_table(tmp_path):
    first = EpochLogger(tmp_path, quiet=True)
    with pytest.raises(errors.StorageError, match="belongs to another logger.*resume=True"):
        EpochLogger(tmp_path / ".")
    EpochLogger(tmp_path, output_fname="other.txt")
    EpochLogger(tmp_path, resume=True)
    del first
    EpochLogger(tmp_path)


def test_a_table_of_an_earlier_process_is_not_overwritten(tmp_path):
    (tmp_path / "progress.txt").write_text("x\n1\n")
    with pytest.raises(errors.StorageError, match="already exists.*resume=True"):
        EpochLogger(tmp_path, quiet=True)
    assert (tmp_path / "progress.txt").read_text() == "x\n1\n"


def test_the_colour_of_a_line_is_ignored(tmp_path, capsys):
    logger = EpochLogger(tmp_path)
    logger.log("a", color="green")
    logger.log("b", "red")
    assert capsys.readouterr().out == "a\nb\n"


def test_tabs_and_line_ends_stay_inside_their_cells(tmp_path, capsys):
    logger = EpochLogger(tmp_path)
    said = "a\tb\nc\u2028d"
    for epoch in (1, 2):
        logger.log_tabular("Epoch", epoch)
        logger.log_tabular("Said", said)
        if epoch == 2:
            logger.log_tabular("New", 5)  # the rows before are written again
        logger.dump_tabular()
    cell = "a\\tb\\nc\\u2028d"
    assert table(tmp_path) == [["Epoch", "Said", "New"], ["1", cell, ""], ["2", cell, "5"]]
    assert json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[0])["Said"] == said
    assert f"| {cell:>15} |" in capsys.readouterr().out
    with pytest.raises(ValueError, match="without tabs"):
        logger.log_tabular("a\u2028b", 1)


RANKS = """
import sys; from purerl import mpi; from purerl.runs.record.logger import EpochLogger
logger = EpochLogger(sys.argv[1])
if mpi.proc_id() == 1:
    logger.store(EpRet=3.0); logger.store(EpRet=5.0)
logger.log_tabular("EpRet", with_min_and_max=True)
row = logger.dump_tabular()
assert (row["AverageEpRet"], row["MinEpRet"]) == (4.0, 3.0), row
logger.log_tabular("EpRet", average_only=True)
logger.dump_tabular()
"""


def test_statistics_are_over_all_ranks_and_rank_zero_writes(tmp_path):
    done = ranks(2, "-c", RANKS, str(tmp_path / "run"))
    assert done.code == 0, done.err
    assert table(tmp_path / "run")[1][:4] == ["4.0", "1.0", "5.0", "3.0"]
    assert done.out.count("AverageEpRet") == 1
