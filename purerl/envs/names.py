"""Names of environments written in JAX, such as `jax:CartPole-v1`.

| name | environment |
|---|---|
| `jax:CartPole-v1` | one of purerl; `list_names()` returns all of them |
| `gymnax:Catch-bsuite` | one of gymnax |
| `brax:ant` | one of Brax |
| `playground:CheetahRun` | one of MuJoCo Playground |

This module imports no JAX, so that commands start fast.
"""

import difflib
import functools
import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from purerl.errors import ConfigError

if TYPE_CHECKING:
    from purerl.envs.protocol import JaxEnv

OWN = {  # name -> module in purerl.envs, and class
    "CartPole-v1": ("classic.cartpole", "CartPole"),
    "Pendulum-v1": ("classic.pendulum", "Pendulum"),
    "Acrobot-v1": ("classic.acrobot", "Acrobot"),
    "MountainCar-v0": ("classic.mountain_car", "MountainCar"),
    "MountainCarContinuous-v0": ("classic.mountain_car", "MountainCarContinuous"),
    "Catch-v0": ("catch", "Catch"),
    "Breakout-v0": ("breakout", "Breakout"),
    "BitFlipping-v0": ("bit_flipping", "BitFlipping"),
}
PACKAGES = {  # prefix -> package to import, and what to install
    "gymnax": ("gymnax", "gymnax 'gymnasium>=1.4'"),  # gymnax 1.0 would install an older one
    "brax": ("brax.envs", "brax"),
    "playground": ("mujoco_playground", "playground"),
}


def is_jax_name(name: str) -> bool:
    """Return whether a name has the prefix of environments written in JAX.

    Example:
        >>> is_jax_name("jax:CartPole-v1"), is_jax_name("CartPole-v1")
        (True, False)
    """
    prefix, colon, _ = name.partition(":")
    return bool(colon) and (prefix == "jax" or prefix in PACKAGES)


def list_names() -> list[str]:
    """Return the names of purerl's own environments."""
    return [f"jax:{name}" for name in OWN]


@functools.cache
def make(name: str) -> "JaxEnv":
    """Return the environment with this name. Equal names give the same object.

    Args:
        name: Name with its prefix, such as `jax:CartPole-v1`.

    Example:
        >>> make("jax:CartPole-v1").max_steps
        500
    """
    prefix, _, rest = name.partition(":")
    if not is_jax_name(name):
        prefixes = ", ".join(f"{x}:" for x in ("jax", *PACKAGES))
        raise ConfigError(
            f"{name!r} names no environment written in JAX: it must begin with {prefixes}."
            f"{_suggest(name, list_names())}"
        )
    if prefix == "jax":
        _check_name(name, OWN)
        module, cls = OWN[rest]
        env: JaxEnv = getattr(importlib.import_module(f"purerl.envs.{module}"), cls)()
        return env
    return _make_foreign(name)


def _make_foreign(name: str) -> "JaxEnv":
    """Return an environment of another library."""
    prefix, _, rest = name.partition(":")
    library = _import_library(name, *PACKAGES[prefix])
    from purerl.envs import adapters  # imports JAX

    if prefix == "gymnax":
        _check_name(name, library.registered_envs)
        return adapters.from_gymnax(*library.make(rest))
    if prefix == "brax":
        _check_name(name, library._envs)
        return adapters.from_brax(library.get_environment(rest))
    _check_name(name, library.registry.ALL_ENVS)
    return adapters.from_playground(library.registry.load(rest))


def _import_library(name: str, package: str, to_install: str) -> Any:
    """Import a package, or report the command that installs it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name not in (package, package.partition(".")[0]):
            raise
        raise ConfigError(
            f"{name} needs a package that is not installed. Run: pip install {to_install}"
        ) from None


def _check_name(name: str, known: Iterable[str]) -> None:
    """Refuse a name that is not among the known ones, which have no prefix."""
    prefix, _, rest = name.partition(":")
    if rest not in known:
        names = [f"{prefix}:{x}" for x in known]
        hint = _suggest(name, names) or f" Known names are {', '.join(names)}."
        raise ConfigError(f"there is no environment {name!r}.{hint}")


def _suggest(name: str, names: list[str]) -> str:
    """Return a sentence with the nearest name, or an empty string."""
    nearest = difflib.get_close_matches(name, names, 1, 0.5)
    return f" Did you mean {nearest[0]}?" if nearest else ""
