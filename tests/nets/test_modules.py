"""Networks that are not Flax modules; tests/contract/test_networks.py has those of algorithms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import nets


class NotJax:
    """A network whose parameters cannot be learned."""

    def __init__(self, leaf):
        self.leaf = leaf

    def init(self, key, *inputs):
        return {"kernel": self.leaf}

    def apply(self, params, *inputs):
        return inputs[0]


@pytest.mark.parametrize(
    ("leaf", "got"), [(abs, "builtin_function_or_method"), (3, "int"), (np.ones(2, int), "int64")]
)
def test_parameters_of_a_custom_network_must_be_float_arrays(leaf, got, key):
    with pytest.raises(ValueError, match=rf"^actor must have float .* got ({got}) at \['kernel'\]"):
        nets.init_params("actor", NotJax(leaf), key, (np.zeros(3, np.float32),), (3,))
    arrays = nets.init_params("actor", NotJax(np.ones(2)), key, (np.zeros(3, np.float32),), (3,))
    assert arrays["kernel"].dtype == jnp.float32  # from float64


def test_statistics_of_a_flax_module_are_split_and_joined(key):
    mlp, rows = nets.MLP((4, 2), renorm_warmup=5), np.ones((3, 2), np.float32)
    variables = mlp.init(key, rows)
    params, statistics = nets.split_statistics(mlp, variables)
    assert ([*params], [*statistics]) == (["params"], [nets.STATISTICS])
    joined = nets.join_statistics(params, statistics)
    assert jax.tree.structure(joined) == jax.tree.structure(variables)


def test_a_network_that_is_not_a_flax_module_has_no_statistics():
    network = NotJax(0)
    for params in ({nets.STATISTICS: jnp.ones(2)}, (jnp.ones(2),)):  # any names and trees
        split, statistics = nets.split_statistics(network, params)
        assert (split, statistics) == (params, {})
        assert nets.join_statistics(split, statistics) is params
    out, statistics = nets.apply_train(network, {}, np.ones(2))
    assert (out.dtype, statistics) == (jnp.float32, {})
