"""Facts about the machine in the status of a run."""

import subprocess

import jax

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


def test_differences_of_versions_and_settings_are_named(monkeypatch):
    then = {"versions": machine.list_versions(), "settings": machine.list_settings()}
    assert machine.list_differences(then) == []
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_max_isa=AVX2 ")
    monkeypatch.setenv("NPROC", "7")
    monkeypatch.setattr(machine, "list_instructions", lambda: "sse4_2")
    before = then["settings"]
    with jax.enable_x64(True), jax.threefry_partitionable(False), jax.default_prng_impl("rbg"):
        assert machine.list_differences(then) == [
            "jax_enable_x64 was False and is True.",
            "jax_default_prng_impl was threefry2x32 and is rbg.",
            "jax_threefry_partitionable was True and is False.",
            f"XLA_FLAGS was {before['XLA_FLAGS']} and is --xla_cpu_max_isa=AVX2.",
            f"threads was {before['threads']} and is 7.",
            f"vector_instructions was {before['vector_instructions']} and is sse4_2.",
        ]
        del then["settings"]  # a run of an older version
        assert machine.list_differences(then) == []
        assert machine.list_differences(then | {"settings": "changed", "versions": 3}) == []


def test_vector_instructions_are_read_on_both_kinds_of_processors(monkeypatch):
    for text, expected in (
        ("model name : x\nflags\t\t: fpu sse4_2 avx2 fma mmx\nflags : avx\n", "avx2 fma sse4_2"),
        ("Features\t: fp asimd sve crc32\n", "asimd sve"),
        ("nothing", "unknown"),
    ):
        monkeypatch.setattr(machine.Path, "read_text", lambda *_, text=text, **__: text)
        assert machine.list_instructions() == expected


def test_a_deleted_working_directory_has_no_commit(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert "here" not in machine.describe_machine()["commits"]
