"""Compare an exported policy with its run."""

import numpy as np

from purerl.spaces import Box


def draw_observations(run, number=64):
    """Draw observations on which actions differ, around the mean of the statistics."""
    rng, env = np.random.default_rng(5), run.params.spec.env
    stats = getattr(run.params, "obs_stats", None)
    if np.dtype(env.obs_dtype).kind != "f":
        most = 6 if stats is None else 60
        return rng.integers(0, most, (number, *env.obs_shape)).astype(env.obs_dtype)
    middle = 0 if stats is None else np.asarray(stats.mean)
    return (middle + 4 * rng.normal(size=(number, *env.obs_shape))).astype(np.float32)


def assert_same(run, policy):
    """Assert equal actions: exactly for Discrete, except for rounding for Box."""
    env = run.params.spec.env
    obs = draw_observations(run)
    found, wanted = policy(obs), np.asarray(run.algo.policy(run.params, obs))
    assert found.shape == wanted.shape
    if isinstance(env.action, Box):
        assert found.dtype == np.float32
        np.testing.assert_allclose(
            env.normalise(found), env.normalise(wanted), atol=2e-5
        )  # sums in another order
        assert (found >= np.float32(env.action.low)).all()
        assert (found <= np.float32(env.action.high)).all()
        assert np.abs(env.normalise(wanted)).std() > 0.01
    else:
        np.testing.assert_array_equal(found, wanted)
        assert len(np.unique(wanted, axis=0)) > 1
