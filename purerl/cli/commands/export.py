"""`purerl export`: write the policy of a run to a folder that works without purerl."""

from pathlib import Path

from purerl.cli import checkpoint_arguments as arguments
from purerl.runs.console import print_lines


def main(words: list[str]) -> int:
    """Export the policy of a run."""
    text = "Write the policy of a run to a folder that works without purerl."
    example = f"{arguments.RUN} --format stablehlo --out policy"
    parser = arguments.make_parser("export", text, example)
    add = parser.add_argument
    add("--format", default="numpy", metavar="{numpy,stablehlo}", help="format (default: numpy)")
    add("--out", type=Path, metavar="DIR", help="new folder (default: in the folder of the run)")
    args = parser.parse_args(words)
    path = arguments.load_run(args, args.run).export(args.format, args.out)
    names = ", ".join(sorted(file.name for file in path.iterdir()))
    print_lines(f"written and checked: {path} ({names})")
    return 0
