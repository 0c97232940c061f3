"""The memory of a run, and what both kinds of loop do with it."""

import dataclasses
from types import ModuleType
from typing import Any

import jax
import numpy as np

from purerl.buffers import replay
from purerl.loops import vector
from purerl.schedules import OffPolicySchedule, OnPolicySchedule
from purerl.types import Transition

Record = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Carry:
    """Everything a run needs to go on; `advance` consumes it, since environments move."""

    algo: ModuleType
    schedule: OffPolicySchedule | OnPolicySchedule  # with every None filled in
    seed: int
    rank: int
    ranks: int
    learner: Any  # equal on all ranks and devices
    buffer: replay.Replay | None  # off-policy
    metrics: tuple[str, ...]  # names of what is tallied
    tally: jax.Array  # of the metrics since the last record, on the device
    envs: vector.Envs  # with their episodes in progress
    obs: np.ndarray  # [N, ...], to act on next
    surplus: Transition  # rows beyond the last border; only NEXT_STEP environments leave any
    ep_return: np.ndarray  # [N] float64, of the episodes in progress
    ep_length: np.ndarray  # [N] int64
    ep_returns: tuple[float, ...] = ()  # of this rank's episodes that ended since the last record
    ep_lengths: tuple[int, ...] = ()
    steps: int = 0  # transitions handed to the device, over all ranks
    calls: int = 0  # of the environments' step, on this rank
    updates: int = 0
    epoch: int = 0  # records so far
