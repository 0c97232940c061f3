"""`purerl show ALGO`: equations, settings, and where its functions are."""

import ast
import dataclasses
from pathlib import Path
from types import ModuleType

from purerl import algos
from purerl.cli.options import Parser
from purerl.runs import interrupts
from purerl.runs.console import print_lines

FUNCTIONS = ("init", "act", "policy", "prepare", "loss", "update")


def main(words: list[str]) -> int:
    """Print what an algorithm is."""
    parser = Parser("show", "Equations, settings, and where its functions are.")
    parser.add_argument("algo", help=", ".join(algos.NAMES))
    parser.add_argument("--source", action="store_true", help="print the whole file")
    args = parser.parse_args(words)
    algos.check(args.algo)
    if args.source:
        path = Path(algos.__file__).with_name(f"{args.algo}.py")
        print_lines(path.read_text(encoding="utf-8").rstrip())
    else:
        with interrupts.allow_immediate_exit():
            algo = algos.load(args.algo)  # imports JAX
        print_lines(describe_algorithm(algo))
    return 0


def describe_algorithm(algo: ModuleType) -> str:
    """Return an algorithm's docstring, file:line of its functions, and its settings."""
    path = Path(str(algo.__file__))
    here = Path.cwd()
    where = path.relative_to(here) if path.is_relative_to(here) else path
    text = [str(algo.__doc__).strip(), "", "Functions"]
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and _is_shown(node.name):
            call = f"{node.name}({', '.join(argument.arg for argument in node.args.args)})"
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            text.append(f"  {call:<34} {f'{where}:{node.lineno}':<36} {first}")
    for source in (algo.Spec, algo.SCHEDULE):
        cls = source if isinstance(source, type) else type(source)
        text += ["", f"{cls.__name__}: settings, defaults"]
        for field in dataclasses.fields(source):
            if field.name != "env":
                default = field.default if source is cls else getattr(source, field.name)
                comment = field.metadata.get("help", "")
                text.append(f"  {field.name:<20} {default!r:<16} {comment}".rstrip())
    name = path.stem
    return "\n".join([*text, "", f"purerl train {name} --help   lists them as options."])


def _is_shown(name: str) -> bool:
    return name in FUNCTIONS or (name.endswith("loss") and not name.startswith("_"))
