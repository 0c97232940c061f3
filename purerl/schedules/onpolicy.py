"""Schedules of on-policy loops: an update on each rollout, then perhaps on earlier sequences."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Self

from purerl import checks
from purerl.fields import setting
from purerl.schedules.common import (
    EPOCH,
    FEWEST_ROWS,
    ROLLOUT,
    SEQUENCE,
    check_common,
    devices_setting,
    log_info_setting,
    portion,
    round_down,
    round_up,
)


@dataclasses.dataclass(frozen=True)
class OnPolicySchedule:
    """Times at which an on-policy loop updates and reports.

    All counts are environment transitions over all environments and ranks. They are rounded up to
    what these can share. A run consists of whole rollouts, and so does an epoch.
    """

    steps: int = setting(
        200_000, "environment transitions of the whole run", flag="--total-timesteps", group="Run"
    )
    rollout_steps: int | None = setting(
        None,
        "transitions per rollout; none: steps_per_epoch, else 1,000 (4,000 with cut episodes)",
    )
    steps_per_epoch: int | None = setting(
        None, "transitions per epoch, a row of the log; none: 4,000 or a 20th of the run"
    )
    num_envs: int = setting(1, "environments on each rank, stepped together", group="Compute")
    devices: int = devices_setting()
    max_ep_len: int | None = setting(
        None, "time limit of an episode; none: the environment's limit"
    )
    num_test_episodes: int = setting(
        0, "test episodes per epoch, without exploration", group="Logging and checkpoints"
    )
    log_info: tuple[str, ...] | None = log_info_setting()
    continue_episodes: bool = setting(
        True, "episodes continue in the next rollout; Spinning Up resets them", rare=True
    )

    def __post_init__(self) -> None:
        """Check every field."""
        check_common(self)
        checks.boolean("continue_episodes", self.continue_episodes)
        counts = ("rollout_steps", "steps_per_epoch")
        checks.each(self, counts, checks.integer, 1, optional=True)

    def settle(self, ranks: int = 1) -> Self:
        """Fill in the numbers that are None, and round counts up to what fits."""
        unit = ranks * math.lcm(self.num_envs, self.devices)
        most = ROLLOUT if self.continue_episodes else EPOCH  # cut episodes need longer rollouts
        rollout = self.rollout_steps or self.steps_per_epoch
        rollout = round_up(rollout or portion(self.steps, FEWEST_ROWS, most), unit)
        steps = round_up(self.steps, rollout)
        if self.steps_per_epoch is None:
            epoch = round_down(portion(steps, FEWEST_ROWS, EPOCH), rollout)
        else:
            epoch = round_up(self.steps_per_epoch, rollout)
        return dataclasses.replace(self, steps=steps, rollout_steps=rollout, steps_per_epoch=epoch)

    def resolve(self, ranks: int) -> ResolvedOnPolicySchedule:
        """Return the settled schedule as loops use it, with the length of a rollout."""
        return ResolvedOnPolicySchedule(**self._fill(ranks))

    def _fill(self, ranks: int) -> dict[str, Any]:
        """Return the fields of the resolved schedule."""
        settled = vars(self.settle(ranks))
        length = settled["rollout_steps"] // (ranks * self.num_envs)
        return settled | {"rollout_length": length, "log_info": settled["log_info"] or ()}


@dataclasses.dataclass(frozen=True)
class ResolvedOnPolicySchedule(OnPolicySchedule):
    """An on-policy schedule for a known number of ranks, with every number filled in."""

    rollout_steps: int = dataclasses.field(kw_only=True)
    steps_per_epoch: int = dataclasses.field(kw_only=True)
    log_info: tuple[str, ...] = dataclasses.field(kw_only=True)
    rollout_length: int = dataclasses.field(kw_only=True)  # steps of each environment

    def count_rows(self, ranks: int) -> dict[str, int]:
        """Return the transitions that one rank keeps in memory, by the setting that causes them.

        A rollout exists three times on its way to the device.
        """
        return {"rollout_steps": 3 * (self.rollout_steps // ranks)}


@dataclasses.dataclass(frozen=True)
class SequenceSchedule(OnPolicySchedule):
    """Times at which a loop updates on each rollout, and then on sequences of earlier rollouts.

    The part of a rollout from one environment is a sequence. The number of replayed updates after
    each rollout has a Poisson distribution with the mean `replay_ratio`. Each of these updates
    samples as many sequences as there are environments.
    """

    rollout_steps: int | None = setting(None, "transitions per rollout; none: 20 per environment")
    replay_size: int = setting(40_000, "transitions that the replay buffer holds")
    replay_start: int | None = setting(
        None, "transitions before the first replayed update; none: 8,000 or a tenth of the run"
    )
    replay_ratio: float = setting(4.0, "mean number of replayed updates per rollout; 0: no replay")

    def __post_init__(self) -> None:
        """Check every field, and check that the fields fit together."""
        super().__post_init__()
        checks.integer("replay_size", self.replay_size, 1, 2**30)
        checks.real("replay_ratio", self.replay_ratio, 0.0, 1_000.0)
        checks.each(self, ("replay_start",), checks.integer, 1, checks.COUNTER, optional=True)
        if (self.replay_start or 0) > self.replay_size:
            raise ValueError(
                f"replay_start must not exceed replay_size, got {self.replay_start} > "
                f"{self.replay_size}. The replay buffer would never be full enough."
            )
        if self.num_envs % self.devices:
            raise ValueError(
                f"num_envs must be a multiple of devices, which share whole sequences, got "
                f"{self.num_envs} environments and {self.devices} devices."
            )

    def settle(self, ranks: int = 1) -> Self:
        """Fill in the numbers that are None, and round counts up to what fits."""
        unit = ranks * self.num_envs
        rollout = round_up(self.rollout_steps or SEQUENCE * unit, unit)
        filled = dataclasses.replace(self, rollout_steps=rollout)
        start = self.replay_start or min(self.replay_size, portion(self.steps, 10, 8_000))
        return dataclasses.replace(
            OnPolicySchedule.settle(filled, ranks),
            replay_size=round_up(self.replay_size, rollout),
            replay_start=round_up(start, rollout),
        )

    def resolve(self, ranks: int) -> ResolvedSequenceSchedule:
        """Return the settled schedule as loops use it, with the length of a sequence."""
        return ResolvedSequenceSchedule(**self._fill(ranks))


@dataclasses.dataclass(frozen=True)
class ResolvedSequenceSchedule(ResolvedOnPolicySchedule, SequenceSchedule):
    """A schedule with sequences for a known number of ranks, with every number filled in."""

    replay_start: int = dataclasses.field(kw_only=True)

    def count_rows(self, ranks: int) -> dict[str, int]:
        """Return the transitions that one rank keeps in memory, by the setting that causes them."""
        kept = {"replay_size": self.replay_size // ranks} if self.replay_ratio else {}
        return super().count_rows(ranks) | kept
