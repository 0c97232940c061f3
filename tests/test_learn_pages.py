"""The pages of docs/learn quote the code as it is, and their pictures agree with the modules.

A quotation is a block ```py whose first line names a function, or a cell in the column `code` of a
table. The function of a cell is named in its row, or else in the last line above the table that
names one. Blocks ```python are programs, not quotations.
"""

import ast
import re
import textwrap

import pytest

from purerl import algos
from tests.mpi.launch import ROOT

PAGES = sorted((ROOT / "docs" / "learn").glob("*.md"))
NAME = re.compile(r"`?([\w/]+\.py)::(\w+)`?")


def read_function(path: str, name: str) -> str:
    """Return the source of a function at the top of a file."""
    text = (ROOT / path).read_text()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return "\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno])
    raise AssertionError(f"{path} has no {name}")


def list_quotations(text: str) -> list[tuple[str, str, str]]:
    """Return all quotations of a page: file, function, and the quoted lines."""
    found, named, column = [], None, None
    for block in re.findall(r"```py\n(.*?)```", text, re.DOTALL):
        first, _, rest = block.partition("\n")
        found.append((*NAME.search(first).groups(), textwrap.dedent(rest).rstrip()))
    for line in re.sub(r"```.*?```", "", text, flags=re.DOTALL).splitlines():
        if not line.startswith("|"):
            named, column = NAME.search(line) or named, None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if "code" in cells:
            column = cells.index("code")
        elif column is not None and not set(line) <= set("|-"):
            name = NAME.search(line) or named
            if not NAME.fullmatch(cells[column]):
                found.append((*name.groups(), cells[column].strip("`")))
    return found


def test_quotations_are_found_in_blocks_and_in_tables():
    text = """
```py
# a.py::f
    x = 1
```
## `b.py::g`
| term | code |
|---|---|
| x | `x = 2` |
| y | `c.py::h` |
"""
    assert list_quotations(text) == [("a.py", "f", "x = 1"), ("b.py", "g", "x = 2")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_quoted_lines_are_those_of_the_code(page):
    for path, name, lines in list_quotations(page.read_text()):
        source = textwrap.dedent(read_function(path, name))
        wanted = [line.strip() for line in lines.splitlines()]
        there = [line.strip() for line in source.splitlines()]
        starts = range(len(there) - len(wanted) + 1)
        if len(wanted) == 1:  # a comment may follow the code
            assert any(line.split("  #")[0] == wanted[0] or line == wanted[0] for line in there), (
                f"{page.name} quotes {path}::{name}: {lines}"
            )
        else:
            assert any(there[i : i + len(wanted)] == wanted for i in starts), (
                f"{page.name} quotes {path}::{name}: {lines}"
            )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_functions_files_and_tests_named_on_a_page_exist(page):
    text = page.read_text()
    for path, name in NAME.findall(text):
        read_function(path, name)
    for path in re.findall(r"`((?:examples|purerl|tests|docs)/[\w./]+)`", text):
        assert (ROOT / path).exists(), path
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    tests += (ROOT / "examples" / "test_your_own_loss.py").read_text()
    for name in re.findall(r"`(test_\w+)`", text):
        assert f"def {name}(" in tests, name


def test_the_map_of_algorithms_agrees_with_the_modules():
    drawn = (ROOT / "docs" / "learn" / "pictures" / "taxonomy.svg").read_text()
    script = {"__name__": "taxonomy", "__file__": "taxonomy.py"}
    source = (ROOT / "docs" / "learn" / "pictures" / "taxonomy.py").read_text()
    exec(compile(source, "taxonomy.py", "exec"), script)
    assert drawn == script["draw"]()
    names = {name: name.lower().replace(" ", "_") for name in script["PLACES"]}
    assert set(names.values()) == set(algos.NAMES)
    kinds = {"all": 3, "discrete": 1, "box": 1}
    for name, (column, _, kind) in script["PLACES"].items():
        algo, actions = algos.load(names[name]), algos.ALGORITHMS[names[name]].actions
        fields = algo.Params.__dataclass_fields__
        assert len(actions) == kinds[kind]
        assert kind == "all" or actions == (kind,)
        assert ("actor" in fields, "critic" in fields) == (column < 3, column > 0)
        assert hasattr(algo, "q_value") == (column > 1)
