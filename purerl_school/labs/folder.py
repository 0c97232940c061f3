"""Folders of labs: start one, check a guess, and give hints and the solution."""

import dataclasses
import difflib
import textwrap
from pathlib import Path

from purerl.errors import ConfigError, WrongAnswer
from purerl.runs.record import files, status
from purerl_school.labs import pictures, planting
from purerl_school.labs.planting import Planted

NAME = "lab.json"
README = """# A bug lab: {algo} {number}

`{algo}.py` is a copy of purerl's module with **one** planted error. Find its line.
Difficulty {level}: {meaning}

{curves}

1. Look at the curves. Which metric is the first that cannot be right?
2. Read `{algo}.py` beside its equations.
3. Probe it: call one function with numbers that you know. In this folder:

       python -c "import {algo}; help({algo}.loss)"

   "Why RL code fails silently" in the documentation has probes and tests to copy.
4. Train it, and compare: `purerl lab train {folder}`
5. Say which line it is, for example line 100: `purerl lab check {folder}/{algo}.py:100`

`purerl lab hint {folder}` gives three hints, one at a time.
`purerl lab solution {folder}` explains the error.

You may edit the copy as you like. A `diff` with purerl's file would show the line at once, and
teach you nothing.
"""
CURVES = """\
`curves.svg` shows training runs of this copy beside those of the right module. Open it in a
browser. The runs are on {env} and have {steps:,} steps; each line is a seed ({seeds})."""
NO_CURVES = "purerl has no stored curves of this lab. Train it (step 4) to see its metrics."
MEANINGS = {
    1: "the learning curve shows the error at once.",
    2: "the other metrics show where it is.",
    3: "the curves look right, or do not show where it is. Test single functions.",
}


@dataclasses.dataclass(frozen=True)
class Lab:
    """A lab that a student has started."""

    folder: Path
    algo: str
    number: int
    hints: int = 0  # number of hints that were given
    solved: bool = False

    @property
    def file(self) -> Path:
        """Copy of the algorithm."""
        return self.folder / f"{self.algo}.py"

    @property
    def picture(self) -> Path:
        """Picture of the curves, which labs without stored curves lack."""
        return self.folder / "curves.svg"


def name_folder(algo: str, number: int) -> str:
    """Return the default name of the folder of a lab."""
    return f"lab_{algo}_{number}"


def start_lab(algo: str, number: int, folder: Path) -> Lab:
    """Write the folder of a lab: the copy, the curves, the task, and the state."""
    error, planted = planting.get_lab(algo, number), planting.plant(algo, number)
    if folder.exists():
        raise ConfigError(
            f"{folder} already exists; purerl never overwrites files. Choose another --folder."
        )
    lab, curves = Lab(folder, algo, number), NO_CURVES
    files.make_folder(folder)
    files.replace_file(lab.file, planted.source.encode())
    if pictures.has_curves(algo, number):
        stored = pictures.read_curves(algo)
        files.replace_file(lab.picture, pictures.draw(algo, number).encode())
        seeds = ", ".join(map(str, stored["seeds"]))
        curves = CURVES.format(env=stored["env"], steps=stored["steps"], seeds=seeds)
    facts = {"algo": algo, "number": number, "level": error.level, "folder": folder}
    text = README.format(**facts, meaning=MEANINGS[error.level], curves=curves)
    files.replace_file(folder / "README.md", text.encode())
    write_state(lab)
    return lab


def write_state(lab: Lab) -> None:
    """Write the state of a lab to its folder."""
    state = {k: v for k, v in dataclasses.asdict(lab).items() if k != "folder"}
    files.write_json(lab.folder / NAME, state)


def list_folders(folder: Path = Path()) -> list[Lab]:
    """Return the labs in the folders below a folder."""
    return [read_lab(path.parent) for path in sorted(folder.glob(f"*/{NAME}"))]


def read_lab(folder: Path) -> Lab:
    """Return the lab of a folder."""
    path = folder / NAME
    if not path.is_file():
        raise ConfigError(
            f"{folder} is not the folder of a lab: it has no {NAME}. `purerl lab ppo` starts a lab."
        )
    try:
        lab = Lab(folder, **status.read_json(path))
        planting.get_lab(lab.algo, lab.number)
    except (ConfigError, TypeError) as error:
        raise ConfigError(f"{path} is damaged: {error} Start the lab in a new folder.") from error
    return lab


def find_lab(folder: Path | None) -> Lab:
    """Return the lab of a folder; without one, the lab of the current folder or the only below."""
    here = Path()
    if folder is not None or (here / NAME).exists():
        return read_lab(folder or here)
    found = list_folders(here)
    if len(found) == 1:
        return found[0]
    names = ", ".join(str(lab.folder) for lab in found) or "none"
    raise ConfigError(f"give the folder of a lab. Labs here: {names}. `purerl lab ppo` starts one.")


def check_line(lab: Lab, line: int) -> str:
    """Return the message for the right line, and note that the lab is solved.

    Raises:
        WrongAnswer: If the line is not that of the error.
    """
    planted = planting.plant(lab.algo, lab.number)
    original = map_line(planted, lab.file, line)
    if original in planted.lines:
        write_state(dataclasses.replace(lab, solved=True))
        return f"right: line {line} is the error. `purerl lab solution {lab.folder}` explains it."
    if original in planted.body:
        raise WrongAnswer(f"close: line {line} is not the error, but this is the right function.")
    raise WrongAnswer(f"wrong: line {line} is not the error, and this is not the function.")


def map_line(planted: Planted, file: Path, line: int) -> int:
    """Return the line of the copy as it was made, for a line of the student's edited copy."""
    edited = files.read_text(file).splitlines()
    if not 1 <= line <= len(edited):
        raise ConfigError(f"{file} has the lines 1 to {len(edited)}, got {line}.")
    matcher = difflib.SequenceMatcher(None, planted.source.splitlines(), edited, autojunk=False)
    for tag, start, end, edited_start, edited_end in matcher.get_opcodes():
        same_size = end - start == edited_end - edited_start
        if edited_start < line <= edited_end and (tag == "equal" or same_size):
            return line - edited_start + start
    raise ConfigError(
        f"line {line} of {file} is one that you have added. Give a line of the copy as it was made."
    )


def give_hint(lab: Lab) -> str:
    """Return the next hint, and note that it was given; after the third, the third again."""
    error, planted = planting.get_lab(lab.algo, lab.number), planting.plant(lab.algo, lab.number)
    hints = (error.clue, error.probe, f"The error is in {planted.function}.")
    number = min(lab.hints, len(hints) - 1)
    write_state(dataclasses.replace(lab, hints=number + 1))
    return f"hint {number + 1} of {len(hints)}: {hints[number]}"


def explain(algo: str, number: int) -> str:
    """Return the solution of a lab: the error, its line, its equation, its effect and its cause."""
    error, planted = planting.get_lab(algo, number), planting.plant(algo, number)
    said = (f"In the curves: {error.effect}", f"Why: {error.why}", f"Test: {error.probe}")
    return "\n".join(
        [
            f"{algo} {number}: {error.name}",
            "",
            f"{algo}.py, line {planted.lines[0]}, in {planted.function}:",
            f"  planted   {error.new}",
            f"  right     {error.old}",
            f"  equation  {error.equation}",
            *("", *(textwrap.fill(text, 96) for text in said)),
        ]
    )
