"""Batch renormalisation compared with numbers from float64 programs and written by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import nets

ROWS = np.float32([[1], [2], [3], [6]])  # mean 3, variance 3.5
FAR = np.float32([[100], [120], [110], [130]])
EVALUATED = (0.0, 0.49993751, 0.99987502, 2.49968756)


def make(mean=1.0, var=4.0, batches=0.0, scale=1.0, bias=0.0):
    """Return the variables of a layer with one feature."""
    one = lambda x: jnp.full((1,), x, jnp.float32)
    running = {"mean": one(mean), "var": one(var), "batches": jnp.float32(batches)}
    return {"params": {"scale": one(scale), "bias": one(bias)}, "running": running}


@pytest.mark.parametrize(
    ("rows", "batches", "expected"),
    [
        (ROWS, 0, (-1.06889228, -0.53444614, 0.0, 1.60333842)),
        (ROWS, 99_999, (-1.06889228, -0.53444614, 0.0, 1.60333842)),
        (ROWS, 100_000, EVALUATED),
        (FAR, 100_000, (0.97504254, 6.3414125, 3.65822752, 9.02459748)),  # r = 3, d = 5
        (-FAR, 100_000, (-0.97504254, -6.3414125, -3.65822752, -9.02459748)),  # r = 3, d = -5
    ],
)
def test_training_outputs_equal_known_numbers(rows, batches, expected):
    out, _ = nets.apply_train(nets.BatchRenorm(), make(batches=batches), rows)
    # The authors add epsilon twice after the warm-up, which changes the fifth digit.
    clipped = rows is not ROWS
    np.testing.assert_allclose(out[:, 0], expected, rtol=1e-4 if clipped else 0, atol=1e-6)


def test_a_batch_with_little_variance_has_the_lower_bound_of_r():
    rows = 1.0 + ROWS / 100  # std 0.0368 with epsilon, of 2.0002
    out, _ = nets.apply_train(nets.BatchRenorm(0), make(), rows)
    x = np.float64(rows[:, 0])
    d = (x.mean() - 1) / np.sqrt(4.001)
    expected = (x - x.mean()) / np.sqrt(x.var() + 1e-3) / 3 + d
    np.testing.assert_allclose(out[:, 0], expected, atol=1e-5)


def test_running_statistics_move_by_a_hundredth_and_count_batches():
    for batches in (0, 100_000):
        _, new = nets.apply_train(nets.BatchRenorm(), make(batches=batches), ROWS)
        assert new["running"]["mean"] == pytest.approx(1.02)
        assert new["running"]["var"] == pytest.approx(3.995)
        assert new["running"]["batches"] == batches + 1


def test_evaluation_uses_running_statistics_and_changes_nothing():
    layer = nets.BatchRenorm()
    np.testing.assert_allclose(nets.apply(layer, make(), ROWS)[:, 0], EVALUATED, atol=1e-6)
    one = nets.apply(layer, make(scale=3.0, bias=-1.0), ROWS[3:])
    assert one[0, 0] == pytest.approx(3 * EVALUATED[3] - 1, rel=1e-5)


def test_scale_and_bias_apply_after_the_correction():
    for batches in (0, 100_000):
        plain, _ = nets.apply_train(nets.BatchRenorm(), make(batches=batches), FAR)
        out, _ = nets.apply_train(nets.BatchRenorm(), make(batches=batches, scale=3, bias=-1), FAR)
        np.testing.assert_allclose(out, 3 * plain - 1, rtol=1e-5)


def test_corrected_outputs_ignore_the_other_rows_but_their_gradients_do_not():
    layer, variables = nets.BatchRenorm(0), make()

    def first(other):
        rows = jnp.stack([jnp.float32(1.5), jnp.float32(4.0), other])[:, None]
        return nets.apply_train(layer, variables, rows)[0][0, 0]

    assert first(0.0) == pytest.approx(float(first(3.0)), abs=1e-6)
    assert abs(jax.grad(first)(3.0)) > 0.01


@pytest.mark.parametrize("warmup", [0, 10])
def test_the_gradient_is_that_of_a_batch_norm_times_r(warmup):
    """Differences of a float64 program, in which r and d are constants."""
    weights = np.array([0.3, -1.0, 0.7, 0.2])
    x, m, v = ROWS[:, 0].astype(np.float64), 3.0, 3.5
    r = np.sqrt((v + 1e-3) / 4.001) if warmup == 0 else 1.0

    def program(x):
        return weights @ ((x - x.mean()) / np.sqrt(x.var() + 1e-3) * r)

    steps = 1e-5 * np.eye(4)
    expected = [(program(x + h) - program(x - h)) / 2e-5 for h in steps]

    def total(rows):
        out, _ = nets.apply_train(nets.BatchRenorm(warmup), make(), rows)
        return weights.astype(np.float32) @ out[:, 0]

    assert m == x.mean()
    np.testing.assert_allclose(jax.grad(total)(ROWS)[:, 0], expected, rtol=1e-4, atol=1e-6)


def test_running_statistics_receive_no_gradient():
    def total(variables, train):
        how = lambda *x: nets.apply_train(*x)[0]
        return (how if train else nets.apply)(nets.BatchRenorm(0), variables, ROWS).sum()

    for train in (True, False):
        grads = jax.grad(total)(make(), train)
        assert all(bool((x == 0).all()) for x in jax.tree.leaves(grads["running"]))
        assert grads["params"]["bias"] == 4.0


@pytest.mark.parametrize("warmup", [0, 10])
def test_a_constant_feature_has_a_finite_gradient(warmup):
    """The derivative of a root at variance 0 would be infinite without epsilon."""

    def total(rows):
        return nets.apply_train(nets.BatchRenorm(warmup), make(), rows)[0][0, 0]

    grad = jax.grad(total)(jnp.full((4, 1), 2.0))
    assert bool(jnp.isfinite(grad).all())


def test_initial_statistics_are_mean_zero_and_variance_one(key):
    mlp = nets.MLP((4, 2), renorm_warmup=5)
    params, statistics = nets.split_statistics(mlp, mlp.init(key, 7.0 + ROWS))
    norms = [f"BatchRenorm_{i}" for i in range(2)]
    assert set(params["params"]) == {"Dense_0", "Dense_1", *norms}
    for name, size in zip(norms, (1, 4), strict=True):
        running = statistics["running"][name]
        np.testing.assert_array_equal(running["mean"], np.zeros(size))
        np.testing.assert_array_equal(running["var"], np.ones(size))
        assert running["batches"] == 0


def test_without_a_warm_up_the_batch_normalises_for_ever():
    for batches in (0, 10**6):
        out, new = nets.apply_train(nets.BatchRenorm(None), make(batches=batches), FAR)
        plain, same = nets.apply_train(nets.BatchRenorm(), make(batches=0), FAR)
        np.testing.assert_array_equal(out, plain)
        for name in ("mean", "var"):
            np.testing.assert_array_equal(new["running"][name], same["running"][name])


def test_batch_norm_comes_before_each_activation_and_before_the_first_layer(key):
    mlp = nets.MLP((4, 2), batch_norm=True)
    params, _ = nets.split_statistics(mlp, mlp.init(key, ROWS))
    tree = params["params"]
    assert set(tree) == {"Dense_0", "Dense_1", "BatchRenorm_0", "BatchRenorm_1"}
    assert [*tree["Dense_0"]] == ["kernel"]
    assert {*tree["Dense_1"]} == {"kernel", "bias"}
    assert [len(tree[f"BatchRenorm_{i}"]["scale"]) for i in range(2)] == [1, 4]


def test_a_dense_layer_with_the_normalisation_behind_it_folded_in_equals_both():
    dense = {"kernel": np.float32([[2.0]]), "bias": np.float32([5.0])}
    norm = {"scale": np.float32([3.0]), "bias": np.float32([1.0])}
    folded = nets.fold_into_dense(dense, norm, {"mean": [4.0], "var": [0.249]}, behind=True)
    np.testing.assert_allclose(folded["kernel"], [[12.0]], rtol=1e-6)  # 2 * 3 / 0.5
    np.testing.assert_allclose(folded["bias"], [1 + (5 - 4) * 6.0], rtol=1e-6)


def test_a_dense_layer_with_the_normalisation_folded_in_equals_both(key):
    rng = np.random.default_rng(0)
    x = rng.normal(3.0, 2.0, (5, 3)).astype(np.float32)
    mlp = nets.MLP((4,), renorm_warmup=5)
    variables = mlp.init(key, x)
    variables = jax.tree.map(lambda v: v + rng.uniform(0.1, 1, v.shape), variables)
    tree, running = variables["params"], variables["running"]
    folded = nets.fold_into_dense(tree["Dense_0"], tree["BatchRenorm_0"], running["BatchRenorm_0"])
    assert {name: y.dtype for name, y in folded.items()} == {
        "kernel": np.float32,
        "bias": np.float32,
    }
    wanted = nets.apply(mlp, variables, x)
    np.testing.assert_allclose(x @ folded["kernel"] + folded["bias"], wanted, atol=1e-5)


def test_a_network_without_running_statistics_has_an_empty_tree(key):
    mlp = nets.MLP((4, 1))
    params, statistics = nets.split_statistics(mlp, mlp.init(key, ROWS))
    assert statistics == {}
    out, new = nets.apply_train(mlp, params | statistics, ROWS)
    assert new == {}
    np.testing.assert_array_equal(out, nets.apply(mlp, params, ROWS))
