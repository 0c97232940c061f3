"""Default networks: shapes and initial distributions, by default the same as PyTorch's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import nets


def forward(params, x, activation):
    """Evaluate a multilayer perceptron with a NumPy loop."""
    layers = [params["params"][f"Dense_{i}"] for i in range(len(params["params"]))]
    for i, layer in enumerate(layers):
        x = x @ np.asarray(layer["kernel"]) + np.asarray(layer["bias"])
        x = activation(x) if i + 1 < len(layers) else x
    return x


def test_mlp_is_dense_layers_and_the_last_layer_is_linear(key):
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    relu = lambda z: np.maximum(z, 0)  # noqa: E731
    for name, activation in (("relu", relu), ("tanh", np.tanh)):
        mlp = nets.MLP((7, 6, 2), name)
        params = mlp.init(key, x)
        np.testing.assert_allclose(mlp.apply(params, x), forward(params, x, activation), atol=1e-5)


def test_actor_is_tanh_of_an_mlp_and_q_function_has_no_trailing_axis(key):
    obs, act = jnp.ones((5, 3)), jnp.ones((5, 2))
    actor, critic = nets.DeterministicActor(2, (4,)), nets.QFunction((4,))
    pi = actor.apply(actor.init(key, obs), obs)
    assert pi.shape == (5, 2)
    assert bool((jnp.abs(pi) < 1).all())
    params = critic.init(key, obs, act)
    assert critic.apply(params, obs, act).shape == (5,)
    inner = {"params": params["params"]["MLP_0"]}
    expected = forward(inner, np.concatenate([obs, act], axis=1), lambda z: np.maximum(z, 0))
    np.testing.assert_allclose(critic.apply(params, obs, act), expected[:, 0], rtol=1e-5)
    params = actor.init(key, obs)
    inner = {"params": params["params"]["MLP_0"]}
    expected = np.tanh(forward(inner, np.asarray(obs), lambda z: np.maximum(z, 0)))
    np.testing.assert_allclose(actor.apply(params, obs), expected, rtol=1e-5)


def test_networks_read_integer_observations_as_numbers(key):
    actor = nets.DeterministicActor(1, (4,))
    params = actor.init(key, jnp.zeros((1, 3)))
    bytes_ = jnp.array([[0, 128, 255]], jnp.uint8)
    np.testing.assert_allclose(actor.apply(params, bytes_), actor.apply(params, bytes_ * 1.0))


@pytest.mark.parametrize(
    ("name", "std", "bias"),  # of a kernel [400, 300]
    [
        ("torch_uniform", 1 / np.sqrt(3 * 400), 1 / np.sqrt(3 * 400)),
        ("glorot_uniform", np.sqrt(2 / 700), 0.0),
        ("he_normal", np.sqrt(2 / 400), 0.0),
        ("lecun_normal", np.sqrt(1 / 400), 0.0),
        ("orthogonal", np.sqrt(2) / np.sqrt(400), 0.0),
    ],
)
def test_initialisers_have_the_published_scale(key, name, std, bias):
    layer = nets.MLP((300,), "relu", name).init(key, jnp.zeros((1, 400)))["params"]["Dense_0"]
    assert np.std(layer["kernel"]) == pytest.approx(std, rel=0.02)
    assert np.std(layer["bias"]) == pytest.approx(bias, rel=0.1)
    assert np.mean(layer["kernel"]) == pytest.approx(0.0, abs=1e-3)


def test_torch_uniform_is_bounded_by_one_over_the_root_of_the_fan_in(key):
    layer = nets.MLP((300,)).init(key, jnp.zeros((1, 400)))["params"]["Dense_0"]
    for leaf in (layer["kernel"], layer["bias"]):
        assert float(jnp.abs(leaf).max()) <= 1 / 20
        assert float(jnp.abs(leaf).max()) > 0.98 / 20


def test_q_values_stack_critics_in_order(key):
    obs, act, critic = jnp.ones((5, 3)), jnp.ones((5, 2)), nets.QFunction((4,))
    params = nets.init_ensemble("critic", critic, key, (obs[0], act[0]), (), 2)
    q = nets.q_values(critic, params, obs, act)
    assert q.shape == (2, 5)
    for i in range(2):
        np.testing.assert_allclose(q[i], critic.apply(params[i], obs, act), rtol=1e-6)
    assert bool((q[0] != q[1]).all())


def test_apply_rows_flattens_the_leading_axes_to_one(key):
    seen = []

    class Spy(nets.MLP):
        def __call__(self, x):
            seen.append(x.shape)
            return x.sum(axis=(1, 2))[:, None]

    out = nets.apply_rows(Spy((1,)), {}, np.ones((2, 3, 4, 5), np.float32), (4, 5))
    assert seen == [(6, 4, 5)]
    assert out.shape == (2, 3, 1)
    assert nets.apply_rows(Spy((1,)), {}, np.ones((4, 5), np.float32), (4, 5)).shape == (1,)
    assert bool((jax.numpy.asarray(out) == 20).all())
