"""Draw the curves of `debugging_a_run.md` from the real runs in docs/measurements/results.

    python docs/learn/pictures/curves.py     # pip install -e '.[plot]'

Each thin line is one seed.
"""

import csv
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "measurements" / "results"
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#6b7280"

plt.rcParams |= {
    "svg.hashsalt": "purerl",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "lines.linewidth": 1.0,
    "figure.facecolor": "white",
}


def read_seeds(name: str) -> dict[str, dict[str, np.ndarray]]:
    """Return the columns of each seed of `docs/measurements/results/NAME.csv`."""
    rows: dict[str, Any] = defaultdict(lambda: defaultdict(list))
    with (RESULTS / f"{name}.csv").open() as file:
        for row in csv.DictReader(file):
            for column, value in row.items():
                rows[row["seed"]][column].append(float(value) if value else np.nan)
    return {seed: {k: np.array(v) for k, v in one.items()} for seed, one in rows.items()}


def draw_seeds(axes: Any, name: str, column: str, scale: float = 1.0, **style: Any) -> None:
    """Draw a column over thousands of steps, a line for each seed."""
    style = {"color": BLUE} | style
    label = style.pop("label", None)
    for i, one in enumerate(read_seeds(name).values()):
        axes.plot(one["step"] / 1e3, scale * one[column], label=label if i == 0 else None, **style)


def draw_limit(axes: Any, y: float, words: str) -> None:
    """Draw a dotted line at a known number, with a text."""
    axes.axhline(y, color=GREY, linestyle=":", linewidth=1)
    place = {"va": "bottom", "ha": "right", "fontsize": 8, "color": GREY, "xytext": (0, 3)}
    units = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    axes.annotate(words, (1, y), **place, **units)


def save(figure: Any, name: str) -> None:
    """Label the lower panels, and write the picture."""
    for axes in figure.axes:
        if axes.get_subplotspec().is_last_row():
            axes.set_xlabel("thousand steps")
    figure.tight_layout()
    figure.savefig(HERE / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


def draw_ppo() -> None:
    """Draw a healthy run of PPO: return, values, entropy, KL."""
    figure, ((a, b), (c, d)) = plt.subplots(2, 2, figsize=(7, 4.4), sharex=True)
    draw_seeds(a, "ppo-cartpole", "test_return")
    a.set_title("test return")
    draw_seeds(b, "ppo-cartpole", "val")
    draw_limit(b, 100, "1 / (1 - gamma)")
    b.set_ylim(0, 118)
    b.set_title("val: mean value")
    draw_seeds(c, "ppo-cartpole", "entropy")
    draw_limit(c, float(np.log(2)), "log 2: uniform")
    c.set_ylim(0.45, 0.73)
    c.set_title("entropy")
    draw_seeds(d, "ppo-cartpole", "kl", marker=".", markersize=3, linewidth=0.5)
    draw_limit(d, 0.015, "1.5 target_kl: stop")
    d.set_ylim(0, 0.0195)
    d.set_title("kl")
    save(figure, "ppo_cartpole")


def draw_values() -> None:
    """Draw mean Q beside a tenth of the return, which is its rough size on HalfCheetah."""
    figure, panels = plt.subplots(1, 3, figsize=(7, 2.6), sharey=True)
    pairs = (("ddpg", "q"), ("td3", "q1"), ("sac", "q1"))
    for axes, (algo, column) in zip(panels, pairs, strict=True):
        name = f"{algo}-halfcheetah"
        draw_seeds(axes, name, column, color=ORANGE, label="mean Q")
        draw_seeds(axes, name, "test_return", 0.1, linestyle="--", label="return / 10")
        axes.axhline(0, color=GREY, linewidth=0.5)
        axes.set_title(algo.upper())
    panels[0].legend(frameon=False, fontsize=8, loc="upper left")
    save(figure, "values_and_returns")


def draw_temperature() -> None:
    """Draw SAC with a learned temperature."""
    figure, (a, b, c) = plt.subplots(1, 3, figsize=(7, 2.6))
    draw_seeds(a, "sac-pendulum", "test_return")
    a.set_title("test return")
    draw_seeds(b, "sac-pendulum", "logp")
    draw_limit(b, 1.0, "minus the target entropy")
    b.set_ylim(-0.9, 1.45)
    b.set_title("logp: minus the entropy")
    draw_seeds(c, "sac-pendulum", "alpha")
    c.set_yscale("log")
    c.set_title("alpha")
    save(figure, "sac_temperature")


def draw_dips() -> None:
    """Draw DQN, whose single evaluations dip."""
    figure, (a, b, c) = plt.subplots(1, 3, figsize=(7, 2.6))
    draw_seeds(a, "dqn-cartpole", "test_return")
    a.set_title("test return")
    draw_seeds(b, "dqn-cartpole", "q")
    draw_limit(b, 100, "1 / (1 - gamma)")
    b.set_ylim(0, 118)
    b.set_title("q: mean value")
    draw_seeds(c, "dqn-cartpole", "epsilon")
    c.set_title("epsilon")
    save(figure, "dqn_cartpole")


def draw_collapse() -> None:
    """Draw TRPO on Pendulum, whose return falls although each step is small."""
    figure, (a, b) = plt.subplots(1, 2, figsize=(7, 2.6))
    draw_seeds(a, "trpo-pendulum", "test_return")
    a.set_title("test return")
    draw_seeds(b, "trpo-pendulum", "kl", marker=".", markersize=3, linewidth=0.5)
    draw_limit(b, 0.01, "delta")
    b.set_ylim(0, 0.0115)
    b.set_title("kl")
    save(figure, "trpo_pendulum")


if __name__ == "__main__":
    for draw in (draw_ppo, draw_values, draw_temperature, draw_dips, draw_collapse):
        draw()
