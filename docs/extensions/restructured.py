"""Turn docstrings, which have Markdown inside, into reStructuredText."""

import re
from collections.abc import Iterable, Iterator

from sphinx.ext.napoleon import Config, GoogleDocstring

NAPOLEON = Config(napoleon_use_rtype=False, napoleon_use_ivar=True)
CODE = re.compile(r"(:\w+:`[^`]+`)|(?<!`)`([^`]+)`(?!`)(\w*)")
SECTION = re.compile(r"^\s*(Args|Returns|Raises|Yields|Example|Examples|References?|Note|Warns):$")


def convert_docstring(doc: str) -> list[str]:
    """Return a Google-style docstring as lines of reStructuredText."""
    lines = list(convert_tables(convert_code(doc).splitlines()))
    for i, line in enumerate(lines[:-2]):  # an indented block below a colon is code
        code = lines[i + 1] == "" and lines[i + 2].startswith("    ")
        plain = not SECTION.match(line) and not line.lstrip().startswith("..")
        indent = len(line) - len(line.lstrip())
        deeper = len(lines[i + 2]) - len(lines[i + 2].lstrip()) > indent
        if line.endswith(":") and not line.endswith("::") and code and plain and deeper:
            lines[i] = line + ":"
    return str(GoogleDocstring("\n".join(lines), NAPOLEON)).splitlines()


def convert_code(text: str) -> str:
    """Turn Markdown's `code` into that of reStructuredText, which no letter may follow."""
    return CODE.sub(lambda m: m[1] or f"``{m[2]}``" + (f"\\ {m[3]}" if m[3] else ""), text)


def convert_line(text: str) -> str:
    """Return a comment as text, with its code."""
    parts = re.split(r"(`[^`]+`)", text)
    plain = [re.sub(r"([*|_]|\\)", r"\\\1", part) for part in parts[::2]]
    pairs = zip(plain, [*parts[1::2], ""], strict=True)
    return convert_code("".join(text for pair in pairs for text in pair))


def convert_tables(lines: list[str]) -> Iterator[str]:
    """Turn tables of Markdown into those of reStructuredText."""
    for i, line in enumerate(lines):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        indent = " " * (len(line) - len(line.lstrip()))
        if not line.lstrip().startswith("|"):
            yield line
        elif set("".join(cells)) - {"-"}:  # the line below the heading has dashes only
            if i == 0 or not lines[i - 1].lstrip().startswith("|"):
                yield from (f"{indent}.. list-table::", f"{indent}   :header-rows: 1", "")
            for j, cell in enumerate(cells):
                yield f"{indent}   {'* ' if j == 0 else '  '}- {cell}"


def make_row(cells: list[tuple[str, str]]) -> Iterator[str]:
    """Yield the lines of a row, given pairs of a heading and a cell."""
    for i, (heading, cell) in enumerate(cells):
        code = cell and heading != "meaning" and cell != heading
        text = f"``{cell}``" if code else convert_line(cell)
        yield f"{'* ' if i == 0 else '  '}- {text}"


def indent(lines: Iterable[str], spaces: int = 3) -> Iterator[str]:
    """Yield lines with spaces before them."""
    for line in lines:
        yield " " * spaces + line if line else ""
