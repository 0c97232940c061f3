"""Changes to the configuration and the logs beside a checkpoint are noticed, later rows are not."""

import pytest

from purerl.runs.record import log_hashes

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


def test_rows_and_columns_that_come_later_do_not_matter(run):
    then = log_hashes.hash_logs(run)
    assert set(then) == set(FILES)
    assert not log_hashes.find_changes(run, then)
    for name in ("metrics.jsonl", "episodes.csv"):
        (run / name).write_text(FILES[name] + "later\n")
    (run / "progress.txt").write_text("Epoch\tA\tLate\n1\t2\t\n\n3\t4\t5\n")
    assert not log_hashes.find_changes(run, then)


@pytest.mark.parametrize("name", FILES)
def test_a_changed_cut_or_deleted_file_is_named(run, name):
    then = log_hashes.hash_logs(run)
    text = FILES[name].rstrip("\n")
    for other in (text[:-1] + "9", text[:-1]):
        (run / name).write_text(other)
        (message,) = log_hashes.find_changes(run, then)
        assert name in message
        assert "was changed after the checkpoint" in message
    (run / name).unlink()
    (message,) = log_hashes.find_changes(run, then)
    assert "is missing" in message


def test_a_configuration_must_not_grow(run):
    then = log_hashes.hash_logs(run)
    (run / "config.json").write_text(FILES["config.json"] + " ")
    assert "config.json was changed" in log_hashes.find_changes(run, then)[0]
