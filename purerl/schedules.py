"""Schedules: when a loop acts, updates and reports.

A schedule contains the numbers that a user chose, and None for numbers to derive. `resolve(ranks)`
checks them against the number of ranks and returns the form that loops use, with every derived
number filled in. Only `max_ep_len` may still be None, which means the environment's own limit.

An off-policy loop works in bursts: `update_every` transitions, then `updates_per_burst` updates.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

from purerl import checks
from purerl.fields import setting


def _check_multiples(schedule: Any, names: tuple[str, ...], unit: int, what: str) -> None:
    for name in names:
        value = getattr(schedule, name)
        if value is not None and value % unit:
            near = max(1, round(value / unit)) * unit
            raise ValueError(
                f"{name} counts transitions of all environments and must be a multiple of {what} "
                f"= {unit}, got {value}. The nearest multiple is {near}."
            )


@dataclasses.dataclass(frozen=True)
class OffPolicySchedule:
    """Times at which an off-policy loop acts, updates and reports.

    Names and defaults are Spinning Up's. All counts are environment transitions over all
    environments and ranks.
    """

    steps: int = setting(
        400_000, "environment transitions of the whole run", flag="--total-timesteps", group="Run"
    )
    steps_per_epoch: int = setting(4_000, "transitions per epoch: one row of the log")
    start_steps: int = setting(10_000, "first transitions with uniform random actions")
    update_after: int = setting(1_000, "transitions stored before the first update", rare=True)
    update_every: int | None = setting(None, "transitions between two bursts; none: 50, rounded up")
    updates_per_burst: int | None = setting(
        None, "updates per burst; none: the same number as update_every", rare=True
    )
    batch_size: int = setting(100, "rows of a batch, on each rank")
    replay_size: int = setting(1_000_000, "transitions that the replay buffer holds")
    num_envs: int = setting(1, "environments on each rank, stepped together", group="Compute")
    devices: int = setting(
        1,
        "local devices that split each batch (see purerl.setup)",
        group="Compute",
        rare=True,
    )
    max_ep_len: int | None = setting(
        None, "time limit of an episode; none: the environment's limit"
    )
    num_test_episodes: int = setting(
        10, "test episodes per epoch, without exploration", group="Logging and checkpoints"
    )

    def __post_init__(self) -> None:
        """Check every field, and check that the fields fit together."""
        for name in ("steps", "steps_per_epoch", "update_after"):
            checks.integer(name, getattr(self, name), 1, checks.COUNTER)
        for name in ("batch_size", "num_envs", "devices"):
            checks.integer(name, getattr(self, name), 1)
        checks.integer("replay_size", self.replay_size, 1, 2**30)
        checks.integer("start_steps", self.start_steps, 0, checks.COUNTER)
        checks.integer("num_test_episodes", self.num_test_episodes, 0)
        for name in ("update_every", "updates_per_burst", "max_ep_len"):
            if getattr(self, name) is not None:
                checks.integer(name, getattr(self, name), 1)
        if self.batch_size > self.replay_size:
            raise ValueError(
                f"batch_size must not exceed replay_size, got {self.batch_size} > "
                f"{self.replay_size}."
            )
        if self.update_after < self.batch_size:
            raise ValueError(
                f"update_after must be at least batch_size, so that the first update can "
                f"sample a full batch, got {self.update_after} < {self.batch_size}."
            )
        _check_multiples(self, self._COUNTS, self.num_envs, "num_envs")
        if self.batch_size % self.devices:
            raise ValueError(
                f"batch_size must be a multiple of devices = {self.devices}, got {self.batch_size}."
            )

    _COUNTS: ClassVar = ("steps", "steps_per_epoch", "start_steps", "update_after", "update_every")

    def resolve(self, ranks: int) -> ResolvedOffPolicySchedule:
        """Fill in the numbers that are None, and check the counts against the number of ranks."""
        unit = ranks * self.num_envs
        _check_multiples(self, self._COUNTS, unit, "num_envs times ranks")
        _check_multiples(self, ("replay_size",), ranks, "ranks")
        for name in ("update_after", "replay_size"):
            if getattr(self, name) < ranks * self.batch_size:
                raise ValueError(
                    f"{name} must be at least {ranks} ranks * batch_size = "
                    f"{ranks * self.batch_size}, got {getattr(self, name)}. Each rank samples its "
                    f"batches of {self.batch_size} from its own transitions."
                )
        every = self.update_every or math.ceil(50 / unit) * unit
        updates = self.updates_per_burst or every
        derived = {"update_every": every, "updates_per_burst": updates}
        return ResolvedOffPolicySchedule(**(vars(self) | derived))


@dataclasses.dataclass(frozen=True)
class ResolvedOffPolicySchedule(OffPolicySchedule):
    """An off-policy schedule for a known number of ranks, with every number filled in."""

    update_every: int = dataclasses.field(kw_only=True)
    updates_per_burst: int = dataclasses.field(kw_only=True)

    def count_rows(self, ranks: int) -> dict[str, int]:
        """Return the transitions that one rank keeps in memory, by the setting that causes them.

        The rows of a burst exist twice, on the host and on the device.
        """
        return {
            "replay_size": self.replay_size // ranks,
            "update_every": 2 * (self.update_every // ranks),
            "updates_per_burst": self.updates_per_burst * self.batch_size,
        }


@dataclasses.dataclass(frozen=True)
class OnPolicySchedule:
    """Times at which an on-policy loop updates and reports.

    Names and defaults are Spinning Up's. All counts are environment transitions over all
    environments and ranks. One epoch is one rollout and one update.
    """

    steps: int = setting(
        200_000, "environment transitions of the whole run", flag="--total-timesteps", group="Run"
    )
    steps_per_epoch: int = setting(4_000, "transitions per epoch: one rollout and one update")
    num_envs: int = setting(1, "environments on each rank, stepped together", group="Compute")
    devices: int = setting(
        1,
        "local devices that split each batch (see purerl.setup)",
        group="Compute",
        rare=True,
    )
    max_ep_len: int | None = setting(
        None, "time limit of an episode; none: the environment's limit"
    )
    num_test_episodes: int = setting(
        0, "test episodes per epoch, without exploration", group="Logging and checkpoints"
    )
    continue_episodes: bool = setting(
        True, "episodes continue in the next epoch; Spinning Up resets them", rare=True
    )

    def __post_init__(self) -> None:
        """Check every field, and check that the fields fit together."""
        checks.integer("steps", self.steps, 1, checks.COUNTER)
        for name in ("steps_per_epoch", "num_envs", "devices"):
            checks.integer(name, getattr(self, name), 1)
        checks.integer("num_test_episodes", self.num_test_episodes, 0)
        checks.boolean("continue_episodes", self.continue_episodes)
        if self.max_ep_len is not None:
            checks.integer("max_ep_len", self.max_ep_len, 1)
        _check_multiples(self, ("steps_per_epoch",), self.num_envs, "num_envs")
        if self.steps % self.steps_per_epoch:
            near = max(1, round(self.steps / self.steps_per_epoch)) * self.steps_per_epoch
            raise ValueError(
                f"steps must be a multiple of steps_per_epoch = {self.steps_per_epoch}, got "
                f"{self.steps}. A run consists of whole rollouts. The nearest multiple is {near}."
            )

    def resolve(self, ranks: int) -> ResolvedOnPolicySchedule:
        """Derive the length of a rollout, and check the counts against the number of ranks."""
        unit = ranks * self.num_envs
        _check_multiples(self, ("steps_per_epoch",), unit, "num_envs times ranks")
        _check_multiples(self, ("steps_per_epoch",), ranks * self.devices, "ranks times devices")
        derived = {"rollout_length": self.steps_per_epoch // unit}
        return ResolvedOnPolicySchedule(**(vars(self) | derived))


@dataclasses.dataclass(frozen=True)
class ResolvedOnPolicySchedule(OnPolicySchedule):
    """An on-policy schedule for a known number of ranks."""

    rollout_length: int = dataclasses.field(kw_only=True)  # steps of each environment

    def count_rows(self, ranks: int) -> dict[str, int]:
        """Return the transitions that one rank keeps in memory, by the setting that causes them.

        A rollout exists three times on its way to the device.
        """
        return {"steps_per_epoch": 3 * (self.steps_per_epoch // ranks)}


Schedule = OffPolicySchedule | OnPolicySchedule
ResolvedSchedule = ResolvedOffPolicySchedule | ResolvedOnPolicySchedule
