"""Draw clipping.svg: one row of PPO's objective over the probability ratio.

python docs/learn/pictures/clipping.py     # pip install -e '.[plot]'
"""

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np

BLUE, GREY = "#0072B2", "#6b7280"
CLIP = 0.2  # default of `clip_ratio`

plt.rcParams |= {
    "svg.hashsalt": "purerl",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "figure.facecolor": "white",
}


def main() -> None:
    """Write the picture beside this file."""
    figure, panels = plt.subplots(1, 2, figsize=(7, 2.5))
    ratio = np.linspace(0.4, 1.6, 241)
    for axes, adv in zip(panels, (1.0, -1.0), strict=True):
        clipped = ratio.clip(1 - CLIP, 1 + CLIP)
        axes.plot(ratio, ratio * adv, color=GREY, linestyle="--", linewidth=1, label="r A")
        axes.plot(
            ratio, np.minimum(ratio * adv, clipped * adv), color=BLUE, linewidth=2, label="min"
        )
        for x in (1 - CLIP, 1 + CLIP):
            axes.axvline(x, color=GREY, linestyle=":", linewidth=1)
        axes.plot(1, adv, "o", color=BLUE)
        axes.set_xticks([0.4, 1 - CLIP, 1, 1 + CLIP, 1.6])
        axes.set_xlabel("r: ratio of new to old probability")
        axes.set_title("A = 1: a good action" if adv > 0 else "A = -1: a bad action")
        axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(Path(__file__).with_name("clipping.svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
