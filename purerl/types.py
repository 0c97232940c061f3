"""Data that travels between modules: transitions, batches and rollouts.

Axis letters are the same everywhere: B batch, T time, N environments, O observation, A action,
E ensemble. This module imports no JAX, so that commands start fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import jax

Metrics = dict[str, "jax.Array"]
"""Flat scalar metrics; `x_count` beside `x` says whether `x` was computed (1) or not (0)."""


class Transition(NamedTuple):
    """One step of an environment, or a block of them along leading axes.

    `terminated` alone stops bootstrapping; either flag ends an episode. `next_obs` is the true
    successor of `obs`, never the first observation of the next episode.
    """

    obs: Any
    act: Any  # in the environment's units
    rew: Any
    next_obs: Any
    terminated: Any
    truncated: Any


class Batch(NamedTuple):
    """A minibatch for an off-policy loss: every field `[B, ...]`.

    The losses read standard normals from `noise` `[B, K, A]` if it is set. Otherwise they draw the
    same shape from `key`.
    """

    obs: Any
    act: Any  # in the environment's units
    rew: Any
    next_obs: Any
    terminated: Any
    truncated: Any
    key: Any = None
    noise: Any = None


class Rollout(NamedTuple):
    """Transitions collected between two on-policy updates: every field `[T, N, ...]`."""

    obs: Any
    act: Any  # in the environment's units, as sampled (not clipped)
    rew: Any
    next_obs: Any
    terminated: Any
    truncated: Any


class PolicyBatch(NamedTuple):
    """A batch for on-policy losses: every leading field `[T*N, ...]`."""

    obs: Any
    act: Any
    adv: Any
    ret: Any
    logp: Any
    val: Any
    weight: Any
    key: Any = None
    rollout: Any = None

    def flatten(self) -> PolicyBatch:
        """Reshape the leading fields `[T, N, ...]` to rows `[T*N, ...]`; drop key and rollout."""
        return PolicyBatch(*(x.reshape(-1, *x.shape[2:]) for x in self[:7]))
