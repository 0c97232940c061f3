"""Schedules: when a loop acts, updates and reports.

A schedule contains the numbers that a user chose, and None for numbers to derive.
`settle(ranks)` fills those in, and rounds counts up to what fits. `resolve(ranks)` does the same
and returns the form that loops use. Only `max_ep_len` may still be None there, which means the
environment's own limit.

An off-policy loop works in bursts: `update_every` transitions, then `updates_per_burst` updates.
An on-policy loop works in rollouts: `rollout_steps` transitions, then one update (or several).
"""

import dataclasses

from purerl.schedules.offpolicy import (
    STRATEGIES,
    OffPolicySchedule,
    ResolvedOffPolicySchedule,
)
from purerl.schedules.onpolicy import (
    OnPolicySchedule,
    ResolvedOnPolicySchedule,
    ResolvedSequenceSchedule,
    SequenceSchedule,
)

__all__ = [
    "STRATEGIES",
    "OffPolicySchedule",
    "OnPolicySchedule",
    "ResolvedOffPolicySchedule",
    "ResolvedOnPolicySchedule",
    "ResolvedSchedule",
    "ResolvedSequenceSchedule",
    "Schedule",
    "SequenceSchedule",
    "choose_her",
    "describe_rounding",
]

Schedule = OffPolicySchedule | OnPolicySchedule
ResolvedSchedule = ResolvedOffPolicySchedule | ResolvedOnPolicySchedule


def choose_her(schedule: Schedule, goal_size: int) -> Schedule:
    """Switch hindsight experience replay on in an environment with goals, unless `her` is False.

    Args:
        schedule: Schedule of any algorithm; an on-policy one stays as it is.
        goal_size: `EnvSpec.goal_size`, 0 for an environment without goals.
    """
    if not isinstance(schedule, OffPolicySchedule):
        return schedule
    if not goal_size:
        if schedule.her:
            raise ValueError(
                "her is for environments with goals, whose observations are a dict of the vectors "
                "observation, achieved_goal and desired_goal, for example BitFlipping-v0 or "
                "FetchReach-v4. For others, leave her (--her) out."
            )
        return schedule
    return dataclasses.replace(schedule, her=schedule.her is not False)


def describe_rounding(given: Schedule, settled: Schedule) -> str:
    """Return a sentence about the counts that `settle` rounded up, or an empty text."""
    fields = [field.name for field in dataclasses.fields(given)]
    changed = [
        f"{name} from {getattr(given, name):,} to {getattr(settled, name):,}"
        for name in fields
        if getattr(given, name) not in (None, getattr(settled, name))
    ]
    return f"rounded up to what fits: {', '.join(changed)}" if changed else ""
