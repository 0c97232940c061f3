"""DESIGN's arrows: who may import whom, checked on the source."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "purerl"
FILES = sorted(ROOT.rglob("*.py"))

# layer -> the layers of the package it may import from, besides itself
BASE = {"checks", "types", "rng", "mpi"}
ALLOWED = {
    "checks": set(),
    "types": {"checks"},
    "rng": {"checks", "types"},
    "mpi": {"checks"},
    "_setup": {"checks", "mpi"},
    "returns": BASE,
    "nets": BASE,
    "buffers": BASE,
    "envs": BASE,
    "algos": BASE | {"returns", "nets", "buffers"},
    "loops": BASE | {"returns", "buffers", "algos", "envs"},
    "runs": BASE | {"algos", "buffers", "loops", "envs", "_setup", "cli"},
    "cli": BASE | {"algos", "loops", "runs", "_setup", "__version__", "train", "load"},
    "run": {"cli"},
    "__main__": {"cli"},
    "__init__": {"_setup", "runs"},
}


def layer(path: Path) -> str:
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Dotted names a file imports, at any depth of its code."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path}"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_arrows_point_downwards(path):
    mine = layer(path)
    for name in imported(path):
        if name.startswith("purerl."):
            other = name.split(".")[1]
            assert other == mine or other in ALLOWED[mine], f"{path} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_foreign_packages_stay_in_their_layers(path):
    mine, names = layer(path), imported(path)
    only = {
        "flax.linen": {"nets"},
        "flax": {"nets", "buffers", "algos", "envs"},
        "gymnasium": {"types", "loops", "runs", "cli", "envs"},
        "mpi4py": {"mpi"},
        "argparse": {"cli", "runs"},
        "numpy.random": {"rng"},
        "random": set(),
    }
    for package, layers in only.items():
        for name in names:
            linen = name in ("flax.linen", "flax.linen.nn") or name.startswith("flax.linen.")
            if (
                name == package
                or name.startswith(f"{package}.")
                or (package == "flax.linen" and linen)
            ):
                assert mine in layers, f"{path} imports {name}"
    text = path.read_text()
    assert mine == "rng" or "np.random" not in text
    assert mine in ("cli", "runs") or "print(" not in text


def test_algorithms_do_not_import_each_other():
    for path in (ROOT / "algos").glob("*.py"):
        assert not [n for n in imported(path) if n.startswith("purerl.algos")], path
