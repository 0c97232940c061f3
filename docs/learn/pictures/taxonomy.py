"""Draw taxonomy.svg: the algorithms of purerl by what they learn and where their data come from.

    python docs/learn/pictures/taxonomy.py

The positions are written by hand, and nothing but Python is needed.
"""

from pathlib import Path

WIDTH, HEIGHT = 900, 1090
LEFT, TOP = 92, 78  # of the grid
COLUMNS = (
    ("a policy", ""),
    ("a policy and", "state values V(s)"),
    ("a policy and", "action values Q(s, a)"),
    ("action values", "Q(s, a)"),
)
COLUMN = 200  # width
ROWS = (
    ("the current", "rollout", 236),
    ("both", "", 76),
    ("the replay", "buffer", HEIGHT - 454),
)
KINDS = {  # fill and line, by the kinds of actions
    "all": ("#d3efe4", "#00694d"),
    "discrete": ("#d6e8f5", "#00507d"),
    "box": ("#fdebcf", "#8a5a00"),
}
BOX = (132, 42)
GREY, INK = "#6b7280", "#1f2933"

# name -> column, centre on the vertical axis, kinds of actions
PLACES = {
    "REINFORCE": (0, 116, "all"),
    "VPG": (1, 116, "all"),
    "TRPO": (1, 196, "all"),
    "PPO": (1, 276, "all"),
    "ACER": (2, 352, "discrete"),
    "DDPG": (2, 428, "box"),
    "TD3": (2, 508, "box"),
    "SAC": (2, 588, "box"),
    "CrossQ": (2, 668, "box"),
    "XQC": (2, 748, "box"),
    "TQC": (2, 828, "box"),
    "REDQ": (2, 908, "box"),
    "SAC discrete": (2, 988, "discrete"),
    "DQN": (3, 428, "discrete"),
    "PQN": (3, 196, "discrete"),
}


def draw_text(x: float, y: float, words: str, size: int = 13, **style: str) -> str:
    """Return a line of text, centred unless `style` has another anchor."""
    style = {"text-anchor": "middle", "fill": INK} | {
        k.replace("_", "-"): v for k, v in style.items()
    }
    rest = " ".join(f'{key}="{value}"' for key, value in style.items())
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" {rest}>{words}</text>'


def find_centre(name: str) -> tuple[float, float]:
    """Return the centre of the box of an algorithm."""
    column, y, _ = PLACES[name]
    return LEFT + (column + 0.5) * COLUMN, y


def draw_box(name: str) -> str:
    """Return the box of an algorithm."""
    (x, y), (fill, line) = find_centre(name), KINDS[PLACES[name][2]]
    width, height = BOX
    corner = f'x="{x - width / 2:g}" y="{y - height / 2:g}" width="{width}" height="{height}"'
    rect = f'<rect {corner} rx="7" fill="{fill}" stroke="{line}" stroke-width="1.5"/>'
    return rect + draw_text(x, y + 5, name, 16, font_weight="bold", fill=line)


def draw_arrow(points: str) -> str:
    """Return an arrow along a path."""
    style = f'fill="none" stroke="{GREY}" stroke-width="1.6" marker-end="url(#tip)"'
    return f'<path d="{points}" {style}/>'


def draw_down(first: str, second: str, *words: str) -> str:
    """Return an arrow from a box to the one below it, with lines of text at its right."""
    (x, y), (_, end) = find_centre(first), find_centre(second)
    start, end = y + BOX[1] / 2, end - BOX[1] / 2 - 3
    middle = (start + end) / 2 + 4 - 7 * (len(words) - 1)
    lines = [
        draw_text(x + 9, middle + 14 * i, word, 12, text_anchor="start", fill=GREY)
        for i, word in enumerate(words)
    ]
    return draw_arrow(f"M {x:g} {start:g} V {end:g}") + "".join(lines)


def draw_branch(first: str, second: str, *words: str) -> str:
    """Return an arrow at the left of the boxes between two, with lines of text above the second."""
    (x, start), (_, end) = find_centre(first), find_centre(second)
    left, above = x - BOX[0] / 2, end - BOX[1] / 2 - 5 - 14 * len(words)
    lines = [
        draw_text(x, above + 14 * i, word, 12, fill=GREY) for i, word in enumerate(words, start=1)
    ]
    return draw_arrow(f"M {left:g} {start} h -11 V {end} h 8") + "".join(lines)


def draw_grid() -> list[str]:
    """Return the titles of columns and rows, and the lines between them."""
    right = LEFT + len(COLUMNS) * COLUMN
    parts = [draw_text((LEFT + right) / 2, 24, "What is learned", 14, font_weight="bold")]
    for i, (first, second) in enumerate(COLUMNS):
        x = LEFT + (i + 0.5) * COLUMN
        parts += [draw_text(x, 48 if second else 57, first), draw_text(x, 65, second)]
    y = float(TOP)
    for first, second, height in ROWS:
        parts.append(f'<line x1="8" x2="{right}" y1="{y:g}" y2="{y:g}" stroke="#d5dae0"/>')
        middle = y + height / 2
        parts.append(draw_text(10, middle if second else middle + 4, first, text_anchor="start"))
        parts.append(draw_text(10, middle + 17, second, text_anchor="start"))
        y += height
    parts.append(f'<line x1="8" x2="{right}" y1="{y:g}" y2="{y:g}" stroke="#d5dae0"/>')
    parts.append(draw_text(10, 57, "Data from", 14, font_weight="bold", text_anchor="start"))
    return parts


def draw_hindsight() -> list[str]:
    """Return the frame around the algorithms that also replay with other goals."""
    x, y = LEFT + 2 * COLUMN + 12, 399
    frame = f'x="{x:g}" y="{y}" width="{2 * COLUMN - 20}" height="{HEIGHT - 471}"'
    line = f'<rect {frame} rx="12" fill="none" stroke="{GREY}" stroke-dasharray="5 4"/>'
    x += 1.5 * COLUMN - 10
    first = draw_text(x, HEIGHT - 106, "also with goals", fill=GREY)
    return [line, first, draw_text(x, HEIGHT - 89, "in hindsight (HER)", fill=GREY)]


def draw_legend() -> list[str]:
    """Return the colours with the kinds of actions."""
    texts = {
        "all": "Discrete, MultiDiscrete, Box",
        "discrete": "Discrete",
        "box": "Box",
    }
    parts, x, y = (
        [draw_text(10, HEIGHT - 26, "Actions", 14, font_weight="bold", text_anchor="start")],
        LEFT,
        HEIGHT - 38,
    )
    for kind, words in texts.items():
        fill, line = KINDS[kind]
        parts.append(
            f'<rect x="{x}" y="{y}" width="22" height="15" rx="4" fill="{fill}" stroke="{line}"/>'
        )
        parts.append(draw_text(x + 30, HEIGHT - 26, words, text_anchor="start"))
        x += 58 + round(6.4 * len(words))
    words = "arrow: the idea that is added"
    return [*parts, draw_text(x + 8, HEIGHT - 26, words, text_anchor="start", fill=GREY)]


def draw_arrows() -> list[str]:
    """Return the arrows between the algorithms."""
    half = BOX[0] / 2
    (left, y), (right, _) = find_centre("REINFORCE"), find_centre("VPG")
    dqn, ddpg, pqn = find_centre("DQN"), find_centre("DDPG"), find_centre("PQN")
    vpg, acer = find_centre("VPG"), find_centre("ACER")
    corner = acer[0]
    return [
        draw_arrow(f"M {left + half:g} {y} H {right - half - 3:g}"),
        draw_text((left + right) / 2, y + 36, "a value function", 12, fill=GREY),
        draw_down("VPG", "TRPO", "a limit on the", "change of policy"),
        draw_down("TRPO", "PPO", "clipping instead,", "several steps"),
        draw_arrow(f"M {vpg[0] + half:g} {y} H {corner:g} V {acer[1] - BOX[1] / 2 - 3:g}"),
        draw_text(corner + 9, 212, "replayed sequences,", 12, text_anchor="start", fill=GREY),
        draw_text(corner + 9, 226, "corrected by Retrace", 12, text_anchor="start", fill=GREY),
        draw_arrow(f"M {dqn[0] - half:g} {dqn[1]} H {ddpg[0] + half + 3:g}"),
        draw_text(dqn[0], dqn[1] + 38, "a policy finds", 12, fill=GREY),
        draw_text(dqn[0], dqn[1] + 52, "the best action", 12, fill=GREY),
        draw_arrow(f"M {dqn[0]:g} {dqn[1] - BOX[1] / 2:g} V {pqn[1] + BOX[1] / 2 + 3:g}"),
        draw_text(dqn[0] + 9, 280, "rollouts, no", 12, text_anchor="start", fill=GREY),
        draw_text(dqn[0] + 9, 294, "target network", 12, text_anchor="start", fill=GREY),
        draw_down("DDPG", "TD3", "two critics, delay,", "smoothed targets"),
        draw_down("TD3", "SAC", "sampled actions,", "an entropy bonus"),
        draw_down("SAC", "CrossQ", "normalised batches", "in place of targets"),
        draw_branch("SAC", "TQC", "quantiles, without", "the largest of them"),
        draw_branch("SAC", "REDQ", "an ensemble,", "20 updates per step"),
        draw_branch("SAC", "SAC discrete", "sums over", "all actions"),
        draw_down("CrossQ", "XQC", "kernels of norm 1,", "distributions of returns"),
    ]


def draw() -> str:
    """Return the picture."""
    tip = (
        '<marker id="tip" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M 0 0.5 L 7 4 L 0 7.5 z" fill="{GREY}"/></marker>'
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" font-family="Helvetica, Arial, sans-serif" role="img">'
    )
    title = "<title>Algorithms of purerl by what they learn and where their data come from</title>"
    card = f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="white"/>'
    parts = [head, title, f"<defs>{tip}</defs>", card, *draw_grid(), *draw_hindsight()]
    parts += [*draw_arrows(), *map(draw_box, PLACES), *draw_legend(), "</svg>"]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("taxonomy.svg").write_text(draw())
