"""Draw loop.svg: the loop of agent and environment, with the names of purerl.

python docs/learn/pictures/loop.py
"""

from pathlib import Path

GREY, INK = "#6b7280", "#1f2933"


def draw_text(x: float, y: float, words: str, size: int = 14, **style: str) -> str:
    """Return a line of text, centred unless `style` has another anchor."""
    given = {key.replace("_", "-"): value for key, value in style.items()}
    style = {"text-anchor": "middle", "fill": INK} | given
    rest = " ".join(f'{key}="{value}"' for key, value in style.items())
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" {rest}>{words}</text>'


def draw_box(x: float, words: tuple[str, ...], fill: str, line: str) -> str:
    """Return a box with a title and smaller lines below it."""
    rect = f'<rect x="{x - 105:g}" y="75" width="210" height="90" rx="9" '
    rect += f'fill="{fill}" stroke="{line}" stroke-width="1.5"/>'
    title = draw_text(x, 106, words[0], 17, font_weight="bold", fill=line)
    rest = "".join(draw_text(x, 129 + 19 * i, word, 13) for i, word in enumerate(words[1:]))
    return rect + title + rest


def draw() -> str:
    """Return the picture."""
    arrow = f'fill="none" stroke="{GREY}" stroke-width="1.8" marker-end="url(#tip)"'
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 240" width="720" height="240" '
        'font-family="Helvetica, Arial, sans-serif" role="img">',
        "<title>The agent sends an action, the environment returns reward and observation</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M 0 0.5 L 7 4 L 0 7.5 z" fill="{GREY}"/>'
        "</marker></defs>",
        '<rect width="720" height="240" rx="10" fill="white"/>',
        draw_box(
            145, ("agent", "act(params, obs, key)", "update(state, batch)"), "#d6e8f5", "#00507d"
        ),
        draw_box(575, ("environment", "env.step(act)", "env.reset()"), "#d3efe4", "#00694d"),
        f'<path d="M 145 75 V 42 H 575 V 71" {arrow}/>',
        draw_text(360, 30, "action a: act"),
        f'<path d="M 575 165 V 200 H 145 V 169" {arrow}/>',
        draw_text(360, 190, "reward r: rew, next observation s': next_obs"),
        draw_text(360, 222, "ends: terminated, truncated"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("loop.svg").write_text(draw())
