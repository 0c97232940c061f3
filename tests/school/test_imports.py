"""The school uses the public names of purerl only."""

import importlib
from pathlib import Path

import pytest

import purerl_school
from tests.test_layers import imported

ROOT = Path(purerl_school.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
# What commands need: flags, their values, and printing.
HELPERS = {"purerl.lazy", "purerl.cli.options", "purerl.cli.values"}
HELPERS |= {"purerl.runs.console", "purerl.runs.interrupts"}


def is_public(name: str) -> bool:
    """Return whether each part of a dotted name is in `__all__` of what it belongs to."""
    if any(name == helper or name.startswith(f"{helper}.") for helper in HELPERS):
        return not name.rpartition(".")[2].startswith("_")
    owner, *parts = name.split(".")
    found: object = importlib.import_module(owner)
    for part in parts:
        names = getattr(found, "__all__", None)
        if part.startswith("_") or (names is not None and part not in names):
            return False
        found = getattr(found, part)
    return True


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_public_names_of_purerl_are_imported(path):
    for name in imported(path):
        if name.partition(".")[0] == "purerl":
            assert is_public(name), name


def test_private_names_are_not_public():
    assert is_public("purerl.algos.ppo")
    assert is_public("purerl.types.Batch")
    assert not is_public("purerl.algos.ppo._scan")
    assert not is_public("purerl.fields")
