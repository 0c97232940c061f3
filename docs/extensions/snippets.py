"""Find the Python snippets of a page, and run them one after the other, as one program.

A comment `<!-- not run: reason -->` above a snippet leaves it out. This module needs only the
standard library, so that tests can use it without Sphinx.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# These pages exist after `make docs` only, and their code has tests of its own.
GENERATED = ("docs/reference/api/", "docs/reference/generated/")
GENERATED += ("docs/learn/generated/", "docs/labs/")
# These need more than ten seconds of one core each, so the build of the site leaves them out.
COSTLY = ("docs/guides/grids.md", "docs/guides/jax.md", "docs/guides/seeds.md")
QUICK_COMPILER = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
LIMIT = 600  # seconds until a page that hangs is ended
SNIPPET = re.compile(r"(<!-- not run: [^>]+ -->\n+)?```python\n(.*?)```", re.DOTALL)


class SnippetError(Exception):
    """A snippet of a page failed."""


def list_pages() -> list[Path]:
    """Return all pages in Markdown that are written by hand."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    return [page for page in pages if not str(page.relative_to(ROOT)).startswith(GENERATED)]


def read_program(page: Path) -> str:
    """Return the snippets of a page as one program, each at its line of the page."""
    text, program = page.read_text(encoding="utf-8"), ""
    for match in SNIPPET.finditer(text):
        if not match[1]:
            missing = text.count("\n", 0, match.start(2)) - program.count("\n")
            program += "\n" * missing + match[2]
    return program


def run_page(page: Path, env: Mapping[str, str] = os.environ) -> None:
    """Run the snippets of a page in a process and a folder of their own.

    Raises:
        SnippetError: If a snippet fails. The message has the traceback, with lines of the page.
    """
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "page.py")
        script.write_text(read_program(page), encoding="utf-8")
        path = os.pathsep.join([str(ROOT), str(ROOT / "examples")])
        done = subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            cwd=folder,
            env={**env, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"},
            timeout=LIMIT,
        )
    if done.returncode:
        raise SnippetError(f"{page}: a snippet failed:\n{done.stdout}{done.stderr}")
