"""Statistics of few runs against numbers of other libraries, and what is said of them."""

import json
import math

import numpy as np
import pytest

from purerl.cli.commands.compare import compare, main
from purerl.errors import ConfigError
from purerl.runs.analysis import comparison
from purerl.runs.analysis import statistics as estimates
from tests.runs.analysis.made_tables import foreign, ours, seeds

X = np.array([[0.31, 1.2], [0.55, 0.9], [0.12, 2.0], [0.91, 1.7], [0.44, 1.1]])
Y = np.array([[0.05, 1.0], [0.50, 0.4], [0.12, 1.9], [0.30, 0.2], [0.61, 0.7], [0.2, 0.8]])
A = np.array([3.1, 4.7, 2.2, 9.8, 5.5, 4.1, 7.3])


def tasks(scores):
    return [scores[:, 0], scores[:, 1]]


PAIRED = [X[:, 0], Y[:, 0], X[:, 1], Y[:, 1]]


def test_random_numbers_are_those_of_splitmix64():
    # The first outputs for seed 1234567 of the reference implementation,
    # https://prng.di.unimi.it/splitmix64.c, as Rosetta Code prints them.
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert estimates.bits(0, 5, seed=1234567).tolist() == published
    assert estimates.bits(3, 2, seed=1234567).tolist() == published[3:]


def test_resampling_takes_each_run_equally_often_and_groups_apart():
    first, second = estimates.resample([np.arange(7), np.arange(7)], 10_000)
    for drawn in (first, second):
        counts = np.bincount(drawn.ravel(), minlength=7)
        chi2 = float(((counts - 10_000) ** 2 / 10_000).sum())
        assert chi2 < 22.5  # 0.999 of chi-squared with 6 degrees of freedom
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.015  # 4 / sqrt(70,000)
    columns = np.corrcoef(first.T)[np.triu_indices(7, 1)]
    assert np.abs(columns).max() < 0.04


# scipy 1.17.1: [scipy.stats.trim_mean(x, 0.25) for x in ...]
@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([1, 2, 3, 4, 5, 6, 7], 4.0),
        ([3, 9, 1], 4.333333333333333),
        ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 4.5),
        ([0, 1, 2, 3, 4, 5, 6, 7, 8, 1e6], 4.5),
        ([5, 1, 2, 8, 100], 5.0),
        ([7], 7.0),
    ],
)
def test_the_interquartile_mean_is_scipys_trimmed_mean(scores, expected):
    assert float(estimates.iqm([np.array(scores, float)])) == pytest.approx(expected)


def test_estimates_over_two_tasks_are_those_of_rliable():
    # rliable 1.2.0: metrics.aggregate_iqm(X), ...(Y), metrics.probability_of_improvement(X, Y)
    assert float(estimates.iqm(tasks(X))) == pytest.approx(0.85)
    assert float(estimates.iqm(tasks(Y))) == pytest.approx(0.45166666666666666)
    assert float(estimates.probability_of_improvement(PAIRED)) == pytest.approx(0.7583333333333333)
    # scipy.stats.mannwhitneyu([1, 2, 2, 5], [2, 3, 0], alternative="greater").statistic / 12
    values = [np.array([1.0, 2, 2, 5]), np.array([2.0, 3, 0])]
    assert float(estimates.probability_of_improvement(values)) == pytest.approx(7 / 12)
    assert float(estimates.probability_of_improvement([X[:, 0], X[:, 0]])) == 0.5


# Ends move by about 0.01 to 0.02 with the resampling; both lie on a grid of that width.
def test_intervals_over_two_tasks_are_those_of_rliable():
    # rliable 1.2.0 with arch 7.2.0: library.get_interval_estimates({"x": X, "y": Y},
    #   lambda s: np.array([metrics.aggregate_iqm(s)]), reps=50000), seed 0
    assert estimates.bootstrap_interval(estimates.iqm, tasks(X)) == pytest.approx(
        (0.678, 1.138), abs=0.02
    )
    assert estimates.bootstrap_interval(estimates.iqm, tasks(Y)) == pytest.approx(
        (0.267, 0.670), abs=0.02
    )
    # the same of {"x,y": (X, Y)} with metrics.probability_of_improvement, reps=4000
    ends = estimates.bootstrap_interval(estimates.probability_of_improvement, PAIRED)
    assert ends == pytest.approx((0.525, 0.95), abs=0.02)


# scipy 1.17.1: scipy.stats.bootstrap((A,), statistic, n_resamples=100000, method="percentile",
#   rng=np.random.default_rng(0)).confidence_interval
@pytest.mark.parametrize(
    ("metric", "value", "ends"),
    [
        ("iqm", 4.94, (3.32, 7.42)),
        ("mean", 5.242857142857142, (3.5857142857142854, 7.128571428571429)),
        ("median", 4.7, (3.1, 7.3)),
    ],
)
def test_intervals_of_one_task_are_those_of_scipy(metric, value, ends):
    statistic = estimates.METRICS[metric]
    assert float(statistic([A])) == pytest.approx(value)
    assert estimates.bootstrap_interval(statistic, [A]) == pytest.approx(ends, abs=0.13)


def test_equal_scores_have_equal_intervals_and_scale_along():
    ends = estimates.bootstrap_interval(estimates.iqm, [A])
    assert estimates.bootstrap_interval(estimates.iqm, [A.copy()]) == ends
    low, high = estimates.bootstrap_interval(estimates.iqm, [-2 * A])
    assert (-high / 2, -low / 2) == pytest.approx(ends)
    assert estimates.bootstrap_interval(estimates.probability_of_improvement, [A, A + 100]) == (
        0,
        0,
    )


def test_an_interval_holds_the_truth_about_as_often_as_it_says():
    uniform = (estimates.bits(0, 400 * 20, seed=9) >> np.uint64(11)) * 2.0**-53
    held = 0
    for scores in uniform.reshape(400, 20):
        low, high = estimates.bootstrap_interval(estimates.mean, [scores], repeats=500)
        held += low <= 0.5 <= high
    assert 0.90 < held / 400 < 0.98  # percentile intervals of 20 runs hold a little less than 95%


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([1, 5, 5, 1], 20),
        ([5, 1, 5, 5], 30),
        ([5, 1, 5, 1], math.inf),
        ([1, 1, 1, 5], math.inf),
        ([5, math.nan, 5, 1], 10),
        ([4, 4.9, 6, 7], 30),
    ],
)
def test_a_threshold_is_reached_where_two_rows_in_a_row_are_there(y, expected):
    x = np.array([10.0, 20, 30, 40])
    assert estimates.find_first_lasting(x, np.array(y, float), 5.0) == expected


def quiet(*paths, **options):
    notes = []
    found = compare([str(path) for path in paths], say=notes.append, **options)
    assert notes == found.notes
    return found


def test_conditions_are_scored_paired_and_timed(tmp_path):
    for seed, level in enumerate((1, 2, 3, 4, 10)):
        ours(tmp_path / f"a_s{seed}", [0, 0, level, level + 2], "a", seed)
    for seed, level in enumerate((20, 21, 22, 23, 24)):
        ours(tmp_path / f"b_s{seed}", [level, level, 0, 30, 30, 40], "b", seed)
    found = quiet(tmp_path, last=2, threshold=3)
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
        assert quiet(tmp_path, last=2, metric=metric).rows[0].estimate == value
    assert quiet(tmp_path, last=2, threshold=8).rows[0].steps == math.inf


def test_environments_are_scaled_before_they_are_put_together(tmp_path):
    seeds(tmp_path, "p1", [0, 5, 10], "Small", algo="ppo")
    seeds(tmp_path, "s1", [2, 5, 5], "Small", algo="sac")
    seeds(tmp_path, "p2", [1000, 3000, 3000], "Large", algo="ppo")
    seeds(tmp_path, "s2", [2000, 2000, 5000], "Large", algo="sac")
    found = quiet(tmp_path, group="algo,env", metric="mean")
    ppo, sac = found.overall
    assert (ppo.condition, ppo.env) == ("ppo", "Small, Large")
    assert sorted(ppo.scores) == [0, 0, 0.5, 0.5, 0.5, 1]
    assert sorted(sac.scores) == [0.2, 0.25, 0.25, 0.5, 0.5, 1]
    (pair,) = found.pairs
    # Small: 0 loses three times, 5 wins one and ties two, 10 wins three: 5 of 9;
    # Large: 1000 loses three times, 3000 wins two, twice: 4 of 9
    assert pair.probability == pytest.approx((5 / 9 + 4 / 9) / 2)
    assert pair.envs == ("Small", "Large")
    assert pair.verdict == "no claim: fewer than 5 seeds"
    assert any("fewer than 5 seeds intervals are too narrow" in note for note in found.notes)
    seeds(tmp_path, "t", [1, 2], "Third", algo="sac")
    assert quiet(tmp_path, group="algo").overall[0].env == "Small, Large"
    for only in ("p1", "s2"):
        assert quiet(tmp_path / only).rows[0].condition == only
    found = quiet(tmp_path / "p1", tmp_path / "s2")
    assert not found.overall
    assert not found.pairs
    assert "p1 and s2 share no environment." in found.notes


def test_equal_scores_everywhere_are_in_the_middle(tmp_path):
    for env in ("E", "F"):
        seeds(tmp_path, "a", [3, 3], env)
        seeds(tmp_path, "b", [3, 3], env)
    found = quiet(tmp_path)
    assert [row.estimate for row in found.overall] == [0.5, 0.5]
    assert found.pairs[0].probability == 0.5


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
def test_a_claim_needs_seeds_and_an_interval_beside_one_half(number, value, ends, expected):
    assert comparison.verdict("a", "b", number, value, ends) == expected


def test_what_is_not_alike_is_said(tmp_path):
    seeds(tmp_path, "a", [1, 2], gamma=0.9)
    seeds(tmp_path / "more", "a", [3, 4], gamma=0.99)
    ours(tmp_path / "a_s8", [1, 1], "a", 8, test=[5, 5], gamma=0.9)
    failed = ours(tmp_path / "a_s9", [1, "nan"], "a", 9, gamma=0.9)
    apart = quiet(tmp_path, last=1)
    assert [row.condition for row in apart.rows] == ["a (gamma=0.9)", "a (gamma=0.99)"]
    assert len(apart.rows[0].scores) == 3
    assert any(note.startswith(f"left out: {failed} has no number") for note in apart.notes)
    joined = quiet(tmp_path, last=1, group="name")
    assert len(joined.rows[0].scores) == 5
    assert "a in CartPole-v1 counts runs together that differ in spec.gamma." in joined.notes
    assert "scores are not of the same column: AverageEpRet, AverageTestEpRet." in joined.notes
    assert [row.condition for row in quiet(tmp_path, last=1, group="gamma").rows] == ["0.9", "0.99"]
    with pytest.raises(ConfigError, match="no run has a setting 'lr' to group by, only name, env"):
        quiet(tmp_path, group="lr")
    with pytest.raises(ConfigError, match="group must name more than env"):
        quiet(tmp_path, group="env")


def test_a_run_counts_once_whatever_it_is_called(tmp_path):
    for name in ("same", "again", "more", "yet", "last"):
        ours(tmp_path / name / f"{name}_s0", [17, 17], name, 0, clip=0.2)
    ours(tmp_path / "again" / "again_s0-2", [17, 17, 17], "again", 0, clip=0.2)  # the longest
    seeds(tmp_path, "other", [18, 19, 20, 21, 22], clip=0.1)
    found = quiet(tmp_path, group="clip")
    rows = {row.condition: (row.scores, row.seeds) for row in found.rows}
    assert rows == {"0.1": ((18, 19, 20, 21, 22), 5), "0.2": ((17,), 1)}
    assert found.pairs[0].verdict == "no claim: fewer than 5 seeds"
    kept = tmp_path / "again" / "again_s0-2"
    assert sum(note.endswith(f"settings and seed of {kept}.") for note in found.notes) == 5


def test_seeds_are_counted_and_not_runs(tmp_path, capsys):
    for number in range(5):
        ours(tmp_path / "a" / f"{number}_s0", [number], "a", 0, clip=number)
        ours(tmp_path / "b" / f"{number}_s0", [number], "b", number, algo="sac")
        foreign(tmp_path / "c" / str(number), f"{HEADER}1\t5\t100\n", exp_name=str(number), seed=0)
        foreign(tmp_path / "d" / str(number), f"{HEADER}1\t5\t100\n", exp_name="d")
    found = quiet(tmp_path / "a", tmp_path / "b", group="algo", last=1)
    assert [(len(row.scores), row.seeds) for row in found.rows] == [(5, 1), (5, 5)]
    assert found.pairs[0].verdict == "no claim: fewer than 5 seeds"
    assert main([str(tmp_path / "a"), str(tmp_path / "b"), "--group", "algo"]) == 0
    assert "CartPole-v1  ppo        1 in 5 runs  2 " in capsys.readouterr().out
    found = quiet(tmp_path, group="algo")
    assert [(row.condition, row.env, len(row.scores), row.seeds) for row in found.rows[2:]] == [
        ("none", "unknown", 10, 6)  # of five names one seed, of one name five without
    ]


HEADER = "Epoch\tAverageEpRet\tTotalEnvInteracts\n"


def test_runs_of_others_are_compared_as_well(tmp_path):
    text = "Epoch\tAverageEpRet\tTotalEnvInteracts\n1\t5\t100\n"
    for seed in range(2):
        foreign(tmp_path / "x" / f"x_s{seed}", text, exp_name="x", seed=seed)
    (tmp_path / "y_s0").mkdir()
    header = '#{"t_start": 0.5, "env_id": "E"}\nr,l,t\n'
    (tmp_path / "y_s0" / "monitor.csv").write_text(header + "7,50,3\n")
    rows = quiet(tmp_path).rows
    assert [(r.condition, r.env, r.scores, r.seconds, r.interval) for r in rows] == [
        ("x", "unknown", (5, 5), None, (5, 5)),
        ("y", "E", (7,), 3, None),
    ]


def test_the_command_prints_a_table_and_writes_markdown_and_json(tmp_path, capsys):
    seeds(tmp_path, "a|b", [1, 2, 3, 4, 5])
    seeds(tmp_path, "c\x1b[31m", [11, 12, 13, 14, 15])
    out = tmp_path / "t.md"
    assert main([str(tmp_path), "--threshold", "12", "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("and hold the compiling that the first run of a process does.")
    assert lines[1].split()[-4:] == ["steps", "to", "12", "seconds"]
    assert lines[2].split()[:4] == ["CartPole-v1", "a|b", "5", "3"]
    assert "not reached (0 of 5)" in lines[2]
    assert "100 (4 of 5)" in lines[3]
    assert lines[7].endswith("0.00         0.00 to 0.00  c?[31m is better")
    assert lines[-1] == f"table: {out}"
    text = out.read_text()
    assert "| CartPole-v1 | a\\|b | 5 | 3 | " in text
    assert "\x1b" not in text
    assert [line.replace("\\|", "").count("|") for line in text.splitlines()[2:6]] == [8] * 4
    assert main([str(tmp_path), "--threshold", "99", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["pairs"][0]["probability"] == 0
    assert content["rows"][0]["steps"] is None
    assert content["rows"][1]["scores"] == [11, 12, 13, 14, 15]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nothing"], 2, "purerl compare: no runs at 'nothing'"),
        (["a", "--out", "a_s0/progress.txt"], 2, "--out must end in .md"),
        (["a", "--out", "a/a_CartPole-v1_s0/progress.txt/x.md"], 5, "could not be written"),
        (["a", "--group", "colour"], 2, "no run has a setting 'colour'"),
    ],
)
def test_mistakes_are_a_line_and_a_code(tmp_path, monkeypatch, capsys, words, code, message):
    seeds(tmp_path, "a", [1, 2, 3, 4, 5])
    monkeypatch.chdir(tmp_path)
    assert main(words) == code
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("words", [["--last", "0"], ["--threshold", "nan"], ["--metric", "best"]])
def test_bad_values_are_usage_mistakes(words, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["a", *words])
    assert caught.value.code == 2
    assert words[0] in capsys.readouterr().err
