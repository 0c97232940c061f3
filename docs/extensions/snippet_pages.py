"""Run the Python snippets of pages while Sphinx builds the site. One that fails fails the build."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import snippets
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from purerl import compiler


def start_snippets(app: Sphinx, env: Any, docnames: list[str]) -> None:
    """Start the snippets of the pages to read, without those that take long."""
    read = {Path(env.doc2path(name)).resolve() for name in docnames} & {*snippets.list_pages()}
    costly = {snippets.ROOT / name for name in snippets.COSTLY}
    pages = [page for page in sorted(read - costly) if snippets.read_program(page)]
    variables = dict(os.environ)
    if pages and "XLA_FLAGS" not in variables:
        variables["XLA_FLAGS"] = compiler.select_flags(compiler.TEST_FLAGS)
    pool = ThreadPoolExecutor(max_workers=2)
    app.purerl_snippets = [pool.submit(snippets.run_page, page, variables) for page in pages]
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
