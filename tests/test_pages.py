"""Pages of the site: their links, names and snippets. `make test-all` runs all snippets."""

import ast
import contextlib
import functools
import importlib.util
import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from purerl import algos
from purerl.cli import main
from purerl.cli.commands.train_and_resume import make_parser
from purerl.errors import ConfigError
from purerl.runs.settings import aliases
from tests.mpi.launch import clean

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "extensions"))

import cells  # noqa: E402 - needs the path
import names  # noqa: E402
import snippets  # noqa: E402

PAGES = snippets.list_pages()
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.py"))
LINK = re.compile(r"\]\(([^)\s]+)\)")
OWN_TEST = {"docs/guides/policies.md"}  # tests/test_policies_page.py also runs its commands

NEEDS = {"docs/guides/custom_network.md": "equinox"}  # `make test-more` installs it
QUICK = {"docs/algorithms/index.md", "docs/learn/rl2.md", "docs/reference/design.md"}


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def read_prose(page: Path) -> str:
    """Return a page without its code; of a notebook, the cells with text."""
    text = page.read_text()
    if page.suffix == ".py":
        text = "\n\n".join(cell.text for cell in cells.read_cells(text) if not cell.is_code)
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def find_anchors(page: Path) -> set[str]:
    """Return the anchors of all headings, as GitHub makes them."""
    text = read_prose(page)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in plain}


def test_there_are_pages():
    assert len(PAGES) >= 30


@pytest.mark.parametrize(
    "page", [*PAGES, *NOTEBOOKS, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=name_of
)
def test_links_lead_to_files_and_headings(page):
    for link in LINK.findall(read_prose(page)):
        file, _, anchor = link.partition("#")
        if re.match("[a-z]+:", link) or f"docs/reference/{file}".startswith(snippets.GENERATED):
            continue
        target = (page.parent / file).resolve() if file else page
        if str(target.relative_to(ROOT)).startswith(snippets.GENERATED):
            continue
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in find_anchors(target), link


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=name_of)
def test_names_of_source_files_and_functions_exist(page):
    for path, name in names.find_names(page.read_text()):
        assert names.find_line(path, name), (path, name)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_snippets_import_names_that_exist(page):
    for node in ast.walk(ast.parse(snippets.read_program(page))):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("purerl"):
            for alias in node.names:
                assert hasattr(importlib.import_module(str(node.module)), alias.name)


@functools.cache
def read_help(*words: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main.main([*words])
    return printed.getvalue()


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=name_of)
def test_commands_have_flags_and_values_that_exist(page):
    blocks = re.findall(r"```bash\n(.*?)```", page.read_text(), re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    for line in lines:
        match = re.match(r"(?:python -m )?purerl ([a-z]+) ?([^#]*)", line)
        if match is None:
            continue
        command, words = match[1], match[2].split()
        assert command in main.COMMANDS, line
        algo = [word for word in words[:1] if word in algos.NAMES and command != "lab"]
        if command in ("train", "sweep") and not algo:  # a custom algorithm, or a placeholder
            continue
        shown = read_help(command, *algo, "--help-all" if algo else "--help")
        for flag in re.findall(r"(?<!\S)--?[a-z][a-z-]*", " ".join(words)):
            assert re.search(rf"(?<![\w-]){flag}(?![\w-])", shown), f"{flag} in {line}"
        if algo and not re.search(r"\b(ID|NAME|FILE|PROJECT|N)\b", match[2]):
            make_parser(algo[0], words[1:], f"purerl {command}").parse_args(
                shlex.split(match[2])[1:]
            )


def list_names_of_stable_baselines() -> list[tuple[str, list[str], bool]]:
    """Return the old names of the page, the new ones of each, and whether the old one works."""
    text = (ROOT / "docs/guides/from_stable_baselines3.md").read_text()
    table = text.partition("## Settings")[2].partition("\n## ")[0]
    found = []
    for line in re.findall(r"^\| `.*", table, re.MULTILINE):
        old, new, _, mark = (cell.strip() for cell in line.strip("|").split("|"))
        names_of = [re.findall(r"`([a-z_]+)`", cell) for cell in (old, new)]
        found += [(name, names_of[1], mark == "✓") for name in names_of[0]]
    return found


@pytest.mark.parametrize(("old", "new", "works"), list_names_of_stable_baselines())
def test_old_names_work_or_the_error_contains_the_new_one(old, new, works):
    answers = []
    for algo in algos.NAMES:
        try:
            answers.append(aliases.resolve_name(algo, old).name)
        except ConfigError as error:
            answers += [] if works else [str(error)]
    assert any(one in answer for answer in answers for one in new or [""])


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[] if name_of(page) in QUICK else pytest.mark.complete)
        for page in PAGES
        if snippets.read_program(page) and name_of(page) not in OWN_TEST
    ],
    ids=name_of,
)
def test_snippets_run_one_after_the_other(page):
    if (package := NEEDS.get(name_of(page))) and importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}: make test-more")
    snippets.run_page(page, clean())


PAGE = """# Page

```python
import os
```

<!-- not run: it would fail -->

```python
raise SystemExit(1)
```

```bash
exit 1
```

```python
open("file", "w").close()
print("printed", sorted(os.listdir()))
x = 1 / one
```
"""


def test_a_program_has_all_snippets_at_their_lines_but_those_that_are_left_out(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    lines = snippets.read_program(page).splitlines()
    assert [(i, line) for i, line in enumerate(lines, 1) if line] == [
        (i, line) for i, line in enumerate(PAGE.splitlines(), 1) if i in (4, 18, 19, 20)
    ]


def test_a_snippet_that_fails_is_an_error_with_its_line_and_the_output_before_it(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("/ one", "/ 1"))
    snippets.run_page(page, clean())
    assert [path.name for path in tmp_path.iterdir()] == ["page.md"]  # it ran in another folder
    page.write_text(PAGE)
    with pytest.raises(snippets.SnippetError, match=r"printed \['file', 'output.txt'\]") as error:
        snippets.run_page(page, clean())
    text = str(error.value)
    assert text.startswith(f"{page}: a snippet failed. Line numbers are those of the page.\n")
    assert 'page.md", line 20, in <module>' in text
    assert "NameError: name 'one'" in text


def test_a_page_that_hangs_is_ended_and_named(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("```python\nwhile True:\n    pass\n```\n")
    monkeypatch.setattr(snippets, "LIMIT", 0)
    with pytest.raises(snippets.SnippetError, match="page.md: the snippets did not end within 0 s"):
        snippets.run_page(page, clean())


def test_names_are_found_in_source_files(tmp_path):
    text = "loss  # purerl/algos/ppo.py::actor_loss, and purerl/algos/sac.py."
    assert names.find_names(text) == [
        ("purerl/algos/ppo.py", "actor_loss"),
        ("purerl/algos/sac.py", None),
    ]
    lines = (ROOT / "purerl/algos/ppo.py").read_text().splitlines()
    line = names.find_line("purerl/algos/ppo.py", "actor_loss")
    assert lines[line - 1].startswith("def actor_loss(")
    line = names.find_line("purerl/algos/ppo.py", "Spec.clip_ratio")
    assert lines[line - 1].strip().startswith("clip_ratio:")


@pytest.mark.parametrize(
    ("path", "name", "message"),
    [
        ("purerl/algos/pppo.py", None, "pppo.py does not exist"),
        ("purerl/algos/ppo.py", "actor_los", "has no actor_los"),
        ("purerl/algos/ppo.py", "Spec.clip", "has no Spec.clip"),
    ],
)
def test_unknown_names_are_refused(path, name, message):
    with pytest.raises(names.UnknownName, match=message):
        names.find_line(path, name)
