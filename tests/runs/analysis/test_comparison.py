"""Scores, pairs, verdicts and notes of comparisons."""

import math

import pytest

from purerl.errors import ConfigError
from purerl.runs.analysis import comparison
from tests.runs.analysis.made_tables import (
    compare_quietly,
    write_foreign_run,
    write_run,
    write_seeds,
)


def test_conditions_are_scored_paired_and_timed(tmp_path):
    for seed, level in enumerate((1, 2, 3, 4, 10)):
        write_run(tmp_path / f"a_s{seed}", [0, 0, level, level + 2], "a", seed)
    for seed, level in enumerate((20, 21, 22, 23, 24)):
        write_run(tmp_path / f"b_s{seed}", [level, level, 0, 30, 30, 40], "b", seed)
    found = compare_quietly(tmp_path, last=2, threshold=3)
    a, b = found.rows
    assert (a.condition, a.env, a.scores) == ("a", "CartPole-v1", (2, 3, 4, 5, 11))
    assert a.estimate == 4  # of 3, 4, 5
    assert (a.reached, a.steps, a.seconds) == (3, 300, 8)
    assert (b.scores, b.estimate, b.interval) == ((35,) * 5, 35, (35, 35))
    assert (b.reached, b.steps, b.seconds) == (5, 100, 12)
    (pair,) = found.pairs
    assert pair.probability == 0
    assert (pair.interval, pair.seeds, pair.verdict) == ((0, 0), 5, "b is better")
    assert found.notes == [
        "a in CartPole-v1: 5 of 5 runs end before 600 steps, the first at 400.",
    ]
    assert (found.overall, found.columns) == ([], ("AverageEpRet",))
    for metric, value in (("mean", 5), ("median", 4)):
        assert compare_quietly(tmp_path, last=2, metric=metric).rows[0].estimate == value
    assert compare_quietly(tmp_path, last=2, threshold=8).rows[0].steps == math.inf


def test_scores_are_scaled_in_each_environment_before_pooling(tmp_path):
    write_seeds(tmp_path, "p1", [0, 5, 10], "Small", algo="ppo")
    write_seeds(tmp_path, "s1", [2, 5, 5], "Small", algo="sac")
    write_seeds(tmp_path, "p2", [1000, 3000, 3000], "Large", algo="ppo")
    write_seeds(tmp_path, "s2", [2000, 2000, 5000], "Large", algo="sac")
    found = compare_quietly(tmp_path, group="algo,env", metric="mean")
    ppo, sac = found.overall
    assert (ppo.condition, ppo.env) == ("ppo", "Small, Large")
    assert sorted(ppo.scores) == [0, 0, 0.5, 0.5, 0.5, 1]
    assert sorted(sac.scores) == [0.2, 0.25, 0.25, 0.5, 0.5, 1]
    (pair,) = found.pairs
    # Small: 0 loses three times, 5 wins once and ties twice, 10 wins three times: 5 of 9.
    # Large: 1000 loses three times, each 3000 wins twice: 4 of 9.
    assert pair.probability == pytest.approx((5 / 9 + 4 / 9) / 2)
    assert pair.envs == ("Small", "Large")
    assert pair.verdict == "no claim: fewer than 5 seeds"
    assert any("fewer than 5 seeds, the intervals are too" in note for note in found.notes)
    write_seeds(tmp_path, "t", [1, 2], "Third", algo="sac")
    assert compare_quietly(tmp_path, group="algo").overall[0].env == "Small, Large"
    for only in ("p1", "s2"):
        assert compare_quietly(tmp_path / only).rows[0].condition == only
    found = compare_quietly(tmp_path / "p1", tmp_path / "s2")
    assert not found.overall
    assert not found.pairs
    assert "p1 and s2 are not compared: they share no environment." in found.notes


def test_equal_scores_are_scaled_to_one_half(tmp_path):
    for env in ("E", "F"):
        write_seeds(tmp_path, "a", [3, 3], env)
        write_seeds(tmp_path, "b", [3, 3], env)
    found = compare_quietly(tmp_path)
    assert [row.estimate for row in found.overall] == [0.5, 0.5]
    assert found.pairs[0].probability == 0.5


def test_a_scale_replaces_the_lowest_and_highest_run(tmp_path):
    for name, low, high in (("a", 10, 100), ("b", 20, 150)):
        write_seeds(tmp_path, name, [low, low + 10], "E")
        write_seeds(tmp_path, name, [high], "F")
    scale = {"E": (0.0, 20.0), "F": (-100.0, 100.0)}
    a, b = compare_quietly(tmp_path, metric="mean", scale=scale).overall
    assert (sorted(a.scores), sorted(b.scores)) == ([0.5, 1, 1], [1, 1.25, 1.5])
    assert b.estimate == 1.25
    titles = list(comparison.make_tables(compare_quietly(tmp_path, scale=scale)))
    assert titles[1] == "Scores over E, F: in each, 0 and 1 are the scores of the scale."
    with pytest.raises(ConfigError, match="scale lacks F.*--scale F=0,100"):
        compare_quietly(tmp_path, scale={"E": (0.0, 20.0)})
    for ends in ((1.0, 1.0), (2.0, 1.0), (0.0, math.inf)):
        with pytest.raises(ConfigError, match="scale of E must be two finite numbers, the lower"):
            compare_quietly(tmp_path, scale={"E": ends})
    write_seeds(tmp_path / "more", "c", [1, 2], "E")
    note = "an overall score needs 2 shared environments, got E."
    assert note in compare_quietly(tmp_path / "more", scale=scale).notes
    assert note not in compare_quietly(tmp_path / "more").notes


@pytest.mark.parametrize(
    ("number", "value", "ends", "expected"),
    [
        (4, 1.0, (1.0, 1.0), "no claim: fewer than 5 seeds"),
        (5, 1.0, (1.0, 1.0), "a is better"),
        (9, 0.7, (0.5, 0.9), "no difference shown"),
        (9, 0.7, (0.51, 0.9), "a is slightly better"),
        (9, 0.75, (0.51, 0.9), "a is better"),
        (9, 0.3, (0.1, 0.49), "b is slightly better"),
        (9, 0.1, (0.0, 0.3), "b is better"),
    ],
)
def test_a_claim_needs_five_seeds_and_an_interval_without_one_half(number, value, ends, expected):
    assert comparison.judge("a", "b", number, value, ends) == expected


def test_notes_name_differences_between_compared_runs(tmp_path):
    write_seeds(tmp_path, "a", [1, 2], gamma=0.9)
    write_seeds(tmp_path / "more", "a", [3, 4], gamma=0.99)
    write_run(tmp_path / "a_s8", [1, 1], "a", 8, test=[5, 5], gamma=0.9)
    failed = write_run(tmp_path / "a_s9", [1, "nan"], "a", 9, gamma=0.9)
    apart = compare_quietly(tmp_path, last=1)
    assert [row.condition for row in apart.rows] == ["a (gamma=0.9)", "a (gamma=0.99)"]
    assert len(apart.rows[0].scores) == 3
    assert any(note.startswith(f"left out: {failed} has no number") for note in apart.notes)
    joined = compare_quietly(tmp_path, last=1, group="name")
    assert len(joined.rows[0].scores) == 5
    assert "a in CartPole-v1 mixes runs that differ in spec.gamma." in joined.notes
    assert "scores come from different columns: AverageEpRet, AverageTestEpRet." in joined.notes
    assert [row.condition for row in compare_quietly(tmp_path, last=1, group="gamma").rows] == [
        "0.9",
        "0.99",
    ]
    with pytest.raises(ConfigError, match="no run has a setting 'lr'. Choose from name, env"):
        compare_quietly(tmp_path, group="lr")
    with pytest.raises(ConfigError, match="group must name a setting besides env, got 'env'"):
        compare_quietly(tmp_path, group="env")


def test_verdicts_count_seeds_not_runs(tmp_path):
    for number in range(5):
        write_run(tmp_path / "a" / f"{number}_s0", [number], "a", 0, clip=number)
        write_run(tmp_path / "b" / f"{number}_s0", [number], "b", number, algo="sac")
        write_foreign_run(
            tmp_path / "c" / str(number), f"{HEADER}1\t5\t100\n", exp_name=str(number), seed=0
        )
        write_foreign_run(tmp_path / "d" / str(number), f"{HEADER}1\t5\t100\n", exp_name="d")
    found = compare_quietly(tmp_path / "a", tmp_path / "b", group="algo", last=1)
    assert [(len(row.scores), row.seeds) for row in found.rows] == [(5, 1), (5, 5)]
    assert found.pairs[0].verdict == "no claim: fewer than 5 seeds"
    found = compare_quietly(tmp_path, group="algo")
    assert [(row.condition, row.env, len(row.scores), row.seeds) for row in found.rows[2:]] == [
        ("none", "unknown", 10, 6)  # 5 names share a seed, 5 runs of one name have no seed
    ]


HEADER = "Epoch\tAverageEpRet\tTotalEnvInteracts\n"


def test_runs_of_other_programs_can_be_compared(tmp_path):
    text = "Epoch\tAverageEpRet\tTotalEnvInteracts\n1\t5\t100\n"
    for seed in range(2):
        write_foreign_run(tmp_path / "x" / f"x_s{seed}", text, exp_name="x", seed=seed)
    (tmp_path / "y_s0").mkdir()
    header = '#{"t_start": 0.5, "env_id": "E"}\nr,l,t\n'
    (tmp_path / "y_s0" / "monitor.csv").write_text(header + "7,50,3\n")
    rows = compare_quietly(tmp_path).rows
    assert [(r.condition, r.env, r.scores, r.seconds, r.interval) for r in rows] == [
        ("x", "unknown", (5, 5), None, (5, 5)),
        ("y", "E", (7,), 3, None),
    ]
