"""TQC compared with a float64 program in NumPy, and with numbers computed by hand."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from purerl.algos import tqc
from tests.algos.hand import ONE, batch, mlp
from tests.cases import BOX, CASES
from tests.contract.shared import evaluate

MIDDLE, HALF = np.array([0.0, 0.5]), np.array([2.0, 0.5])  # of the box
THREE = CASES["tqc"]._replace(
    settings={"hidden": (8, 8), "num_critics": 3, "num_quantiles": 4, "drop_quantiles": 1}
)


@functools.cache
def learner():
    """Return parameters with three critics whose targets are others, and a temperature of 0.3."""
    first, second = (tqc.init(jax.random.key(k), THREE.spec()).params for k in (0, 1))
    wide = jax.tree.map(lambda x: 4 * x, (first.actor, first.critic, second.critic))
    return dataclasses.replace(
        first, actor=wide[0], critic=wide[1], target_critic=wide[2], log_alpha=jnp.log(0.3)
    )


def draw_actions(actor, obs, xi):
    """Return actions in [-1, 1] and their log-densities."""
    mean, log_std = np.split(mlp(actor, obs), 2, axis=-1)
    log_std = np.clip(log_std, -20, 2)
    u = mean + np.exp(log_std) * xi
    logp = -0.5 * xi**2 - log_std - 0.5 * np.log(2 * np.pi)
    return np.tanh(u), (logp + 2 * (np.logaddexp(u, -u) - np.log(2))).sum(axis=1)


def compute_target(params, b):
    """Return the targets `[B, 9]`: the smallest 9 of 12 pooled quantiles, moved and discounted."""
    next_act, next_logp = draw_actions(params.actor, b.next_obs, b.noise[:, 0])
    pooled = [mlp(tree, b.next_obs, next_act) for tree in params.target_critic]
    kept = np.sort(np.concatenate(pooled, axis=1), axis=1)[:, :9]
    soft = kept - 0.3 * next_logp[:, None]
    return b.rew[:, None] + 0.99 * np.where(b.terminated[:, None], 0.0, soft)


def compute_critic_loss(critics, b, y):
    """Return the loss of all critics, and the mean of their quantiles."""
    z = np.stack([mlp(tree, b.obs, (b.act - MIDDLE) / HALF) for tree in critics])
    level = ((2 * np.arange(4) + 1) / 8)[None, None, :, None]
    error = y[None, :, None, :] - z[..., None]  # [N, B, M, K]
    huber = np.where(abs(error) <= 1, error**2 / 2, abs(error) - 0.5)
    return (np.where(error < 0, 1 - level, level) * huber).mean(), z.mean()


def compute_actor_loss(actor, params, b):
    """Return the policy's loss and the mean log-density of its actions."""
    pi, logp = draw_actions(actor, b.obs, b.noise[:, 1])
    q = np.mean([mlp(tree, b.obs, pi) for tree in params.critic], axis=(0, 2))
    return np.mean(0.3 * logp - q), logp.mean()


def test_losses_equal_a_numpy_program():
    params, b = learner(), THREE.noisy(12)
    y = compute_target(params, b)
    loss_q, q = compute_critic_loss(params.critic, b, y)
    loss_pi, logp = compute_actor_loss(params.actor, params, b)
    expected = {"loss_q": loss_q, "q": q, "target": y.mean(), "loss_pi": loss_pi, "logp": logp}
    expected |= {"loss_alpha": -np.log(0.3) * (logp - 2.0), "alpha": 0.3}  # two dimensions
    value, info, grads = evaluate(tqc.loss, params, b)
    assert {k: float(v) for k, v in info.items()} == pytest.approx(expected, rel=1e-4)
    total = sum(expected[k] for k in ("loss_q", "loss_pi", "loss_alpha"))
    assert value == pytest.approx(total, rel=1e-4)
    assert grads.log_alpha == pytest.approx(-(logp - 2.0), rel=1e-4)


@pytest.mark.parametrize("group", ["critic", "actor"])
def test_gradients_equal_differences_of_the_numpy_program(group):
    """The target is fixed, and so are the critics in the policy's loss."""
    params, b = learner(), THREE.noisy(12)
    y = compute_target(params, b)
    tree, rng = getattr(params, group), np.random.default_rng(3)
    way = jax.tree.map(lambda x: rng.normal(size=x.shape), tree)

    def program(h):
        moved = jax.tree.map(lambda x, w: np.float64(x) + h * w, tree, way)
        if group == "critic":
            return compute_critic_loss(moved, b, y)[0]
        return compute_actor_loss(moved, params, b)[0]

    slope = (program(1e-5) - program(-1e-5)) / 2e-5
    found = getattr(evaluate(tqc.loss, params, b)[2], group)
    terms = jax.tree.map(lambda g, w: float((np.float64(g) * w).sum()), found, way)
    assert sum(jax.tree.leaves(terms)) == pytest.approx(slope, rel=1e-3)


class Head(nn.Module):
    """An actor with two parameters, mean and log_std, that ignores the observation."""

    @nn.compact
    def __call__(self, obs):
        mean, log_std = (self.param(x, lambda key: jnp.zeros(())) for x in ("mean", "log_std"))
        return mean + 0 * obs, log_std + 0 * obs


class Lines(nn.Module):
    """A critic with three quantiles `w * act + b[j]`."""

    @nn.compact
    def __call__(self, obs, act):
        w = self.param("w", lambda key: jnp.zeros(()))
        return w * act + self.param("b", lambda key: jnp.zeros(3))[None]


def head(mean, log_std):
    return {"params": {"mean": jnp.float32(mean), "log_std": jnp.float32(log_std)}}


def lines(w, *b):
    return {"params": {"w": jnp.float32(w), "b": jnp.float32(b or (0, 0, 0))}}


def by_hand(actor, critics, targets=None, **settings):
    settings = {"num_quantiles": 3, "drop_quantiles": 1, "alpha_init": 0.2} | settings
    spec = tqc.Spec(ONE, Head(), Lines(), num_critics=len(critics), **settings)
    state = tqc.init(jax.random.key(0), spec)
    targets = jax.tree.map(jnp.copy, targets or critics)
    params = dataclasses.replace(state.params, actor=actor, critic=critics, target_critic=targets)
    return dataclasses.replace(state, params=params)


def draws(first=0.0, second=0.0, rows=1, **fields):
    noise = jnp.tile(jnp.float32([[[first], [second]]]), (rows, 1, 1))  # [B, 2, 1]
    return batch(rows=rows, **fields)._replace(noise=noise)


# At u = mean = 0 squashing changes nothing, and the log-density is -log_std - log(2 pi) / 2.
LOG_STD = 1.2 - 0.5 * np.log(2 * np.pi)
CRITICS = (lines(0.0, 1, 2, 3), lines(0.0, 2, 2, 2))
TARGETS = (lines(0.0, 1, 2, 3), lines(0.0, 0, 2.5, 10))


@pytest.mark.complete
def test_the_target_of_an_example_by_hand():
    params = by_hand(head(0.0, LOG_STD), CRITICS, TARGETS).params
    loss, info, _ = evaluate(tqc.critic_loss, params, draws(rew=0.5))
    assert info["target"] == pytest.approx(np.mean([0.7376, 1.7276, 2.7176, 3.2126]), rel=1e-5)
    assert loss == pytest.approx(0.18951122, rel=1e-5)
    yes = jnp.array([True])
    ended = draws(rew=0.5)._replace(terminated=yes, truncated=yes)
    assert evaluate(tqc.critic_loss, params, ended)[1]["target"] == 0.5
    cut = draws(rew=0.5)._replace(truncated=yes)
    assert evaluate(tqc.critic_loss, params, cut)[0] == loss


@pytest.mark.complete
@pytest.mark.parametrize(("drop", "mean"), [(0, 18.5 / 6), (1, 5.5 / 4), (2, 0.5)])
def test_the_number_of_dropped_quantiles_counts_for_each_critic(drop, mean):
    params = by_hand(head(0.0, LOG_STD), CRITICS, TARGETS, drop_quantiles=drop).params
    found = tqc.critic_loss(params, draws())[1]["target"]
    assert found == pytest.approx(0.99 * (mean + 0.2 * 1.2), rel=1e-5)


@pytest.mark.complete
def test_the_policy_follows_the_mean_of_all_quantiles():
    """The minimum of the means would be 0 * a + 2, and without its largest quantile -a + 1.5."""
    params = by_hand(head(0.5, -0.5), (lines(-1.0, 1, 2, 30), lines(0.0, 2, 2, 2))).params
    xi = 0.5 * np.exp(0.5)  # u is 1, whose log-density is 0.108837899
    value, info = tqc.actor_loss(params, draws(first=9.0, second=xi))
    wanted = 0.2 * 0.108837899 - (-0.5 * np.tanh(1.0) + 39 / 6)
    assert value == pytest.approx(wanted, rel=1e-5)
    assert info["logp"] == pytest.approx(0.108837899, rel=1e-5)


def test_update_steps_critics_then_policy_then_targets():
    """The critics' slope falls below zero first. Only then does the policy's mean move down."""
    pair = (lines(0.05), lines(0.05))
    state = by_hand(head(0.0, -20.0), pair, gamma=0.0, lr=0.1, alpha_init=1e-6)
    new, info = tqc.update(state, draws(act=2.0, rew=-1.0))
    for tree in new.params.critic:
        assert tree["params"]["w"] == pytest.approx(0.05 - 0.1, abs=1e-5)
    assert new.params.actor["params"]["mean"] == pytest.approx(-0.1, abs=1e-4)
    assert info["loss_pi"] == pytest.approx(0.1, abs=1e-3)  # -Q of the new critics at action 0
    for tree in new.params.target_critic:
        assert tree["params"]["w"] == pytest.approx(0.05 - 0.005 * 0.1, abs=1e-6)
        assert tree["params"]["b"] == pytest.approx(np.full(3, -0.005 * 0.1), abs=1e-6)
    assert info["alpha"] == pytest.approx(1e-6)  # from before its step
    change = float(new.params.log_alpha - state.params.log_alpha)
    assert change == pytest.approx(0.1, abs=1e-4)  # entropy -19, below its target of -1


@pytest.mark.complete
def test_policy_and_temperature_use_each_other_from_before_their_steps():
    state = by_hand(head(0.2, 0.0), (lines(0.3), lines(0.1)), lr=0.5, alpha_init=0.5)
    new, info = tqc.update(state, draws(second=0.7))
    assert abs(float(new.params.log_alpha - state.params.log_alpha)) > 0.4
    judged = dataclasses.replace(state.params, critic=new.params.critic)
    assert info["loss_pi"] == pytest.approx(float(tqc.actor_loss(judged, draws(second=0.7))[0]))
    before = tqc.alpha_loss(state.params, draws(second=0.7))[0]
    assert info["loss_alpha"] == pytest.approx(float(before), rel=1e-6)


@pytest.mark.complete
def test_the_target_entropy_is_minus_the_dimensions_unless_given():
    params, b = learner(), THREE.noisy(12)
    given, other = (
        dataclasses.replace(params, spec=THREE.spec(target_entropy=x)) for x in (-2.0, -3.0)
    )
    assert tqc.alpha_loss(params, b)[0] == tqc.alpha_loss(given, b)[0]
    change = tqc.alpha_loss(other, b)[0] - tqc.alpha_loss(given, b)[0]
    assert change == pytest.approx(np.log(0.3), rel=1e-4)


@pytest.mark.complete
def test_values_take_the_environments_units_and_any_leading_axes():
    params, rng = learner(), np.random.default_rng(0)
    obs = rng.normal(size=(4, 2, 3)).astype(np.float32)
    act = rng.uniform([-2.0, 0.0], [2.0, 1.0], (4, 2, 2)).astype(np.float32)
    unit = (act - MIDDLE[None, None]) / HALF[None, None]
    wanted = np.stack([mlp(tree, obs, unit) for tree in params.critic])
    found = jax.jit(tqc.q_quantiles)(params, obs, act)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    mean = jax.jit(tqc.q_value)(params, obs, act)
    np.testing.assert_allclose(mean, wanted.mean(axis=-1), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=r"^act must have shape \(4, 2, 2\), got shape \(2, 2\)"):
        tqc.q_value(params, obs, act[0])


@pytest.mark.complete
def test_act_samples_and_policy_is_the_squashed_mean():
    params = by_hand(head(0.3, -1.0), CRITICS).params
    obs = np.zeros((20_000, 1), np.float32)
    u = np.arctanh(np.asarray(tqc.act(params, obs, jax.random.key(0))) / 2.0)
    assert u.mean() == pytest.approx(0.3, abs=0.01)
    assert u.std() == pytest.approx(np.exp(-1.0), rel=0.02)
    assert tqc.policy(params, obs[:1])[0, 0] == pytest.approx(2.0 * np.tanh(0.3), rel=1e-6)
    for given, bound in ((-50.0, -20.0), (7.0, 2.0)):
        wide = dataclasses.replace(params, actor=head(0.0, given))
        assert tqc.distribution(wide, obs[:1])[1] == bound


@pytest.mark.complete
def test_losses_read_normalised_observations():
    case = THREE._replace(settings=THREE.settings | {"normalise_obs": True})
    state = tqc.init(jax.random.key(0), case.spec())
    state, _ = tqc.update(state, case.batch(64))
    mean, var, rows = state.params.obs_stats
    assert rows == 64
    b = case.noisy(12)
    plain = dataclasses.replace(state.params, obs_stats=None)
    scaled = [((x - mean[None]) / np.sqrt(var + 1e-8)[None]).clip(-10, 10) for x in (b[0], b[3])]
    other = b._replace(obs=scaled[0], next_obs=scaled[1])
    found, wanted = evaluate(tqc.loss, state.params, b), evaluate(tqc.loss, plain, other)
    assert found[0] == pytest.approx(float(wanted[0]), rel=1e-4)


def test_each_critic_has_its_own_first_parameters_and_a_copy_as_target():
    params = THREE.algo.init(jax.random.key(0), THREE.spec(critic_hidden=(16,))).params
    kernels = [tree["params"]["MLP_0"]["Dense_0"]["kernel"] for tree in params.critic]
    assert [x.shape for x in kernels] == [(5, 16)] * 3
    assert all((kernels[i] != kernels[i - 1]).all() for i in range(3))
    for one, copy in zip(params.critic, params.target_critic, strict=True):
        jax.tree.map(np.testing.assert_array_equal, one, copy)
    assert tqc.temperature(params) == 1.0


def test_wrong_settings_are_refused():
    text = "^drop_quantiles must be less than num_quantiles, 3, .* got 3"
    with pytest.raises(ValueError, match=text):
        tqc.Spec(BOX, num_quantiles=3, drop_quantiles=3)
    with pytest.raises(ValueError, match="^num_critics must be an integer of at least 1, got 0"):
        tqc.Spec(BOX, num_critics=0)
    with pytest.raises(ValueError, match="^num_quantiles must be an integer of at least 1, got 0"):
        tqc.Spec(BOX, num_quantiles=0)
    with pytest.raises(ValueError, match=r"^critic_hidden\[0\] must be an integer of at least 1"):
        tqc.Spec(BOX, critic_hidden=(0,))
    with pytest.raises(ValueError, match="^target_entropy must be a number, got nan"):
        tqc.Spec(BOX, target_entropy=float("nan"))
    with pytest.raises(ValueError, match="^normalise_obs must be True or False, got 1"):
        tqc.Spec(BOX, normalise_obs=1)


def test_defaults_are_those_of_the_page():
    spec = tqc.Spec(BOX)
    assert (spec.hidden, spec.critic_hidden, spec.activation) == ((256, 256), None, "relu")
    assert (spec.num_critics, spec.num_quantiles, spec.drop_quantiles) == (2, 25, 2)
    assert (spec.gamma, spec.polyak, spec.lr) == (0.99, 0.995, 3e-4)
    assert (spec.alpha_init, spec.target_entropy) == (1.0, None)
    schedule = tqc.SCHEDULE.settle()
    assert (schedule.batch_size, schedule.start_steps) == (256, 10_000)
