"""The carry: everything that a run needs to continue. `advance` consumes one, returns the next."""

import dataclasses
from types import ModuleType
from typing import Any

import jax
import numpy as np

from purerl.buffers import goals, replay
from purerl.loops import adapters
from purerl.loops.hindsight.rewards import Relabelling
from purerl.schedules import (
    ResolvedOffPolicySchedule,
    ResolvedOnPolicySchedule,
    ResolvedSequenceSchedule,
)
from purerl.types import Rows

Record = dict[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BaseCarry:
    """Fields that the carries of both kinds of algorithm share."""

    algo: ModuleType
    seed: int
    rank: int
    ranks: int
    learner: Any  # state of the algorithm, equal on all ranks and devices
    metrics: tuple[str, ...]  # names of the columns of `tally`
    tally: jax.Array  # statistics of the metrics since the last record, on the device
    envs: adapters.Envs  # adapter over the environments, with their episodes in progress
    obs: np.ndarray  # [N, ...], observations to act on next
    # Rows beyond the last border, of the shapes to collect; only NEXT_STEP environments leave any.
    surplus: Rows
    ep_return: np.ndarray  # [N] float64, returns so far of the episodes in progress
    ep_length: np.ndarray  # [N] int64, their lengths so far
    # Returns and lengths of this rank's episodes that ended since the last record.
    ep_returns: tuple[float, ...] = ()
    ep_lengths: tuple[int, ...] = ()
    ep_infos: tuple[tuple[float, ...], ...] = ()  # their values of `schedule.log_info`
    steps: int = 0  # transitions handed to the device, over all ranks
    calls: int = 0  # calls of the environments' `step` on this rank
    updates: int = 0
    epoch: int = 0  # number of records so far


@dataclasses.dataclass(frozen=True, kw_only=True)
class OffPolicyCarry(BaseCarry):
    """The carry of an algorithm that learns from a replay buffer."""

    schedule: ResolvedOffPolicySchedule
    buffer: replay.Replay | goals.GoalReplay
    relabelling: Relabelling | None = None  # of the goals of sampled rows; None without

    @property
    def is_stale(self) -> bool:
        """Whether an `advance` has consumed this carry; every `advance` donates the buffer."""
        return _has_deleted_leaves(self.buffer)


@dataclasses.dataclass(frozen=True, kw_only=True)
class OnPolicyCarry(BaseCarry):
    """The carry of an algorithm that learns from each rollout once."""

    schedule: ResolvedOnPolicySchedule
    buffer: None = None

    @property
    def is_stale(self) -> bool:
        """Whether an `advance` has consumed this carry; every `advance` donates the learner."""
        return _has_deleted_leaves(self.learner)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequenceCarry(BaseCarry):
    """The carry of an algorithm that learns from each rollout, and from sequences of earlier ones.

    A row of the replay buffer is the part of a rollout from one environment.
    """

    schedule: ResolvedSequenceSchedule
    buffer: replay.Replay

    @property
    def is_stale(self) -> bool:
        """Whether an `advance` has consumed this carry; every `advance` donates the learner."""
        return _has_deleted_leaves(self.learner)


Carry = OffPolicyCarry | OnPolicyCarry | SequenceCarry  # the class says how the algorithm learns


def _has_deleted_leaves(tree: Any) -> bool:
    return any(leaf.is_deleted() for leaf in jax.tree.leaves(tree))
