"""The generated pages of the site. These tests need Sphinx: `pip install -e '.[docs]'`."""

import re
import sys
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("sphinx")
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "extensions"))

import api_pages  # noqa: E402 - needs the path
import exercise_pages  # noqa: E402
import fact_pages  # noqa: E402
import lab_pages  # noqa: E402
import layout  # noqa: E402
import notebook_pages  # noqa: E402
from cells import NotebookError  # noqa: E402
from sphinx.errors import ExtensionError  # noqa: E402

from purerl import algos, errors  # noqa: E402
from purerl.cli.main import COMMANDS  # noqa: E402
from purerl_school import exercises  # noqa: E402
from purerl_school.labs import planting  # noqa: E402


def test_every_algorithm_and_every_public_package_has_an_api_page():
    modules = api_pages.find_modules()
    assert {f"purerl.algos.{name}" for name in algos.NAMES} <= {*modules}
    assert {"purerl", "purerl.returns", "purerl.nets", "purerl.mpi"} <= {*modules}
    assert len(modules) == len({*modules})


def test_an_api_page_has_functions_fields_and_equations():
    page = api_pages.make_page("purerl.algos.ppo")
    assert ".. py:function:: actor_loss(params: Params, batch: PolicyBatch)" in page
    assert "clip range of the probability ratio" in page
    assert ".. math::" in page
    assert "_scan" not in page


def test_names_of_a_package_are_described_where_they_are_defined():
    page = api_pages.make_page("purerl.mpi")
    assert "purerl/mpi/collective.py::pmean" in page


def test_the_page_of_commands_has_the_help_of_each():
    page = fact_pages.make_commands()
    for command in COMMANDS:
        assert f"## purerl {command}\n" in page
    assert page.count("usage: purerl") >= len(COMMANDS)


def test_the_page_of_exit_codes_has_every_code_and_exception():
    page = fact_pages.make_exit_codes()
    codes = {value for value in vars(errors).values() if type(value) is int}
    assert codes == {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert "`ConfigError`" in page


@pytest.mark.parametrize("name", algos.NAMES)
def test_the_page_of_settings_has_every_setting(name):
    page = fact_pages.make_settings(name)
    assert "| `gamma` |" in page
    assert "| `steps` | `--steps`" in page


def test_the_page_of_bug_labs_shows_the_solutions_only_behind_a_click():
    page = lab_pages.make_page("ppo")
    shown = re.sub(r"<details>.*?</details>", "", page, flags=re.DOTALL)
    for number, lab in enumerate(planting.list_labs("ppo"), 1):
        assert f"(ppo_{number}.svg)" in shown
        for secret in (lab.name, lab.new, lab.equation, lab.effect, lab.why):
            assert secret.lower() in page.lower()
            assert secret.lower() not in shown.lower()


def test_error_messages_have_their_line():
    messages = fact_pages.find_messages("purerl/loops/gym.py")
    assert any(text.startswith("the run is complete: {steps} of") for _, _, text in messages)


@pytest.mark.parametrize("number", exercises.EXERCISES)
def test_an_exercise_has_a_page_with_folded_hints_and_solution(number):
    page = exercise_pages.make_page(number)
    assert f"# Exercise {number}: " in page
    assert f"purerl exercise check {number}" in page
    shown = re.sub(r"<details>.*?</details>", "", page, flags=re.DOTALL)
    assert page.count("<details>") == 4
    code = page.partition("<summary>Solution</summary>")[2].partition("```python\n")[2]
    assert code.partition("```")[0].strip() not in shown
    assert f"(generated/exercise_{number.replace('.', '_')}.md)" in exercise_pages.make_table()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a_b | *c*", r"a\_b \| \*c\*"),
        ("give `a_b`", "give `a_b`"),
        ("one ` only", r"one \` only"),
    ],
)
def test_special_characters_of_messages_are_escaped(text, expected):
    assert fact_pages.escape(text) == expected


def test_a_notebook_becomes_a_page_with_its_outputs():
    done = Future()
    done.set_result([{"text": "3\n", "pictures": []}])
    app, source = SimpleNamespace(purerl_notebooks={"notebooks/one": done}), ["# %%\n1 + 2\n"]
    notebook_pages.show_outputs(app, "another", source)
    assert source == ["# %%\n1 + 2\n"]
    notebook_pages.show_outputs(app, "notebooks/one", source)
    assert source[0].startswith("`````python\n1 + 2\n`````")


def test_a_notebook_that_fails_ends_the_build():
    failed = Future()
    failed.set_exception(NotebookError("one.py failed: ZeroDivisionError"))
    app = SimpleNamespace(purerl_notebooks={"notebooks/one": failed})
    with pytest.raises(ExtensionError, match="ZeroDivisionError"):
        notebook_pages.show_outputs(app, "notebooks/one", ["# %%\n1 / 0\n"])


def test_patterns_add_the_pages_that_are_not_listed():
    pages = ["a/index", "a/one", "a/three", "a/two", "b/one"]
    assert layout.expand(["a/two", "a/*"], pages, "a/index") == ["a/two", "a/one", "a/three"]


@pytest.mark.parametrize(
    ("text", "loaded"),
    [
        ('<script src="https://cdn.example/x.js">', True),
        ('<link rel="stylesheet" href="//fonts.example/a.css">', True),
        ("@import url(https://fonts.example/a.css)", True),
        ('<a href="https://arxiv.org/abs/1707.06347">', False),
        ('<script src="_static/x.js">', False),
        ("url(data:image/png;base64,AA==)", False),
    ],
)
def test_files_of_other_hosts_are_found(text, loaded):
    assert bool(layout.LOADED.search(text)) == loaded
