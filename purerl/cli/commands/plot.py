"""`purerl plot`: draw learning curves with bands over seeds, as a picture or in the terminal."""

import sys
from pathlib import Path

from purerl.cli.options import Parser
from purerl.errors import ConfigError
from purerl.runs.console import get_encoding, print_lines, print_warning

OUT = "purerl-plot.png"
EXAMPLES = """examples:
  purerl plot runs/cartpole-v1-ppo                  return over steps
  purerl plot ppo sac --legend PPO SAC --smooth 5   names in the data folder
  purerl plot a b -y Performance KL -x time --out curves.svg
"""


def main(words: list[str]) -> int:
    """Draw runs; return the exit code."""
    parser = Parser("plot", "Draw learning curves with bands of one standard deviation.", EXAMPLES)
    add = parser.add_argument
    # fmt: off
    add("paths", nargs="+", metavar="PATH", help="run, folder of runs, or beginning of its name")
    add("-x", "--x", "--xaxis", default="steps", metavar="COLUMN",
        help="x axis: steps, time, updates, epoch or a column (default: steps)")
    add("-y", "--y", "--value", nargs="+", default=["Performance"], metavar="COLUMN",
        help="columns, one panel each (default: Performance, the test return or else the return)")
    add("-s", "--smooth", type=int, default=1, metavar="ROWS",
        help="number of rows in the moving average (default: 1)")
    add("-l", "--legend", nargs="+", default=[], metavar="TEXT", help="one label per PATH or curve")
    add("--select", nargs="+", default=[], metavar="PART", help="keep only paths with all parts")
    add("--exclude", nargs="+", default=[], metavar="PART", help="drop paths with any of the parts")
    add("--count", action="store_true", help="draw one curve per run, labelled by its folder")
    add("--estimator", "--est", default="mean", metavar="NAME",
        help="curve over seeds: mean, median, max or min (default: mean)")
    add("--out", metavar="FILE", help=f"picture: .png, .pdf or .svg (default: {OUT})")
    add("--ascii", action="store_true", help="draw in the terminal; no picture without --out")
    add("--data-dir", "--data_dir", help="folder of all runs (default: the user's, else ./runs)")
    # fmt: on
    args = vars(parser.parse_args(words))
    # imported here because --help must not need NumPy
    from purerl.runs.analysis import figures, plots

    ascii_only, given = args.pop("ascii"), args.pop("out")
    out = given or (None if ascii_only else OUT)
    missing = figures.explain_missing() if out else ""
    curves = plots.plot(**args, out=None if missing else out)
    print_lines(figures.draw_sparklines(curves, get_encoding(sys.stdout)))
    if missing and given:
        raise ConfigError(missing)
    if missing:
        print_warning(missing)
    elif out:
        print_lines(f"picture: {Path(out)}")
    return 0
