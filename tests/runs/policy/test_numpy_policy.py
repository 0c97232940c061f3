"""The exported policy, which needs only NumPy, acts like the policy in JAX."""

import dataclasses

import jax
import numpy as np
import pytest

from purerl import nets
from purerl.runs.policy import numpy_policy
from tests.cases import CASES
from tests.runs.policy.compare import assert_same, draw_observations
from tests.runs.trained import make_run


@pytest.mark.parametrize("case", CASES)
def test_a_numpy_export_acts_the_same_for_every_algorithm(case, tmp_path):
    run = make_run(case, tmp_path)
    path = run.export(folder=tmp_path / "made")
    policy = numpy_policy.load(path)
    assert_same(run, policy)
    obs = draw_observations(run, 6)
    assert isinstance(policy(obs[0]), int) or policy(obs[0]).shape == (2,)
    np.testing.assert_allclose(
        policy(obs.reshape(2, 3, 3)).reshape(6, -1), policy(obs).reshape(6, -1), rtol=1e-5
    )
    with pytest.raises(ValueError, match=r"obs must have shape \[..., \*\(3,\)\], got \(4,\)"):
        policy(np.zeros(4))


@pytest.mark.parametrize("activation", sorted(nets.ACTIVATIONS))
def test_numpy_activations_equal_those_of_training(activation, tmp_path):
    run = make_run("td3", tmp_path, activation=activation)
    path = run.export()
    assert path.parent == tmp_path / "export"
    assert_same(run, numpy_policy.load(path))
    x = np.concatenate([np.linspace(-30, 30, 601), [-1e4, 1e4, -200, 200, 0]]).astype(np.float32)
    wanted = nets.ACTIVATIONS[activation](x)
    np.testing.assert_allclose(
        numpy_policy.ACTIVATIONS[activation](x), wanted, rtol=2e-6, atol=2e-6
    )


def test_rounding_never_moves_an_action_out_of_the_box():
    rng = np.random.default_rng(2)
    low = rng.normal(size=500)
    high = low + 3 * rng.random(500) + 0.01
    about = {"spaces": {"box": {"low": low.tolist(), "high": high.tolist()}}, "tanh": True}
    for sign in (-1, 1):
        act = numpy_policy.choose_action(about, np.full((1, 500), sign * 50, np.float32))
        assert (act >= low.astype(np.float32)).all()
        assert (act <= high.astype(np.float32)).all()


def test_before_the_first_update_observations_are_not_normalised(tmp_path):
    run = make_run("ppo-options", tmp_path)
    fresh = run.algo.init(jax.random.key(0), run.params.spec).params
    run = dataclasses.replace(run, params=fresh)
    assert_same(run, numpy_policy.load(run.export()))
