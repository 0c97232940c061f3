"""Run the Python snippets of pages while Sphinx builds the site. One that fails fails the build."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import snippets
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError


def start_snippets(app: Sphinx, env: Any, docnames: list[str]) -> None:
    """Start the snippets of the pages to read."""
    wanted = {Path(env.doc2path(name)) for name in docnames} & {*snippets.list_pages()}
    pool = ThreadPoolExecutor(max_workers=2)
    app.purerl_snippets = [pool.submit(snippets.run_page, page) for page in sorted(wanted)]
    pool.shutdown(wait=False)


def report_failures(app: Sphinx, error: Exception | None) -> None:
    """Wait for all snippets. Sphinx reads all pages again after a build that failed."""
    running = getattr(app, "purerl_snippets", [])
    if error is not None:
        for one in running:
            one.cancel()
        return
    failures = [str(one.exception()) for one in running if one.exception()]
    if failures:
        raise ExtensionError("\n".join(failures))


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the functions of this module."""
    app.connect("env-before-read-docs", start_snippets)
    app.connect("build-finished", report_failures)
    return {"version": "1"}
