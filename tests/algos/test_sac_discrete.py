"""Discrete SAC compared with a float64 program in NumPy, and with numbers computed by hand."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from purerl.algos import sac_discrete
from purerl.spaces import Discrete, EnvSpec
from purerl.types import Batch
from tests.algos.hand import mlp
from tests.cases import CASES, DISCRETE
from tests.contract.shared import evaluate

CASE = CASES["sac_discrete"]
THREE = EnvSpec(obs_shape=(2,), action=Discrete(3, start=-1))


@functools.cache
def learner(**settings):
    """Return parameters whose arrays all differ, and a temperature of 0.3."""
    first, second = (
        sac_discrete.init(jax.random.key(k), CASE.spec(**settings)).params for k in (0, 1)
    )
    wide = jax.tree.map(lambda x: 4 * x, (first.actor, first.critic, second.critic))
    return dataclasses.replace(
        first, actor=wide[0], critic=wide[1], target_critic=wide[2], log_alpha=jnp.log(0.3)
    )


def expect(actor, critics, obs, average):
    """Return the expected value of each row under the policy, and the policy's entropy."""
    logits = mlp(actor, obs)
    pi = np.exp(logits - logits.max(axis=1, keepdims=True))
    pi /= pi.sum(axis=1, keepdims=True)
    q = np.stack([mlp(tree, obs) for tree in critics])
    q = q.mean(axis=0) if average else q.min(axis=0)
    return (pi * q).sum(axis=1), -(pi * np.log(pi)).sum(axis=1)


def compute_losses(params, b, average=True, soft=True):
    """Return the numbers of all losses, in float64."""
    rows = np.arange(len(b.rew))
    value, entropy = expect(params.actor, params.target_critic, b.next_obs, average)
    y = b.rew + 0.99 * np.where(b.terminated, 0.0, value + 0.3 * soft * entropy)
    q = [mlp(tree, b.obs)[rows, b.act - DISCRETE.action.start] for tree in params.critic]
    value, entropy = expect(params.actor, params.critic, b.obs, average)
    return {
        "loss_q": sum(np.mean((one - y) ** 2) for one in q),
        "q1": q[0].mean(),
        "q2": q[1].mean(),
        "target": y.mean(),
        "loss_pi": -np.mean(value + 0.3 * entropy),
        "entropy": entropy.mean(),
        "loss_alpha": np.log(0.3) * (entropy.mean() - params.spec.target_entropy_scale * np.log(3)),
        "alpha": 0.3,
    }


def test_losses_and_gradients_equal_a_numpy_program():
    params, b = learner(), CASE.noisy(12)
    expected = compute_losses(params, b, params.spec.average_critics, params.spec.soft_critic)
    value, info, grads = evaluate(sac_discrete.loss, params, b)
    assert {k: float(v) for k, v in info.items()} == pytest.approx(expected, rel=1e-4)
    total = sum(expected[k] for k in ("loss_q", "loss_pi", "loss_alpha"))
    assert value == pytest.approx(total, rel=1e-4)
    above = expected["entropy"] - params.spec.target_entropy_scale * np.log(3)
    assert grads.log_alpha == pytest.approx(above, rel=1e-4)
    rng = np.random.default_rng(3)
    way = jax.tree.map(lambda x: rng.normal(size=x.shape), params.actor)

    def program(h):
        moved = jax.tree.map(lambda x, w: np.float64(x) + h * w, params.actor, way)
        value, entropy = expect(moved, params.critic, b.obs, params.spec.average_critics)
        return -np.mean(value + 0.3 * entropy)

    slope = (program(1e-5) - program(-1e-5)) / 2e-5
    terms = jax.tree.map(lambda g, w: float((np.float64(g) * w).sum()), grads.actor, way)
    assert sum(jax.tree.leaves(terms)) == pytest.approx(slope, rel=1e-3)


@pytest.mark.complete
@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("soft", [True, False])
def test_options_of_the_critics_equal_a_numpy_program(average, soft):
    params, b = learner(average_critics=average, soft_critic=soft), CASE.noisy(12)
    _, info, _ = evaluate(sac_discrete.loss, params, b)
    expected = compute_losses(params, b, average, soft)
    assert {k: float(v) for k, v in info.items()} == pytest.approx(expected, rel=1e-4)


class Table(nn.Module):
    """Numbers of three actions in two one-hot states."""

    @nn.compact
    def __call__(self, obs):
        return obs @ self.param("table", lambda key: jnp.zeros((2, 3)))


class Masked(nn.Module):
    """Logits of a policy that never takes the last action."""

    @nn.compact
    def __call__(self, obs):
        return Table(name="all")(obs).at[:, 2].set(-jnp.inf)


def table(*rows):
    return {"params": {"table": jnp.float32(rows)}}


def by_hand(logits, first, second, targets=None, **settings):
    spec = sac_discrete.Spec(THREE, Table(), Table(), **settings)
    state = sac_discrete.init(jax.random.key(0), spec)
    critics = (table(*first), table(*second))
    targets = jax.tree.map(jnp.copy, targets or critics)
    params = dataclasses.replace(
        state.params, actor=table(*logits), critic=critics, target_critic=targets
    )
    return dataclasses.replace(state, params=params)


def rows(act=(-1, 0), rew=(1.0, 1.0), terminated=(False, False)):
    """Return a batch of states 0 and 1, each of which is followed by the other."""
    obs = np.eye(2, dtype=np.float32)
    ends = np.array(terminated)
    return Batch(obs, np.int32(act), np.float32(rew), obs[::-1], ends, ~ends)


ZERO = ([0, 0, 0],) * 2
ARMS = ([1, 0, -1],) * 2


@pytest.mark.complete
def test_the_policy_of_a_soft_bandit_is_the_softmax_of_its_rewards():
    """Arms of 1, 0 and -1 at alpha 0.5: probabilities .8668, .1173, .0159, and value 1.0715."""
    best = ([2, 0, -2],) * 2
    params = by_hand(best, ARMS, ARMS, alpha=0.5).params
    np.testing.assert_allclose(
        jax.nn.softmax(sac_discrete.distribution(params, np.eye(2, dtype=np.float32)[0])),
        [0.8668, 0.1173, 0.0159],
        atol=5e-5,
    )
    value, _, grads = evaluate(sac_discrete.actor_loss, params, rows())
    assert value == pytest.approx(-1.0715, abs=5e-5)
    np.testing.assert_allclose(grads.actor["params"]["table"], np.zeros((2, 3)), atol=1e-6)
    _, info, _ = evaluate(sac_discrete.critic_loss, params, rows())
    assert info["target"] == pytest.approx(1 + 0.99 * 1.0715, abs=5e-5)


@pytest.mark.complete
def test_training_finds_the_policy_of_the_soft_bandit():
    state = by_hand(ZERO, ZERO, ZERO, alpha=0.5, lr=2e-2, gamma=0.9)
    batch = Batch(
        *(np.eye(2, dtype=np.float32)[[0, 0, 0]], np.int32([-1, 0, 1]), np.float32([1, 0, -1])),
        *(np.eye(2, dtype=np.float32)[[0, 0, 0]], np.ones(3, bool), np.zeros(3, bool)),
    )
    state, _ = jax.lax.scan(lambda s, _: sac_discrete.update(s, batch), state, length=1000)
    obs = batch.obs[0]
    probabilities = jax.nn.softmax(sac_discrete.distribution(state.params, obs))
    np.testing.assert_allclose(probabilities, [0.8668, 0.1173, 0.0159], atol=5e-3)
    np.testing.assert_allclose(sac_discrete.q_value(state.params, obs), [[1, 0, -1]] * 2, atol=0.02)


@pytest.mark.complete
def test_only_termination_stops_bootstrapping():
    state = by_hand(ZERO, ZERO, ZERO, (table(*ARMS), table([4, 4, 4], [10, 10, 10])), alpha=0.2)
    _, info = sac_discrete.critic_loss(state.params, rows(terminated=(True, False)))
    bonus = 0.2 * np.log(3)
    pooled = (0 + 4) / 2 if state.params.spec.average_critics else (1 + 0 - 1) / 3
    soft = pooled + bonus * state.params.spec.soft_critic
    assert info["target"] == pytest.approx((1 + 1 + 0.99 * soft) / 2, rel=1e-5)


def test_update_steps_critics_then_policy_then_targets():
    """The policy's loss sees the new critics, whose values have left zero."""
    state = by_hand(ZERO, ZERO, ZERO, gamma=0.0, lr=0.1, alpha_init=0.25, target_entropy_scale=0.9)
    new, info = sac_discrete.update(state, rows())
    stepped = np.float32([[0.1, 0, 0], [0, 0.1, 0]])
    for one, copy in zip(new.params.critic, new.params.target_critic, strict=True):
        np.testing.assert_allclose(one["params"]["table"], stepped, atol=1e-5)
        np.testing.assert_allclose(copy["params"]["table"], 0.02 * stepped, atol=1e-6)
    value = 0.1 / 3 + 0.25 * np.log(3)  # with the temperature from before its step
    assert info["loss_pi"] == pytest.approx(-value, rel=1e-4)
    moved = np.float32([[0.1, -0.1, -0.1], [-0.1, 0.1, -0.1]])
    np.testing.assert_allclose(new.params.actor["params"]["table"], moved, atol=1e-4)
    assert info["entropy"] == pytest.approx(np.log(3), rel=1e-6)
    assert info["alpha"] == pytest.approx(0.25)
    assert new.params.log_alpha == pytest.approx(np.log(0.25) - 0.1, abs=1e-4)
    wanted = np.log(0.25) * 0.1 * np.log(3)  # of the uniform policy, before its step
    assert info["loss_alpha"] == pytest.approx(wanted, rel=1e-4)


@pytest.mark.complete
def test_the_temperature_rises_below_the_target_entropy():
    for fraction, sign in ((0.9, 1), (0.1, -1)):
        settings = {"target_entropy_scale": fraction, "lr": 0.02}
        state = by_hand(([2, 0, -2],) * 2, ZERO, ZERO, **settings)  # entropy 0.44, of 1.10
        new, _ = sac_discrete.update(state, rows())
        change = float(new.params.log_alpha - state.params.log_alpha)
        assert change == pytest.approx(0.02 * sign, rel=1e-3)


@pytest.mark.complete
def test_a_fixed_temperature_stays_fixed_and_may_be_zero():
    for alpha in (0.0, 0.2):
        new, info = sac_discrete.update(by_hand(ZERO, ARMS, ARMS, alpha=alpha), rows())
        assert info["alpha"] == pytest.approx(alpha)
        assert (new.params.log_alpha, info["loss_alpha"]) == (0.0, 0.0)


@pytest.mark.complete
def test_acting_samples_the_policy_and_counts_from_the_first_action():
    params = by_hand((np.log([0.6, 0.3, 0.1]), np.log([0.1, 0.1, 0.8])), ZERO, ZERO).params
    obs = np.eye(2, dtype=np.float32)
    act = sac_discrete.act(params, np.repeat(obs[:1], 20_000, axis=0), jax.random.key(0))
    found = [float((act == a).mean()) for a in (-1, 0, 1)]
    np.testing.assert_allclose(found, [0.6, 0.3, 0.1], atol=0.015)
    assert sac_discrete.policy(params, obs).tolist() == [-1, 1]


@pytest.mark.complete
def test_losses_read_normalised_observations():
    case = CASE._replace(settings=CASE.settings | {"normalise_obs": True})
    state = sac_discrete.init(jax.random.key(0), case.spec())
    state, _ = sac_discrete.update(state, case.batch(64))
    mean, var, rows = state.params.obs_stats
    assert rows == 64
    b = case.noisy(12)
    plain = dataclasses.replace(state.params, obs_stats=None)
    scaled = [((x - mean[None]) / np.sqrt(var + 1e-8)[None]).clip(-10, 10) for x in (b[0], b[3])]
    other = b._replace(obs=scaled[0], next_obs=scaled[1])
    found = evaluate(sac_discrete.loss, state.params, b)
    wanted = evaluate(sac_discrete.loss, plain, other)
    assert found[0] == pytest.approx(float(wanted[0]), rel=1e-4)


@pytest.mark.complete
def test_an_action_that_a_network_masks_has_no_probability_and_a_finite_loss():
    state = sac_discrete.init(jax.random.key(0), sac_discrete.Spec(THREE, Masked(), Table()))
    params = dataclasses.replace(state.params, critic=(table(*ARMS), table(*ARMS)))
    value, info, grads = evaluate(sac_discrete.loss, params, rows())
    assert info["entropy"] == pytest.approx(np.log(2), rel=1e-6)
    assert np.isfinite(value)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(grads.actor))


def test_bad_settings_are_refused():
    for alpha, message in (("atuo", "or 'auto', got 'atuo'"), (-0.1, "alpha must be a number in")):
        with pytest.raises(ValueError, match=message):
            sac_discrete.Spec(THREE, alpha=alpha)
    with pytest.raises(
        ValueError, match=r"^target_entropy_scale must be a number in \[0\.0, 1\.0\]"
    ):
        sac_discrete.Spec(THREE, target_entropy_scale=1.1)
    for name in ("alpha_init", "target_entropy_scale"):
        with pytest.raises(ValueError, match=f"^{name} needs a learned temperature, but alpha is"):
            sac_discrete.Spec(THREE, alpha=0.2, **{name: 0.9})
    for name in ("average_critics", "soft_critic", "normalise_obs"):
        with pytest.raises(ValueError, match=f"^{name} must be True or False, got 1"):
            sac_discrete.Spec(THREE, **{name: 1})


def test_defaults_are_those_of_the_page():
    spec = sac_discrete.Spec(THREE)
    assert (spec.hidden, spec.activation) == ((256, 256), "relu")
    assert (spec.gamma, spec.polyak, spec.lr) == (0.99, 0.98, 1e-3)
    assert (spec.alpha, spec.alpha_init, spec.target_entropy_scale) == ("auto", 1.0, 0.3)
    assert (spec.average_critics, spec.soft_critic) == (False, True)
    schedule = sac_discrete.SCHEDULE.settle()
    assert (schedule.steps, schedule.start_steps, schedule.batch_size) == (50_000, 1_000, 64)
