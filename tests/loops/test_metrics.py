"""Tallies of metrics, compared with NumPy over all values at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.loops import metrics

METRICS = ("loss_pi", "q")


def parts():
    rng = np.random.default_rng(0)
    q = [500 + 0.1 * rng.standard_normal(n).astype(np.float32) for n in (1, 50, 3, 200)]
    there = [rng.random(len(x)) < 0.4 for x in q]
    there[0][:] = False  # a burst in which the policy was not updated
    pi = [np.where(t, -3.0 + 5 * x, 0.0).astype(np.float32) for x, t in zip(q, there, strict=True)]
    return q, pi, there


def test_merged_bursts_have_the_statistics_of_all_updates():
    q, pi, there = parts()
    total = jnp.asarray(metrics.make_empty_tally(2))
    for one, two, t in zip(q, pi, there, strict=True):
        info = {"q": one, "loss_pi": two, "loss_pi_count": t.astype(np.float32)}
        assert metrics.list_names(info) == METRICS
        total = jax.jit(metrics.merge_tallies)(total, jax.jit(metrics.tally_values)(info))
    read = metrics.read_tally(METRICS, np.asarray(total, np.float64), 1)
    all_pi = np.concatenate([x[t] for x, t in zip(pi, there, strict=True)]).astype(np.float64)
    for name, x in (("q", np.concatenate(q).astype(np.float64)), ("loss_pi", all_pi)):
        wanted = {name: x.mean(), f"{name}_std": x.std()}
        wanted |= {f"{name}_min": x.min(), f"{name}_max": x.max()}
        for key, value in wanted.items():
            np.testing.assert_allclose(read.pop(key), value, rtol=2e-4 if "std" in key else 1e-6)
    assert not read


def test_a_metric_without_values_is_absent_and_a_single_value_has_no_spread():
    info = {"q": np.ones((1,), np.float32), "x": np.ones((1,)), "x_count": np.zeros((1,))}
    one = np.asarray(metrics.tally_values(info), np.float64)
    assert metrics.read_tally(("q", "x"), one, 1) == {"q": 1.0}
    two = metrics.merge_tallies(one, one, np)
    assert metrics.read_tally(("q", "x"), two, 2) == {"q": 1.0}
    spread = {"q": 1.0, "q_std": 0.0, "q_min": 1.0, "q_max": 1.0}
    assert metrics.read_tally(("q", "x"), two, 1) == spread


def test_merging_empty_tallies_gives_an_empty_tally():
    none = metrics.merge_tallies(metrics.make_empty_tally(2), metrics.make_empty_tally(2), np)
    np.testing.assert_array_equal(none, metrics.make_empty_tally(2))
    assert metrics.read_tally(METRICS, none, 1) == {}


def test_a_tally_keeps_values_that_are_not_finite():
    bad = metrics.tally_values({"q": np.array([1.0, np.nan, 2.0], np.float32)})
    assert not np.isfinite(metrics.merge_tallies(bad, bad)[1]).all()


@pytest.mark.parametrize("name", ["q_std", "q_min", "loss_max"])
def test_names_of_statistics_are_refused_as_metrics(name):
    with pytest.raises(ValueError, match=f"^metric '{name}' needs another name.*'.*_spread'"):
        metrics.list_names({"q": 1.0, name: 2.0})
