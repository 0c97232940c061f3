"""The notebooks of the site: their cells, links and names. `make test-all` also runs them."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "extensions"))

import cells  # noqa: E402 - needs the path

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.py"))
TINY = """# ---
# jupyter:
# ---

# %% [markdown]
# # Title
#
# Text.

# %%
import sys

print("printed", file=sys.stderr)
x = 2

# %%
x + 1

# %% [markdown]
# Last.
"""


def run(tmp_path, text):
    path = tmp_path / "tiny.py"
    path.write_text(text)
    return cells.run_notebook(path)


def test_there_are_three_notebooks():
    assert {path.stem for path in NOTEBOOKS} >= {"first_steps", "custom_loop", "broken_agent"}


def test_cells_are_read_with_their_lines():
    found = cells.read_cells(TINY)
    assert [cell.is_code for cell in found] == [False, True, True, False]
    assert found[0].text == "# Title\n\nText."
    assert TINY.splitlines()[found[1].line - 1] == "import sys"
    assert found[2] == cells.Cell("x + 1", 17, True)


def test_a_cell_shows_what_it_prints_and_its_last_value(tmp_path):
    outputs = run(tmp_path, TINY)
    assert [output.get("text") for output in outputs] == [None, "printed\n", "3\n", None]
    page = cells.write_page(cells.read_cells(TINY), outputs)
    assert page.startswith("# Title\n\nText.\n\n`````python\nimport sys\n")
    assert "`````{code-block} text\n:class: output\n\n3\n`````\n\nLast.\n" in page


def test_a_cell_that_fails_is_an_error_with_its_line_and_the_output_before_it(tmp_path):
    with pytest.raises(cells.NotebookError, match=r'tiny.py", line 17.*\n +x / 0') as error:
        run(tmp_path, TINY.replace("x + 1", "x / 0"))
    assert "ZeroDivisionError" in str(error.value)
    with pytest.raises(cells.NotebookError, match="printed first"):
        run(tmp_path, '# %%\nprint("printed first")\nraise SystemExit(3)\n')


def test_a_notebook_runs_in_a_folder_of_its_own(tmp_path):
    run(tmp_path, '# %%\nopen("file", "w").close()\n')
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.py"]


def test_pictures_are_part_of_the_page_with_their_titles():
    picture = {"titles": "Return", "png": "AA=="}
    page = cells.write_page([cells.Cell("draw()", 1, True)], [{"text": "", "pictures": [picture]}])
    assert "![Return](data:image/png;base64,AA==)" in page
    assert "output" not in page


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_jupytext_recognises_the_notebook(path):
    text = path.read_text()
    assert text.startswith("# ---\n# jupyter:\n#   jupytext:\n")
    assert "#       format_name: percent\n" in text.partition("# %%")[0]
    found = cells.read_cells(text)
    assert found[0].text.startswith("# ")
    for cell in found:
        if cell.is_code:
            ast.parse(cell.text)


@pytest.mark.complete
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs_and_every_picture_has_a_title(path):
    outputs = cells.run_notebook(path)
    assert "Warning" not in "".join(output.get("text", "") for output in outputs)
    pictures = [one for output in outputs for one in output.get("pictures", [])]
    assert pictures
    assert all(one["titles"] for one in pictures)
