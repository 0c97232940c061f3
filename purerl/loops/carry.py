"""The carry: everything that a run needs to continue. `advance` consumes one, returns the next."""

import dataclasses
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

import jax
import numpy as np

from purerl.buffers import replay
from purerl.loops import adapters
from purerl.loops.hindsight.rewards import Relabelling
from purerl.loops.stepwise.packing import Packed, PackedField, find_layout, pack
from purerl.schedules import (
    ResolvedOffPolicySchedule,
    ResolvedOnPolicySchedule,
    ResolvedSequenceSchedule,
)
from purerl.types import Rows

if TYPE_CHECKING:
    from purerl.envs.episodes import Episodes

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
    obs: Any  # [N, ...], observations to act on next
    # Rows beyond the last border, of the shapes to collect; only NEXT_STEP environments leave any.
    surplus: Rows
    ep_return: Any  # [N] float64, returns so far of the episodes in progress
    ep_length: Any  # [N] int64, their lengths so far
    episodes: "Episodes | None" = None  # all of this of environments in JAX, on the device
    # Returns and lengths of this rank's episodes that ended since the last record.
    ep_returns: tuple[float, ...] = ()
    ep_lengths: tuple[int, ...] = ()
    ep_infos: tuple[tuple[float, ...], ...] = ()  # their values of `schedule.log_info`
    steps: int = 0  # transitions handed to the device, over all ranks
    calls: int = 0  # calls of the environments' `step` on this rank
    updates: int = 0
    epoch: int = 0  # number of records so far

    @property
    def is_stale(self) -> bool:
        """Whether an `advance` has consumed this carry; every `advance` donates the learner."""
        return self.is_behind or _has_deleted_leaves(self.learner)

    @property
    def is_behind(self) -> bool:
        """Whether a later carry has stepped the environments of this one."""
        return isinstance(self.envs, adapters.GymEnvs) and self.envs.calls != self.calls

    def refuse_stale(self) -> None:
        """Refuse a carry without arrays, or whose environments are ahead; see `is_stale`."""
        if self.is_stale:
            raise ValueError(
                "this carry was consumed by an earlier advance, or is part of several seeds. "
                "Continue with the carry that advance returned, or with one of split."
            )

    def get_gym_envs(self) -> adapters.GymEnvs:
        """Return the adapter over environments of Gymnasium; refuse a carry of the other loop."""
        if isinstance(self.envs, adapters.JaxEnvs):
            raise ValueError("this carry is one of purerl.loops.scan. Continue with its advance.")
        return self.envs

    def get_jax_envs(self) -> adapters.JaxEnvs:
        """Return the adapter over environments in JAX; refuse a carry of the other loop."""
        if not isinstance(self.envs, adapters.JaxEnvs):
            raise ValueError("this carry is one of purerl.loops.gym. Continue with its advance.")
        return self.envs


@dataclasses.dataclass(frozen=True, kw_only=True)
class OffPolicyCarry(BaseCarry):
    """The carry of an algorithm that learns from a replay buffer.

    If there is one update after each step, its arrays are packed between two steps.
    """

    schedule: ResolvedOffPolicySchedule
    learner: Any = PackedField()
    tally: Any = PackedField()
    buffer: Any = PackedField()  # a replay.Replay, perhaps of returns, or a goals.GoalReplay
    relabelling: Relabelling | None = None  # of the goals of sampled rows; None without

    @property
    def is_stale(self) -> bool:
        """Whether an `advance` has consumed this carry; every `advance` donates the buffer."""
        held = self.__dict__["buffer"]
        is_consumed = held.is_deleted() if isinstance(held, Packed) else _has_deleted_leaves(held)
        return self.is_behind or is_consumed

    @property
    def next_act(self) -> np.ndarray | None:
        """Actions for `obs` that the last update computed, or None."""
        held = self.__dict__["learner"]
        return held.act if isinstance(held, Packed) else None

    def replace(self, **changes: Any) -> Self:
        """Return a carry with other fields, five times as fast as `dataclasses.replace`.

        It does not unpack the packed fields, which must be replaced together.
        """
        carry = object.__new__(type(self))
        carry.__dict__.update(self.__dict__, **changes)
        return carry

    def pack(self) -> Packed:
        """Return learner, tally and replay buffer in few arrays, and hold them like that."""
        held = self.__dict__["learner"]
        if isinstance(held, Packed):
            return held
        tree = {"learner": self.learner, "tally": self.tally, "buffer": self.buffer}
        layout = find_layout(tree)
        packed = Packed(layout, pack(layout, tree), added=int(self.buffer.stored))
        packed.tree = tree
        self.__dict__.update(dict.fromkeys(tree, packed))
        return packed


@dataclasses.dataclass(frozen=True, kw_only=True)
class OnPolicyCarry(BaseCarry):
    """The carry of an algorithm that learns from each rollout once."""

    schedule: ResolvedOnPolicySchedule
    buffer: None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequenceCarry(BaseCarry):
    """The carry of an algorithm that learns from each rollout, and from sequences of earlier ones.

    A row of the replay buffer is the part of a rollout from one environment.
    """

    schedule: ResolvedSequenceSchedule
    buffer: replay.Replay


Carry = OffPolicyCarry | OnPolicyCarry | SequenceCarry  # the class says how the algorithm learns


def _has_deleted_leaves(tree: Any) -> bool:
    """Return whether arrays were donated, or dropped because they are part of a `Together`."""
    return any(not hasattr(x, "is_deleted") or x.is_deleted() for x in jax.tree.leaves(tree))
