"""Environments of purerl. Importing this package registers these with Gymnasium:

| id | environment |
|---|---|
| `purerl/BitFlipping-v0` | flip bits until they equal a goal, with goals for HER |

Environments written in JAX follow `purerl.envs.protocol` and have names such as `jax:CartPole-v1`
(`purerl.envs.names`). `purerl.envs.episodes` plays many of them inside one compiled program.
"""

from typing import TYPE_CHECKING

import gymnasium

from purerl.lazy import load_on_use

if TYPE_CHECKING:
    from purerl.envs import (
        adapters,
        bit_flipping,
        breakout,
        catch,
        classic,
        drawing,
        episodes,
        gymnasium_env,
        names,
        protocol,
    )

__all__ = [
    "adapters",
    "bit_flipping",
    "breakout",
    "catch",
    "classic",
    "drawing",
    "episodes",
    "gymnasium_env",
    "names",
    "protocol",
]

gymnasium.register("purerl/BitFlipping-v0", entry_point="purerl.envs.bit_flipping:BitFlippingEnv")

__getattr__ = load_on_use(__name__, __all__)
