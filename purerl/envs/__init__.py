"""Environments of purerl. Importing this package registers these with Gymnasium:

| id | environment |
|---|---|
| `purerl/BitFlipping-v0` | flip bits until they equal a goal, with goals for HER |

Environments written in JAX follow `purerl.envs.protocol` and have names such as `jax:CartPole-v1`
(`purerl.envs.names`). `purerl.envs.episodes` plays many of them inside one compiled program.
"""

import importlib
from typing import TYPE_CHECKING, Any

import gymnasium

if TYPE_CHECKING:
    from purerl.envs import (
        acrobot,
        adapters,
        bit_flipping,
        breakout,
        cartpole,
        catch,
        drawing,
        episodes,
        gymnasium_env,
        mountain_car,
        names,
        pendulum,
        protocol,
    )

__all__ = [
    "acrobot",
    "adapters",
    "bit_flipping",
    "breakout",
    "cartpole",
    "catch",
    "drawing",
    "episodes",
    "gymnasium_env",
    "mountain_car",
    "names",
    "pendulum",
    "protocol",
]

gymnasium.register("purerl/BitFlipping-v0", entry_point="purerl.envs.bit_flipping:BitFlippingEnv")


def __getattr__(name: str) -> Any:
    """Import a submodule on first use."""
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
