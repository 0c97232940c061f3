"""Weight normalisation: columns of norm 1, and everything else untouched."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import nets


def test_each_column_over_the_inputs_gets_norm_one():
    kernel = jnp.float32([[3, 0, 0], [4, 2, 0]])
    found = nets.normalise_kernels({"Dense_0": {"kernel": kernel, "bias": kernel[0]}})["Dense_0"]
    np.testing.assert_allclose(found["kernel"], [[0.6, 0, 0], [0.8, 1, 0]], rtol=1e-6)
    assert found["bias"].tolist() == [3, 0, 0]


def test_a_second_projection_changes_no_bit():
    kernel = jax.random.normal(jax.random.key(0), (40, 30))
    once = nets.normalise_kernels({"kernel": kernel})
    np.testing.assert_allclose(jnp.square(once["kernel"]).sum(axis=0), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(nets.normalise_kernels(once)["kernel"], once["kernel"])


def test_convolutions_and_other_matrices_stay_as_they_are():
    tree = {"Conv_0": {"kernel": jnp.ones((2, 2, 3, 4))}, "scale": jnp.ones((2, 2))}
    for x, y in zip(*map(jax.tree.leaves, (tree, nets.normalise_kernels(tree))), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.complete
def test_normalised_layers_do_not_depend_on_the_size_of_their_kernels():
    x = 10 * jax.random.normal(jax.random.key(1), (16, 3))
    mlp = nets.MLP((8, 8, 2), batch_norm=True)
    variables = mlp.init(jax.random.key(0), x)
    large = jax.tree.map(lambda v: v, variables)
    for name in ("Dense_0", "Dense_1"):
        large["params"][name] = {"kernel": 10 * large["params"][name]["kernel"]}
    outs = [nets.apply_train(mlp, v, x)[0] for v in (variables, large)]
    np.testing.assert_allclose(*outs, rtol=1e-2, atol=1e-2)
