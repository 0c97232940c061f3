"""Immutable buffers for any pytree of arrays, and minibatches of their rows."""

from typing import TYPE_CHECKING

from purerl.lazy import load_on_use

if TYPE_CHECKING:
    from purerl.buffers import goals, minibatches, replay, return_replay, rollout

__all__ = ["goals", "minibatches", "replay", "return_replay", "rollout"]

__getattr__ = load_on_use(__name__, __all__)
