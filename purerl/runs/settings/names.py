"""Names of settings: ours and Spinning Up's, and the place of each in a configuration.

A setting is a field of the algorithm's `Spec`, of its schedule or of `Options`, or a word about
the run itself. It is named by its field (`gamma`), by part and field (`spec.gamma`,
`schedule:steps`) or by Spinning Up's word (`ac_kwargs:hidden_sizes`). Importing this imports no
JAX; asking does.
"""

import dataclasses
import difflib
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from purerl import algos
from purerl.errors import ConfigError
from purerl.runs.sweeps.results import to_plain

SYNONYMS = {  # of Spinning Up, and of others
    "env_name": "env",
    "env_id": "env",
    "exp_name": "name",
    "total_timesteps": "steps",
    "ac_kwargs:hidden_sizes": "hidden",
    "hidden_sizes": "hidden",
    "hid": "hidden",
    "ac_kwargs:activation": "activation",
    "act": "activation",
    "algo": "method",  # of TRPO: trpo or npg
    "cpu": "num_cpu",
    "dt": "datestamp",
    "l": "layers",
}
REFUSED = {
    "actor_critic": "networks of one's own are given in Python, as Spec(actor=..., critic=...)",
    "actor": "a network of one's own is given in Python, as Spec(actor=...)",
    "critic": "a network of one's own is given in Python, as Spec(critic=...)",
    "ac_kwargs": "give its entries: ac_kwargs:hidden_sizes and ac_kwargs:activation",
    "logger_kwargs": "give exp_name and data_dir",
    "env_fn": "give env, an id of Gymnasium or module:Id",
}
RUN: dict[str, Any] = {  # words about the run, and their types
    "env": str,
    "seed": int,
    "name": str,
    "data_dir": str,
    "datestamp": bool,
    "num_cpu": int,
    "epochs": int,  # steps = epochs * steps_per_epoch
    "layers": int,  # hidden = layers times the width given
}
NEAR = 3  # names in a hint
PARTS = ("spec", "schedule", "options")


class Setting(NamedTuple):
    """Where a setting belongs."""

    part: str  # spec, schedule, options, or run
    name: str
    hint: Any  # annotated type


def get_sources(algo: str) -> dict[str, Any]:
    """Return the dataclass of each part, or the instance whose values are the defaults."""
    from purerl.runs.settings.config import Options

    module = algos.load(algo)
    return {"spec": module.Spec, "schedule": module.SCHEDULE, "options": Options}


def list_settings(algo: str) -> dict[str, Setting]:
    """Return the settings of an algorithm by the names of their fields."""
    found = {name: Setting("run", name, hint) for name, hint in RUN.items()}
    for part, source in get_sources(algo).items():
        cls = source if isinstance(source, type) else type(source)
        hints = typing.get_type_hints(cls)
        for field in dataclasses.fields(cls):
            if field.name not in ("env", "actor", "critic"):
                found[field.name] = Setting(part, field.name, hints[field.name])
    return found


def resolve_name(algo: str, key: str) -> Setting:
    """Find the setting that a key names, or say which is near.

    Example:
        >>> resolve("sac", "ac_kwargs:hidden_sizes")[:2]
        ('spec', 'hidden')
        >>> resolve("sac", "schedule.steps")[:2]
        ('schedule', 'steps')
    """
    known = list_settings(algo)
    word = key.replace("-", "_")
    part, _, name = word.replace(".", ":").rpartition(":")
    setting = known.get(SYNONYMS.get(word, word))
    for refused in (word, word.partition(":")[0]):
        if setting is None and refused in REFUSED:
            raise ConfigError(f"{key}: {REFUSED[refused]}.")
    if setting is None and part in PARTS:
        setting = known.get(name)
        if setting is not None and setting.part != part:
            raise ConfigError(f"{key}: {name} is a field of {setting.part}, not of {part}.")
    if setting is None:
        names = [*known, *(other for other, name in SYNONYMS.items() if name in known)]
        raise ConfigError(f"{algo} has no setting {key!r}.{suggest(name, names)}")
    return setting


def suggest(word: str, known: Iterable[str], form: Callable[[str], str] = repr) -> str:
    """Return a hint to the names that may have been meant, or nothing.

    In any case of letters it is a name itself or another word for it, or else those that it begins
    or ends, or else the one that is spelled most like it.

    Args:
        word: that is not known.
        known: names.
        form: of a name in the hint.

    Example:
        >>> nearest("gama", ["gamma", "lam"]), nearest("lr", ["pi_lr", "vf_lr"])
        (" Did you mean 'gamma'?", " Did you mean 'pi_lr' or 'vf_lr'?")
        >>> nearest("PPO", ["ppo", "vpg"]), nearest("clip", ["vf_clip", "clip_ratio"])
        (" Did you mean 'ppo'?", " Did you mean 'clip_ratio' or 'vf_clip'?")
    """
    known = {name.lower(): name for name in known}
    word = word.lower().replace("learning_rate", "lr")
    near = [n for n in (word, SYNONYMS.get(word)) if n in known][:1]
    if not near and len(word) > 1:
        near = [n for n in known if n.startswith(word) and word != "lr"]  # lr_decay_updates is none
        near += [n for n in known if n.endswith(f"_{word}") or word.endswith(f"_{n}")]
    near = near[:NEAR] or difflib.get_close_matches(word, known, 1)
    return f" Did you mean {' or '.join(form(known[n]) for n in near)}?" if near else ""


def explain_duplicates(key: str, different: Iterable[Any]) -> str:
    """Return what is said where values of a setting are equal, and are counted once.

    Example:
        >>> equal("seed", [0, 1])
        'seed: values that are equal count once, 0, 1'
    """
    return (
        f"{key}: values that are equal count once, {', '.join(str(to_plain(v)) for v in different)}"
    )


def normalise_activation(word: Any) -> Any:
    """Return the name of an activation that others spell as a path or give as a function.

    Example:
        >>> activation("torch.nn.LeakyReLU"), activation("tf.nn.tanh"), activation("swish")
        ('leaky_relu', 'tanh', 'silu')
    """
    if callable(word):
        word = getattr(word, "__name__", word)
    if not isinstance(word, str):
        return word
    name = word.rpartition(".")[2].lower()
    return {"leakyrelu": "leaky_relu", "swish": "silu"}.get(name, name)


def build_configuration(algo: str, given: Mapping[str, Any], base: Any = None) -> dict[str, Any]:
    """Return a configuration for `from_json` out of settings under any of their names.

    Args:
        algo: name of the algorithm.
        given: key -> value.
        base: a configuration to start from.

    Raises:
        ConfigError: with all mistakes in the keys, one in each line.
    """
    made: dict[str, Any] = {part: {} for part in PARTS} | dict(base or {}) | {"algo": algo}
    run: dict[str, Any] = {}
    seen: dict[str, str] = {}
    wrong = [f"{p} must be an object, got {made[p]!r}." for p in PARTS if type(made[p]) is not dict]
    if wrong:
        raise ConfigError("\n".join(wrong))
    for key, value in given.items():
        try:
            part, name, _ = resolve_name(algo, key)
        except ConfigError as error:
            wrong.append(str(error))
            continue
        if name in seen:
            wrong.append(f"{seen[name]} and {key} are the same setting.")
        seen[name] = key
        value = normalise_activation(value) if name == "activation" else value
        if part == "run":
            run[name] = value
        else:
            made[part] = {**made[part], name: value}
    if "steps" in seen and "epochs" in seen:
        wrong.append(f"{seen['steps']} and {seen['epochs']} both say how long: give one.")
    if wrong:
        raise ConfigError("\n".join(wrong))
    _derive(algo, made, run)
    return made | {name: run[name] for name in ("env", "seed", "name") if name in run}


def _derive(algo: str, made: dict[str, Any], run: Mapping[str, Any]) -> None:
    """Put what `epochs` and `layers` say where it belongs, in place."""
    known = get_sources(algo)
    if (epochs := run.get("epochs")) is not None:
        per_epoch = made["schedule"].get("steps_per_epoch", known["schedule"].steps_per_epoch)
        if isinstance(per_epoch, int):  # else the schedule says what is wrong with it
            made["schedule"] = made["schedule"] | {"steps": epochs * per_epoch}
    if (layers := run.get("layers")) is not None:
        width = made["spec"].get("hidden", known["spec"].hidden[:1])
        width = width if isinstance(width, tuple | list) else (width,)
        if len(width) != 1:
            raise ConfigError(f"l = {layers} repeats one width, got hid = {list(width)}.")
        made["spec"] = made["spec"] | {"hidden": tuple(width) * layers}
    elif isinstance(made["spec"].get("hidden"), int):
        made["spec"] = made["spec"] | {"hidden": (made["spec"]["hidden"],)}


def make_placeholder_spaces(algo: str) -> Any:
    """Return spaces that an algorithm accepts: to check its settings before any environment is."""
    from purerl.spaces import Box, Discrete, EnvSpec

    box, discrete = EnvSpec((1,), Box((-1.0,), (1.0,))), EnvSpec((1,), Discrete(2))
    try:
        algos.load(algo).Spec(box)
    except ValueError:
        return discrete
    return box


def find_mistakes(make: Callable[..., Any], given: Mapping[str, Any]) -> list[str]:
    """Return what a dataclass refuses among fields that were given: all of it, not the first.

    Its messages begin with the name of the field, which is left out for the next attempt.
    """
    left, found = dict(given), list[str]()
    while True:
        try:
            make(**left)
        except (ValueError, TypeError) as error:
            named = str(error).partition(" ")[0].partition("[")[0]
            if named in left:
                del left[named]
            elif found:
                return found  # what is left may only be due to what was left out
            else:
                return [str(error)]
            found.append(str(error))
        else:
            return found
