"""`purerl plot`: learning curves with bands over seeds, as a picture or in the terminal."""

import sys
from pathlib import Path

from purerl.cli.options import Parser
from purerl.errors import ConfigError
from purerl.runs.console import print_lines, print_warning

OUT = "purerl-plot.png"
EXAMPLES = """examples:
  purerl plot runs/cartpole-v1-ppo                  a picture of its return over steps
  purerl plot ppo sac --legend PPO SAC --smooth 5   below the data folder, as beginnings of names
  purerl plot a b -y Performance KL -x time --out curves.svg
"""


def main(words: list[str]) -> int:
    """Draw runs; return the exit code."""
    parser = Parser("plot", "Draw learning curves with bands over seeds.", EXAMPLES)
    add = parser.add_argument
    # fmt: off
    add("paths", nargs="+", metavar="PATH", help="a run, a folder of runs, or how its name begins")
    add("-x", "--x", "--xaxis", default="steps", metavar="COLUMN",
        help="steps, time, updates, epoch, or a column (default: steps)")
    add("-y", "--y", "--value", nargs="+", default=["Performance"], metavar="COLUMN",
        help="a panel for each; Performance is the test return, else the return (default)")
    add("-s", "--smooth", type=int, default=1, metavar="ROWS",
        help="moving average over so many rows (default: 1)")
    add("-l", "--legend", nargs="+", default=[], metavar="WORD", help="one per PATH, or per curve")
    add("--select", nargs="+", default=[], metavar="PART", help="folders with all of these")
    add("--exclude", nargs="+", default=[], metavar="PART", help="not folders with any of these")
    add("--count", action="store_true", help="a curve for every run, by its folder")
    add("--estimator", "--est", default="mean", metavar="NAME",
        help="mean, median, max or min over seeds; the band is one standard deviation to each side")
    add("--out", metavar="FILE", help=f"picture, .png, .pdf or .svg (default: {OUT} here)")
    add("--ascii", action="store_true", help="curves in the terminal; no picture but with --out")
    add("--data-dir", "--data_dir", help="where runs are (default: the user's, else ./runs)")
    # fmt: on
    args = vars(parser.parse_args(words))
    # imported here, so that --help needs no NumPy
    from purerl.runs.analysis import figures, plots

    ascii_only, given = args.pop("ascii"), args.pop("out")
    out = given or (None if ascii_only else OUT)
    missing = out and not figures.has_matplotlib()
    curves = plots.plot(**args, out=None if missing else out)
    print_lines(figures.draw_sparklines(curves, sys.stdout.encoding))
    if missing and given:
        raise ConfigError(figures.MISSING)
    if missing:
        print_warning(figures.MISSING)
    elif out:
        print_lines(f"picture: {Path(out)}")
    return 0
