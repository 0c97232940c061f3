"""Statistics for few runs agree with numbers of other libraries."""

import math

import numpy as np
import pytest
import scipy.stats

from purerl.runs.analysis import statistics

X = np.array([[0.31, 1.2], [0.55, 0.9], [0.12, 2.0], [0.91, 1.7], [0.44, 1.1]])


Y = np.array([[0.05, 1.0], [0.50, 0.4], [0.12, 1.9], [0.30, 0.2], [0.61, 0.7], [0.2, 0.8]])


A = np.array([3.1, 4.7, 2.2, 9.8, 5.5, 4.1, 7.3])


def tasks(scores):
    return [scores[:, 0], scores[:, 1]]


IQM = statistics.pool("iqm")
PAIRED = [X[:, 0], Y[:, 0], X[:, 1], Y[:, 1]]


def test_resampling_is_uniform_and_independent_for_each_group():
    first, second = statistics.resample([np.arange(7), np.arange(7)], 10_000)
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
        ([0, 1, 2, 3, 1e6], 2.0),
    ],
)
def test_the_interquartile_mean_equals_the_trimmed_mean_of_scipy(scores, expected):
    assert float(statistics.iqm(np.array(scores, float))) == pytest.approx(expected)


def test_estimates_over_two_tasks_agree_with_rliable():
    # rliable 1.2.0: metrics.aggregate_iqm(X), ...(Y), metrics.probability_of_improvement(X, Y)
    assert float(IQM(tasks(X))) == pytest.approx(0.85)
    assert float(IQM(tasks(Y))) == pytest.approx(0.45166666666666666)
    assert float(statistics.probability_of_improvement(PAIRED)) == pytest.approx(0.7583333333333333)
    # scipy.stats.mannwhitneyu([1, 2, 2, 5], [2, 3, 0], alternative="greater").statistic / 12
    values = [np.array([1.0, 2, 2, 5]), np.array([2.0, 3, 0])]
    assert float(statistics.probability_of_improvement(values)) == pytest.approx(7 / 12)
    assert float(statistics.probability_of_improvement([X[:, 0], X[:, 0]])) == 0.5


# The ends vary by about 0.01 to 0.02 with the resampling, the width of the grid of their values.
def test_intervals_over_two_tasks_agree_with_rliable():
    # rliable 1.2.0 with arch 7.2.0: library.get_interval_estimates({"x": X, "y": Y},
    #   lambda s: np.array([metrics.aggregate_iqm(s)]), reps=50000), seed 0
    assert statistics.bootstrap_interval(IQM, tasks(X)) == pytest.approx((0.678, 1.138), abs=0.02)
    assert statistics.bootstrap_interval(IQM, tasks(Y)) == pytest.approx((0.267, 0.670), abs=0.02)
    # the same of {"x,y": (X, Y)} with metrics.probability_of_improvement, reps=4000
    ends = statistics.bootstrap_interval(statistics.probability_of_improvement, PAIRED)
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
def test_intervals_of_one_task_agree_with_scipy(metric, value, ends):
    statistic = statistics.pool(metric)
    assert float(statistic([A])) == pytest.approx(value)
    assert statistics.bootstrap_interval(statistic, [A]) == pytest.approx(ends, abs=0.13)


@pytest.mark.parametrize("metric", ["iqm", "mean", "median"])
def test_stratified_intervals_agree_with_scipy(metric):
    statistic = statistics.pool(metric)
    theirs = scipy.stats.bootstrap(
        tasks(Y),
        lambda *groups, axis: statistic(groups),
        n_resamples=20_000,
        method="percentile",
        rng=np.random.default_rng(7),
    ).confidence_interval
    assert statistics.bootstrap_interval(statistic, tasks(Y)) == pytest.approx(theirs, abs=0.03)


def test_intervals_are_reproducible_and_scale_with_the_scores():
    ends = statistics.bootstrap_interval(IQM, [A])
    assert statistics.bootstrap_interval(IQM, [A.copy()]) == ends
    low, high = statistics.bootstrap_interval(IQM, [-2 * A])
    assert (-high / 2, -low / 2) == pytest.approx(ends)
    assert statistics.bootstrap_interval(statistics.probability_of_improvement, [A, A + 100]) == (
        0,
        0,
    )


def test_intervals_contain_the_true_mean_in_about_95_percent_of_cases():
    uniform = np.random.default_rng(9).random((400, 20))
    held = 0
    for scores in uniform:
        low, high = statistics.bootstrap_interval(statistics.pool("mean"), [scores], repeats=500)
        held += low <= 0.5 <= high
    assert 0.90 < held / 400 < 0.98  # percentile intervals of 20 runs cover a little less than 95%


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
def test_a_threshold_is_reached_by_two_consecutive_rows(y, expected):
    x = np.array([10.0, 20, 30, 40])
    assert statistics.find_first_lasting(x, np.array(y, float), 5.0) == expected
