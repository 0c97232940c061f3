"""Presets: settings of an algorithm for an environment, with the score that they reached.

`purerl/presets/ALGO.json` contains those of an algorithm. This module does not import JAX.
"""

import difflib
import json
from collections.abc import Collection, Mapping
from importlib import resources
from typing import Any, NamedTuple

from purerl.errors import ConfigError

NONE = "none"  # the preset that changes no default
SPINNING_UP = "spinningup"  # Spinning Up's numbers, for every environment


class Preset(NamedTuple):
    """Settings under purerl's names, and the runs that show what they reach."""

    name: str  # environment id, or another name, such as `spinningup`
    about: str  # result of the runs, or the origin of the settings
    settings: Mapping[str, Any]


def read_presets(algo: Any) -> dict[str, Preset]:
    """Return the presets of an algorithm by their names; a custom algorithm has none."""
    if not isinstance(algo, str):
        return {}
    file = resources.files("purerl").joinpath("presets", f"{algo}.json")
    if not file.is_file():
        return {}
    content = json.loads(file.read_text(encoding="utf-8"))
    return {name: Preset(name, _describe(one), one["settings"]) for name, one in content.items()}


def choose_preset(algo: Any, env: Any, name: str | None = None) -> Preset | None:
    """Return the preset of a name; without a name, that of the environment if it has one.

    Environments such as `jax:CartPole-v1` have the preset of their twin in Gymnasium.
    """
    if name is None and not isinstance(env, str):
        return None
    found = read_presets(algo)
    if name is None:
        return found.get(env, found.get(env.removeprefix("jax:")))
    if name in found:
        return found[name]
    if name == NONE:
        return None
    known = [*found, NONE]
    near = difflib.get_close_matches(name, known, 1)
    hint = f"Did you mean {near[0]}?" if near else f"Choose from {', '.join(known)}."
    raise ConfigError(f"preset: {algo} has no preset {name!r}. {hint}")


def describe_preset(preset: Preset, own: Collection[str] = ()) -> str:
    """Return the line of a run that uses a preset; `own` are settings that replace others."""
    used = {name: value for name, value in preset.settings.items() if name not in own}
    pairs = " ".join(f"{name}={_format(value)}" for name, value in used.items())
    replaced = ", ".join(name for name in preset.settings if name in own)
    less = f" without {replaced}" if replaced else ""
    return (
        f"preset {preset.name}{less} ({preset.about}): {pairs}. `--preset none` uses the defaults."
    )


def _describe(content: Mapping[str, Any]) -> str:
    if "about" in content:
        return str(content["about"])
    if not (scores := content.get("scores")):
        return "not measured"
    which = f"mean of seeds 0 to {len(scores) - 1}" if len(scores) > 1 else "seed 0"
    return f"return {sum(scores) / len(scores):.1f}, {which}"


def _format(value: Any) -> str:
    """Return a value as the command line reads it."""
    if isinstance(value, list):
        return ",".join(map(_format, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
