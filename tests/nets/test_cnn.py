"""Convolutions equal JAX's own, stay fast inside loops, and read images of both layouts."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.nets import cnn, mlp, modules
from purerl.spaces import is_image

SHAPES = [((36, 50, 3), 8, 4), ((21, 20, 5), 4, 2), ((9, 7, 4), 3, 1)]


def convolve_with_lax(x, kernel, stride):
    axes = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), "VALID", dimension_numbers=axes
    )


def make_data(shape, side):
    rng = np.random.default_rng(0)
    x, kernel = rng.normal(size=(2, *shape)), rng.normal(size=(side, side, shape[-1], 6))
    return jnp.float32(x), jnp.float32(kernel)


def make_gradient(convolve, stride):
    return jax.grad(lambda x, kernel: jnp.sin(convolve(x, kernel, stride)).sum(), argnums=(0, 1))


@pytest.mark.parametrize(("shape", "side", "stride"), SHAPES)
def test_convolutions_and_their_gradients_equal_those_of_lax(shape, side, stride):
    data, found = make_data(shape, side), []
    for convolve in (cnn.convolve, convolve_with_lax):
        gradient = make_gradient(convolve, stride)
        # The derivative of the gradient is what TRPO needs.
        both = jax.jit(lambda *data, g=gradient: jax.jvp(g, data, data))(*data)
        found.append((convolve(*data, stride), both))
    for ours, theirs in zip(*map(jax.tree.leaves, found), strict=True):
        scale = float(jnp.abs(theirs).max())
        np.testing.assert_allclose(ours / scale, theirs / scale, rtol=1e-5, atol=1e-5)


def test_gradients_inside_a_loop_are_convolutions_that_xla_runs_fast():
    """XLA's fast convolution needs this order of axes, and XLA rearranges none inside a loop."""

    def list_axes(convolve):
        x, kernel = make_data((20, 20, 4), 4)
        gradient = make_gradient(convolve, 2)

        def step(kernel, x):
            grad_x, grad_kernel = gradient(x, kernel)
            return kernel - grad_kernel, grad_x

        program = jax.jit(lambda kernel, xs: jax.lax.scan(step, kernel, xs))
        text = program.lower(kernel, jnp.stack([x] * 4)).compile().as_text()
        return re.findall(r" convolution\(.*dim_labels=([\w>-]+)", text)

    assert list_axes(cnn.convolve) == ["b01f_01io->b01f"] * 3
    assert set(list_axes(convolve_with_lax)) != {"b01f_01io->b01f"}


def make_network(obs, **settings):
    network = cnn.NatureCNN(**settings)
    return network, network.init(jax.random.key(0), obs)


def test_nature_cnn_has_the_published_layers():
    obs = np.zeros((2, 84, 84, 4), np.uint8)
    network = cnn.NatureCNN()
    params = jax.eval_shape(network.init, jax.random.key(0), obs)["params"]
    kernels = [params[f"kernel_{i}"].shape for i in range(3)] + [params["Dense_0"]["kernel"].shape]
    assert kernels == [(8, 8, 4, 32), (4, 4, 32, 64), (3, 3, 64, 64), (3136, 512)]
    assert jax.eval_shape(network.apply, {"params": params}, obs).shape == (2, 512)


def test_nature_cnn_reads_integers_as_fractions_and_frames_in_either_layout():
    obs = np.random.default_rng(0).integers(0, 256, (3, 36, 40, 4), np.uint8)
    network, variables = make_network(obs)
    features = network.apply(variables, obs)
    assert features.shape == (3, 512)
    assert (features >= 0).all()
    assert features.max() > 0
    stacked = network.apply(variables, np.moveaxis(obs, -1, 1))
    np.testing.assert_array_equal(stacked, features)
    floats = network.apply(variables, np.float32(obs) / 255)
    np.testing.assert_allclose(floats, features, rtol=1e-5, atol=1e-6)


def test_nature_cnn_uses_the_initializer_for_every_layer():
    obs = np.zeros((1, 36, 36, 1), np.uint8)
    params = make_network(obs)[1]["params"]
    bounds = {"bias_0": 64, "bias_1": 16 * 32, "bias_2": 9 * 64}  # inputs of a unit
    for name, fan_in in bounds.items():
        assert 0.8 < jnp.abs(params[name]).max() * fan_in**0.5 <= 1, name
    other = make_network(obs, initializer="orthogonal")[1]["params"]
    assert not any(other[name].any() for name in bounds)
    filters = other["kernel_2"].reshape(-1, 64)
    np.testing.assert_allclose(filters.T @ filters, 2 * np.eye(64), atol=1e-4)


@pytest.mark.parametrize(
    ("shape", "found"),
    [
        ((84, 84, 4), True),
        ((4, 84, 84), True),
        ((36, 36, 1), True),
        ((1, 36, 36), True),
        ((35, 36, 3), False),
        ((3, 36, 35), False),
        ((84, 84), False),
        ((4,), False),
        ((2, 36, 36, 3), False),
    ],
)
def test_images_have_three_axes_and_large_sides(shape, found):
    assert is_image(shape) == found
    if found:
        cnn.check_torso("nature_cnn", shape, normalise_obs=False)
        assert jax.eval_shape(
            cnn.NatureCNN().init, jax.random.key(0), jnp.zeros((1, *shape), jnp.uint8)
        )
        return
    with pytest.raises(ValueError, match=r"takes images .* 36 pixels a side, got .* torso=None"):
        cnn.check_torso("nature_cnn", shape, normalise_obs=False)


def test_bad_torsos_and_normalised_images_are_refused():
    for torso in ("impala", 3, ["nature_cnn"]):
        with pytest.raises(ValueError, match="^torso must be nature_cnn or None, got"):
            cnn.check_torso(torso, (84, 84, 4), normalise_obs=False)
    with pytest.raises(ValueError, match=r"^normalise_obs=True does not fit torso='nature_cnn'"):
        cnn.check_torso("nature_cnn", (84, 84, 4), normalise_obs=True)
    cnn.check_torso(None, (3,), normalise_obs=True)


@pytest.mark.parametrize("number", [3, 4, 9])
def test_many_images_are_read_in_chunks_with_the_same_values_and_gradients(number, monkeypatch):
    network = mlp.DiscreteQFunction(2, (4,), torso="nature_cnn")
    obs = np.random.default_rng(0).integers(0, 256, (number, 36, 36, 1), np.uint8)
    variables = network.init(jax.random.key(0), obs)

    def loss(variables):
        return jnp.sin(modules.apply_rows(network, variables, obs, obs.shape[1:])).sum()

    whole = jax.jit(jax.value_and_grad(loss))(variables)
    monkeypatch.setattr(modules, "CHUNK", 4)
    program = jax.jit(lambda variables: jax.value_and_grad(loss)(variables))
    assert ("scan" in str(jax.make_jaxpr(program)(variables))) == (number > 4)
    for ours, theirs in zip(*map(jax.tree.leaves, (program(variables), whole)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_flat_observations_are_never_read_in_chunks(monkeypatch):
    monkeypatch.setattr(modules, "CHUNK", 4)
    network, obs = mlp.ValueFunction((4,)), np.zeros((9, 3), np.float32)
    variables = network.init(jax.random.key(0), obs)
    text = jax.make_jaxpr(lambda v: modules.apply_rows(network, v, obs, (3,)))(variables)
    assert "scan" not in str(text)


def test_layer_norm_normalises_the_channels_of_each_layer(key):
    obs = np.random.default_rng(0).integers(256, size=(2, 36, 36, 1), dtype=np.uint8)
    network = cnn.NatureCNN(layer_norm=True)
    params = jax.jit(network.init)(key, obs)["params"]

    def activate(x):
        x = np.asarray(x, np.float64)
        spread = np.sqrt(x.var(axis=-1, keepdims=True) + 1e-6)
        return np.maximum((x - x.mean(axis=-1, keepdims=True)) / spread, 0.0)

    x = obs / 255.0
    for i, stride in enumerate((4, 2, 1)):
        x = np.asarray(cnn.convolve(jnp.float32(x), params[f"kernel_{i}"], stride))
        x = activate(x + np.asarray(params[f"bias_{i}"]))
    dense = params["Dense_0"]
    x = activate(x.reshape(2, -1) @ np.asarray(dense["kernel"]) + np.asarray(dense["bias"]))
    found = jax.jit(network.apply)({"params": params}, obs)
    np.testing.assert_allclose(found, x, rtol=1e-3, atol=1e-4)


def test_q_functions_pass_layer_norm_on_to_the_torso(key):
    network = mlp.DiscreteQFunction(3, (4,), torso="nature_cnn", layer_norm=True)
    made = jax.eval_shape(network.init, key, np.zeros((1, 36, 36, 1), np.uint8))["params"]
    names = {part: {name for name in made[part] if "Norm" in name} for part in made}
    assert names["NatureCNN_0"] == {f"LayerNorm_{i}" for i in range(4)}
    assert names["MLP_0"] == {"LayerNorm_0"}
