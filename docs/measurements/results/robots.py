"""Collect evaluations of robots at 100,000 steps in robots.csv, and draw them in robots.svg.

python docs/measurements/results/robots.py FOLDER   # runs below FOLDER are added to the file
python docs/measurements/results/robots.py          # only draws; pip install -e '.[plot]'
"""

import csv
import statistics
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from purerl.runs.analysis import tables

HERE = Path(__file__).parent
FILE = HERE / "robots.csv"
STEPS = 100_000
COLOURS = {"sac": "#6b7280", "crossq": "#D55E00", "xqc": "#0072B2", "tqc": "#009E73"}
plt.rcParams |= {
    "svg.hashsalt": "purerl",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "figure.facecolor": "white",
}


def read_runs(folder: str) -> list[dict[str, Any]]:
    """Return one row for each evaluation of each run in a folder that made all steps."""
    runs, notes = tables.find_runs([folder])
    short = [run for run in runs if run.columns["TotalEnvInteracts"][-1] < STEPS]
    for note in (*notes, *(f"left out: {run.path} is not complete" for run in short)):
        print(note)
    return [
        {
            "algorithm": run.settings["algo"],
            "environment": run.settings["env"],
            "seed": run.seed,
            "step": int(step),
            "test_return": round(float(value), 1),
        }
        for run in runs
        if run not in short
        for step, value in zip(
            run.columns["TotalEnvInteracts"], run.columns["AverageTestEpRet"], strict=True
        )
    ]


def merge(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all rows in order; a new run replaces an old one of its algorithm and seed."""

    def identify(row: dict[str, Any]) -> tuple[str, str, int]:
        return row["algorithm"], row["environment"], int(row["seed"])

    replaced = {identify(row) for row in new}
    rows = [row for row in old if identify(row) not in replaced] + new
    return sorted(rows, key=lambda row: (*identify(row), int(row["step"])))


def draw(rows: list[dict[str, Any]]) -> None:
    """Draw each seed thin and the mean of an algorithm thick, one panel for each environment."""
    envs = sorted({row["environment"] for row in rows})
    figure, panels = plt.subplots(
        1, len(envs), figsize=(7.8, 2.7), layout="constrained", squeeze=False
    )
    axes = panels[0]
    for axis, env in zip(axes, envs, strict=True):
        for algo, colour in COLOURS.items():
            curves: dict[str, list[tuple[int, float]]] = {}
            for row in rows:
                if (row["algorithm"], row["environment"]) == (algo, env):
                    point = int(row["step"]) / 1000, float(row["test_return"])
                    curves.setdefault(row["seed"], []).append(point)
            for points in curves.values():
                axis.plot(*zip(*points, strict=True), color=colour, alpha=0.3, linewidth=0.8)
            if curves:
                steps = [step for step, _ in min(curves.values(), key=len)]
                values = [[value for _, value in points] for points in curves.values()]
                means = [statistics.fmean(column) for column in zip(*values, strict=False)]
                axis.plot(steps, means, color=colour, linewidth=2, label=algo)
        axis.set(title=env, xlabel="thousand steps")
        axis.set_ylim(min(0.0, axis.get_ylim()[0]))
    axes[0].set_ylabel("return of 10 test episodes")
    lines = [line for axis in axes for line in axis.get_lines()]
    named = {line.get_label(): line for line in lines if not line.get_label().startswith("_")}
    figure.legend(named.values(), named, frameon=False, loc="outside right upper")
    figure.savefig(HERE / "robots.svg", metadata={"Date": None})


def main() -> None:
    """Add the runs of the folders, and draw all."""
    rows: list[dict[str, Any]] = []
    if FILE.exists():
        with FILE.open() as file:
            rows = list(csv.DictReader(file))
    for folder in sys.argv[1:]:
        rows = merge(rows, read_runs(folder))
    with FILE.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    draw(rows)


if __name__ == "__main__":
    main()
