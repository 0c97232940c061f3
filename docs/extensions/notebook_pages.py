"""Make a page of each notebook, with the outputs of its cells. A cell that fails ends the build."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cells
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError


def start_notebooks(app: Sphinx, env: Any, docnames: list[str]) -> None:
    """Run the notebooks among the pages to read, while Sphinx reads the others."""
    paths = {name: Path(env.doc2path(name)) for name in docnames}
    pool = ThreadPoolExecutor(max_workers=2)
    app.purerl_notebooks = {
        name: pool.submit(cells.run_notebook, path)
        for name, path in paths.items()
        if path.suffix == ".py"
    }
    pool.shutdown(wait=False)


def show_outputs(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace the source of a notebook by its page."""
    if running := app.purerl_notebooks.get(docname):
        try:
            source[0] = cells.write_page(cells.read_cells(source[0]), running.result())
        except cells.NotebookError as error:
            raise ExtensionError(str(error)) from error


def setup(app: Sphinx) -> dict[str, Any]:
    """Read Python files as notebooks; `include_patterns` of conf.py names them."""
    app.add_source_suffix(".py", "markdown")
    app.connect("env-before-read-docs", start_notebooks)
    app.connect("source-read", show_outputs, priority=400)  # before layout.py adds the children
    return {"version": "1"}
