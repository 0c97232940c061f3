"""Draw seeds.svg from seeds_or_processes.csv, the output of `benchmarks/seeds_or_processes.py`.

python docs/measurements/results/seeds.py     # pip install -e '.[plot]'
"""

import csv
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
COLOURS = {"ppo": "#0072B2", "sac": "#D55E00"}
plt.rcParams |= {
    "svg.hashsalt": "purerl",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "figure.facecolor": "white",
}


def draw() -> None:
    """Draw how many times faster the ways with `--together` are than a process for each seed."""
    with (HERE / "seeds_or_processes.csv").open() as file:
        rows = list(csv.DictReader(file))
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 2.9), sharey=True, layout="constrained")
    titles = {"together": "one process with all seeds", "halves": "two processes, half of them"}
    for axis, (way, title) in zip(axes, titles.items(), strict=True):
        for env in dict.fromkeys(row["environment"] for row in rows):
            mine = [row for row in rows if row["environment"] == env]
            ratios = [float(row["processes"]) / float(row[way]) for row in mine]
            algo, style = mine[0]["algorithm"], "-" if env.startswith("jax:") else "--"
            label = f"{algo.upper()}, {env}"
            seeds = [int(row["seeds"]) for row in mine]
            axis.plot(seeds, ratios, f"o{style}", color=COLOURS[algo], label=label, markersize=4)
        axis.axhline(1.0, color="#6b7280", linewidth=0.8)
        axis.set(xscale="log", xlabel="seeds", title=title)
        axis.set_xticks([2, 8, 32], ["2", "8", "32"])
        axis.minorticks_off()
    axes[0].set_ylim(0.0)
    axes[0].set_ylabel("times faster than\na process for each seed")
    axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(HERE / "seeds.svg", metadata={"Date": None})


if __name__ == "__main__":
    draw()
