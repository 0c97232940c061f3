"""Which part of the package may import which, checked on the source code."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "purerl"
FILES = sorted(ROOT.rglob("*.py"))

# layer -> the layers of the package it may import from, besides itself
BASE = {
    "checks",
    "compiler",
    "errors",
    "fields",
    "lazy",
    "types",
    "spaces",
    "schedules",
    "rng",
    "mpi",
}
CORE = BASE | {"returns", "moments", "nets", "buffers", "envs", "algos", "loops"}
RUNS = CORE | {"runs.console", "runs.interrupts", "runs.record"}
ALLOWED = {
    "errors": set(),
    "fields": set(),
    "lazy": set(),
    "compiler": set(),
    "checks": set(),
    "types": set(),
    "spaces": {"checks", "types"},
    "schedules": {"checks", "fields"},
    "rng": {"checks", "spaces", "types"},
    "mpi": {"checks", "errors"},
    "returns": {"checks"},
    "moments": {"mpi"},
    "nets": BASE,
    "buffers": BASE,
    "envs": BASE,
    "algos": BASE | {"returns", "moments", "nets", "buffers"},
    "loops": CORE,
    "runs.__init__": {"lazy"},
    "runs.console": {"errors"},
    "runs.interrupts": {"mpi"},
    "runs.record": RUNS,
    "runs.settings": RUNS,
    "runs.training": RUNS | {"runs.settings"},
    "runs.policy": RUNS | {"runs.settings", "runs.training"},
    "runs.sweeps": RUNS | {"runs.settings"},
    "runs.analysis": {"errors", "checks", "lazy", "runs.console", "runs.record"},
    "cli": CORE
    | {f"runs.{x}" for x in ("record", "settings", "training", "policy", "sweeps", "analysis")}
    | {"runs.console", "runs.interrupts", "__version__", "setup"},
    "run": {"cli"},
    "__main__": {"cli"},
    "__init__": {"checks", "lazy", "mpi", "runs.policy", "runs.record"},
}


def layer(path: Path) -> str:
    return layer_of(path.relative_to(ROOT).with_suffix("").parts)


def layer_of(parts: tuple[str, ...]) -> str:
    return ".".join(parts[:2]) if parts[0] == "runs" else parts[0]


def imported(path: Path) -> set[str]:
    """Return the dotted names that a file imports, also inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path}"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def is_submodule_list(path: Path, name: str) -> bool:
    """Return whether `name` is a submodule in the `__init__.py` of its package."""
    package = ".".join(("purerl", *path.relative_to(ROOT).parent.parts))
    return path.name == "__init__.py" and name.rpartition(".")[0] == package


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_modules_import_only_from_lower_layers(path):
    mine = layer(path)
    for name in imported(path):
        if name.startswith("purerl.") and not is_submodule_list(path, name):
            other = layer_of(tuple(name.split(".")[1:]))
            assert other == mine or other in ALLOWED[mine], f"{path} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_third_party_packages_are_imported_only_in_their_layers(path):
    mine, names = layer(path).partition(".")[0], imported(path)
    only = {
        "flax.linen": {"nets"},
        "flax": {"nets", "buffers", "algos", "envs"},
        "gymnasium": {"spaces", "loops", "runs", "cli", "envs"},
        "mpi4py": {"mpi"},
        "argparse": {"cli"},
        "numpy.random": {"rng"},
        "random": {"loops"} if path.name == "generators.py" else set(),
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
    # The bootstrap needs random numbers without JAX. Its seed is a constant.
    bootstrap = path == ROOT / "runs" / "analysis" / "statistics.py"
    saved = path == ROOT / "loops" / "adapters" / "generators.py"  # states, for environments
    assert mine == "rng" or bootstrap or saved or "np.random" not in text
    assert mine in ("cli", "runs") or "print(" not in text


def test_the_school_is_imported_by_nothing():
    for path in FILES:  # the command line has the names of its modules as strings
        assert not [name for name in imported(path) if name.startswith("purerl_school")], path


def test_algorithms_do_not_import_each_other():
    for path in (ROOT / "algos").glob("[a-z]*.py"):
        assert not [n for n in imported(path) if n.startswith("purerl.algos")], path


def graph() -> dict[str, set[str]]:
    """Return the imports between modules, also inside functions, but not for type checkers."""
    modules = {
        ".".join(("purerl", *p.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        for p in FILES
    }
    edges: dict[str, set[str]] = {}
    for path in FILES:
        name = ".".join(("purerl", *path.relative_to(ROOT).with_suffix("").parts))
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                node.body = []
        found = {
            f"{node.module}.{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        wanted = {x if x in modules else x.rpartition(".")[0] for x in found}
        edges[name.removesuffix(".__init__")] = wanted & modules
    return edges


def test_there_are_no_import_cycles():
    edges = graph()
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path[path.index(name) :], name))
        if name not in done:
            for other in sorted(edges[name]):
                visit(other, (*path, name))
            done.add(name)

    for name in edges:
        visit(name, ())
