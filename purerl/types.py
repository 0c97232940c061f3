"""Data that travels between modules: transitions, batches and rollouts.

Axis letters are the same everywhere: B batch, T time, N environments, O observation, A action,
E ensemble. This module imports no JAX, so that commands start fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import jax

Metrics = dict[str, "jax.Array"]
"""Scalar metrics by name. The metric `x_count` is 1 if `x` was computed and 0 if not."""


class Transition(NamedTuple):
    """One step of an environment, or many steps along leading axes.

    Either flag ends an episode, but only `terminated` stops bootstrapping. `next_obs` is the true
    successor of `obs`, never the first observation of the next episode.
    """

    obs: Any
    act: Any  # in the environment's units
    rew: Any
    next_obs: Any
    terminated: Any
    truncated: Any


class ExtendedTransition(NamedTuple):
    """A transition with values of `info`, for an algorithm that has `stored_info`."""

    obs: Any
    act: Any
    rew: Any
    next_obs: Any
    terminated: Any
    truncated: Any
    extra: dict[str, Any]


class Batch(NamedTuple):
    """A minibatch for an off-policy loss; all fields `[B, ...]`.

    The losses take standard normal numbers from `noise` `[B, K, A]` if it is set. Otherwise they
    sample the same shape with `key`.

    With n-step returns, `rew` is the discounted sum of up to n rewards, and `terminated` is a
    number between 0 and 1. It includes the discount of these steps, so that the target
    `rew + gamma * (1 - terminated) * value` needs no change (`purerl.buffers.return_replay`).
    """

    obs: Any
    act: Any  # in the environment's units
    rew: Any
    next_obs: Any
    terminated: Any  # a flag; a number with n-step returns
    truncated: Any
    key: Any = None
    noise: Any = None


class ExtendedBatch(NamedTuple):
    """A minibatch with values of `info`, for an algorithm that has `stored_info`."""

    obs: Any
    act: Any
    rew: Any
    next_obs: Any
    terminated: Any
    truncated: Any
    extra: dict[str, Any]
    key: Any = None
    noise: Any = None


class Rollout(NamedTuple):
    """Transitions collected between two on-policy updates; all fields `[T, N, ...]`."""

    obs: Any
    act: Any  # in the environment's units, as sampled (not clipped)
    rew: Any
    next_obs: Any
    terminated: Any
    truncated: Any


class ExtendedRollout(NamedTuple):
    """A rollout with values of `info`, for an algorithm that has `stored_info`."""

    obs: Any
    act: Any
    rew: Any
    next_obs: Any
    terminated: Any
    truncated: Any
    extra: dict[str, Any]


class PolicyBatch(NamedTuple):
    """A batch for on-policy losses; all fields but the last two are rows `[T*N, ...]`."""

    obs: Any
    act: Any
    adv: Any  # advantages, or returns in REINFORCE
    ret: Any  # targets of the value function
    logp: Any  # log-probabilities under the policy that acted
    val: Any  # values of the observations
    weight: Any  # weights of the rows in the losses
    key: Any = None
    rollout: Any = None

    def flatten(self) -> PolicyBatch:
        """Reshape the fields from `[T, N, ...]` to `[T*N, ...]`, and drop key and rollout."""
        return PolicyBatch(*(x.reshape(-1, *x.shape[2:]) for x in self[:7]))


class SequenceBatch(NamedTuple):
    """Sequences of transitions for a loss; all fields `[B, T, ...]`.

    A row is T steps of one environment in their order. It may contain ends of episodes.
    """

    obs: Any
    act: Any  # in the environment's units
    rew: Any
    next_obs: Any
    terminated: Any
    truncated: Any
    behaviour: Any  # distribution of the policy that acted, for Discrete actions its logits
    key: Any = None
    noise: Any = None


Rows = Transition | ExtendedTransition
AnyRollout = Rollout | ExtendedRollout


def extend(rows: Transition, extra: dict[str, Any] | None) -> Rows:
    """Return transitions with values of `info`, if there are any."""
    return ExtendedTransition(**rows._asdict(), extra=extra) if extra else rows


def list_leaves(rows: Rows) -> tuple[Any, ...]:
    """Return all arrays of transitions, those of `extra` last."""
    return (*rows[:6], *rows.extra.values()) if isinstance(rows, ExtendedTransition) else rows


def map_rows(change: Callable[[Any], Any], rows: Rows) -> Rows:
    """Apply a function to each array of transitions; ten times as fast as `jax.tree.map`."""
    changed = Transition(*map(change, rows[:6]))
    if isinstance(rows, ExtendedTransition):
        return extend(changed, {name: change(x) for name, x in rows.extra.items()})
    return changed


def list_arrays(rows: Rows | SequenceBatch) -> dict[str, Any]:
    """Return all arrays of transitions or sequences by name, those of `extra` as `extra.NAME`."""
    if isinstance(rows, SequenceBatch):
        return {name: x for name, x in rows._asdict().items() if x is not None}
    named = dict(zip(Transition._fields, rows, strict=False))
    if isinstance(rows, ExtendedTransition):
        named |= {f"extra.{name}": x for name, x in rows.extra.items()}
    return named


def make_rows(arrays: dict[str, Any]) -> Rows:
    """Return the transitions with these arrays, named as by `list_arrays`."""
    rows = Transition(*(arrays[name] for name in Transition._fields))
    extra = {k.removeprefix("extra."): x for k, x in arrays.items() if k.startswith("extra.")}
    return extend(rows, extra)


def make_rollout(rows: Rows) -> AnyRollout:
    """Return transitions `[T, N, ...]` as a rollout."""
    return Rollout(*rows) if isinstance(rows, Transition) else ExtendedRollout(*rows)
