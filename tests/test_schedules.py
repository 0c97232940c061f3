"""Schedules: errors for numbers that do not fit together, and derived numbers."""

import dataclasses

import pytest

from purerl.schedules import (
    OffPolicySchedule,
    OnPolicySchedule,
    ResolvedOffPolicySchedule,
    ResolvedOnPolicySchedule,
)

COUNTS = ("steps", "steps_per_epoch", "start_steps", "update_after", "update_every")


def test_counts_must_be_multiples_of_environments_and_ranks():
    for name in COUNTS:
        near = r"must be a multiple of num_envs = 4, got 1002\. The nearest multiple is 1000"
        with pytest.raises(ValueError, match=f"^{name} counts .* {near}"):
            OffPolicySchedule(**({"num_envs": 4} | {name: 1002}))
        with pytest.raises(ValueError, match=rf"^{name} .* num_envs times ranks = 8, got 1004"):
            OffPolicySchedule(**({"num_envs": 4} | {name: 1004})).resolve(2)
    with pytest.raises(ValueError, match="^replay_size .* ranks = 3"):
        OffPolicySchedule(steps=9000, steps_per_epoch=900, start_steps=9, update_after=999).resolve(
            3
        )
    with pytest.raises(ValueError, match="^steps_per_epoch .* num_envs = 3"):
        OnPolicySchedule(num_envs=3, steps=4000)
    with pytest.raises(ValueError, match="^steps_per_epoch .* num_envs times ranks = 3"):
        OnPolicySchedule().resolve(3)
    with pytest.raises(ValueError, match=r"^update_after must be .* 16 ranks .* = 1600, got 1008"):
        OffPolicySchedule(
            steps=1600, steps_per_epoch=1600, start_steps=0, update_after=1008
        ).resolve(16)
    with pytest.raises(ValueError, match=r"^replay_size must be .* 4 ranks .* = 400, got 200"):
        OffPolicySchedule(replay_size=200, update_after=400).resolve(4)
    with pytest.raises(
        ValueError,
        match=r"^steps must be a multiple of .* 2048, got 100000\. .* is 100352",
    ):
        OnPolicySchedule(steps=100_000, steps_per_epoch=2_048)


@pytest.mark.parametrize(
    ("num_envs", "ranks", "every"),
    [(1, 1, 50), (2, 1, 50), (4, 1, 52), (8, 1, 56), (1, 4, 52), (4, 2, 56)],
)
def test_update_every_defaults_to_fifty_rounded_up_to_a_multiple(num_envs, ranks, every):
    resolved = OffPolicySchedule(num_envs=num_envs).resolve(ranks)
    assert (resolved.update_every, resolved.updates_per_burst) == (every, every)
    two = OffPolicySchedule(num_envs=num_envs, updates_per_burst=2).resolve(ranks)
    assert (two.update_every, two.updates_per_burst) == (every, 2)


@pytest.mark.parametrize("schedule", [OffPolicySchedule(), OnPolicySchedule()], ids=["off", "on"])
@pytest.mark.parametrize("value", [-1, 1.5, "8", True, float("nan")])
def test_schedules_refuse_bad_numbers_by_name(schedule, value):
    for field in dataclasses.fields(schedule):
        if field.type == "bool" and value is True:
            continue
        kind = "True or False" if field.type == "bool" else "an integer"
        with pytest.raises(ValueError, match=f"^{field.name} must be {kind}"):
            dataclasses.replace(schedule, **{field.name: value})


def test_schedules_refuse_numbers_that_do_not_fit_together():
    with pytest.raises(ValueError, match="^batch_size must not exceed replay_size, got 100 > 50"):
        OffPolicySchedule(replay_size=50)
    with pytest.raises(ValueError, match="^replay_size must be an integer of at most 1073"):
        OffPolicySchedule(replay_size=2**31)
    with pytest.raises(ValueError, match="^update_after must be at least batch_size.*50 < 100"):
        OffPolicySchedule(update_after=50)


def test_schedules_are_frozen_and_compare_by_value():
    assert OffPolicySchedule.__dataclass_params__.frozen
    assert OnPolicySchedule() == OnPolicySchedule()


@pytest.mark.parametrize("schedule", [OffPolicySchedule(num_envs=4), OnPolicySchedule(num_envs=4)])
def test_a_resolved_schedule_has_no_none_but_the_environments_own_limit(schedule):
    resolved = schedule.resolve(2)
    kind = type(schedule)
    assert type(resolved) in (ResolvedOffPolicySchedule, ResolvedOnPolicySchedule)
    assert isinstance(resolved, kind)
    unknown = [name for name, value in vars(resolved).items() if value is None]
    assert unknown == ["max_ep_len"]
    given = {name: value for name, value in vars(schedule).items() if value is not None}
    assert given.items() <= vars(resolved).items()  # numbers that were set do not change
    assert resolved.resolve(2) == resolved


def test_the_derived_numbers_are_per_rank_and_environment():
    off = OffPolicySchedule(num_envs=4).resolve(2)
    assert (off.update_every, off.updates_per_burst) == (56, 56)  # 50, rounded up to 8
    assert OnPolicySchedule(num_envs=4).resolve(2).rollout_length == 4_000 // 8


def test_resolve_does_not_change_the_schedule_of_the_user():
    schedule = OffPolicySchedule()
    schedule.resolve(1)
    assert schedule.update_every is None
    assert {field.name for field in dataclasses.fields(OffPolicySchedule)} == vars(schedule).keys()


def test_rows_in_memory_are_counted_for_each_setting():
    off = OffPolicySchedule(updates_per_burst=7, replay_size=10_000).resolve(2)
    assert off.count_rows(2) == {
        "replay_size": 5_000,
        "update_every": 50,
        "updates_per_burst": 700,
    }
    assert OnPolicySchedule().resolve(2).count_rows(2) == {"steps_per_epoch": 3 * 2_000}
