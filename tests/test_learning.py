"""Learning gates: fixed seeds, settings chosen once (tests/learning.py). Smoke tests of quality.

Several classic errors pass an easy task; what proves correctness are the oracles and `make
mutants`.
"""

import statistics

import pytest

from tests.learning import PRESETS, score, train


def scores(name: str) -> list[float]:
    return [score(train(PRESETS[name], seed)) for seed in PRESETS[name].seeds]


def test_td3_learns_pendulum_with_one_seed():
    assert score(train(PRESETS["pendulum"], 0)) >= PRESETS["pendulum"].bar


@pytest.mark.slow
def test_td3_learns_pendulum_with_three_of_five_seeds():
    assert sum(s >= PRESETS["pendulum"].bar for s in scores("pendulum")) >= 3


@pytest.mark.slow
def test_td3_holds_the_inverted_pendulum_with_every_seed():
    pytest.importorskip("mujoco")
    assert min(scores("inverted_pendulum")) >= PRESETS["inverted_pendulum"].bar


@pytest.mark.slow
def test_td3_runs_with_the_half_cheetah():
    pytest.importorskip("mujoco")
    assert statistics.fmean(scores("halfcheetah")) >= PRESETS["halfcheetah"].bar
