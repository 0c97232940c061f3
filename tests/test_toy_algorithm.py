"""Adding an algorithm takes changes in five files. All commands then support it."""

import filecmp
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mpi.launch import clean

ROOT = Path(__file__).parents[1]
MODULE, TABLE = Path("purerl/algos/toy.py"), Path("purerl/algos/__init__.py")
TEST, CASES = Path("tests/algos/test_toy.py"), Path("tests/cases.py")
PAGE = Path("docs/algorithms/toy.md")
FIVE_PLACES = {MODULE, TABLE, TEST, CASES, PAGE}

ENTRY = """ALGORITHMS = {
    "toy": Algorithm("Toy", ("discrete",), {"toy_kl": "AverageToyKL"}, ("toy_kl",)),
"""
CHANGES = {  # changes in REINFORCE's source: first line, a new setting, the name of a metric
    r'^r?"""[^\n]*': 'r"""TOY: an algorithm that a test adds.',
    r"\n    gamma: float =": r'\n    toy_rate: float = setting(0.25, "rate of the toy")\g<0>',
    r'info\["kl"\]': 'info["toy_kl"]',
}
CASE = """
from purerl.algos import toy

CASES["toy"] = CASES["reinforce-discrete"]._replace(algo=toy)
"""
USE = """
import sys
from pathlib import Path

from purerl.cli.main import main
from tests.cases import CASES

assert CASES["toy"].algo.__name__ == "purerl.algos.toy"
line = "train toy --env CartPole-v1 --steps 200 --steps-per-epoch 100 --toy-rate 0.5 --hidden 4"
for command in (
    "list algos", "list envs toy", "list envs td3", "show toy", "train toy --help",
    "train toy --quiet-please", f"{line} --data-dir data",
    "sweep toy --env CartPole-v1 --grid toy_rate=0.5,7 --dry-run",
    "export data/cartpole-v1-toy/cartpole-v1-toy_s0 --out policy",
):
    print(f"--- {command}", flush=True)
    try:
        code = main(command.split())
    except SystemExit as stop:
        code = stop.code
    print(f"exit code {code}", flush=True)
"""


def files(root):
    return {
        path.relative_to(root)
        for part in ("purerl", "purerl_school", "tests", "docs")
        for path in (root / part).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """Copy the project and add a toy algorithm, which is REINFORCE with one more setting."""
    root = tmp_path_factory.mktemp("copy")
    for part in ("purerl", "purerl_school", "tests", "docs"):
        ignored = shutil.ignore_patterns("__pycache__", "results")
        shutil.copytree(ROOT / part, root / part, ignore=ignored)
    source = (ROOT / "purerl/algos/reinforce.py").read_text()
    for pattern, new in CHANGES.items():
        source, number = re.subn(pattern, new, source, count=1)
        assert number == 1, pattern
    (root / MODULE).write_text(source)
    for path, text in ((TABLE, "ALGORITHMS = {\n"), (CASES, "")):
        old = (root / path).read_text()
        (root / path).write_text(old.replace(text, ENTRY, 1) if text else old + CASE)
    (root / TEST).write_text("def test_the_toy_has_its_own_test():\n    pass\n")
    (root / PAGE).parent.mkdir(exist_ok=True)
    (root / PAGE).write_text("# Toy\n")
    return root


@pytest.fixture(scope="module")
def shown(copy):
    """Run all commands, and return what each one printed."""
    (copy / "use.py").write_text(USE)
    env = clean() | {"PYTHONPATH": str(copy), "COLUMNS": "100"}
    line = [sys.executable, "use.py"]
    done = subprocess.run(line, cwd=copy, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    parts = re.split(r"^--- (.*)\n", done.stdout, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True)) | {"errors": done.stderr}


def find(shown, command):
    (text,) = [text for line, text in shown.items() if line.startswith(command)]
    return text


def test_an_algorithm_is_added_in_five_places(copy, shown):
    changed = {
        path for path in files(copy) | files(ROOT) if "results" not in path.parts
        if not (ROOT / path).exists() or not filecmp.cmp(ROOT / path, copy / path, shallow=False)
    }  # fmt: skip
    assert changed == FIVE_PLACES


def test_list_and_show_include_the_new_algorithm(shown):
    assert re.search(r"\btoy\b", find(shown, "list algos"))
    assert "CartPole-v1" in find(shown, "list envs toy")
    assert "Pendulum-v1" not in find(shown, "list envs toy")
    assert not re.search(r"\btoy\b", find(shown, "list envs td3"))
    assert "TOY: an algorithm that a test adds." in find(shown, "show toy")
    assert re.search(r"toy_rate.*0\.25.*rate of the toy", find(shown, "show toy"))


def test_train_accepts_its_settings_and_logs_its_columns(copy, shown):
    assert re.search(r"--toy-rate FLOAT +rate of the toy \(0.25\)", find(shown, "train toy --help"))
    assert "purerl train toy --env CartPole-v1\n" in find(shown, "train toy --help")
    assert "unknown flag --quiet-please" in shown["errors"]
    assert "everything is in data/cartpole-v1-toy" in find(shown, "train toy --env")
    run = copy / "data" / "cartpole-v1-toy" / "cartpole-v1-toy_s0"
    assert "AverageToyKL" in (run / "progress.txt").read_text().splitlines()[0].split("\t")
    assert re.search(r"^ *step.* toy_kl", find(shown, "train toy --env"), re.MULTILINE)
    assert '"toy_rate": 0.5' in (run / "config.json").read_text()
    assert "2 variants, 2 runs (one per seed)" in find(shown, "sweep toy")


def test_export_writes_its_policy(copy, shown):
    assert "exit code 0" in find(shown, "export")
    assert [*(copy / "policy").iterdir()]
