"""Write the pages of the bug labs and their pictures, from the tables of errors and the curves."""

from pathlib import Path
from typing import Any

from api_pages import write
from sphinx.application import Sphinx

from purerl_school.labs import folder, pictures, planting

NOTE = "<!-- Written by docs/extensions/lab_pages.py from purerl_school/labs. -->"


def make_page(algo: str) -> str:
    """Return the page of an algorithm: each lab with its picture, and its folded solution."""
    stored = pictures.read_curves(algo)
    seeds, versions = ", ".join(map(str, stored["seeds"])), stored["versions"]
    made = ", ".join(f"{name} {versions[name]}" for name in ("purerl", "jax", "python"))
    text = [
        *(NOTE, "", f"# Bug labs of {algo}", ""),
        f"The curves are from runs on {stored['env']} with {stored['steps']:,} steps and the seeds",
        f"{seeds}. `{stored['command']}` repeats them ({made}). Look at a picture, and say what is",
        "wrong, before you unfold the solution. [Bug labs](../learn/bug_labs.md) explains how to",
        "find the line.",
        "",
    ]
    for number, error in enumerate(planting.list_labs(algo), 1):
        planted = planting.plant(algo, number)
        text += [
            *(f"## {algo} {number}", ""),
            f"Difficulty {error.level}: {folder.MEANINGS[error.level]} Start it with",
            *(f"`purerl lab {algo} --number {number}`.", ""),
            *(describe_curves(algo, number), ""),
            *("<details>", "<summary>Solution</summary>", ""),
            f"**{error.name[0].upper()}{error.name[1:]}**, in `{planted.function}`:",
            *("", "```diff", f"- {error.new}", f"+ {error.old}", "```", ""),
            *("The equation:", "", "```text", error.equation, "```", ""),
            *(f"*In the curves:* {error.effect}", ""),
            *(f"*Why:* {error.why}", ""),
            *(f"*A test that finds it:* {error.probe}", "", "</details>", ""),
        ]
    return "\n".join(text)


def describe_curves(algo: str, number: int) -> str:
    """Return the link to the picture of a lab, or how to make its curves."""
    if pictures.has_curves(algo, number):
        return f"![Curves of {algo}, right and with error {number}]({algo}_{number}.svg)"
    return f"No curves are stored. `python benchmarks/lab_curves.py {algo}:{number}` makes them."


def write_pages(app: Sphinx) -> None:
    """Write the pages and pictures of all algorithms."""
    pages = {f"{algo}.md": make_page(algo) for algo in planting.NAMES}
    for algo in planting.NAMES:
        numbers = range(1, len(planting.list_labs(algo)) + 1)
        stored = [number for number in numbers if pictures.has_curves(algo, number)]
        pages |= {f"{algo}_{number}.svg": pictures.draw(algo, number) for number in stored}
    write(Path(app.srcdir) / "labs", pages)


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages when a build starts."""
    app.connect("builder-inited", write_pages)
    return {"version": "1"}
