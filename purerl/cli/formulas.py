"""Equations of docstrings, which are in TeX, as a terminal can show them."""

import re
import unicodedata

LETTERS = ("alpha", "beta", "gamma", "delta", "epsilon", "theta", "mu", "pi", "phi")
GREEK = {name: unicodedata.lookup(f"GREEK SMALL LETTER {name.upper()}") for name in LETTERS}
SIGNS = {
    "ell": "l",
    "ge": ">=",
    "le": "<=",
    "sim": "~",
    "quad": "  ",
    "qquad": "    ",
    "Big": "",
}
INNER = r"\{([^{}]*)\}"


def readable(text: str, encoding: str = "utf-8") -> str:
    r"""Return a docstring with its equations in letters and signs.

    Args:
        text: with `.. math::` before indented lines, and `:math:` before words in backquotes.
        encoding: of the terminal; where it has no Greek letters they are written out.

    Example:
        >>> readable(r":math:`\hat A = \frac{x^{-1}}{y + \text{max}_{a'} z}`")
        "A_hat = (x^-1 / (y + max_a' z))"
    """
    blocks = re.compile(r"^\.\. math::\n((?: {4}.*\n?)+)", re.MULTILINE)
    text = blocks.sub(lambda m: _equation(m[1]), text)
    text = re.sub(r":math:`([^`]*)`", lambda m: _equation(m[1]), text)
    try:
        "".join(GREEK.values()).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        for name, letter in GREEK.items():
            text = text.replace(letter, name)
    return text


def _equation(tex: str) -> str:
    """Return an equation without the commands of TeX."""
    before = ""
    while before != tex:  # from the innermost braces outwards
        before = tex
        tex = re.sub(rf"\\(?:mathbb|mathrm|mathcal|text){INNER}", r"\1", tex)
        tex = re.sub(rf"\\(hat|bar|tilde)\s*(?:{INNER}|(\w))", _accented, tex)
        tex = re.sub(rf"([_^]){INNER}", lambda m: m[1] + _grouped(m[2]), tex)
        tex = re.sub(
            rf"\\frac{INNER}{INNER}", lambda m: f"({_grouped(m[1])} / {_grouped(m[2])})", tex
        )
        tex = re.sub(rf"\\sqrt{INNER}", _rooted, tex)
    tex = tex.replace("\\\\", "").replace("&", "").replace("\\|", "||").replace("\\,[", "[")
    tex = re.sub(r" *\\[,;] *", " ", tex)
    tex = re.sub(r"\\([A-Za-z]+)", lambda m: (GREEK | SIGNS).get(m[1], m[1]), tex)
    return re.sub(r" +$", "", tex, flags=re.MULTILINE)


def _rooted(match: re.Match[str]) -> str:
    inner = match[1]
    return f"sqrt{inner}" if inner[:1] + inner[-1:] == "()" else f"sqrt({inner})"


def _accented(match: re.Match[str]) -> str:
    return f"{match[2] or match[3]}_{match[1]}"


def _grouped(part: str) -> str:
    """Return a part in parentheses, unless it is one thing: `a`, `f(a | s)`."""
    depth = 0
    for sign in part:
        depth += (sign in "([") - (sign in ")]")
        if sign == " " and not depth:
            return f"({part})"
    return part
