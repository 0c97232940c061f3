"""Schedules: when a loop acts, updates and reports.

A schedule contains the numbers that a user chose, and None for numbers to derive.
`settle(ranks)` fills those in, and rounds counts up to what fits. `resolve(ranks)` does the same
and returns the form that loops use. Only `max_ep_len` may still be None there, which means the
environment's own limit.

An off-policy loop works in bursts: `update_every` transitions, then `updates_per_burst` updates.
An on-policy loop works in rollouts: `rollout_steps` transitions, then one update.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Self

from purerl import checks
from purerl.fields import setting

EPOCH = 4_000  # Spinning Up's steps_per_epoch; shorter runs have 20 epochs
ROLLOUT = 1_000
FEWEST_ROWS = 20  # rows of the log in a short run


def _round_up(count: int, unit: int) -> int:
    return -(-count // unit) * unit


def _round_down(count: int, unit: int) -> int:
    return max(unit, count // unit * unit)


def _portion(steps: int, parts: int, most: int) -> int:
    """Return one of `parts` parts of a run, between 1 and `most` steps."""
    return max(1, min(most, steps // parts))


def _check_names(setting: str, names: tuple[str, ...]) -> None:
    """Refuse anything but a tuple of different texts that no other list of a record has."""
    if not isinstance(names, tuple) or not all(isinstance(one, str) and one for one in names):
        raise ValueError(f"{setting} must be a tuple of names, got {names!r}.")
    if len(set(names)) < len(names) or {"returns", "lengths"} & set(names):
        raise ValueError(
            f"{setting} must have each name once, and neither returns nor lengths, which are "
            f"always logged, got {names!r}."
        )


@dataclasses.dataclass(frozen=True)
class OffPolicySchedule:
    """Times at which an off-policy loop acts, updates and reports.

    Names are Spinning Up's, and so are the defaults of runs with at least 100,000 steps. Shorter
    runs have proportionally fewer random steps and shorter epochs. All counts are environment
    transitions over all environments and ranks. They are rounded up to what these can share.
    """

    steps: int = setting(
        400_000, "environment transitions of the whole run", flag="--total-timesteps", group="Run"
    )
    steps_per_epoch: int | None = setting(
        None, "transitions per epoch, a row of the log; none: 4,000 or a 20th of the run"
    )
    start_steps: int | None = setting(
        None, "first transitions, with random actions; none: 10,000 or a tenth of the run"
    )
    update_after: int | None = setting(
        None,
        "transitions before the first update; none: 1,000 or a tenth of the run",
        rare=True,
    )
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
    log_info: tuple[str, ...] | None = setting(
        None,
        "values of info to log from the last step of each episode, for example is_success",
        group="Logging and checkpoints",
        rare=True,
    )

    def __post_init__(self) -> None:
        """Check every field, and check that the fields fit together."""
        checks.integer("steps", self.steps, 1, checks.COUNTER)
        for name in ("batch_size", "num_envs", "devices"):
            checks.integer(name, getattr(self, name), 1)
        checks.integer("replay_size", self.replay_size, 1, 2**30)
        checks.integer("num_test_episodes", self.num_test_episodes, 0)
        if self.log_info is not None:
            _check_names("log_info", self.log_info)
        for name in ("steps_per_epoch", "update_after"):
            if getattr(self, name) is not None:
                checks.integer(name, getattr(self, name), 1, checks.COUNTER)
        if self.start_steps is not None:
            checks.integer("start_steps", self.start_steps, 0, checks.COUNTER)
        for name in ("update_every", "updates_per_burst", "max_ep_len"):
            if getattr(self, name) is not None:
                checks.integer(name, getattr(self, name), 1)
        if self.batch_size > self.replay_size:
            raise ValueError(
                f"batch_size must not exceed replay_size, got {self.batch_size} > "
                f"{self.replay_size}."
            )
        if self.update_after is not None and self.update_after < self.batch_size:
            raise ValueError(
                f"update_after must be at least batch_size, so that the first update can "
                f"sample a full batch, got {self.update_after} < {self.batch_size}."
            )

    def settle(self, ranks: int = 1) -> Self:
        """Fill in the numbers that are None, and round counts up to what fits."""
        unit = ranks * self.num_envs
        steps = _round_up(self.steps, unit)
        batch = _round_up(self.batch_size, self.devices)
        every = _round_up(self.update_every or 50, unit)
        epoch, start, after = self.steps_per_epoch, self.start_steps, self.update_after
        if epoch is None:
            epoch = _round_down(_portion(steps, FEWEST_ROWS, EPOCH), every)
        if start is None:
            start = _portion(steps, 10, 10_000)
        if after is None:
            after = max(ranks * batch, _portion(steps, 10, 1_000))
        return dataclasses.replace(
            self,
            steps=steps,
            steps_per_epoch=_round_up(epoch, unit),
            start_steps=_round_up(start, unit),
            update_after=_round_up(after, unit),
            update_every=every,
            updates_per_burst=self.updates_per_burst or every,
            batch_size=batch,
            replay_size=_round_up(self.replay_size, ranks),
        )

    def resolve(self, ranks: int) -> ResolvedOffPolicySchedule:
        """Return the settled schedule as loops use it, after a check of its sizes."""
        settled = self.settle(ranks)
        for name in ("update_after", "replay_size"):
            if getattr(settled, name) < ranks * settled.batch_size:
                raise ValueError(
                    f"{name} must be at least {ranks} ranks * batch_size = "
                    f"{ranks * settled.batch_size}, got {getattr(settled, name)}. Each rank "
                    f"samples its batches of {settled.batch_size} from its own transitions."
                )
        return ResolvedOffPolicySchedule(**vars(settled) | {"log_info": settled.log_info or ()})


@dataclasses.dataclass(frozen=True)
class ResolvedOffPolicySchedule(OffPolicySchedule):
    """An off-policy schedule for a known number of ranks, with every number filled in."""

    steps_per_epoch: int = dataclasses.field(kw_only=True)
    start_steps: int = dataclasses.field(kw_only=True)
    update_after: int = dataclasses.field(kw_only=True)
    update_every: int = dataclasses.field(kw_only=True)
    updates_per_burst: int = dataclasses.field(kw_only=True)
    log_info: tuple[str, ...] = dataclasses.field(kw_only=True)

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
    log_info: tuple[str, ...] | None = setting(
        None,
        "values of info to log from the last step of each episode, for example is_success",
        group="Logging and checkpoints",
        rare=True,
    )
    continue_episodes: bool = setting(
        True, "episodes continue in the next rollout; Spinning Up resets them", rare=True
    )

    def __post_init__(self) -> None:
        """Check every field."""
        checks.integer("steps", self.steps, 1, checks.COUNTER)
        for name in ("num_envs", "devices"):
            checks.integer(name, getattr(self, name), 1)
        checks.integer("num_test_episodes", self.num_test_episodes, 0)
        if self.log_info is not None:
            _check_names("log_info", self.log_info)
        checks.boolean("continue_episodes", self.continue_episodes)
        for name in ("rollout_steps", "steps_per_epoch", "max_ep_len"):
            if getattr(self, name) is not None:
                checks.integer(name, getattr(self, name), 1)

    def settle(self, ranks: int = 1) -> Self:
        """Fill in the numbers that are None, and round counts up to what fits."""
        unit = ranks * math.lcm(self.num_envs, self.devices)
        most = ROLLOUT if self.continue_episodes else EPOCH  # cut episodes need longer rollouts
        rollout = self.rollout_steps or self.steps_per_epoch
        rollout = _round_up(rollout or _portion(self.steps, FEWEST_ROWS, most), unit)
        steps = _round_up(self.steps, rollout)
        if self.steps_per_epoch is None:
            epoch = _round_down(_portion(steps, FEWEST_ROWS, EPOCH), rollout)
        else:
            epoch = _round_up(self.steps_per_epoch, rollout)
        return dataclasses.replace(self, steps=steps, rollout_steps=rollout, steps_per_epoch=epoch)

    def resolve(self, ranks: int) -> ResolvedOnPolicySchedule:
        """Return the settled schedule as loops use it, with the length of a rollout."""
        settled = vars(self.settle(ranks))
        length = settled["rollout_steps"] // (ranks * self.num_envs)
        filled = {"rollout_length": length, "log_info": settled["log_info"] or ()}
        return ResolvedOnPolicySchedule(**settled | filled)


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


Schedule = OffPolicySchedule | OnPolicySchedule
ResolvedSchedule = ResolvedOffPolicySchedule | ResolvedOnPolicySchedule


def describe_rounding(given: Schedule, settled: Schedule) -> str:
    """Return a sentence about the counts that `settle` rounded up, or an empty text."""
    fields = [field.name for field in dataclasses.fields(given)]
    changed = [
        f"{name} from {getattr(given, name):,} to {getattr(settled, name):,}"
        for name in fields
        if getattr(given, name) not in (None, getattr(settled, name))
    ]
    return f"rounded up to what fits: {', '.join(changed)}" if changed else ""
