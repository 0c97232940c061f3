"""Build the navigation, copy MathJax into the site, and check that the site works offline.

The pages contain no `toctree`, so they read well on GitHub too. `purerl_tree` of conf.py lists the
children of each page, in order.
"""

import fnmatch
import re
from importlib import metadata
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.fileutil import copy_asset

LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video)\b[^>]*\ssrc=["'](?:https?:)?//[^"']*"""
    r"""|<link\b(?=[^>]*\brel=["'](?:stylesheet|preload|icon|preconnect))[^>]*href=["'](?:https?:)?//"""
    r"""|@import\s+(?:url\()?["']?(?:https?:)?//|url\(["']?(?:https?:)?//[^)]*"""
)


def add_toctree(app: Sphinx, docname: str, source: list[str]) -> None:
    """Add the children of a page to its end, as a hidden `toctree`."""
    if patterns := app.config.purerl_tree.get(docname):
        children = expand(patterns, sorted(app.env.found_docs), docname)
        block = "\n".join(f"/{child}" for child in children)
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n\n{block}\n```\n"


def expand(patterns: list[str], pages: list[str], parent: str) -> list[str]:
    """Return the pages for a list of names and patterns; each page once, at its first place."""
    found: list[str] = []
    for pattern in patterns:
        matches = fnmatch.filter(pages, pattern) if "*" in pattern else [pattern]
        found += [page for page in matches if page not in found and page != parent]
    return found


def copy_mathjax(app: Sphinx, error: Exception | None) -> None:
    """Copy the one file of MathJax that draws equations as SVG and loads nothing else."""
    if error is None:
        package = metadata.distribution("sphinx-mathjax-offline")
        file = package.locate_file("sphinx-mathjax-offline/static/mathjax/tex-svg-full.js")
        copy_asset(str(file), str(Path(app.outdir) / "_static" / "mathjax"))


def check_offline(app: Sphinx, error: Exception | None) -> None:
    """Refuse a site that would load something from another host."""
    if error is not None:
        return
    wrong = []
    for path in sorted(Path(app.outdir).rglob("*")):
        if path.suffix in (".html", ".css"):
            text = path.read_text(encoding="utf-8")
            wrong += [f"{path.name}: {match[0][:120]}" for match in LOADED.finditer(text)]
    if wrong:
        raise ExtensionError(
            "The site loads files from other hosts, so it does not work offline. Copy them into "
            "docs/_static:\n" + "\n".join(wrong[:20])
        )


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the functions of this module."""
    app.add_config_value("purerl_tree", {}, "env")
    app.connect("source-read", add_toctree)
    app.connect("build-finished", copy_mathjax)
    app.connect("build-finished", check_offline)
    return {"version": "1"}
