"""`import purerl` is enough to reach every public module; each loads on first use."""

import importlib
from pathlib import Path

import pytest

import purerl
from purerl.lazy import load_on_use

ROOT = Path(purerl.__file__).parent
PACKAGES = ["buffers", "envs", "envs.classic", "loops", "runs"]
PARTS = ["analysis", "policy", "record", "settings", "sweeps", "training"]


@pytest.mark.parametrize("name", [*PACKAGES, *(f"runs.{part}" for part in PARTS)])
def test_every_public_name_of_a_package_is_a_submodule_that_loads(name):
    package = importlib.import_module(f"purerl.{name}")
    for one in package.__all__:
        assert package.__getattr__(one) is importlib.import_module(f"purerl.{name}.{one}")


@pytest.mark.parametrize("part", PARTS)
def test_parts_of_runs_list_all_their_modules(part):
    files = {path.stem for path in (ROOT / "runs" / part).glob("[a-z]*.py")}
    assert {*importlib.import_module(f"purerl.runs.{part}").__all__} == files


def test_other_names_are_refused_like_missing_attributes():
    with pytest.raises(AttributeError, match="module 'purerl' has no attribute 'algorithms'"):
        purerl.algorithms  # noqa: B018 - the attribute is the test
    load = load_on_use("purerl.buffers", ["replay"])
    assert load("replay") is purerl.buffers.replay
    with pytest.raises(AttributeError, match="module 'purerl.buffers' has no attribute 'goals'"):
        load("goals")
