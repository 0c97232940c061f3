"""Supported versions of Python: one list, in the classifiers of pyproject.toml."""

import sys
import tomllib
from pathlib import Path

from tests import versions

ROOT = Path(__file__).parents[1]


def test_pages_name_the_supported_versions():
    names = ["{}.{}".format(*version) for version in versions.list_supported()]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={names[0]}"
    text = f"You need Linux, Python {', '.join(names[:-1])} or {names[-1]},"
    for page in ("README.md", "docs/start/install.md"):
        assert text in (ROOT / page).read_text(), page


def test_an_interpreter_is_found_if_it_starts(tmp_path, monkeypatch):
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    version = sys.version_info[:2]
    name = "{}.{}".format(*version)
    assert versions.find_python(version) is None
    shim = tmp_path / f"python{name}"  # of pyenv, for a version that is not active
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    assert versions.find_python(version) is None
    own = tmp_path / "versions" / f"{name}.9" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.symlink_to(sys.executable)
    assert versions.find_python(version) == str(own)
    assert versions.find_python((3, 99)) is None


def test_a_missing_newer_python_is_reported(monkeypatch, capsys):
    monkeypatch.setattr(versions, "find_python", lambda version: None)
    versions.run_smoke()
    assert capsys.readouterr().out == "no newer supported Python was found: skipped\n"
