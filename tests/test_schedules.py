"""Schedules: which numbers fit together, and what is filled in."""

import dataclasses

import pytest

from purerl.schedules import OffPolicySchedule, OnPolicySchedule

COUNTS = ("steps", "steps_per_epoch", "start_steps", "update_after", "update_every")


def test_counts_divide_over_environments_and_ranks():
    for name in COUNTS:
        near = r"must divide by num_envs = 4, got 1002\. The nearest that fits is 1000"
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
    with pytest.raises(ValueError, match=r"update_after counts .* all 16 ranks, .* at least 1600"):
        OffPolicySchedule(
            steps=1600, steps_per_epoch=1600, start_steps=0, update_after=1008
        ).resolve(16)
    with pytest.raises(ValueError, match=r"replay_size counts .* at least 400, got 200"):
        OffPolicySchedule(replay_size=200, update_after=400).resolve(4)
    with pytest.raises(
        ValueError,
        match=r"^steps must be a whole number of rollouts .* 2048, got 100000\. .* 100352",
    ):
        OnPolicySchedule(steps=100_000, steps_per_epoch=2_048)


@pytest.mark.parametrize(
    ("num_envs", "ranks", "every"),
    [(1, 1, 50), (2, 1, 50), (4, 1, 52), (8, 1, 56), (1, 4, 52), (4, 2, 56)],
)
def test_update_every_is_fifty_rounded_up_to_what_divides(num_envs, ranks, every):
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


def test_schedules_refuse_what_does_not_fit_together():
    with pytest.raises(ValueError, match="^batch_size must not exceed replay_size, got 100 > 50"):
        OffPolicySchedule(replay_size=50)
    with pytest.raises(ValueError, match="^replay_size must be an integer of at most 1073"):
        OffPolicySchedule(replay_size=2**31)
    with pytest.raises(ValueError, match="^update_after must be at least batch_size.*50 < 100"):
        OffPolicySchedule(update_after=50)


def test_schedules_are_frozen_and_compare_by_value():
    assert OffPolicySchedule.__dataclass_params__.frozen
    assert OnPolicySchedule() == OnPolicySchedule()
