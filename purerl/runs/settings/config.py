"""What determines a run, and its form in JSON: printed, saved and loaded back the same."""

import dataclasses
import difflib
import functools
import math
import re
import typing
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium

from purerl import algos, checks
from purerl.errors import ConfigError
from purerl.fields import setting
from purerl.loops import faults
from purerl.runs.record import files
from purerl.runs.settings import environments
from purerl.runs.settings import names as keys
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

KEYS = ("algo", "env", "seed", "name", "spec", "schedule", "options")
MAX_OBS = 2**28  # numbers in an observation that a file may claim


@dataclasses.dataclass(frozen=True)
class Options:
    """How a run is kept."""

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
    """A run, but for the folder it is in."""

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


def make_env_fn(env: str) -> Callable[[], Any]:
    """Return the function that makes an environment of a Gymnasium id."""
    return functools.partial(_make_env, env)


def _make_env(env: str, **options: Any) -> Any:
    environments.check_id(env)
    return gymnasium.make(env, **options)


def make_env_fn_of_file(env: str) -> Callable[[], Any]:
    """Return `make(env)` for an id that a file asks for, unless it would import a module."""
    if ":" in env:
        raise ConfigError(
            f"env {env!r} imports a module, which no file may ask for: give the environment "
            f"yourself, with --env or env_fn."
        )
    return make_env_fn(env)


def read_env_spec(env: str, env_fn: Callable[[], Any]) -> EnvSpec:
    """Read the spaces of an environment, or say why it will not do."""
    try:
        made = _without_warnings_of_failures(env_fn)
    except ConfigError:
        raise
    except (gymnasium.error.Error, ImportError) as error:
        raise ConfigError(
            f"environment {env}: {environments.explain_failure(env, error)}"
        ) from error
    except faults.RAISED as error:  # whatever it raises, it is the environment's
        text = f"{type(error).__name__}: {faults.format_in_a_line(error)}"
        raise ConfigError(f"environment {env}: {text}") from error
    try:
        spec = EnvSpec.of(made)
    finally:
        fault = faults.close_env(f"environment {env}", made)
    if fault:
        raise ConfigError(str(fault)) from fault
    return spec


def _without_warnings_of_failures(env_fn: Callable[[], Any]) -> Any:
    """Make an environment; what it warns of is shown if it is made, else the error says it."""
    with warnings.catch_warnings(record=True) as caught:
        made = env_fn()
    for one in caught:
        warnings.showwarning(one.message, one.category, one.filename, one.lineno)
    return made


def to_json(config: Config) -> dict[str, Any]:
    """Return a configuration as plain data; networks of one's own become their `repr`."""
    return {
        "algo": config.algo,
        "env": config.env,
        "seed": config.seed,
        "name": config.name,
        "spec": _plain(config.spec, ("env",)),
        "schedule": _plain(config.schedule),
        "options": _plain(config.options),
        "spaces": _spaces(config.spec.env),
    }


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
    """Make a configuration from plain data; what is missing has its default.

    Args:
        content: as `to_json` gives it; `algo` and `env` are required.
        env_fn: makes the environment, where the id in the data does not.
        spec: to use instead of the data's, for networks of one's own.
        spaces: to use instead of the environment's, of which none is made then.

    Raises:
        ConfigError: naming the entry that is unknown or does not fit, and the nearest known.
    """
    content = {k: v for k, v in content.items() if k not in ("spaces", "exp_name")}
    _check_keys("the configuration", content, KEYS)
    for name in ("algo", "env"):
        if not isinstance(content.get(name), str):
            raise ConfigError(f"{name} must be a word, got {content.get(name)!r}.")
    try:
        algo = algos.load(content["algo"])
        schedule = type(algo.SCHEDULE)
        given = _fields("schedule", schedule, content.get("schedule", {}))
        options = _fields("options", Options, content.get("options", {}))
        fields = {} if spec is not None else _fields("spec", algo.Spec, content.get("spec", {}))
        seed = content.get("seed", 0)
        name = content.get("name", choose_name(content["algo"], content["env"]))
        settings = {k: v for k, v in fields.items() if k not in ("actor", "critic")}
        _refuse(  # all that can be said before an environment is made
            *keys.find_mistakes(functools.partial(dataclasses.replace, algo.SCHEDULE), given),
            *keys.find_mistakes(Options, options),
            *keys.find_mistakes(
                functools.partial(algo.Spec, keys.make_placeholder_spaces(content["algo"])),
                settings,
            ),
            *_collect_error(checks.seed, seed),
            *_collect_error(files.check_name, name),
        )
        if spec is None:
            env = spaces or read_env_spec(
                content["env"], env_fn or make_env_fn_of_file(content["env"])
            )
            spec = algo.Spec(env, **fields)
        return Config(
            content["algo"],
            content["env"],
            seed,
            name,
            spec,
            dataclasses.replace(algo.SCHEDULE, **given),
            Options(**options),
        )
    except ConfigError:
        raise
    except (ValueError, TypeError) as error:
        raise ConfigError(str(error)) from error


def _collect_error(check: Callable[[Any], Any], value: Any) -> list[str]:
    try:
        check(value)
    except ValueError as error:
        return [str(error)]
    return []


def _refuse(*mistakes: str) -> None:
    if mistakes:
        raise ConfigError("\n".join(mistakes))


def choose_name(algo: str, env: str) -> str:
    """Return the name of a run that was given none: `pendulum-v1-sac`."""
    word = re.sub(r"[^A-Za-z0-9.]+", "-", env.rpartition(":")[2]).strip("-.").lower()
    return f"{word or 'env'}-{algo}"


def _plain(value: Any, leave_out: tuple[str, ...] = ()) -> dict[str, Any]:
    plain = {}
    for field in dataclasses.fields(value):
        if field.name not in leave_out:
            plain[field.name] = _entry(getattr(value, field.name))
    return plain


def _entry(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_entry(x) for x in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return {"repr": re.sub(r" at 0x[0-9a-f]+", "", repr(value))}


def _fields(what: str, cls: type, given: Any) -> dict[str, Any]:
    """Return fields with lists as the tuples they stand for; the dataclass checks the rest."""
    if not isinstance(given, dict):
        raise ConfigError(f"{what} must be an object, got {given!r}.")
    names = [field.name for field in dataclasses.fields(cls) if field.name != "env"]
    _check_keys(what, given, names)
    hints, fields = typing.get_type_hints(cls), {}
    for name, value in given.items():
        if isinstance(value, dict):
            raise ConfigError(
                f"{what}.{name} is a network of one's own, {value.get('repr')!r}, which no file "
                f"can bring back. Give it in Python: purerl.runs.training.train.resume(Path(run), "
                f"spec=Spec(...)) goes on with a run, purerl.load(run, spec=Spec(...)) uses its "
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
