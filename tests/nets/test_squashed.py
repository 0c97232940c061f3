"""Squashed Gaussian, compared with published numbers, integrals and limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.nets import squashed


@pytest.mark.parametrize(
    ("mean", "log_std", "u", "expected"),
    [
        (0.5, -0.5, 1.0, 0.108837899),  # with log(1 - tanh^2 + 1e-6) instead: 0.1088355
        (0.0, 0.0, 3.0, -0.800281524),  # -0.800383
        (0.0, 0.0, 10.0, -32.305235),  # -37.11; without an epsilon -inf
    ],
)
def test_the_log_density_equals_known_numbers(mean, log_std, u, expected):
    column = lambda x: jnp.full((1,), x, jnp.float32)
    for fn in (squashed.log_prob, jax.jit(squashed.log_prob)):
        got = fn((column(mean), column(log_std)), column(u))
        assert got == pytest.approx(expected, rel=1e-5)


def compute_exactly(mean, log_std, noise):
    """Return the log-density of a sample, and its derivatives by mean and log std, in float64."""
    mean, log_std, noise = (np.float64(np.float32(x)) for x in (mean, log_std, noise))
    u = mean + np.exp(log_std) * noise
    log_cosh = np.logaddexp(u, -u) - np.log(2)  # 1 - tanh^2 = 1 / cosh^2
    value = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi) + 2 * log_cosh
    return value, 2 * np.tanh(u), 2 * np.tanh(u) * np.exp(log_std) * noise - 1


@pytest.mark.parametrize("log_std", [2.0, -2.0, -5.0, -10.0, -15.0, -20.0])
@pytest.mark.parametrize("mean", [0.5, 3.0, -8.0])
def test_densities_of_samples_are_accurate_for_all_deviations(mean, log_std):
    """Computed from the sample, the noise at mean 3 is off by 3 % at -10 and lost at -15."""
    noise = np.random.default_rng(0).normal(size=(100, 1)).astype(np.float32)

    def log_prob(mean, log_std, noise):
        dist = mean[None], log_std[None]
        return squashed.log_prob(dist, squashed.sample(dist, noise), noise)

    args = np.float32(mean), np.float32(log_std)
    value = jax.vmap(jax.value_and_grad(log_prob, argnums=(0, 1)), in_axes=(None, None, 0))
    got, grads = value(*args, noise)
    wanted, *derivatives = compute_exactly(*args, noise[:, 0])
    np.testing.assert_allclose(got, wanted, rtol=2e-6, atol=5e-6)
    np.testing.assert_allclose(grads, derivatives, rtol=1e-4, atol=1e-5)
    entropy = jax.vmap(lambda x: squashed.entropy((args[0][None], args[1][None]), x))(noise)
    np.testing.assert_allclose(entropy, -wanted, rtol=2e-6, atol=5e-6)


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (0.8, -1.0), (-1.5, 0.3)])
def test_density_integrates_to_one_over_the_interval(mean, log_std):
    u = np.linspace(-12, 12, 200_001, dtype=np.float32)[:, None]
    at = jnp.full_like(u, mean), jnp.full_like(u, log_std)
    density = np.exp(np.asarray(squashed.log_prob(at, jnp.asarray(u)), np.float64))
    a = np.tanh(u[:, 0].astype(np.float64))  # without the change of variables: 0.68 for the first
    assert np.trapezoid(density, a) == pytest.approx(1.0, abs=2e-3)


def test_log_densities_add_up_over_dimensions():
    mean, log_std, u = np.random.default_rng(0).normal(size=(3, 5, 2)).astype(np.float32)
    whole = squashed.log_prob((mean, log_std), jnp.asarray(u))
    parts = sum(
        squashed.log_prob((mean[:, [i]], log_std[:, [i]]), jnp.asarray(u[:, [i]])) for i in range(2)
    )
    assert whole.shape == (5,)
    np.testing.assert_allclose(whole, parts, rtol=1e-5)


def test_samples_have_the_density():
    dist = jnp.float32([[0.3]]), jnp.float32([[-0.7]])
    noise = jax.random.normal(jax.random.key(0), (200_000, 1))
    u = squashed.sample(dist, noise)
    a = np.asarray(squashed.squash(u))[:, 0]
    assert np.abs(a).max() < 1
    counts, edges = np.histogram(a, bins=20, range=(-1, 1), density=True)
    fine = np.linspace(-0.9999, 0.9999, 20_001)
    at = np.arctanh(fine).astype(np.float32)[:, None]
    density = np.exp(squashed.log_prob(dist, jnp.asarray(at)))
    for i, count in enumerate(counts):
        inside = (fine >= edges[i]) & (fine < edges[i + 1])
        assert count == pytest.approx(density[inside].mean(), abs=0.03)


def test_entropy_estimate_is_minus_the_mean_log_density():
    dist = jnp.float32([[0.3]]), jnp.float32([[-0.7]])
    noise = jax.random.normal(jax.random.key(0), (200_000, 1))
    u = np.linspace(-8, 8, 100_001, dtype=np.float32)[:, None]
    logp = np.asarray(squashed.log_prob(dist, jnp.asarray(u)), np.float64)
    exact = -np.trapezoid(np.exp(logp) * logp, np.tanh(u[:, 0].astype(np.float64)))
    assert squashed.entropy(dist, noise).mean() == pytest.approx(exact, abs=5e-3)


def test_samples_and_the_mode_are_unsquashed():
    dist = jnp.float32([0.5]), jnp.float32([-0.5])
    assert squashed.mode(dist) == squashed.sample(dist, jnp.zeros(1)) == 0.5
    assert squashed.squash(squashed.mode(dist))[0] == pytest.approx(np.tanh(0.5))
    density = np.exp(0.5) / np.sqrt(2 * np.pi) / (1 - np.tanh(0.5) ** 2)
    assert squashed.log_prob(dist, squashed.mode(dist)) == pytest.approx(np.log(density), rel=1e-5)


def test_gradients_are_finite_in_the_tails():
    for u in (-50.0, -10.0, 0.0, 10.0, 50.0):
        grad = jax.grad(lambda m, u=u: squashed.log_prob((m, jnp.zeros(1)), m + u))(jnp.zeros(1))
        assert bool(jnp.isfinite(grad).all())
        assert grad[0] == pytest.approx(2 * np.tanh(u), abs=1e-5)  # of -log(1 - tanh^2 u)
