"""`purerl export`: write the policy of a run as a folder that needs no purerl."""

from pathlib import Path

from purerl.cli import checkpoint_arguments
from purerl.runs.console import print_lines


def main(words: list[str]) -> int:
    """Export the policy of a run."""
    parser = checkpoint_arguments.make_parser(
        "export",
        "Write a policy as a folder that needs no purerl.",
        checkpoint_arguments.RUN,
        f"{checkpoint_arguments.RUN} --format stablehlo --out policy",
    )
    add = parser.add_argument
    add("--format", default="numpy", metavar="{numpy,stablehlo}", help="default: numpy")
    add("--out", type=Path, help="new folder (default: in the run's)")
    args = parser.parse_args(words)
    path = checkpoint_arguments.load_run(args, args.run).export(args.format, args.out)
    names = ", ".join(sorted(file.name for file in path.iterdir()))
    print_lines(f"written and checked: {path} ({names})")
    return 0
