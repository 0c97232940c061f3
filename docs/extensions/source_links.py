"""Link source files and names in pages to pages with the source, at the right line.

In inline code and in code blocks, `purerl/algos/ppo.py::actor_loss` becomes a link. A file or a
name that does not exist is a warning, which fails the build. The source pages are part of the
site, so the links work offline.
"""

import html
import re
from collections.abc import Iterator
from typing import Any

import names
from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)
CODE = re.compile(r"<pre>.*?</pre>|<code[^>]*>.*?</code>", re.DOTALL)


def check_names(app: Sphinx, doctree: nodes.document) -> None:
    """Warn about names that do not exist, and remember which files a page mentions."""
    used = app.env.purerl_sources = getattr(app.env, "purerl_sources", {})
    files = used[app.env.docname] = set()
    for node in doctree.findall(lambda n: isinstance(n, nodes.literal | nodes.literal_block)):
        for path, name in names.find_names(node.astext()):
            try:
                names.find_line(path, name)
                files.add(path)
            except names.UnknownName as error:
                logger.warning(str(error), location=node, type="purerl", subtype="source")


def link_names(
    app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Turn names inside the code of a page into links."""
    if doctree is not None and context.get("body"):
        context["body"] = CODE.sub(lambda code: _link(app, pagename, code[0]), context["body"])


def _link(app: Sphinx, pagename: str, code: str) -> str:
    def replace(match: re.Match[str]) -> str:
        path, name = match[1], match[2]
        try:
            line = names.find_line(path, name)
        except names.UnknownName:  # `check_names` has warned
            return match[0]
        uri = app.builder.get_relative_uri(pagename, page_of(path))
        title = html.escape(f"{path}, line {line}")
        return f'<a class="source" href="{uri}#L-{line}" title="{title}">{match[0]}</a>'

    return names.NAME.sub(replace, code)


def page_of(path: str) -> str:
    """Return the page of a source file."""
    return f"source/{path.removesuffix('.py')}"


def make_source_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield a page for each source file that some page mentions."""
    formatter = HtmlFormatter(lineanchors="L", linenos="inline", wrapcode=True)
    used = getattr(app.env, "purerl_sources", {})
    api = getattr(app.env, "purerl_api_sources", set())
    for path in sorted({path for files in used.values() for path in files} | api):
        code = highlight(names.read(path), PythonLexer(), formatter)
        body = f"<h1>{path}</h1>\n{code}"
        yield page_of(path), {"title": path, "body": body, "parents": []}, "page.html"


def forget_page(app: Sphinx, env: Any, docname: str) -> None:
    """Forget the files of a page that changed or was deleted."""
    getattr(env, "purerl_sources", {}).pop(docname, None)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the functions of this module."""
    app.connect("doctree-read", check_names)
    app.connect("env-purge-doc", forget_page)
    app.connect("html-page-context", link_names)
    app.connect("html-collect-pages", make_source_pages)
    return {"version": "1"}
