"""Learning tests with fixed seeds, and with the settings of tests/learning.py.

They are smoke tests of quality: several classic errors still solve an easy task. Correctness is
tested by the comparisons with known numbers and by `make mutants`.
"""

import importlib.util
import statistics

import pytest

import purerl
from tests import bits
from tests.learning import PRESETS, reaches_bar, score, train


def scores(name: str) -> list[float]:
    return [score(train(PRESETS[name], seed)) for seed in PRESETS[name].seeds]


@pytest.mark.slow
def test_td3_learns_pendulum_with_one_seed():
    assert score(train(PRESETS["td3-pendulum"], 0)) >= PRESETS["td3-pendulum"].bar


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) for name in ("sac-pendulum", "ddpg-pendulum")],
)
def test_learns_pendulum_with_one_seed_in_a_shorter_run(name):
    """One evaluation reaches the bar within 10 000 steps. The test of five seeds is below."""
    short = {"steps": 10_000, "num_test_episodes": 5}
    preset = PRESETS[name]._replace(schedule=PRESETS[name].schedule | short)
    assert max(row["test_return"] for row in train(preset, 0)) >= preset.bar


@pytest.mark.slow
def test_droq_learns_pendulum_within_2_000_steps():
    preset = PRESETS["droq-pendulum"]
    preset = preset._replace(schedule=preset.schedule | {"steps": 2_000})
    assert train(preset, 0)[-1]["test_return"] >= preset.bar


@pytest.mark.slow
def test_dqn_holds_the_pole_with_one_seed():
    assert reaches_bar(train(PRESETS["dqn-cartpole"], 0), 475.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppo", "trpo", "vpg"])
def test_policy_gradients_balance_the_pole_for_a_while_with_one_seed(name):
    """A smoke test of the first steps of the run. The tests of five seeds are below."""
    preset = PRESETS[f"{name}-cartpole"]
    short = preset.schedule | {"steps": 60_000, "num_test_episodes": 5}
    rows = train(preset._replace(schedule=short, every=5), 0)
    assert max(row["test_return"] for row in rows) >= 350


@pytest.mark.slow
def test_reinforce_learns_something_with_one_seed():
    preset = PRESETS["reinforce-cartpole"]
    short = preset.schedule | {"steps": 60_000, "num_test_episodes": 5}
    rows = train(preset._replace(schedule=short, every=5), 0)
    assert max(row["test_return"] for row in rows) >= 150


@pytest.mark.slow
def test_acer_learns_the_pole_with_every_seed_and_faster_by_replay():
    """The policy samples its actions. Its deterministic version is good long before."""
    preset = PRESETS["acer-cartpole"]
    runs = [{row["step"]: row["test_return"] for row in train(preset, s)} for s in preset.seeds]
    mean = {step: statistics.fmean(run[step] for run in runs) for step in runs[0]}
    assert mean[120_000] >= 400
    assert mean[200_000] >= preset.bar
    assert min(run[300_000] for run in runs) >= 450
    short = preset._replace(schedule=preset.schedule | {"steps": 60_000, "replay_ratio": 0.0})
    without = statistics.fmean(train(short, s)[-1]["test_return"] for s in preset.seeds)
    assert mean[60_000] >= 4 * without


@pytest.mark.slow
def test_pqn_holds_the_pole_with_every_seed():
    preset = PRESETS["pqn-cartpole"]
    runs = [train(preset, seed) for seed in preset.seeds]
    steps = [row["step"] for row in runs[0]]
    returns = zip(*([row["test_return"] for row in rows] for rows in runs), strict=True)
    mean = dict(zip(steps, map(statistics.fmean, returns), strict=True))
    assert mean[102_400] >= 400
    assert mean[204_800] >= 470
    assert all(reaches_bar(rows, preset.bar) for rows in runs)


@pytest.mark.slow
def test_acer_swings_up_the_acrobot():
    preset = PRESETS["acer-acrobot"]
    assert statistics.fmean(train(preset, s)[-1]["test_return"] for s in preset.seeds) >= preset.bar


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in PRESETS if n.endswith("pendulum") and "inv" not in n])
def test_three_of_five_seeds_learn_pendulum(name):
    runs = [train(PRESETS[name], seed) for seed in PRESETS[name].seeds]
    assert sum(score(rows) >= PRESETS[name].bar for rows in runs) >= 3
    if name == "sac-pendulum":  # the temperature falls and keeps the entropy near its target
        middle = [rows[[row["step"] for row in rows].index(10_000)] for rows in runs]
        assert sum(0.03 < row["alpha"] < 0.3 for row in middle) >= 3
        assert sum(abs(-row["logp"] + 1.0) < 0.3 for row in middle) >= 3  # target entropy -1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dqn", "sac_discrete"])
def test_three_of_five_seeds_with_a_replay_buffer_hold_the_pole(name):
    preset = PRESETS[f"{name}-cartpole"]
    assert sum(reaches_bar(train(preset, seed), preset.bar) for seed in preset.seeds) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppo", "trpo", "vpg", "reinforce"])
def test_three_of_five_seeds_of_policy_gradients_hold_the_pole(name):
    assert sum(s >= PRESETS[f"{name}-cartpole"].bar for s in scores(f"{name}-cartpole")) >= 3


@pytest.mark.slow
def test_ppo_holds_the_inverted_pendulum():
    pytest.importorskip("mujoco")
    preset = PRESETS["ppo-invertedpendulum"]
    runs = [
        train(preset._replace(schedule=preset.schedule | {"steps": 60_000}), seed)
        for seed in preset.seeds
    ]
    assert sum(reaches_bar(rows, preset.bar) for rows in runs) >= 3


@pytest.mark.slow
def test_td3_holds_the_inverted_pendulum_with_every_seed():
    pytest.importorskip("mujoco")
    assert min(scores("td3-invertedpendulum")) >= PRESETS["td3-invertedpendulum"].bar


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in PRESETS if n.endswith("halfcheetah")])
def test_mean_score_on_halfcheetah_reaches_the_bar(name):
    pytest.importorskip("mujoco")
    assert statistics.fmean(scores(name)) >= PRESETS[name].bar


@pytest.mark.slow
def test_dqn_flips_ten_bits_only_with_goals_in_hindsight():
    """All five seeds reach 98 % after 1,000 episodes. Without new goals they stay below 5 %."""
    assert min(bits.train(10, 4.0, 1_000)) >= 0.98
    assert max(bits.train(10, 0.0, 1_000)) <= 0.05


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of gymnasium-robotics
@pytest.mark.skipif(
    importlib.util.find_spec("gymnasium_robotics") is None, reason="needs purerl[robotics]"
)
@pytest.mark.parametrize(
    ("algo", "env", "seeds", "bars"),
    [
        ("ddpg", "FetchReach-v4", 5, {2_000: 0.7, 5_000: 0.95}),
        ("sac", "PointMaze_Open-v3", 3, {40_000: 0.9}),
    ],
)
def test_presets_reach_goals_of_robots_and_mazes(tmp_path, algo, env, seeds, bars):
    """The bars are means over seeds of the success in test episodes, after so many steps."""
    found = {step: [] for step in bars}
    for seed in range(seeds):
        run = purerl.train(algo, env, seed=seed, data_dir=tmp_path, quiet=True)
        columns = run.metrics
        success = columns["TestEpIsSuccess" if env.startswith("Fetch") else "TestEpSuccess"]
        rates = dict(zip(columns["TotalEnvInteracts"].tolist(), success.tolist(), strict=True))
        for step in bars:
            found[step].append(rates[step])
    assert all(statistics.fmean(found[step]) >= bar for step, bar in bars.items()), found
