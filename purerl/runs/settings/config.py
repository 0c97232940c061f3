"""The configuration of a run, and its JSON form, which is saved and loaded back unchanged."""

import dataclasses
import difflib
import functools
import math
import re
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any

from purerl import algos, checks
from purerl.errors import ConfigError
from purerl.fields import PARTS, setting
from purerl.runs.record import files
from purerl.runs.settings import environments
from purerl.schedules import choose_her, describe_rounding
from purerl.spaces import MIN_SIDE, Box, Discrete, EnvSpec, MultiDiscrete, is_image

KEYS = ("algo", "env", "seed", "name", *PARTS)
TORSO = "nature_cnn"  # for images, if the settings choose no networks
MAX_OBS = 2**28  # numbers in an observation that a file may claim

_option = functools.partial(setting, group="Logging and checkpoints")


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of a run besides those of the algorithm and the schedule."""

    save_freq: int | None = _option(
        10_000, "steps between checkpoints, besides new bests; none: only at the end"
    )
    keep: int = _option(3, "number of newest checkpoints to keep, besides the best", rare=True)
    tensorboard: bool = _option(False, "also write event files; needs purerl[tensorboard]")
    wandb: str | None = _option(None, "Weights & Biases project to report to; needs purerl[wandb]")
    wrapper: str | None = setting(
        None,
        "wrapper of the environment; flatten: observations become one vector",
        group="Run",
        rare=True,
    )

    def __post_init__(self) -> None:
        """Check every field."""
        checks.each(self, ("wrapper",), checks.member, environments.WRAPPERS, optional=True)
        checks.each(self, ("save_freq",), checks.integer, 1, optional=True)
        checks.integer("keep", self.keep, 1)
        checks.boolean("tensorboard", self.tensorboard)
        if self.wandb is not None and not (isinstance(self.wandb, str) and self.wandb):
            raise ValueError(f"wandb must be the name of a project, got {self.wandb!r}.")


@dataclasses.dataclass(frozen=True)
class Config:
    """Everything that determines a run."""

    algo: str
    env: str  # Gymnasium id, or any name for an environment given as a function
    seed: int
    name: str
    spec: Any
    schedule: Any
    options: Options = Options()
    custom: Any = None  # module of an algorithm that is not purerl's

    def __post_init__(self) -> None:
        """Check the algorithm, seed and name; the parts check themselves."""
        algos.load(self.custom or self.algo)
        _check_run(self.seed, self.name)

    @property
    def module(self) -> Any:
        """The module of the algorithm."""
        return self.custom or algos.load(self.algo)


def _check_run(seed: Any = 0, name: Any = "run") -> None:
    checks.seed(seed)
    files.check_name(name)


def settle(config: Config, ranks: int) -> tuple[Config, str]:
    """Fill in the schedule for a number of ranks; also return a sentence about rounded counts."""
    try:
        schedule = config.schedule.settle(ranks)
    except ValueError as error:  # a rounded count does not fit to the others
        raise ConfigError(str(error)) from error
    rounded = describe_rounding(config.schedule, schedule)
    return dataclasses.replace(config, schedule=schedule), rounded


_ACTIONS = {"box": Box, "discrete": Discrete, "multi_discrete": MultiDiscrete}


def to_json(config: Config) -> dict[str, Any]:
    """Return a configuration as plain data; custom networks become their `repr`."""
    entries = {key: getattr(config, key) for key in KEYS}
    env = config.spec.env
    (kind,) = (name for name, cls in _ACTIONS.items() if isinstance(env.action, cls))
    spaces: dict[str, Any] = {"obs_shape": list(env.obs_shape), "obs_dtype": env.obs_dtype}
    if env.goal_size:
        spaces["goal_size"] = env.goal_size
    spaces[kind] = _list_fields(env.action)
    return entries | {part: _list_fields(entries[part]) for part in PARTS} | {"spaces": spaces}


def _list_fields(part: Any) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(part) if field.name != "env"]
    return {name: _to_plain(getattr(part, name)) for name in names}


def _to_plain(value: Any) -> Any:
    if isinstance(value, tuple):
        parts = [_to_plain(x) for x in value]
        if not any(isinstance(part, dict) for part in parts):
            return parts
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return {"repr": re.sub(r" at 0x[0-9a-f]+", "", repr(value))}


def parse_spaces(content: Any) -> EnvSpec:
    """Read spaces that `to_json` wrote; with them, a policy is loaded without its environment."""
    try:
        (kind,) = set(content) - {"obs_shape", "obs_dtype", "goal_size"}
        parts: dict[str, Any] = {
            name: tuple(x if isinstance(x, list) else [x]) for name, x in content[kind].items()
        }
        if not all(type(x) in (int, float) for values in parts.values() for x in values):
            raise TypeError("numbers were expected")
        if kind == "discrete":
            parts = {name: value for name, (value,) in parts.items()}
        action = _ACTIONS[kind](**parts)
        goal_size = content.get("goal_size", 0)
        env = EnvSpec(tuple(content["obs_shape"]), action, content["obs_dtype"], goal_size)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        form = f"obs_shape, obs_dtype, and one of {', '.join(_ACTIONS)}"
        raise ConfigError(f"spaces must have {form}, got {content!r:.200}.") from error
    if math.prod(env.obs_shape) > MAX_OBS:
        raise ConfigError(f"spaces has observations of shape {env.obs_shape}, too large to read.")
    return env


def from_json(
    content: dict[str, Any],
    env_fn: Callable[[], Any] | None = None,
    spec: Any = None,
    spaces: EnvSpec | None = None,
    custom: Any = None,
) -> Config:
    """Make a configuration from plain data, in which only `algo` and `env` are required.

    `spec` replaces the spec in the data, for custom networks. Without `spaces`, they are read from
    an environment, made by `env_fn` or from the id in the data. `custom` is the module of an
    algorithm that is not purerl's. All mistakes are reported at once.
    """
    content = {k: v for k, v in content.items() if k not in ("spaces", "exp_name")}
    _check_keys("the configuration", content, KEYS)
    for key in ("algo", "env"):
        if not isinstance(content.get(key), str):
            raise ConfigError(f"{key} must be text, got {content.get(key)!r}.")
    name, env = content["algo"], content["env"]
    algo = _choose_algorithm(name, custom)
    try:
        module = algos.load(algo)
        makers: dict[str, Callable[..., Any]] = {
            "spec": functools.partial(module.Spec, make_placeholder_spaces(algo, content)),
            "schedule": functools.partial(dataclasses.replace, module.SCHEDULE),
            "options": Options,
            "run": _check_run,
        }
        fields = {
            part: _read_fields(part, source, content.get(part, {}))
            for part, source in get_sources(algo).items()
            if part != "spec" or spec is None
        }
        run = {"seed": content.get("seed", 0), "name": content.get("name", choose_name(name, env))}
        fields["run"] = run
        mistakes = [text for part in fields for text in find_mistakes(makers[part], fields[part])]
        if mistakes:  # all that can be found before an environment is made
            raise ConfigError("\n".join(mistakes))
        if spec is None:
            if spaces is None:
                wrapper = Options(**fields["options"]).wrapper
                env_fn = env_fn or environments.make_env_fn_of_file(env)
                env_fn = environments.choose_env_fn(env_fn, env, wrapper)
                spaces = environments.read_env_spec(env, env_fn)
            spec = module.Spec(spaces, **_choose_torso(module, spaces, fields["spec"]))
        schedule, options = (makers[part](**fields[part]) for part in ("schedule", "options"))
        choose_her(schedule, spec.env.goal_size)  # refuses it without goals
        algos.check_settings(module, spec, schedule)
        parts = {"spec": spec, "schedule": schedule, "options": options}
        return Config(name, env, **run, **parts, custom=None if algo == name else algo)
    except ConfigError:
        raise
    except (ValueError, TypeError) as error:
        raise ConfigError(str(error)) from error


def _choose_algorithm(name: str, custom: Any) -> Any:
    """Return the custom algorithm, if its name is that of the configuration; else the name."""
    if custom is None and name not in algos.NAMES:
        try:
            algos.check(name)
        except ConfigError as error:
            raise ConfigError(
                f"{error} No file may import a custom algorithm: give its module, with --algo "
                f"MODULE on the command line or algo=module in Python."
            ) from None
    given = name if custom is None else algos.get_name(custom)
    if given != name:
        raise ConfigError(f"algo is {name!r} in the configuration, got the module of {given!r}.")
    return name if name in algos.NAMES else custom


def get_sources(algo: str | Any) -> dict[str, type]:
    """Return the dataclass of each part of an algorithm's configuration."""
    module = algos.load(algo)
    return {"spec": module.Spec, "schedule": type(module.SCHEDULE), "options": Options}


def make_placeholder_spaces(algo: str | Any, content: Mapping[str, Any]) -> EnvSpec:
    """Return spaces that fit a configuration, to check its settings without an environment."""
    box = "box" in algos.get_facts(algo).actions
    spec, schedule = (content.get(part) for part in ("spec", "schedule"))
    image = isinstance(spec, dict) and spec.get("torso") is not None
    goals = isinstance(schedule, dict) and schedule.get("her") is True and not image
    shape = (MIN_SIDE, MIN_SIDE, 1) if image else (2,) if goals else (1,)
    action = Box((-1.0,), (1.0,)) if box else Discrete(2)
    return EnvSpec(shape, action, goal_size=int(goals))


def _choose_torso(module: Any, env: EnvSpec, given: dict[str, Any]) -> dict[str, Any]:
    """Add the torso for images to the fields of a spec, unless these choose networks."""
    chosen = {"torso", "actor", "critic"} & set(given)
    knows = any(field.name == "torso" for field in dataclasses.fields(module.Spec))
    return given if chosen or not knows or not is_image(env.obs_shape) else given | {"torso": TORSO}


def describe_torso(spec: Any) -> str:
    """Return a sentence about the torso of a spec; empty without one."""
    if getattr(spec, "torso", None) is None:
        return ""
    shape = "x".join(map(str, spec.env.obs_shape))
    return f"observations are images ({shape}): torso {spec.torso} reads them"


def find_mistakes(make: Callable[..., Any], fields: Mapping[str, Any]) -> list[str]:
    """Return all mistakes that a dataclass finds in its fields, not only the first.

    Each message begins with the name of a field, which is left out in the next attempt.
    """
    left, found = dict(fields), list[str]()
    while True:
        try:
            make(**left)
            return found
        except (ValueError, TypeError) as error:
            named = str(error).partition(" ")[0].partition("[")[0]
            if named not in left:  # perhaps only because a field was left out
                return found or [str(error)]
            del left[named]
            found.append(str(error))


def choose_name(algo: str, env: str) -> str:
    """Return the default name of a run, such as `pendulum-v1-sac`."""
    word = env if environments.is_jax_name(env) else env.rpartition(":")[2]
    word = re.sub(r"[^A-Za-z0-9.]+", "-", word).strip("-.").lower()
    return f"{word or 'env'}-{algo}"


def _read_fields(what: str, cls: type, given: Any) -> dict[str, Any]:
    """Return fields, with lists as tuples where needed; the dataclass checks the rest."""
    if not isinstance(given, dict):
        raise ConfigError(f"{what} must be an object, got {given!r}.")
    _check_keys(what, given, [f.name for f in dataclasses.fields(cls) if f.name != "env"])
    hints, fields = typing.get_type_hints(cls), {}
    for name, value in given.items():
        if isinstance(value, dict) and "repr" not in value:
            raise ConfigError(
                f"{what}.{name} must not be a dict, got {value!r:.200}. Give pairs instead, such "
                f"as optimizer=(('critic', optax.adamw(1e-3)),)."
            )
        if isinstance(value, dict):
            raise ConfigError(
                f"{what}.{name} is a custom object, {value.get('repr')!r}, which a file "
                f"cannot contain. Give it in Python: purerl.runs.training.train.resume(Path(run), "
                f"spec=Spec(...)) continues a run, purerl.load(run, spec=Spec(...)) loads its "
                f"policy, purerl.train(..., {name}=...) starts a run."
            )
        kinds = (hints[name], *typing.get_args(hints[name]))
        is_tuple = any(typing.get_origin(kind) is tuple for kind in kinds)
        fields[name] = tuple(value) if is_tuple and isinstance(value, list) else value
    return fields


def _check_keys(what: str, given: Collection[str], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" Did you mean {near[0]!r}?" if near else f" Choose from {', '.join(known)}."
            raise ConfigError(f"{what} has no entry {name!r}.{hint}")
