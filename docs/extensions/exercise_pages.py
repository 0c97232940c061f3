"""Write a page for each exercise from its files, and the table of all exercises."""

import re
from pathlib import Path
from typing import Any

from api_pages import write
from sphinx.application import Sphinx

from purerl_school.exercises import EXERCISES, student, texts

FOLDER = "learn/generated"
# The comment and its paragraph, which the table replaces. Readers outside of the site see them.
TABLE = re.compile(r"<!-- table of exercises -->\n.*?\n\n", re.DOTALL)
NOTE = "<!-- Written by docs/extensions/exercise_pages.py from purerl_school/exercises. -->\n\n"
PARTS = {"1": "First exercises", "2": "Studies", "3": "Parts of algorithms"}


def make_page(number: str) -> str:
    """Return the page of an exercise: the task, and hints and solution behind a click."""
    exercise = EXERCISES[number]
    text = [texts.read_task(exercise), "", "## Do it", "", "```bash"]
    text += [f"purerl exercise start {number}  # writes exercises/{student.name_file(number)}"]
    text += [f"purerl exercise check {number}", "```", "", "The start file:", ""]
    text += ["```python", texts.read_start(exercise).rstrip(), "```", "", "## Hints", ""]
    for step in texts.HINTS:
        title = f"Hint {step}"
        text += fold(title, texts.read_section(exercise, title))
    text += ["## Solution", ""]
    code = ["", "", "```python", texts.read_solution(exercise).rstrip(), "```"]
    text += fold("Solution", texts.read_section(exercise, "Solution") + "\n".join(code))
    return "\n".join([*text, "Back to [all exercises](../exercises.md).", ""])


def fold(title: str, text: str) -> list[str]:
    """Return the lines of a text that is shown after a click on its title."""
    return ["<details>", f"<summary>{title}</summary>", "", text, "", "</details>", ""]


def make_table() -> str:
    """Return the table of all exercises, with a heading for each part."""
    text = []
    for part, heading in PARTS.items():
        rows = [number for number in EXERCISES if number.startswith(part)]
        if rows:
            text += [f"### {heading}", "", "| number | exercise | function |", "|---|---|---|"]
        for number in rows:
            page = f"generated/exercise_{number.replace('.', '_')}.md"
            one = EXERCISES[number]
            text.append(f"| {number} | [{one.title}]({page}) | `{one.function}` |")
        text.append("")
    return "\n".join(text)


def write_pages(app: Sphinx) -> None:
    """Write the pages of all exercises."""
    pages = {student.name_file(number).replace(".py", ".md"): number for number in EXERCISES}
    write(Path(app.srcdir) / FOLDER, {k: NOTE + make_page(v) for k, v in pages.items()})


def insert_table(app: Sphinx, docname: str, source: list[str]) -> None:
    """Insert the table into the page that has its comment."""
    source[0] = TABLE.sub(lambda _: f"{make_table()}\n", source[0])


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages when a build starts, and insert the table when its page is read."""
    app.connect("builder-inited", write_pages)
    app.connect("source-read", insert_table)
    return {"version": "1"}
