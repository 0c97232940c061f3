"""Read notebooks in Jupytext's percent format, run their cells, and write them as Markdown.

A notebook is a Python file. A line `# %%` starts a cell with code, and `# %% [markdown]` one with
text in comments. This module needs only the standard library, so that tests can use it without
Sphinx.
"""

import ast
import base64
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
LIMIT = 600  # seconds until a notebook that hangs is ended
START = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)
FENCE = "`````"  # longer than any fence that an output may contain


class Cell(NamedTuple):
    """A cell of a notebook."""

    text: str  # Markdown, or code
    line: int  # first line of the text in the file
    is_code: bool


class NotebookError(Exception):
    """A cell of a notebook failed."""


def read_cells(text: str) -> list[Cell]:
    """Return the cells of a notebook; the header above the first cell is skipped."""
    cells = []
    starts = list(START.finditer(text))
    ends = [match.start() for match in starts[1:]] + [len(text)]
    for match, end in zip(starts, ends, strict=True):
        body = text[match.end() : end].strip("\n")
        if match[1]:
            body = re.sub(r"^# ?", "", body, flags=re.MULTILINE)
        cells.append(Cell(body, text.count("\n", 0, match.end()) + 1, not match[1]))
    return cells


def run_notebook(path: Path) -> list[dict[str, Any]]:
    """Run a notebook in a process and a folder of its own, and return the output of each cell.

    Raises:
        NotebookError: If a cell fails. The message has the traceback.
    """
    with tempfile.TemporaryDirectory() as folder:
        outputs = Path(folder) / "outputs.json"
        done = subprocess.run(
            [sys.executable, str(Path(__file__).resolve()), str(path.resolve()), str(outputs)],
            capture_output=True,
            text=True,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"},
            timeout=LIMIT,
        )
        if done.returncode:
            raise NotebookError(f"{path} failed:\n{done.stdout}{done.stderr}")
        return json.loads(outputs.read_text(encoding="utf-8"))


def run_cells(path: str) -> list[dict[str, Any]]:
    """Run the cells of a notebook in this process, as the module `__main__`."""
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    cells = read_cells(Path(path).read_text(encoding="utf-8"))
    return [_run_cell(cell, path, vars(module)) if cell.is_code else {} for cell in cells]


def _run_cell(cell: Cell, path: str, names: dict[str, Any]) -> dict[str, Any]:
    """Return what a cell prints, with the value of its last expression, and its pictures."""
    body = ast.increment_lineno(ast.parse(cell.text, path), cell.line - 1).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            # `exec` and `eval` run what Jupyter would run: notebooks of this repository.
            exec(compile(ast.Module(body, []), path, "exec"), names)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), path, "eval"), names)
                if value is not None:
                    print(repr(value))
    except BaseException:
        print(printed.getvalue())
        raise
    return {"text": printed.getvalue(), "pictures": _take_pictures()}


def _take_pictures() -> list[dict[str, str]]:
    """Return the open figures of Matplotlib as PNG, with their titles, and close them."""
    if (plt := sys.modules.get("matplotlib.pyplot")) is None:
        return []
    pictures = []
    for number in plt.get_fignums():
        figure, data = plt.figure(number), io.BytesIO()
        figure.savefig(data, dpi=130, bbox_inches="tight")
        titles = "; ".join(axes.get_title() for axes in figure.axes if axes.get_title())
        png = base64.b64encode(data.getvalue()).decode()
        pictures.append({"titles": titles, "png": png})
    plt.close("all")
    return pictures


def write_page(cells: list[Cell], outputs: list[dict[str, Any]]) -> str:
    """Return a notebook with its outputs as Markdown."""
    parts = []
    for cell, output in zip(cells, outputs, strict=True):
        parts.append(f"{FENCE}python\n{cell.text}\n{FENCE}" if cell.is_code else cell.text)
        if text := output.get("text", "").rstrip():
            parts.append(f"{FENCE}{{code-block}} text\n:class: output\n\n{text}\n{FENCE}")
        for one in output.get("pictures", []):
            parts.append(f"![{one['titles']}](data:image/png;base64,{one['png']})")
    return "\n\n".join([*parts, ""])


if __name__ == "__main__":
    results = run_cells(sys.argv[1])
    Path(sys.argv[2]).write_text(json.dumps(results), encoding="utf-8")
