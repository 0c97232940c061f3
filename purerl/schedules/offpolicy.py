"""Schedule of an off-policy loop: bursts of updates on rows of a replay buffer."""

from __future__ import annotations

import dataclasses
from typing import Self

from purerl import checks
from purerl.fields import setting
from purerl.schedules.common import (
    EPOCH,
    FEWEST_ROWS,
    check_common,
    devices_setting,
    log_info_setting,
    portion,
    round_down,
    round_up,
)

HER_K = 4.0
STRATEGIES = ("future", "final", "episode")  # of hindsight experience replay


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
    n_step: int = setting(1, "most steps of rewards in a target before it bootstraps", rare=True)
    scale_rewards: bool = setting(
        False, "divide sampled rewards by the standard deviation of returns", rare=True
    )
    num_envs: int = setting(1, "environments on each rank, stepped together", group="Compute")
    devices: int = devices_setting()
    her: bool | None = setting(
        None, "replay with goals that were reached later; none: in environments with goals"
    )
    her_strategy: str | None = setting(
        None, "goals to replay with: future, final or episode; none: future", rare=True
    )
    her_k: float | None = setting(None, "replayed goals per original one; none: 4", rare=True)
    max_ep_len: int | None = setting(
        None, "time limit of an episode; none: the environment's limit"
    )
    num_test_episodes: int = setting(
        10, "test episodes per epoch, without exploration", group="Logging and checkpoints"
    )
    log_info: tuple[str, ...] | None = log_info_setting()

    def __post_init__(self) -> None:
        """Check every field, and check that the fields fit together."""
        check_common(self)
        checks.integer("batch_size", self.batch_size, 1)
        checks.integer("replay_size", self.replay_size, 1, 2**30)
        counts = ("steps_per_epoch", "update_after")
        checks.each(self, counts, checks.integer, 1, checks.COUNTER, optional=True)
        checks.each(self, ("start_steps",), checks.integer, 0, checks.COUNTER, optional=True)
        counts = ("update_every", "updates_per_burst")
        checks.each(self, counts, checks.integer, 1, optional=True)
        checks.each(self, ("her",), checks.boolean, optional=True)
        checks.each(self, ("her_strategy",), checks.member, STRATEGIES, optional=True)
        checks.each(self, ("her_k",), checks.real, 0, optional=True)
        checks.integer("n_step", self.n_step, 1, self.replay_size)
        checks.boolean("scale_rewards", self.scale_rewards)
        if self.her and self.changes_rewards:
            name, default, flag = ("scale_rewards", "False", "--no-scale-rewards")
            if self.n_step > 1:
                name, default, flag = ("n_step", "1", "--n-step 1")
            raise ValueError(
                f"{name} must be {default} with goals that are replayed in hindsight, whose "
                f"rewards are computed again for single steps, got {getattr(self, name)}. Set "
                f"{name}={default} ({flag}), or her=False (--no-her)."
            )
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

    @property
    def changes_rewards(self) -> bool:
        """Whether sampled rewards are n-step returns, or scaled."""
        return self.n_step > 1 or self.scale_rewards

    def settle(self, ranks: int = 1) -> Self:
        """Fill in the numbers that are None, and round counts up to what fits."""
        unit = ranks * self.num_envs
        steps = round_up(self.steps, unit)
        batch = round_up(self.batch_size, self.devices)
        every = round_up(self.update_every or 50, unit)
        epoch, start, after = self.steps_per_epoch, self.start_steps, self.update_after
        if epoch is None:
            epoch = round_down(portion(steps, FEWEST_ROWS, EPOCH), every)
        if start is None:
            start = portion(steps, 10, 10_000)
        if after is None:
            after = max(ranks * batch, portion(steps, 10, 1_000))
        return dataclasses.replace(
            self,
            steps=steps,
            steps_per_epoch=round_up(epoch, unit),
            start_steps=round_up(start, unit),
            update_after=round_up(after, unit),
            update_every=every,
            updates_per_burst=self.updates_per_burst or every,
            batch_size=batch,
            replay_size=round_up(self.replay_size, ranks),
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
        filled = {"log_info": settled.log_info or (), "her": bool(settled.her)}
        filled |= {"her_strategy": settled.her_strategy or STRATEGIES[0]}
        filled |= {"her_k": HER_K if settled.her_k is None else settled.her_k}
        return ResolvedOffPolicySchedule(**vars(settled) | filled)


@dataclasses.dataclass(frozen=True)
class ResolvedOffPolicySchedule(OffPolicySchedule):
    """An off-policy schedule for a known number of ranks, with every number filled in."""

    steps_per_epoch: int = dataclasses.field(kw_only=True)
    start_steps: int = dataclasses.field(kw_only=True)
    update_after: int = dataclasses.field(kw_only=True)
    update_every: int = dataclasses.field(kw_only=True)
    updates_per_burst: int = dataclasses.field(kw_only=True)
    her: bool = dataclasses.field(kw_only=True)
    her_strategy: str = dataclasses.field(kw_only=True)
    her_k: float = dataclasses.field(kw_only=True)
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
