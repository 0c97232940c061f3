"""`purerl export`: write the policy of a run as a folder that needs no purerl."""

from pathlib import Path

from purerl.cli import checkpoint_arguments as arguments
from purerl.runs.console import print_lines


def main(words: list[str]) -> int:
    """Export the policy of a run."""
    text = "Write a policy as a folder that needs no purerl."
    example = f"{arguments.RUN} --format stablehlo --out policy"
    parser = arguments.make_parser("export", text, example)
    add = parser.add_argument
    add("--format", default="numpy", metavar="{numpy,stablehlo}", help="default: numpy")
    add("--out", type=Path, help="new folder (default: in the run's)")
    args = parser.parse_args(words)
    path = arguments.load_run(args, args.run).export(args.format, args.out)
    names = ", ".join(sorted(file.name for file in path.iterdir()))
    print_lines(f"written and checked: {path} ({names})")
    return 0
