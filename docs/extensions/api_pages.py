"""Write a page for each public module, from its docstrings, without importing it.

Public is what `__all__` of purerl reaches: modules, and names of packages that list names. All
public functions, classes, methods, fields and constants of a module are on its page. A name without
a docstring is a warning, which fails the build.
"""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import names
import restructured as rst
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)
TITLES = {
    "algos": "Algorithms",
    "buffers": "Buffers",
    "envs": "Environments in JAX",
    "loops": "Loops",
    "nets": "Networks",
    "runs": "Runs",
    "": "Package and helpers",
    "purerl_school": "Exercises and labs",
}


class Definition(NamedTuple):
    """A public name, and where it is defined."""

    name: str
    node: ast.stmt
    path: str
    comment: str  # of a constant: the string below it, or the comment beside it


@functools.cache
def find_modules() -> list[str]:
    """Return all public modules, those of a package after the package."""
    return [x for name in ("purerl", "purerl_school") for x in (name, *_find_submodules(name))]


def _find_submodules(package: str) -> Iterator[str]:
    for name in _list_public(package) or []:
        module = f"{package}.{name}"
        path = _path_of(module)
        if path is None or name == "__version__":
            continue
        if path.endswith("/__init__.py"):
            inner = list(_find_submodules(module))
            if module == "purerl.algos":
                files = sorted((names.ROOT / path).parent.glob("[a-z]*.py"))
                inner = [f"{module}.{file.stem}" for file in files]
            yield module
            yield from inner
        else:
            yield module


def _path_of(module: str) -> str | None:
    base = module.replace(".", "/")
    found = [p for p in (f"{base}.py", f"{base}/__init__.py") if (names.ROOT / p).is_file()]
    return found[0] if found else None


def _list_public(module: str) -> list[str] | None:
    """Return `__all__` of a module, or None if it has none."""
    for node in ast.parse(names.read(str(_path_of(module)))).body:
        if isinstance(node, ast.Assign) and names.defined_names(node) == ["__all__"]:
            return list(ast.literal_eval(node.value))
    return None


def find_definitions(module: str) -> list[Definition]:
    """Return the public names of a module in the order of the source, without submodules."""
    path = str(_path_of(module))
    public = _list_public(module)
    if public is None:
        own = _read_definitions(path)
        return [one for name, one in own.items() if name[0] != "_" and not _is_variable(one.node)]
    own = _read_definitions(path)
    found = []
    for name in public:
        if _path_of(f"{module}.{name}") or name == "__version__":
            continue
        one = own.get(name) or _find_elsewhere(path, name)
        if one is None:
            logger.warning("%s: %s of __all__ is not defined", path, name)
        else:
            found.append(one)
    return found


def _is_variable(node: ast.stmt) -> bool:
    """Return whether a statement defines a type variable."""
    return "TypeVar(" in ast.unparse(node) and isinstance(node, ast.Assign)


def _find_elsewhere(path: str, name: str) -> Definition | None:
    """Find the definition of a name that a module imports, also on first use."""
    imports = [n for n in ast.parse(names.read(path)).body if isinstance(n, ast.ImportFrom)]
    modules = [str(n.module) for n in imports for a in n.names if (a.asname or a.name) == name]
    files = [p for p in map(_path_of, modules) if p]
    files += [str(p.relative_to(names.ROOT)) for p in (names.ROOT / path).parent.glob("*.py")]
    for file in files:
        if one := _read_definitions(file).get(name):
            return one
    return None


def _read_definitions(path: str) -> dict[str, Definition]:
    """Return the functions, classes and constants that a file defines."""
    text = names.read(path)
    lines, body = text.splitlines(), ast.parse(text).body
    found: dict[str, Definition] = {}
    for node, after in zip(body, [*body[1:], None], strict=True):
        for name in names.defined_names(node):
            comment = ""
            if isinstance(node, ast.Assign | ast.AnnAssign):
                comment = _read_comment(node, lines, after)
            # The last of several overloads, but the first of several assignments.
            if name not in found or not isinstance(node, ast.Assign):
                found[name] = Definition(name, node, path, comment)
    return found


def _read_comment(node: ast.stmt, lines: list[str], after: ast.stmt | None) -> str:
    """Return the string below an assignment, or the comment at its end."""
    if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
        return str(after.value.value)
    for line in (lines[node.lineno - 1], lines[(node.end_lineno or node.lineno) - 1]):
        # The comment of a field, but not one that is for a linter.
        match = re.search(r"(?:^|\s)#\s*(?!noqa|type:)(.+)$", line)
        if match and '"#' not in line:
            return match[1]
    return ""


def make_page(module: str) -> str:
    """Return the page of a module in reStructuredText."""
    path = str(_path_of(module))
    lines = [module, "=" * len(module), "", f".. py:module:: {module}", ""]
    doc = ast.get_docstring(ast.parse(names.read(path))) or ""
    lines += [*rst.convert_docstring(doc), "", f"Source: ``{path}``", ""]
    inner = [name for name in _list_public(module) or [] if _path_of(f"{module}.{name}")]
    if module == "purerl.algos":
        inner = [m.rpartition(".")[2] for m in find_modules() if m.startswith("purerl.algos.")]
    if inner:
        lines += ["Modules: " + ", ".join(f":py:mod:`{module}.{name}`" for name in inner), ""]
    for one in find_definitions(module):
        home = one.path.removesuffix(".py").replace("/", ".")
        if one.path != path and home in find_modules():
            lines += [f"``{one.name}`` is defined in :py:mod:`{home}`.", ""]
        else:
            lines += [*_describe(one), ""]
    return "\n".join(lines)


def _describe(one: Definition) -> Iterator[str]:
    node = one.node
    if isinstance(node, ast.ClassDef):
        yield from _describe_class(one)
    elif isinstance(node, ast.FunctionDef):
        yield from _describe_function(node, f"{one.path}::{one.name}")
    else:
        annotation = getattr(node, "annotation", None)
        yield f".. py:data:: {one.name}"
        if annotation is not None:
            yield f"   :type: {ast.unparse(annotation)}"
        value = ast.unparse(node.value) if getattr(node, "value", None) else ""
        if 0 < len(value) <= 70:
            yield f"   :value: {value}"
        yield ""
        yield f"   {rst.convert_line(' '.join(one.comment.split()))}"
        yield ""
        yield f"   ``{one.path}::{one.name}``"


def _describe_function(node: ast.FunctionDef, where: str, kind: str = "function") -> Iterator[str]:
    decorators = [ast.unparse(d) for d in node.decorator_list]
    yield f".. py:{kind}:: {_signature(node, kind == 'method')}"
    if kind == "method":
        yield from (f"   :{d}:" for d in decorators if d in ("classmethod", "staticmethod"))
    yield ""
    doc = ast.get_docstring(node)
    if not doc and not any("overload" in d for d in decorators):
        logger.warning("%s has no docstring", where)
    yield from rst.indent(rst.convert_docstring(doc or ""))
    notes = ["compiled with ``jax.jit``"] if any("jit" in d for d in decorators) else []
    yield ""
    yield f"   {', '.join([f'``{where}``', *notes])}"


def _signature(node: ast.FunctionDef, method: bool) -> str:
    arguments = ast.parse(ast.unparse(node)).body[0].args  # a copy
    if method and "staticmethod" not in [ast.unparse(d) for d in node.decorator_list]:
        arguments.args = arguments.args[1:]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({ast.unparse(arguments)}){returns}"


def _describe_class(one: Definition) -> Iterator[str]:
    node = one.node
    assert isinstance(node, ast.ClassDef)
    bases = [ast.unparse(base) for base in node.bases]
    kind = "exception" if one.path.endswith("errors.py") else "class"
    methods = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
    signature = ""
    if "__init__" in methods:
        signature = _signature(methods["__init__"], True).removeprefix("__init__")
        signature = signature.removesuffix(" -> None")
    yield f".. py:{kind}:: {one.name}{signature}"
    yield ""
    doc = ast.get_docstring(node)
    if not doc:
        logger.warning("%s::%s has no docstring", one.path, one.name)
    yield from rst.indent(rst.convert_docstring(doc or ""))
    yield ""
    named = "named tuple; " if "NamedTuple" in bases else ""
    shown = [b for b in bases if b not in ("NamedTuple", "Protocol", "Exception")]
    more = f"; base: ``{', '.join(shown)}``" if shown else ""
    yield f"   {named}``{one.path}::{one.name}``{more}"
    yield ""
    fields = [n for n in node.body if isinstance(n, ast.AnnAssign | ast.Assign)]
    rows = [row for n in fields if (row := _field_row(n, one.path))]
    if rows:
        yield from rst.indent([".. list-table::", "   :header-rows: 1", "   :widths: auto", ""])
        heading = ("field", "type", "default", "meaning")
        used = [i for i in range(4) if any(row[i] for row in rows)]
        for row in [heading, *rows]:
            yield from rst.indent(rst.make_row([(heading[i], row[i]) for i in used]), 6)
        yield ""
    for method in methods.values():
        if not method.name.startswith("_"):
            where = f"{one.path}::{one.name}.{method.name}"
            decorators = [ast.unparse(d) for d in method.decorator_list]
            if any("property" in d for d in decorators):
                yield from rst.indent(_describe_property(method, where))
            else:
                yield from rst.indent(_describe_function(method, where, "method"))
            yield ""


def _describe_property(node: ast.FunctionDef, where: str) -> Iterator[str]:
    yield f".. py:property:: {node.name}"
    if node.returns:
        yield f"   :type: {ast.unparse(node.returns)}"
    yield ""
    if not ast.get_docstring(node):
        logger.warning("%s has no docstring", where)
    yield from rst.indent(rst.convert_docstring(ast.get_docstring(node) or ""))


def _field_row(node: ast.stmt, path: str) -> tuple[str, str, str, str] | None:
    """Return name, type, default and meaning of a field; its help text is the meaning."""
    lines = names.read(path).splitlines()
    name = (names.defined_names(node) or ["_"])[0]
    if name.startswith("_"):
        return None
    kind = ast.unparse(node.annotation) if isinstance(node, ast.AnnAssign) else ""
    default, meaning = "", _read_comment(node, lines, None)
    value = getattr(node, "value", None)
    if isinstance(value, ast.Call) and "setting" in (called := ast.unparse(value.func)):
        if not value.args:  # `devices_setting`: a setting that several schedules share
            shared = getattr(_find_elsewhere(path, called), "node", None)
            value = ast.Call(shared.value.args[0], shared.value.args[1:], [])
        default = ast.unparse(value.args[0])
        meaning = str(ast.literal_eval(value.args[1]))
    elif isinstance(value, ast.Call) and "field" in ast.unparse(value.func):
        given = {word.arg: ast.unparse(word.value) for word in value.keywords}
        default = given.get("default", "")
    elif value is not None:
        default = ast.unparse(value)
    return name, kind, default, meaning


def make_index(modules: list[str]) -> str:
    """Return the page that lists all modules with the first line of their docstrings."""
    parts: dict[str, list[str]] = {}
    for module in modules:
        root, *rest = module.split(".")
        part = root if root in TITLES else "".join(rest[:1])
        parts.setdefault(part if part in TITLES else "", []).append(module)
    lines = ["# API", "", "Every public module, with the text of its docstrings.", ""]
    for part, group in sorted(parts.items(), key=lambda item: list(TITLES).index(item[0])):
        lines += [f"## {TITLES[part]}", "", "| module | contents |", "|---|---|"]
        for module in group:
            doc = ast.get_docstring(ast.parse(names.read(str(_path_of(module))))) or ""
            first = doc.partition("\n")[0].replace("|", "\\|")
            lines.append(f"| [{module}]({module}.rst) | {first} |")
        lines.append("")
    toctree = "\n".join(["```{toctree}", ":hidden:", "", *modules, "```", ""])
    return "\n".join([*lines, toctree])


def write_pages(app: Sphinx) -> None:
    """Write all pages; leave those that have not changed, so that they are not built again."""
    folder = Path(app.srcdir) / "reference" / "api"
    modules = find_modules()
    app.env.purerl_api_sources = {str(_path_of(module)) for module in modules}
    pages = {f"{module}.rst": make_page(module) for module in modules}
    write(folder, pages | {"index.md": make_index(modules)})


def write(folder: Path, pages: dict[str, str]) -> None:
    """Write files that have changed, and delete others in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages when a build starts."""
    app.connect("builder-inited", write_pages)
    return {"version": "1"}
