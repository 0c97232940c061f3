"""Facts about the machine in the status of a run."""

import subprocess

from purerl.runs.record import machine


def test_a_commit_is_read_in_a_folder_of_a_repository_and_in_a_worktree(tmp_path, monkeypatch):
    def git(*words):
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        command = ["git", "-C", str(repository), *who, *words]
        return subprocess.check_output(command, text=True, stderr=subprocess.STDOUT).strip()

    repository = tmp_path / "repository"
    (repository / "below").mkdir(parents=True)
    assert machine.read_commit(repository) == ""
    git("init", "-q")
    assert machine.read_commit(repository) == ""  # no commit yet
    git("commit", "-q", "--allow-empty", "-m", "first")
    first = git("rev-parse", "HEAD")
    assert len(first) == 40
    assert machine.read_commit(repository / "below") == first
    git("worktree", "add", "-q", str(tmp_path / "tree"))
    git("commit", "-q", "--allow-empty", "-m", "second")
    assert machine.read_commit(tmp_path / "tree") == first
    assert machine.read_commit(repository) == git("rev-parse", "HEAD") != first
    monkeypatch.setenv("PATH", str(tmp_path))  # without git
    assert machine.read_commit(repository) == ""


def test_the_description_names_versions_and_machine():
    found = machine.describe_machine()
    assert {"versions", "cpu", "cores", "command", "commits"} <= set(found)
    assert found["versions"]["jax"] == machine.list_versions()["jax"]
