"""Schedules: errors for numbers that do not fit together, and derived numbers."""

import dataclasses

import pytest

from purerl.schedules import (
    OffPolicySchedule,
    OnPolicySchedule,
    ResolvedOffPolicySchedule,
    ResolvedOnPolicySchedule,
    ResolvedSequenceSchedule,
    SequenceSchedule,
    choose_her,
    describe_rounding,
)

COUNTS = ("steps", "steps_per_epoch", "start_steps", "update_after", "update_every")


def test_counts_are_rounded_up_to_multiples_of_environments_and_ranks():
    for name in COUNTS:
        settled = OffPolicySchedule(num_envs=4, **{name: 1002}).settle(2)
        assert getattr(settled, name) == 1008
        assert getattr(OffPolicySchedule(num_envs=4, **{name: 1008}).settle(2), name) == 1008
    assert OffPolicySchedule(replay_size=1_001).settle(2).replay_size == 1_002
    assert OffPolicySchedule(batch_size=99, devices=4).settle().batch_size == 100
    assert OffPolicySchedule(start_steps=0, num_envs=4).settle(2).start_steps == 0
    assert OnPolicySchedule(rollout_steps=1_000, num_envs=3).settle().rollout_steps == 1_002
    assert OnPolicySchedule(rollout_steps=1_001, num_envs=4).settle(2).rollout_steps == 1_008
    # Each of 4 environments has 252 steps, which 3 devices share.
    shared = OnPolicySchedule(rollout_steps=1_000, num_envs=4, devices=3).settle(1)
    assert shared.rollout_steps == 1_008


def test_a_run_and_its_epochs_consist_of_whole_rollouts():
    schedule = OnPolicySchedule(steps=100_000, rollout_steps=2_048, steps_per_epoch=5_000)
    settled = schedule.settle()
    assert (settled.steps, settled.steps_per_epoch) == (49 * 2_048, 3 * 2_048)
    assert settled.settle() == settled


def test_a_single_length_is_that_of_rollouts_and_epochs_as_in_spinning_up():
    settled = OnPolicySchedule(steps=10_000, steps_per_epoch=4_000).settle()
    assert (settled.steps, settled.rollout_steps, settled.steps_per_epoch) == (12_000, 4_000, 4_000)
    rows = OnPolicySchedule(steps=200_000, rollout_steps=500).settle()
    assert (rows.rollout_steps, rows.steps_per_epoch) == (500, 4_000)


@pytest.mark.parametrize(
    ("steps", "rollout", "epoch"),
    [
        (20_000, 1_000, 1_000),
        (30_000, 1_000, 1_000),  # 30 rows; with epochs of 2,000 there would be 15
        (50_000, 1_000, 2_000),
        (200_000, 1_000, 4_000),
        (5_000, 250, 250),
        (7, 1, 1),
    ],
)
def test_short_on_policy_runs_have_short_rollouts_and_twenty_epochs(steps, rollout, epoch):
    settled = OnPolicySchedule(steps=steps).settle()
    assert (settled.rollout_steps, settled.steps_per_epoch) == (rollout, epoch)


def test_rollouts_that_cut_episodes_are_longer():
    settled = [OnPolicySchedule(steps=n, continue_episodes=False).settle() for n in (20_000, 10**6)]
    assert [one.rollout_steps for one in settled] == [1_000, 4_000]
    assert [one.steps_per_epoch for one in settled] == [1_000, 4_000]


@pytest.mark.parametrize(
    ("steps", "epoch", "start", "after"),
    [
        (400_000, 4_000, 10_000, 1_000),
        (100_000, 4_000, 10_000, 1_000),
        (20_000, 1_000, 2_000, 1_000),
        (11_100, 550, 1_110, 1_000),  # 555, rounded down to whole bursts: 21 rows
        (5_000, 250, 500, 500),
        (800, 50, 80, 100),  # an epoch is at least a burst, the first update samples a full batch
    ],
)
def test_short_off_policy_runs_have_fewer_random_steps_and_shorter_epochs(
    steps, epoch, start, after
):
    settled = OffPolicySchedule(steps=steps).settle()
    found = (settled.steps_per_epoch, settled.start_steps, settled.update_after)
    assert found == (epoch, start, after)


def test_rounded_counts_are_listed_and_derived_ones_are_not():
    given = OnPolicySchedule(steps=10_000, steps_per_epoch=4_000)
    expected = "rounded up to what fits: steps from 10,000 to 12,000"
    assert describe_rounding(given, given.settle()) == expected
    given = OffPolicySchedule(steps=10_001, start_steps=51, num_envs=2)
    expected = "rounded up to what fits: steps from 10,001 to 10,002, start_steps from 51 to 52"
    assert describe_rounding(given, given.settle()) == expected
    assert describe_rounding(OffPolicySchedule(), OffPolicySchedule().settle(4)) == ""


def test_every_rank_needs_rows_for_its_batches():
    with pytest.raises(ValueError, match=r"^update_after must be .* 16 ranks .* = 1600, got 1008"):
        OffPolicySchedule(update_after=1008).resolve(16)
    with pytest.raises(ValueError, match=r"^replay_size must be .* 4 ranks .* = 400, got 200"):
        OffPolicySchedule(replay_size=200, update_after=400).resolve(4)
    assert OffPolicySchedule().resolve(16).update_after == 1_600  # derived


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
        is_flag = field.type.startswith("bool")
        if (is_flag and value is True) or (field.name, value) == ("her_k", 1.5):
            continue
        kind = "True or False" if is_flag else "an integer"
        other = {"log_info": "a tuple of names", "her_strategy": "one of", "her_k": "a number in"}
        kind = other.get(field.name, kind)
        with pytest.raises(ValueError, match=f"^{field.name} must be {kind}"):
            dataclasses.replace(schedule, **{field.name: value})


def test_schedules_refuse_numbers_that_do_not_fit_together():
    with pytest.raises(ValueError, match="^batch_size must not exceed replay_size, got 100 > 50"):
        OffPolicySchedule(replay_size=50)
    with pytest.raises(ValueError, match="^replay_size must be an integer of at most 1073"):
        OffPolicySchedule(replay_size=2**31)
    with pytest.raises(ValueError, match="^update_after must be at least batch_size.*50 < 100"):
        OffPolicySchedule(update_after=50)
    with pytest.raises(ValueError, match="^n_step must be an integer of at most 1000"):
        OffPolicySchedule(n_step=1_001, replay_size=1_000)


@pytest.mark.parametrize(
    ("change", "flag"),
    [({"n_step": 2}, "--n-step 1"), ({"scale_rewards": True}, "--no-scale-rewards")],
)
def test_rewards_of_goals_in_hindsight_are_neither_summed_nor_scaled(change, flag):
    (name,) = change
    with pytest.raises(ValueError, match=f"^{name} must be .* with goals that are replayed"):
        OffPolicySchedule(her=True, **change)
    with pytest.raises(ValueError, match=rf"^{name} must be .*\({flag}\), or her=False"):
        choose_her(OffPolicySchedule(**change), 2)
    assert choose_her(OffPolicySchedule(her=False, **change), 2).changes_rewards
    assert OffPolicySchedule(**change).resolve(1).changes_rewards
    assert not OffPolicySchedule().changes_rewards


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
    assert OnPolicySchedule(num_envs=4).resolve(2).rollout_length == 1_000 // 8


def test_goals_are_replayed_in_environments_with_goals_unless_that_is_turned_off():
    off = OffPolicySchedule()
    assert not choose_her(off, 0).resolve(1).her
    chosen = choose_her(off, 2).resolve(1)
    assert (chosen.her, chosen.her_strategy, chosen.her_k) == (True, "future", 4)
    own = OffPolicySchedule(her=False, her_strategy="final", her_k=0)
    assert choose_her(own, 2) == own
    resolved = choose_her(dataclasses.replace(own, her=True), 2).resolve(1)
    assert (resolved.her, resolved.her_strategy, resolved.her_k) == (True, "final", 0)
    assert choose_her(OnPolicySchedule(), 2) == OnPolicySchedule()
    with pytest.raises(ValueError, match="^her is for environments with goals"):
        choose_her(OffPolicySchedule(her=True), 0)


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
    assert OnPolicySchedule().resolve(2).count_rows(2) == {"rollout_steps": 3 * 500}


def test_sequences_have_twenty_steps_of_each_environment_or_a_part_of_the_rollout():
    resolved = SequenceSchedule(num_envs=8).resolve(2)
    assert isinstance(resolved, ResolvedSequenceSchedule)
    assert isinstance(resolved, ResolvedOnPolicySchedule)
    assert (resolved.rollout_steps, resolved.rollout_length) == (320, 20)
    chosen = SequenceSchedule(num_envs=4, rollout_steps=90).resolve(2)
    assert (chosen.rollout_steps, chosen.rollout_length) == (96, 12)
    assert chosen.settle(2) == chosen


def test_replayed_transitions_are_counted_over_all_environments_and_ranks():
    resolved = SequenceSchedule(num_envs=8, steps=300_000).resolve(1)
    assert (resolved.replay_size, resolved.replay_start) == (40_000, 8_000)
    assert SequenceSchedule(steps=3_000).resolve(1).replay_start == 300
    given = SequenceSchedule(num_envs=5, replay_size=1_001, replay_start=999).resolve(1)
    assert (given.replay_size, given.replay_start) == (1_100, 1_000)  # rollouts of 100
    assert given.count_rows(2) == {"rollout_steps": 150, "replay_size": 550}
    without = SequenceSchedule(num_envs=5, replay_ratio=0.0).resolve(1)
    assert without.count_rows(1) == {"rollout_steps": 300}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"replay_size": 0}, "replay_size must be an integer of at least 1"),
        ({"replay_start": 0}, "replay_start must be an integer of at least 1"),
        ({"replay_ratio": -1.0}, r"replay_ratio must be a number in \[0.0, 1000.0\]"),
        ({"replay_size": 10, "replay_start": 11}, "replay_start must not exceed replay_size"),
        ({"rollout_steps": 0}, "rollout_steps must be an integer of at least 1"),
    ],
)
def test_schedules_of_sequences_refuse_numbers_that_do_not_fit(fields, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        SequenceSchedule(**fields)
