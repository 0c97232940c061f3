"""`purerl show ALGO`: print equations, settings and the source lines of functions."""

import ast
import contextlib
import dataclasses
import re
from pathlib import Path

from purerl import algos
from purerl.cli.options import Parser
from purerl.runs import interrupts
from purerl.runs.console import print_lines
from purerl.runs.settings import presets

FUNCTIONS = "init|act|policy|prepare|update|loss|[a-z].*loss"


def main(words: list[str]) -> int:
    """Print the description of an algorithm, or its source."""
    parser = Parser("show", "Show the equations, settings and source lines of an algorithm.")
    parser.add_argument("algo", help=", ".join(algos.NAMES))
    parser.add_argument("--source", action="store_true", help="print the source file instead")
    args = parser.parse_args(words)
    algos.check(args.algo)
    path = Path(algos.__file__).with_name(f"{args.algo}.py")
    source = path.read_text(encoding="utf-8")
    if args.source:
        print_lines(source.rstrip())
        return 0
    with interrupts.allow_immediate_exit():
        algo = algos.load(args.algo)  # imports JAX
    where = path
    with contextlib.suppress(OSError, ValueError):  # the current folder is deleted, or elsewhere
        where = path.relative_to(Path.cwd())
    text = [str(algo.__doc__).strip(), "", "Functions"]
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and re.fullmatch(FUNCTIONS, node.name):
            call = f"{node.name}({', '.join(argument.arg for argument in node.args.args)})"
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            text.append(f"  {call:<34} {f'{where}:{node.lineno}':<36} {first}")
    for settings in (algo.Spec, algo.SCHEDULE):
        cls = settings if isinstance(settings, type) else type(settings)
        text += ["", f"{cls.__name__}: settings, defaults"]
        for field in dataclasses.fields(settings):
            if field.name != "env":
                default = field.default if settings is cls else getattr(settings, field.name)
                comment = field.metadata.get("help", "")
                text.append(f"  {field.name:<20} {default!r:<16} {comment}".rstrip())
    if found := presets.read_presets(args.algo):
        text += ["", "Presets: `purerl train` uses that of the environment"]
        text += [f"  {one.name:<28} {one.about}" for one in found.values()]
    print_lines("\n".join([*text, "", f"`purerl train {args.algo} --help` lists their flags."]))
    return 0
