"""Categorical and diagonal Gaussian policies, compared with known numbers and samples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import nets
from purerl.nets import categorical, gaussian, multi_categorical, policies, squashed
from purerl.spaces import Box, Discrete, EnvSpec, MultiDiscrete

LOGITS = jnp.log(jnp.array([0.5, 0.3, 0.2])) + 7.0
OTHER = jnp.log(jnp.array([0.1, 0.6, 0.3]))
NORMAL = (jnp.array([0.0]), jnp.array([0.0]))
SHIFTED = (jnp.array([1.0]), jnp.log(jnp.array([2.0])))


def test_gaussian_equals_known_numbers():
    assert float(gaussian.entropy(NORMAL)) == pytest.approx(1.4189385)
    assert float(gaussian.kl(NORMAL, SHIFTED)) == pytest.approx(0.443147, abs=1e-6)
    assert float(gaussian.kl(SHIFTED, NORMAL)) == pytest.approx(1.306853, abs=1e-6)
    assert float(gaussian.log_prob(NORMAL, jnp.array([2.0]))) == pytest.approx(-2.9189385)


def test_categorical_equals_known_numbers():
    entropy = -(0.5 * np.log(0.5) + 0.3 * np.log(0.3) + 0.2 * np.log(0.2))
    assert float(categorical.entropy(LOGITS)) == pytest.approx(entropy, rel=1e-5)
    kl = 0.5 * np.log(5) + 0.3 * np.log(0.5) + 0.2 * np.log(2 / 3)
    assert float(categorical.kl(LOGITS, OTHER)) == pytest.approx(kl, rel=1e-5)
    reverse = 0.1 * np.log(1 / 5) + 0.6 * np.log(2) + 0.3 * np.log(3 / 2)
    assert float(categorical.kl(OTHER, LOGITS)) == pytest.approx(reverse, rel=1e-5)
    assert float(categorical.log_prob(LOGITS, jnp.int32(1))) == pytest.approx(np.log(0.3), rel=1e-5)
    assert int(categorical.mode(LOGITS)) == 0


def test_the_log_probability_of_an_action_outside_the_space_is_nan():
    found = categorical.log_prob(LOGITS[None], jnp.array([-1, 0, 2, 3]))
    np.testing.assert_allclose(found, [np.nan, np.log(0.5), np.log(0.2), np.nan], rtol=1e-5)
    discrete = EnvSpec((1,), Discrete(3, start=1))
    found = policies.log_prob(discrete, LOGITS[None], jnp.array([0, 1, 3, 4]))
    np.testing.assert_allclose(found, [np.nan, np.log(0.5), np.log(0.2), np.nan], rtol=1e-5)


def test_both_divergences_have_the_direction_old_to_new():
    """Spinning Up had KL(new || old) for one policy and KL(old || new) for the other."""
    key = jax.random.key(0)
    acts = categorical.sample(jnp.broadcast_to(LOGITS, (100_000, 3)), key)
    ratio = categorical.log_prob(LOGITS[None], acts) - categorical.log_prob(OTHER[None], acts)
    assert float(categorical.kl(LOGITS, OTHER)) == pytest.approx(float(ratio.mean()), abs=0.01)
    old = tuple(jnp.broadcast_to(x, (100_000, 1)) for x in NORMAL)
    acts = gaussian.sample(old, key)
    new = tuple(x[None] for x in SHIFTED)
    ratio = gaussian.log_prob(old, acts) - gaussian.log_prob(new, acts)
    assert float(gaussian.kl(NORMAL, SHIFTED)) == pytest.approx(float(ratio.mean()), abs=0.01)


def test_entropies_of_whole_actions_equal_minus_the_mean_log_probability():
    """Spinning Up averaged the Gaussian's entropy over action dimensions."""
    key = jax.random.key(1)
    dist = (jnp.zeros((100_000, 3)), jnp.broadcast_to(jnp.array([-0.5, 0.0, 0.7]), (100_000, 3)))
    sampled = -gaussian.log_prob(dist, gaussian.sample(dist, key)).mean()
    assert float(gaussian.entropy(dist)[0]) == pytest.approx(float(sampled), abs=0.02)
    logits = jnp.broadcast_to(LOGITS, (100_000, 3))
    sampled = -categorical.log_prob(logits, categorical.sample(logits, key)).mean()
    assert float(categorical.entropy(LOGITS)) == pytest.approx(float(sampled), abs=0.01)


def test_actions_are_sampled_from_the_distribution_that_is_learned():
    """TorchingUp sampled in proportion to sigmoids but learned a softmax."""
    acts = np.asarray(categorical.sample(jnp.broadcast_to(LOGITS, (50_000, 3)), jax.random.key(2)))
    share = np.bincount(acts, minlength=3) / len(acts)
    learned = np.exp(categorical.log_prob(LOGITS[None], jnp.arange(3)))
    np.testing.assert_allclose(share, learned, atol=0.01)


def test_densities_sum_and_integrate_to_one():
    a = jnp.linspace(-12, 12, 20_001)[:, None]
    density = np.exp(gaussian.log_prob(tuple(x[None] for x in SHIFTED), a))
    assert np.trapezoid(density, a[:, 0]) == pytest.approx(1.0, abs=1e-5)
    total = np.exp(categorical.log_prob(LOGITS[None], jnp.arange(3))).sum()
    assert total == pytest.approx(1.0, abs=1e-6)


def test_log_prob_adds_up_over_dimensions():
    mean, log_std, act = np.random.default_rng(0).normal(size=(3, 5, 2)).astype(np.float32)
    whole = gaussian.log_prob((mean, log_std), act)
    parts = [gaussian.log_prob((mean[:, [i]], log_std[:, [i]]), act[:, [i]]) for i in (0, 1)]
    assert whole.shape == (5,)
    np.testing.assert_allclose(whole, parts[0] + parts[1], rtol=1e-5)


def test_every_row_has_an_entropy_density_and_divergence_of_its_own():
    rng = np.random.default_rng(0)
    logits, others = jnp.float32(rng.normal(size=(2, 4, 3)))
    (mean, log_std), (means, log_stds) = jnp.float32(rng.normal(size=(2, 2, 4, 3)))
    calls = (
        (categorical.entropy, (logits,)),
        (categorical.kl, (logits, others)),
        (categorical.log_prob, (logits, jnp.arange(4) % 3)),
        (gaussian.entropy, ((mean, log_std),)),
        (gaussian.kl, ((mean, log_std), (means, log_stds))),
        (gaussian.log_prob, ((mean, log_std), means)),
        (squashed.log_prob, ((mean, log_std), means)),
        (squashed.entropy, ((mean, log_std), means)),
    )
    for function, args in calls:
        whole = function(*args)
        assert whole.shape == (4,)
        alone = [function(*jax.tree.map(lambda x, i=i: x[i], args)) for i in range(4)]
        np.testing.assert_allclose(whole, alone, rtol=1e-5)
        assert len(np.unique(np.asarray(whole).round(4))) == 4


def test_extreme_logits_give_finite_numbers_and_gradients():
    logits = jnp.array([0.0, -200.0, 300.0])

    def likely(x):
        return categorical.log_prob(x, jnp.int32(2))

    for fn in (categorical.entropy, lambda x: categorical.kl(x, x), likely):
        assert np.isfinite(fn(logits))
        assert np.isfinite(jax.grad(fn)(logits)).all()


def test_masked_actions_add_nothing_to_entropy_and_divergence():
    masked, other = LOGITS.at[2].set(-jnp.inf), OTHER.at[2].set(-jnp.inf)
    p, q = np.array([0.5, 0.3]) / 0.8, np.array([0.1, 0.6]) / 0.7
    entropy, kl = -np.sum(p * np.log(p)), np.sum(p * np.log(p / q))
    assert float(categorical.entropy(masked)) == pytest.approx(entropy, rel=1e-5)
    assert float(categorical.kl(masked, other)) == pytest.approx(kl, rel=1e-5)
    assert float(categorical.kl(masked, OTHER)) == pytest.approx(
        np.sum(p * np.log(p / [0.1, 0.6])), rel=1e-5
    )
    assert np.isposinf(categorical.kl(LOGITS, other))
    for fn in (categorical.entropy, lambda x: categorical.kl(x, other)):
        assert np.isfinite(jax.grad(fn)(masked)[:2]).all()


def test_the_divergence_is_zero_for_equal_policies_and_never_negative():
    mean, log_std = np.random.default_rng(1).normal(size=(2, 200, 4)).astype(np.float32)
    assert not np.any(gaussian.kl((mean, log_std), (mean, log_std)))
    near = (mean + np.float32(1e-4), log_std + np.float32(1e-4))
    assert (gaussian.kl((mean, log_std), near) >= 0).all()


def test_policies_work_in_environment_units():
    discrete = EnvSpec((3,), Discrete(3, start=5))
    acts = policies.sample(discrete, jnp.broadcast_to(LOGITS, (100, 3)), jax.random.key(0))
    assert sorted(set(acts.tolist())) == [5, 6, 7]
    assert int(policies.mode(discrete, LOGITS)) == 5
    assert float(policies.log_prob(discrete, LOGITS, jnp.int32(6))) == pytest.approx(np.log(0.3))
    box = EnvSpec((3,), Box((0.0,), (10.0,)))
    dist = (jnp.array([0.2]), jnp.array([0.0]))
    assert float(policies.mode(box, dist)[0]) == pytest.approx(6.0)
    assert float(policies.mode(box, (jnp.array([3.0]), dist[1]))[0]) == 10.0
    at_mode = policies.log_prob(box, dist, jnp.array([6.0]))
    assert float(at_mode) == pytest.approx(-0.5 * np.log(2 * np.pi), rel=1e-5)
    wide = policies.sample(box, (jnp.zeros((5000, 1)), jnp.zeros((5000, 1))), jax.random.key(0))
    assert float(wide.std()) == pytest.approx(5.0, rel=0.05)  # not clipped: samples leave the Box
    assert float(policies.kl(box, NORMAL, SHIFTED)) == pytest.approx(0.443147, abs=1e-6)
    assert float(policies.entropy(discrete, jnp.zeros(3))) == pytest.approx(np.log(3))


def test_the_gaussian_policys_deviation_is_one_trainable_vector(key):
    """It starts at -0.5 and ignores the observation. TorchingUp kept it constant."""
    net = nets.GaussianPolicy(2, (4,))
    params = net.init(key, jnp.zeros((1, 3)))
    assert params["params"]["log_std"].tolist() == [-0.5, -0.5]
    mean, log_std = net.apply(params, jnp.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]))
    assert mean.shape == log_std.shape == (2, 2)
    assert bool((log_std == -0.5).all())
    assert bool((mean[0] != mean[1]).all())
    obs, act = jnp.ones((1, 3)), jnp.ones((1, 2))
    grads = jax.grad(lambda p: gaussian.log_prob(net.apply(p, obs), act)[0])(params)
    assert bool((grads["params"]["log_std"] != 0).all())


def test_values_may_be_negative(key):
    """TorchingUp ended its value network with a ReLU."""
    net = nets.ValueFunction((8,))
    obs = jax.random.normal(key, (200, 3))
    params = jax.vmap(lambda k: net.init(k, obs))(jax.random.split(key, 20))
    values = jax.vmap(lambda p: net.apply(p, obs))(params)
    assert values.shape == (20, 200)
    assert float(values.min()) < 0 < float(values.max())


def test_a_small_head_makes_the_first_policy_nearly_uniform(key):
    obs = 10.0 * jax.random.normal(key, (50, 3))
    for scale, low, high in ((0.01, 0.0, 0.01), (1.0, 0.1, 9.0)):
        net = nets.CategoricalPolicy(2, (64,), "tanh", "orthogonal", scale)
        logits = net.apply(net.init(key, obs), obs)
        assert low < float(jnp.ptp(logits, axis=1).mean()) < high + 0.02


PARTS = (np.log([0.5, 0.3, 0.2]) + 7.0, np.log([0.9, 0.1]) - 2.0)  # logits of two parts
OTHERS = (np.log([0.1, 0.6, 0.3]), np.log([0.4, 0.6]))
SIZES = (3, 2)


def join(parts):
    """Return the probabilities [3, 2] of whole actions, in float64."""
    first, second = (np.exp(x) / np.exp(x).sum() for x in parts)
    return np.outer(first, second)


def test_several_parts_equal_one_distribution_over_all_combinations():
    logits, others = (jnp.float32(np.concatenate(x)) for x in (PARTS, OTHERS))
    p, q = join(PARTS), join(OTHERS)
    acts = np.array([[a, b] for a in range(3) for b in range(2)], np.int32)
    found = multi_categorical.log_prob(logits[None], acts, SIZES)
    np.testing.assert_allclose(found, np.log(p).ravel(), rtol=1e-5)
    entropy, kl = -(p * np.log(p)).sum(), (p * np.log(p / q)).sum()
    assert float(multi_categorical.entropy(logits, SIZES)) == pytest.approx(entropy, rel=1e-5)
    assert float(multi_categorical.kl(logits, others, SIZES)) == pytest.approx(kl, rel=1e-5)
    assert multi_categorical.mode(logits, SIZES).tolist() == [0, 0]
    assert multi_categorical.mode(others, SIZES).tolist() == [1, 1]
    assert multi_categorical.mode(jnp.array([0.0, 1.0, 5.0, 9.0, 0.0]), SIZES).tolist() == [2, 0]
    many = jnp.broadcast_to(logits, (50_000, 5))
    sampled = np.asarray(multi_categorical.sample(many, jax.random.key(0), SIZES))
    assert sampled.dtype == np.int32
    counts = np.bincount(2 * sampled[:, 0] + sampled[:, 1], minlength=6)
    np.testing.assert_allclose(counts / 50_000, p.ravel(), atol=0.01)


def test_equal_parts_are_sampled_independently():
    both = multi_categorical.sample(jnp.zeros((10_000, 4)), jax.random.key(0), (2, 2))
    assert 0.45 < float((both[:, 0] == both[:, 1]).mean()) < 0.55


def test_policies_of_several_parts_use_the_numbers_of_the_space():
    env = EnvSpec((1,), MultiDiscrete(SIZES, start=(10, -1)))
    logits = jnp.float32(np.concatenate(PARTS))[None]
    assert policies.mode(env, logits).tolist() == [[10, -1]]
    acts = np.asarray(policies.sample(env, jnp.repeat(logits, 500, 0), jax.random.key(1)))
    assert sorted(set(acts[:, 0])) == [10, 11, 12]
    assert sorted(set(acts[:, 1])) == [-1, 0]
    found = policies.log_prob(env, logits, jnp.array([[12, 0]]))
    np.testing.assert_allclose(found, np.log(0.2 * 0.1), rtol=1e-5)
    assert np.isnan(policies.log_prob(env, logits, jnp.array([[9, 0]]))).all()
    entropy = -(join(PARTS) * np.log(join(PARTS))).sum()
    np.testing.assert_allclose(policies.entropy(env, logits), entropy, rtol=1e-5)
    other = jnp.float32(np.concatenate(OTHERS))[None]
    kl = (join(PARTS) * np.log(join(PARTS) / join(OTHERS))).sum()
    np.testing.assert_allclose(policies.kl(env, logits, other), kl, rtol=1e-5)
