"""`purerl lab`: copies of algorithms with one planted error, for students to find."""

import argparse
from pathlib import Path
from typing import Any

from purerl import algos, errors
from purerl.cli.options import Parser
from purerl.cli.values import parse_integer, parse_seed
from purerl.errors import ConfigError
from purerl.runs import interrupts
from purerl.runs.console import align_columns, print_lines
from purerl.runs.settings import aliases
from purerl_school.labs import folder, pictures, planting

EXAMPLES = """examples:
  purerl lab list                     labs, and which of them are solved
  purerl lab ppo                      start the next lab of PPO, in lab_ppo_1
  purerl lab ppo --difficulty 2       start one whose error only the metrics show
  purerl lab train lab_ppo_1          train the copy, beside the right numbers
  purerl lab check lab_ppo_1:100      say that line 100 of the copy is wrong
  purerl lab hint lab_ppo_1           the next of three hints
  purerl lab solution lab_ppo_1       the line, and why it has its effect
"""
ACTIONS = ("list", "train", "check", "hint", "solution")
FLAGS = dict.fromkeys(ACTIONS, ()) | {"train": ("seed",)}  # of actions; the others are for ALGO
POINTS = 5  # points of each curve in the table of `train`


def main(words: list[str]) -> int:
    """Start a lab, or do what an action says."""
    parser = Parser("lab", "Find the planted error in a copy of an algorithm.", EXAMPLES)
    add = parser.add_argument
    add("action", nargs="?", default="list", help=f"an algorithm, or {', '.join(ACTIONS)}")
    add("place", nargs="?", metavar="PLACE", help="folder of a lab; for check: FOLDER:LINE")
    add("line", nargs="?", type=parse_integer, metavar="LINE", help="line, if not in FOLDER:LINE")
    add("--number", type=parse_integer, metavar="N", help="number of the lab (the next one)")
    choices = "1: the curve shows it, 2: the metrics show it, 3: only a test finds it"
    add("--difficulty", type=parse_integer, metavar="1|2|3", help=choices)
    add("--seed", type=parse_seed, metavar="S", help="choose a lab at random; train: the seed (0)")
    add("--folder", type=Path, metavar="DIR", help="folder of the new lab (lab_ALGO_N)")
    args = parser.parse_args(words)
    _refuse_unused(parser, args)
    if args.action == "list":
        print_lines(describe_labs())
    elif args.action == "check":
        print_lines(_check(args.place, args.line))
    elif args.action in ACTIONS:
        lab = folder.find_lab(Path(args.place) if args.place else None)
        if args.action == "train":
            _train(lab, args.seed or 0)
        else:
            explained = folder.explain(lab.algo, lab.number)
            print_lines(folder.give_hint(lab) if args.action == "hint" else explained)
    else:
        _start(args)
    return errors.DONE


def _refuse_unused(parser: Parser, args: argparse.Namespace) -> None:
    """Refuse unknown actions, and arguments that an action does not read."""
    if args.action not in (*ACTIONS, *planting.NAMES):
        near = aliases.suggest(algos.correct(args.action), (*ACTIONS, *planting.NAMES))
        known = ", ".join((*ACTIONS, *planting.NAMES))
        parser.error(f"expected one of {known}, got {args.action!r}.{near}")
    if args.place and (args.action == "list" or args.action in planting.NAMES):
        parser.error(f"unexpected argument {args.place!r} after {args.action}")
    if args.line is not None and args.action != "check":
        parser.error(f"unexpected argument {args.line} after {args.place}")
    for flag in ("number", "difficulty", "seed", "folder"):
        if vars(args)[flag] is not None and flag not in FLAGS.get(args.action, (flag,)):
            parser.error(f"--{flag} is not for {args.action}. Use it as in `purerl lab ppo`.")
    if args.number is not None and (args.difficulty, args.seed) != (None, None):
        parser.error("--number names a lab, and --difficulty and --seed choose one. Give either.")
    if args.difficulty not in (None, *planting.LEVELS):
        parser.error(f"the difficulty must be 1, 2 or 3, got {args.difficulty}")


def describe_labs() -> str:
    """Return a table of all labs, with marks at those in folders below the current one."""
    marks = {(lab.algo, lab.number): "*" if lab.solved else "+" for lab in folder.list_folders()}
    rows = [("algorithm", *(f"difficulty {level}" for level in planting.LEVELS))]
    for algo in planting.NAMES:
        cells = {level: list[str]() for level in planting.LEVELS}
        for number, lab in enumerate(planting.list_labs(algo), 1):
            cells[lab.level].append(f"{number}{marks.get((algo, number), '')}")
        rows.append((algo, *(" ".join(numbers) for numbers in cells.values())))
    legend = "+ started, * solved, in a folder here" if marks else "`purerl lab ppo` starts one."
    return f"{align_columns(rows)}\n{legend}"


def _start(args: argparse.Namespace) -> None:
    number = args.number
    if number is None:
        taken = {lab.number for lab in folder.list_folders() if lab.algo == args.action}
        number = planting.choose_number(args.action, args.difficulty, args.seed, taken)
    where = args.folder or Path(folder.name_folder(args.action, number))
    lab = folder.start_lab(args.action, number, where)
    level = planting.get_lab(lab.algo, number).level
    print_lines(
        f"{where} contains lab {number} of {lab.algo}, difficulty {level}: {folder.MEANINGS[level]}"
    )
    rows = [
        ("task", str(where / "README.md")),
        ("curves, for a browser", str(lab.picture) if lab.picture.exists() else "not stored"),
        ("copy, with one wrong line", str(lab.file)),
        ("train it", f"purerl lab train {where}"),
        ("say which line it is", f"purerl lab check {lab.file}:100"),
        ("ask for a hint", f"purerl lab hint {where}"),
    ]
    print_lines(align_columns(rows))


def _check(place: str | None, line: int | None) -> str:
    """Return the message for a line that is right; `place` may contain the line."""
    file, colon, number = (place or "").rpartition(":")
    if line is None and colon:
        place, line = file, parse_integer(number) if number.isdecimal() else None
    if not place or line is None:
        raise ConfigError(
            "check needs a folder and a line, for example purerl lab check lab_ppo_1:100."
        )
    path = Path(place)
    lab = folder.read_lab(path if path.is_dir() else path.parent)
    if path not in (lab.folder, lab.file):
        raise ConfigError(f"the error is in {lab.file}, got {place}. Give a line of that file.")
    return folder.check_line(lab, line)


def _train(lab: folder.Lab, seed: int) -> None:
    """Train the student's copy, and print its metrics beside those of the right module."""
    with interrupts.allow_immediate_exit():
        import purerl
        from purerl_school.labs import training  # imports JAX

        purerl.setup()
        algo = training.load_copy(lab.file)
    setup, stored = training.SETUPS[lab.algo], pictures.read_curves(lab.algo)
    right = {name: lists[0] for name, lists in stored["curves"]["right"].items()}
    print_lines(f"{lab.file} on {setup.env}, seed {seed}; in brackets the right module, seed 0")
    rows = list[dict[str, Any]]()
    for (row,) in training.train(algo, setup, [seed]):
        rows.append(row)
        score = _compare(row["return"], right["return"][len(rows) - 1])
        print_lines(f"{row['steps']:>9,} steps: return {score}")
    points = [len(rows) * part // POINTS - 1 for part in range(1, POINTS + 1)]
    table = [("steps", *(f"{rows[i]['steps']:,}" for i in points))]
    for name in setup.metrics:
        table.append((name, *(_compare(rows[i][name], right[name][i]) for i in points)))
    print_lines(align_columns(table))


def _compare(value: float | None, right: float | None) -> str:
    return f"{_format(value)} ({_format(right)})"


def _format(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
