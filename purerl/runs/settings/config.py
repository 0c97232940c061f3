"""The configuration of a run and its form in JSON: printed, saved and loaded back the same."""

import dataclasses
import difflib
import functools
import math
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any

from purerl import algos, checks
from purerl.errors import ConfigError
from purerl.fields import setting
from purerl.runs.record import files
from purerl.runs.settings.environments import make_env_fn, make_env_fn_of_file, read_env_spec
from purerl.spaces import Box, Discrete, EnvSpec

__all__ = [
    "Config",
    "Options",
    "choose_name",
    "from_json",
    "make_env_fn",
    "make_env_fn_of_file",
    "parse_spaces",
    "read_env_spec",
    "to_json",
]

PARTS = ("spec", "schedule", "options")
KEYS = ("algo", "env", "seed", "name", *PARTS)
MAX_OBS = 2**28  # numbers in an observation that a file may claim


@dataclasses.dataclass(frozen=True)
class Options:
    """Options for checkpoints and reports of a run."""

    save_freq: int | None = setting(
        10_000,
        "steps between checkpoints, besides new bests; none: at the end",
        group="Logging and checkpoints",
    )
    keep: int = setting(
        3,
        "newest checkpoints that stay, besides the best",
        group="Logging and checkpoints",
        rare=True,
    )
    tensorboard: bool = setting(
        False, "write event files too; needs purerl[tensorboard]", group="Logging and checkpoints"
    )
    wandb: str | None = setting(
        None,
        "project of Weights & Biases to report to; needs purerl[wandb]",
        group="Logging and checkpoints",
    )

    def __post_init__(self) -> None:
        """Check every field."""
        if self.save_freq is not None:
            checks.integer("save_freq", self.save_freq, 1)
        checks.integer("keep", self.keep, 1)
        checks.boolean("tensorboard", self.tensorboard)
        if self.wandb is not None and not (isinstance(self.wandb, str) and self.wandb):
            raise ValueError(f"wandb must be the name of a project, got {self.wandb!r}.")


@dataclasses.dataclass(frozen=True)
class Config:
    """Everything that determines a run."""

    algo: str
    env: str  # Gymnasium id, or a word for an environment that is given as a function
    seed: int
    name: str
    spec: Any
    schedule: Any
    options: Options = Options()

    def __post_init__(self) -> None:
        """Check what the parts do not check themselves."""
        algos.load(self.algo)
        checks.seed(self.seed)
        files.check_name(self.name)


def to_json(config: Config) -> dict[str, Any]:
    """Return a configuration as plain data; custom networks become their `repr`."""
    words = {name: getattr(config, name) for name in KEYS if name not in PARTS}
    parts = {name: _plain(getattr(config, name)) for name in PARTS}
    return words | parts | {"spaces": _spaces(config.spec.env)}


def _spaces(env: EnvSpec) -> dict[str, Any]:
    """Return the spaces of an environment as plain data."""
    found: dict[str, Any] = {"obs_shape": list(env.obs_shape), "obs_dtype": env.obs_dtype}
    if isinstance(env.action, Discrete):
        return found | {"discrete": {"n": env.action.n, "start": env.action.start}}
    low, high, shape = env.action.low, env.action.high, env.action.shape or ()
    return found | {"box": {"low": list(low), "high": list(high), "shape": list(shape)}}


def parse_spaces(content: Any) -> EnvSpec:
    """Read the spaces that `to_json` wrote: with them, a policy needs no environment."""
    try:
        (kind,) = set(content) - {"obs_shape", "obs_dtype"}
        shape, dtype, action = (content[name] for name in ("obs_shape", "obs_dtype", kind))
        parts: dict[str, Any] = {name: tuple(_numbers(x)) for name, x in action.items()}
        if kind == "discrete":
            parts = {name: value for name, (value,) in parts.items()}
        made = {"discrete": Discrete, "box": Box}[kind](**parts)
        env = EnvSpec(tuple(shape), made, dtype)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"spaces must be as purerl writes them, got {content!r:.200}.") from error
    if math.prod(env.obs_shape) > MAX_OBS:
        raise ConfigError(f"spaces claim observations of shape {env.obs_shape}, too large to read.")
    return env


def _numbers(value: Any) -> list[Any]:
    """Return a number or a list of numbers as a list, or raise `TypeError`."""
    values = value if isinstance(value, list) else [value]
    if not all(type(x) in (int, float) for x in values):
        raise TypeError(f"numbers were expected, got {values!r}")
    return values


def from_json(
    content: dict[str, Any],
    env_fn: Callable[[], Any] | None = None,
    spec: Any = None,
    spaces: EnvSpec | None = None,
) -> Config:
    """Make a configuration from plain data; missing entries have their defaults.

    Args:
        content: plain data as `to_json` returns it; `algo` and `env` are required.
        env_fn: function that makes the environment; None for the id in the data.
        spec: settings instead of those in the data, for custom networks.
        spaces: spaces of the environment, which is not made then.

    Raises:
        ConfigError: with all unknown entries and values that do not fit.
    """
    content = {k: v for k, v in content.items() if k not in ("spaces", "exp_name")}
    _check_keys("the configuration", content, KEYS)
    for key in ("algo", "env"):
        if not isinstance(content.get(key), str):
            raise ConfigError(f"{key} must be a word, got {content.get(key)!r}.")
    name, env = content["algo"], content["env"]
    run: dict[str, Any] = {"seed": 0, "name": choose_name(name, env)} | content
    try:
        makers = get_makers(name)
        fields = {
            part: _read_fields(part, source, content.get(part, {}))
            for part, source in get_sources(name).items()
            if part != "spec" or spec is None
        }
        mistakes = [text for part in fields for text in find_mistakes(makers[part], fields[part])]
        mistakes += _collect_error(checks.seed, run["seed"])
        mistakes += _collect_error(files.check_name, run["name"])
        if mistakes:  # all that can be found before an environment is made
            raise ConfigError("\n".join(mistakes))
        if spec is None:
            found = spaces or read_env_spec(env, env_fn or make_env_fn_of_file(env))
            spec = algos.load(name).Spec(found, **fields["spec"])
        schedule, options = (makers[part](**fields[part]) for part in ("schedule", "options"))
        return Config(name, env, run["seed"], run["name"], spec, schedule, options)
    except ConfigError:
        raise
    except (ValueError, TypeError) as error:
        raise ConfigError(str(error)) from error


def get_sources(algo: str) -> dict[str, type]:
    """Return the dataclass of each part of an algorithm's configuration."""
    module = algos.load(algo)
    return {"spec": module.Spec, "schedule": type(module.SCHEDULE), "options": Options}


def get_makers(algo: str) -> dict[str, Callable[..., Any]]:
    """Return the function that makes each part from fields; the spec has placeholder spaces."""
    module = algos.load(algo)
    schedule = functools.partial(dataclasses.replace, module.SCHEDULE)
    spec = functools.partial(module.Spec, make_placeholder_spaces(algo))
    return {"spec": spec, "schedule": schedule, "options": Options}


def make_placeholder_spaces(algo: str) -> EnvSpec:
    """Return spaces that an algorithm accepts, to check its settings without an environment."""
    box = "box" in algos.ALGORITHMS[algo].actions
    return EnvSpec((1,), Box((-1.0,), (1.0,)) if box else Discrete(2))


def find_mistakes(make: Callable[..., Any], fields: Mapping[str, Any]) -> list[str]:
    """Return everything that a dataclass refuses among fields, not only the first mistake.

    Its messages begin with the name of the field, which is left out for the next attempt.
    """
    left, found = dict(fields), list[str]()
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


def _collect_error(check: Callable[[Any], Any], value: Any) -> list[str]:
    try:
        check(value)
    except ValueError as error:
        return [str(error)]
    return []


def choose_name(algo: str, env: str) -> str:
    """Return the default name of a run, as `pendulum-v1-sac`."""
    word = re.sub(r"[^A-Za-z0-9.]+", "-", env.rpartition(":")[2]).strip("-.").lower()
    return f"{word or 'env'}-{algo}"


def _plain(part: Any) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(part) if field.name != "env"]
    return {name: _entry(getattr(part, name)) for name in names}


def _entry(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_entry(x) for x in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return {"repr": re.sub(r" at 0x[0-9a-f]+", "", repr(value))}


def _read_fields(what: str, cls: type, given: Any) -> dict[str, Any]:
    """Return fields with lists as the tuples they stand for; the dataclass checks the rest."""
    if not isinstance(given, dict):
        raise ConfigError(f"{what} must be an object, got {given!r}.")
    names = [field.name for field in dataclasses.fields(cls) if field.name != "env"]
    _check_keys(what, given, names)
    hints, fields = typing.get_type_hints(cls), {}
    for name, value in given.items():
        if isinstance(value, dict):
            raise ConfigError(
                f"{what}.{name} is a custom network, {value.get('repr')!r}, which no file "
                f"can bring back. Give it in Python: purerl.runs.training.train.resume(Path(run), "
                f"spec=Spec(...)) continues a run, purerl.load(run, spec=Spec(...)) uses its "
                f"policy, purerl.train(..., {name}=...) begins one."
            )
        is_tuple = typing.get_origin(hints[name]) is tuple
        fields[name] = tuple(value) if is_tuple and isinstance(value, list) else value
    return fields


def _check_keys(what: str, given: dict[str, Any], known: Any) -> None:
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" Did you mean {near[0]!r}?" if near else f" Known are {', '.join(known)}."
            raise ConfigError(f"{what} has no entry {name!r}.{hint}")
