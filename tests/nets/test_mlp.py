"""Default networks: shapes and initial distributions, by default the same as PyTorch's."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import nets
from purerl.algos import ddpg, sac, td3
from tests.cases import BOX


def forward(params, x, activation):
    """Evaluate a multilayer perceptron with a NumPy loop."""
    layers = [params["params"][f"Dense_{i}"] for i in range(len(params["params"]))]
    for i, layer in enumerate(layers):
        x = x @ np.asarray(layer["kernel"]) + np.asarray(layer["bias"])
        x = activation(x) if i + 1 < len(layers) else x
    return x


def test_mlp_is_dense_layers_and_the_last_layer_is_linear(key):
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    relu = lambda z: np.maximum(z, 0)
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


def test_a_stacked_ensemble_has_the_parameters_and_values_of_its_members(key):
    obs, act, critic = jnp.ones((5, 3)), jnp.ones((5, 2)), nets.QFunction((4,))
    args = ("critic", critic, key, (obs[0], act[0]), (), 3)
    members, stacked = nets.init_ensemble(*args), nets.init_stack(*args)
    for i, member in enumerate(members):
        own = jax.tree.map(lambda x, i=i: x[i], stacked)
        jax.tree.map(np.testing.assert_array_equal, own, member)
    values = nets.stacked_q_values(critic, stacked, obs, act)  # with keys, see tests of redq
    np.testing.assert_allclose(values, nets.q_values(critic, members, obs, act), rtol=1e-6)


def normalise(x):
    x = x - x.mean(axis=-1, keepdims=True)
    return x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + 1e-6)


def draw_layers(*sizes):
    """Return random layers, as parameters of an MLP and as pairs of arrays."""
    rng = np.random.default_rng(1)
    pairs = [
        (rng.uniform(0.2, 1.0, (n, m)), rng.uniform(0.2, 1.0, m))
        for n, m in itertools.pairwise(sizes)
    ]
    named = {
        f"Dense_{i}": {"kernel": jnp.float32(kernel), "bias": jnp.float32(bias)}
        for i, (kernel, bias) in enumerate(pairs)
    }
    return named, pairs


def test_dropout_is_before_the_layer_normalisation_of_each_hidden_layer():
    """Every output is that of one of 2^3 sets of kept units, and all sets occur."""
    named, ((kernel, bias), (last, end)) = draw_layers(2, 3, 1)
    scale, shift = np.array([1.5, 0.7, 2.0]), np.array([0.1, -0.3, 0.2])
    named["LayerNorm_0"] = {"scale": jnp.float32(scale), "bias": jnp.float32(shift)}
    network = nets.MLP((3, 1), layer_norm=True, dropout=0.25)
    x, keys = np.float32([0.3, -0.4]), jax.random.split(jax.random.key(0), 300)
    out = jax.jit(network.apply)({"params": named}, np.tile(x, (300, 1)), keys)[:, 0]
    sets = np.array([*itertools.product((0.0, 1.0), repeat=3)])
    hidden = normalise(sets * (x @ kernel + bias) / 0.75) * scale + shift
    wanted = (np.maximum(hidden, 0) @ last + end)[:, 0]
    far = np.abs(np.asarray(out)[:, None] - wanted)
    np.testing.assert_allclose(far.min(axis=1), 0.0, atol=1e-5)
    shares = np.bincount(far.argmin(axis=1), minlength=8) / 300
    chance = np.prod(np.where(sets == 1, 0.75, 0.25), axis=1)
    np.testing.assert_allclose(shares, chance, atol=0.1)
    without = network.apply({"params": named}, x[None])
    assert without[0, 0] == pytest.approx(
        (np.maximum(normalise(x @ kernel + bias) * scale + shift, 0) @ last + end)[0], rel=1e-5
    )


def test_dropout_draws_other_units_for_each_layer():
    named, ((kernel, bias), (middle, shift), (last, end)) = draw_layers(2, 2, 2, 1)
    x, keys = np.float32([0.3, 0.4]), jax.random.split(jax.random.key(0), 1_000)
    network = jax.jit(nets.MLP((2, 2, 1), dropout=0.5).apply)
    out = network({"params": named}, np.tile(x, (1_000, 1)), keys)
    sets = [np.array(one) for one in itertools.product((0.0, 2.0), repeat=2)]
    wanted = {
        round((((first * (x @ kernel + bias)) @ middle + shift) * second @ last + end).item(), 3)
        for first, second in itertools.product(sets, sets)
    }
    assert len(wanted) == 13  # 16 pairs of sets; without units in the second layer all are equal
    assert {round(float(value), 3) for value in out[:, 0]} == wanted


@pytest.mark.parametrize("algo", [sac, td3, ddpg])
def test_layer_normalisation_is_an_option_of_critics(algo):
    def norms(tree):
        return {name for name in tree["params"]["MLP_0"] if "LayerNorm" in name}

    for layer_norm in (False, True):
        spec = algo.Spec(BOX, hidden=(4, 3), layer_norm=layer_norm)
        params = jax.eval_shape(functools.partial(algo.init, spec=spec), jax.random.key(0)).params
        critics = (params.critic, params.target_critic)
        critics = critics if algo is ddpg else (*critics[0], *critics[1])
        for tree in critics:
            assert norms(tree) == ({"LayerNorm_0", "LayerNorm_1"} if layer_norm else set())
        assert not norms(params.actor)
    assert not algo.Spec(BOX).layer_norm
    with pytest.raises(ValueError, match="^layer_norm must be True or False, got 1"):
        algo.Spec(BOX, layer_norm=1)


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
