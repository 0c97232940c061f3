"""`purerl exercise`: write the file of an exercise, check it, and print hints and solutions."""

import argparse
import contextlib
import json
import sys
from pathlib import Path

from purerl import errors
from purerl.cli.options import Parser
from purerl.runs import interrupts
from purerl.runs.console import print_lines
from purerl.runs.settings import aliases
from purerl_school import exercises
from purerl_school.exercises import student

EXAMPLES = """examples:
  purerl exercise list              exercises, and which of them are solved
  purerl exercise start 1.1         write exercises/exercise_1_1.py
  purerl exercise check 1.1         check that file, then train with it
  purerl exercise hint 1.1 2        the second of three hints
  purerl exercise solution 1.1      the solution, with its explanation
"""
ACTIONS = ("list", "start", "check", "hint", "solution")


def main(words: list[str]) -> int:
    """Do what an action says; return the code of a wrong answer if a check fails."""
    parser = Parser("exercise", "Do exercises that check themselves.", EXAMPLES)
    add = parser.add_argument
    add("action", nargs="?", default="list", type=_parse_action, help=", ".join(ACTIONS))
    add("number", nargs="?", help="number of the exercise, for example 1.1")
    add("more", nargs="?", metavar="FILE|HINT", help="file to check, or hint 1, 2 or 3")
    text = f"folder of your files (default: {student.FOLDER})"
    add("--folder", type=Path, default=Path(student.FOLDER), metavar="DIR", help=text)
    add("--no-reward", action="store_true", help="check without the training run at the end")
    add("--json", action="store_true", help="print the result of a check as JSON with a score")
    args = parser.parse_args(words)
    _refuse_unused(parser, args)
    if args.action == "list":
        exercises.list_exercises(args.folder)
    elif args.action == "start":
        exercises.start(args.number, args.folder)
        print_lines(f"  purerl exercise check {args.number}{_repeat_folder(args.folder)}")
        print_lines(f"  purerl exercise hint {args.number}")
    elif args.action == "hint":
        exercises.hint(args.number, step := int(args.more or 1))
        if step < 3:
            print_lines(f"\nThe next hint: purerl exercise hint {args.number} {step + 1}")
    elif args.action == "solution":
        exercises.solution(args.number)
    else:
        return _check(args)
    return errors.DONE


def _parse_action(word: str) -> str:
    if word not in ACTIONS:
        near = aliases.suggest(word, ACTIONS)
        raise argparse.ArgumentTypeError(
            f"expected one of {', '.join(ACTIONS)}, got {word!r}.{near}"
        )
    return word


def _refuse_unused(parser: Parser, args: argparse.Namespace) -> None:
    """Refuse arguments that an action does not read, and a missing number."""
    if args.action == "list":
        if args.number:
            parser.error(f"unexpected argument {args.number!r} after list")
    elif args.number is None:
        parser.error(f"{args.action} needs the number of an exercise, for example 1.1")
    if args.more and args.action not in ("check", "hint"):
        parser.error(f"unexpected argument {args.more!r} after {args.action}")
    if args.action == "hint" and args.more and args.more not in ("1", "2", "3"):
        parser.error(f"the hint must be 1, 2 or 3, got {args.more!r}")
    for flag in ("json", "no_reward"):
        if vars(args)[flag] and args.action != "check":
            parser.error(f"--{flag.replace('_', '-')} is only for check")


def _repeat_folder(folder: Path) -> str:
    return "" if folder == Path(student.FOLDER) else f" --folder {folder}"


def _check(args: argparse.Namespace) -> int:
    """Check a file, and train with it if all checks pass."""
    exercise = exercises.find(args.number)
    path = Path(args.more or args.folder / student.name_file(args.number))
    if not path.is_file():
        raise errors.ConfigError(
            f"{path} is not a file. Write it with `purerl exercise start {args.number}`, or give "
            "the path of your file."
        )
    with interrupts.allow_immediate_exit():
        from purerl_school.exercises import checking  # imports JAX
    import purerl

    purerl.setup()
    if not args.json:
        right = exercises.check(args.number, path, not args.no_reward)
        return errors.DONE if right else errors.WRONG_ANSWER
    with contextlib.redirect_stdout(sys.stderr):  # of print in the student's file
        outcomes = list(checking.run_checks(exercise, path))
    cases = [one._asdict() | {"passed": one.passed} for one in outcomes]
    passed = sum(one.passed for one in outcomes)
    score = {"exercise": args.number, "passed": passed, "total": len(cases)}
    print_lines(json.dumps(score | {"score": passed / len(cases), "checks": cases}, indent=1))
    return errors.DONE if passed == len(cases) else errors.WRONG_ANSWER
