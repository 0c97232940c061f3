"""Find the Python snippets of a page, and run them one after the other, as one program.

A comment `<!-- not run: reason -->` above a snippet leaves it out. This module needs only the
standard library, so that tests can use it without Sphinx.
"""

import multiprocessing
import os
import re
import sys
import tempfile
import types
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# These pages exist after `make docs` only, and their code has tests of its own.
GENERATED = ("docs/reference/api/", "docs/reference/generated/")
GENERATED += ("docs/learn/generated/", "docs/labs/")
# These need five seconds of one core or more each, so the build of the site leaves them out.
COSTLY = ("docs/guides/grids.md", "docs/guides/jax.md", "docs/guides/seeds.md")
COSTLY += ("docs/learn/silent_failures.md", "docs/start/first_run.md")
COSTLY += ("docs/guides/custom_network.md", "docs/algorithms/xqc.md")
LIMIT = 600  # seconds until a page that hangs is ended
# A page runs in a copy of a process that has imported these, because importing takes 1.5 seconds.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["jax", "flax.linen", "optax", "gymnasium"])
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
        SnippetError: If a snippet fails. The message has its output and the traceback.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "output.txt")
        output.touch()
        process = PROCESSES.Process(target=_run_program, args=(page, output, dict(env)))
        process.start()
        process.join(LIMIT)
        failure = f"{page}: a snippet failed. Line numbers are those of the page."
        if process.is_alive():
            process.kill()
            process.join()
            failure = f"{page}: the snippets did not end within {LIMIT} seconds."
        if process.exitcode:
            raise SnippetError(f"{failure}\n{output.read_text(encoding='utf-8')}")


def _run_program(page: Path, output: Path, env: dict[str, str]) -> None:
    """Run the snippets of a page as the main module of this process, which is new."""
    with output.open("w") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    path = [str(ROOT), str(ROOT / "examples")]
    os.environ.clear()
    os.environ.update(env, PYTHONPATH=os.pathsep.join(path), JAX_PLATFORMS="cpu")
    os.chdir(output.parent)
    sys.path[:0] = path
    sys.argv = [str(page)]
    sys.modules["__main__"] = module = types.ModuleType("__main__")
    # `exec` runs pages of this repository, in a process that ends with them.
    exec(compile(read_program(page), str(page), "exec"), vars(module))
