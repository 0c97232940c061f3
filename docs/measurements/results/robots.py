"""Collect evaluations of robots at 100,000 steps in robots.csv, and draw them in robots.svg.

python docs/measurements/results/robots.py FOLDER        # runs below FOLDER are added to the file
python docs/measurements/results/robots.py               # only draws; pip install -e '.[plot]'
python docs/measurements/results/robots.py --to FOLDER   # the file as runs that `compare` reads
"""

import argparse
import csv
import itertools
import json
import statistics
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("svg")
import matplotlib.pyplot as plt

from purerl.runs.analysis import statistics as estimates
from purerl.runs.analysis import tables

HERE = Path(__file__).parent
FILE = HERE / "robots.csv"
STEPS = 100_000
SCALE = {  # scores of random actions, and of TD3 after 1M steps in version 4
    "HalfCheetah-v5": (-289.4, 10574.0),
    "Hopper-v5": (18.8, 3226.0),
    "Walker2d-v5": (2.8, 3946.0),
}
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
            "seconds": round(float(seconds)),
        }
        for run in runs
        if run not in short
        for step, value, seconds in zip(
            *(run.columns[name] for name in ("TotalEnvInteracts", "AverageTestEpRet", "Time")),
            strict=True,
        )
    ]


def identify(row: dict[str, Any]) -> tuple[str, str, int]:
    """Return the run of a row: its algorithm, environment and seed."""
    return row["algorithm"], row["environment"], int(row["seed"])


def write_runs(rows: list[dict[str, Any]], folder: Path) -> None:
    """Write each run's evaluations as the table of a run folder."""
    for (algo, env, seed), group in itertools.groupby(rows, identify):
        path = folder / f"{env.lower()}-{algo}" / f"{env.lower()}-{algo}_s{seed}"
        path.mkdir(parents=True)
        config = {"algo": algo, "env": env, "seed": seed, "spec": {}, "schedule": {}}
        (path / "config.json").write_text(json.dumps(config))
        with (path / "progress.txt").open("w", newline="") as file:
            writer = csv.writer(file, delimiter="\t", lineterminator="\n")
            writer.writerow(("TotalEnvInteracts", "AverageTestEpRet", "Time"))
            writer.writerows((row["step"], row["test_return"], row["seconds"]) for row in group)


def merge(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all rows in order; a new run replaces an old one of its algorithm and seed."""
    replaced = {identify(row) for row in new}
    rows = [row for row in old if identify(row) not in replaced] + new
    return sorted(rows, key=lambda row: (*identify(row), int(row["step"])))


def score(rows: list[dict[str, Any]], algo: str) -> list[np.ndarray]:
    """Return the scaled scores of an algorithm's seeds, one array for each environment."""
    scores = []
    for env, (low, high) in SCALE.items():
        runs = itertools.groupby(
            (row for row in rows if (row["algorithm"], row["environment"]) == (algo, env)), identify
        )
        last = [[float(row["test_return"]) for row in group][-2:] for _, group in runs]
        scores.append((np.mean(last, axis=1) - low) / (high - low))
    return scores


def compare(rows: list[dict[str, Any]], first: str, second: str) -> tuple[float, Any]:
    """Return the ratio of two algorithms' interquartile means over SCALE, with its interval."""
    iqm, envs = estimates.pool("iqm"), len(SCALE)

    def divide(groups: estimates.Scores) -> np.ndarray:
        return iqm(groups[:envs]) / iqm(groups[envs:])

    groups = [*score(rows, first), *score(rows, second)]
    return float(divide(groups)), estimates.bootstrap_interval(divide, groups)


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
    """Add the runs of the folders and draw all, or write the runs of the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--to", type=Path, help="new folder for the runs of robots.csv")
    typed = parser.parse_args()
    with FILE.open() as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    if typed.to:
        write_runs(rows, typed.to)
        return
    for folder in typed.folders:
        rows = merge(rows, read_runs(folder))
    with FILE.open("w", newline="") as file:
        names = ("algorithm", "environment", "seed", "step", "test_return", "seconds")
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    draw(rows)
    ratio, (low, high) = compare(rows, "crossq", "sac")
    print(f"score of CrossQ over that of SAC: {ratio:.2f}, 95 % interval {low:.2f} to {high:.2f}")


if __name__ == "__main__":
    main()
