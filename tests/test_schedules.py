"""The resolved form of schedules; `test_types.py` has the checks of their fields."""

import dataclasses

import pytest

from purerl.schedules import (
    OffPolicySchedule,
    OnPolicySchedule,
    ResolvedOffPolicySchedule,
    ResolvedOnPolicySchedule,
)


@pytest.mark.parametrize("schedule", [OffPolicySchedule(num_envs=4), OnPolicySchedule(num_envs=4)])
def test_a_resolved_schedule_has_no_none_but_the_environments_own_limit(schedule):
    resolved = schedule.resolve(2)
    kind = type(schedule)
    assert type(resolved) in (ResolvedOffPolicySchedule, ResolvedOnPolicySchedule)
    assert isinstance(resolved, kind)
    unknown = [name for name, value in vars(resolved).items() if value is None]
    assert unknown == ["max_ep_len"]
    given = {name: value for name, value in vars(schedule).items() if value is not None}
    assert given.items() <= vars(resolved).items()  # nothing that was given changes
    assert resolved.resolve(2) == resolved


def test_the_derived_numbers_are_per_rank_and_environment():
    off = OffPolicySchedule(num_envs=4).resolve(2)
    assert (off.update_every, off.updates_per_burst) == (56, 56)  # 50, rounded up to 8
    assert OnPolicySchedule(num_envs=4).resolve(2).rollout_length == 4_000 // 8


def test_resolving_leaves_the_schedule_of_the_user_as_it_was():
    schedule = OffPolicySchedule()
    schedule.resolve(1)
    assert schedule.update_every is None
    assert {field.name for field in dataclasses.fields(OffPolicySchedule)} == vars(schedule).keys()


def test_rows_in_memory_are_counted_by_the_setting_that_asks_for_them():
    off = OffPolicySchedule(updates_per_burst=7, replay_size=10_000).resolve(2)
    assert off.count_rows(2) == {
        "replay_size": 5_000,
        "update_every": 50,
        "updates_per_burst": 700,
    }
    assert OnPolicySchedule().resolve(2).count_rows(2) == {"steps_per_epoch": 3 * 2_000}
