"""Gymnasium's classic control problems, written in JAX."""

from typing import TYPE_CHECKING

from purerl.lazy import load_on_use

if TYPE_CHECKING:
    from purerl.envs.classic import acrobot, cartpole, mountain_car, pendulum

__all__ = ["acrobot", "cartpole", "mountain_car", "pendulum"]

__getattr__ = load_on_use(__name__, __all__)
