"""SAC compared with numbers computed by hand, with and without jit."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from purerl.algos import sac
from purerl.nets import squashed
from purerl.spaces import Box, EnvSpec
from tests.algos.hand import ONE, Line, batch, both, line, mlp
from tests.cases import CASES


class Head(nn.Module):
    """An actor with two parameters, mean and log_std, that ignores the observation."""

    @nn.compact
    def __call__(self, obs):
        mean = self.param("mean", lambda key: jnp.zeros(()))
        log_std = self.param("log_std", lambda key: jnp.zeros(()))
        return mean + 0 * obs, log_std + 0 * obs


def head(mean, log_std):
    return {"params": {"mean": jnp.float32(mean), "log_std": jnp.float32(log_std)}}


def learner(actor, first, second, target_first=None, target_second=None, **spec):
    state = sac.init(jax.random.key(0), sac.Spec(ONE, Head(), Line(critic=True), **spec))
    params = dataclasses.replace(
        state.params,
        actor=actor,
        critic=(first, second),
        target_critic=jax.tree.map(jnp.copy, (target_first or first, target_second or second)),
    )
    return dataclasses.replace(state, params=params)


def draws(first=0.0, second=0.0, rows=1, **fields):
    noise = jnp.tile(jnp.float32([[[first], [second]]]), (rows, 1, 1))  # [B, 2, 1]
    return batch(rows=rows, **fields)._replace(noise=noise)


@both
def test_target_is_the_smaller_target_critic_minus_alpha_log_density(wrap):
    # u = .5 + exp(-.5) * xi is 1 for this xi, whose log-density is the published number.
    logp = 0.108837899
    actor, xi = head(0.5, -0.5), 0.5 * np.exp(0.5)
    params = learner(actor, line(0, 77), line(0, -77), line(0, 10.0), line(0, 9.5), alpha=0.2)
    b = draws(first=xi, second=9.0, rew=1.0)
    value, info = wrap(sac.critic_loss)(params.params, b)
    y = 1 + 0.99 * (9.5 - 0.2 * logp)
    assert info["target"] == pytest.approx(y, rel=1e-5)
    assert value == pytest.approx((77 - y) ** 2 + (-77 - y) ** 2, rel=1e-5)
    ended = b._replace(terminated=jnp.array([True]), truncated=jnp.array([True]))
    assert wrap(sac.critic_loss)(params.params, ended)[1]["target"] == 1.0
    cut = b._replace(truncated=jnp.array([True]))
    assert wrap(sac.critic_loss)(params.params, cut)[1]["target"] == info["target"]


def test_target_of_the_published_example():
    # r 1, gamma .99, q (10, 9.5), alpha .2, logp -1.2 -> 10.6426
    assert pytest.approx(10.6426) == 1 + 0.99 * (9.5 + 0.2 * 1.2)
    # At u = mean = 0 squashing changes nothing, and the log-density is -log_std - log(2 pi) / 2.
    log_std = 1.2 - 0.5 * np.log(2 * np.pi)
    params = learner(head(0.0, log_std), line(0), line(0), line(0, 10.0), line(0, 9.5)).params
    assert sac.critic_loss(params, draws(rew=1.0))[1]["target"] == pytest.approx(10.6426, rel=1e-5)


@both
def test_actor_loss_is_alpha_log_density_minus_the_smaller_critic(wrap):
    actor, xi = head(0.5, -0.5), 0.5 * np.exp(0.5)
    params = learner(actor, line(3.0), line(2.0, 0.1), alpha=0.2).params
    value, info = wrap(sac.actor_loss)(params, draws(first=9.0, second=xi))
    a = np.tanh(1.0)
    assert value == pytest.approx(0.2 * 0.108837899 - min(3 * a, 2 * a + 0.1), rel=1e-5)
    assert info["logp"] == pytest.approx(0.108837899, rel=1e-5)


@both
def test_losses_of_the_default_networks_equal_a_numpy_program(wrap):
    case = CASES["sac-auto"]
    learners = [sac.init(jax.random.key(k), case.spec()).params for k in (0, 1)]
    params = dataclasses.replace(
        learners[0], target_critic=learners[1].critic, log_alpha=jnp.log(0.3)
    )
    b = case.batch(key=None)
    b = b._replace(noise=np.random.default_rng(5).normal(size=(6, 2, 2)).astype(np.float32))
    middle, half = np.array([0.0, 0.5]), np.array([2.0, 0.5])

    def sample(obs, xi):
        mean, log_std = np.split(mlp(params.actor, obs), 2, axis=-1)
        log_std = np.clip(log_std, -20, 2)
        u = mean + np.exp(log_std) * xi
        logp = -0.5 * xi**2 - log_std - 0.5 * np.log(2 * np.pi) - np.log(1 - np.tanh(u) ** 2)
        return np.tanh(u), logp.sum(axis=1)

    next_act, next_logp = sample(b.next_obs, b.noise[:, 0])
    next_q = [mlp(tree, b.next_obs, next_act)[:, 0] for tree in params.target_critic]
    y = b.rew + 0.99 * np.where(b.terminated, 0.0, np.minimum(*next_q) - 0.3 * next_logp)
    q = [mlp(tree, b.obs, (b.act - middle) / half)[:, 0] for tree in params.critic]
    pi, logp = sample(b.obs, b.noise[:, 1])
    q_pi = np.minimum(*(mlp(tree, b.obs, pi)[:, 0] for tree in params.critic))
    expected = {
        "loss_q": sum(np.mean((one - y) ** 2) for one in q),
        "q1": q[0].mean(),
        "q2": q[1].mean(),
        "target": y.mean(),
        "loss_pi": np.mean(0.3 * logp - q_pi),
        "logp": logp.mean(),
        "loss_alpha": -np.log(0.3) * (logp.mean() - 2.0),  # target entropy -2, of two dimensions
        "alpha": 0.3,
    }
    value, info = wrap(sac.loss)(params, b)
    assert {k: float(v) for k, v in info.items()} == pytest.approx(expected, rel=1e-4)
    total = sum(expected[k] for k in ("loss_q", "loss_pi", "loss_alpha"))
    assert value == pytest.approx(total, rel=1e-4)


def test_the_temperature_falls_above_the_target_entropy_and_rises_below_it():
    log_std = 0.3 - 0.5 * np.log(2 * np.pi)  # log-density -0.3 at the mean
    for wanted, gradient in ((-1.0, 1.3), (0.9, -0.6)):
        auto = {"alpha": "auto", "target_entropy": wanted, "lr": 0.02}
        params = learner(head(0.0, log_std), line(0), line(0), **auto)
        grads, _ = jax.grad(sac.alpha_loss, has_aux=True)(params.params, draws())
        assert grads.log_alpha == pytest.approx(gradient, rel=1e-5)
        new, info = sac.update(params, draws())
        assert (new.params.log_alpha < params.params.log_alpha) == (gradient > 0)
        assert new.params.log_alpha == pytest.approx(-0.02 * np.sign(gradient), rel=1e-3)
        assert info["alpha"] == 1.0
        assert info["loss_alpha"] == 0.0  # log of 1


def test_the_target_entropy_is_minus_the_dimensions_unless_given():
    case = CASES["sac-auto"]
    params = dataclasses.replace(
        sac.init(jax.random.key(0), case.spec()).params, log_alpha=jnp.float32(1.0)
    )
    given = dataclasses.replace(params, spec=case.spec(target_entropy=-2.0))
    other = dataclasses.replace(params, spec=case.spec(target_entropy=-3.0))
    b = case.batch()
    assert sac.alpha_loss(params, b)[0] == sac.alpha_loss(given, b)[0]
    assert sac.alpha_loss(other, b)[0] - sac.alpha_loss(given, b)[0] == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("first", [1.0, 0.3, 5.0])
def test_a_learned_temperature_starts_at_alpha_init(first):
    params = learner(head(0.0, 0.0), line(0), line(0), alpha="auto", alpha_init=first).params
    assert params.log_alpha == pytest.approx(np.log(first), abs=1e-6)
    assert sac.temperature(params) == pytest.approx(first, rel=1e-6)


def test_a_fixed_temperature_stays_fixed_and_may_be_zero():
    for alpha in (0.0, 0.2):
        state = learner(head(0.1, 0.0), line(0.5), line(0.5), alpha=alpha)
        new, info = sac.update(state, draws(rew=1.0))
        assert info["alpha"] == pytest.approx(alpha)
        assert new.params.log_alpha == 0.0
        assert all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves(new))


@pytest.mark.parametrize(
    ("given", "bound"), [(-50.0, -20.0), (-19.0, -19.0), (-15.0, -15.0), (-6.0, -6.0), (7.0, 2.0)]
)
def test_log_densities_are_exact_and_the_deviation_is_bounded(given, bound):
    """Densities computed from the rounded sample would be off by 1 at -15."""
    for mean, noise in ((3.0, -1.7), (0.0, 0.6)):
        params = learner(head(mean, given), line(0), line(0)).params
        _, info = sac.actor_loss(params, draws(first=9.0, second=noise))
        u = mean + np.exp(bound) * noise
        logp = -0.5 * noise**2 - bound - 0.5 * np.log(2 * np.pi) + 2 * np.log(np.cosh(u))
        assert info["logp"] == pytest.approx(logp, rel=1e-5)


@pytest.mark.parametrize(("mean", "log_std", "xi"), [(0.5, -0.5, 0.8), (-0.3, 0.4, -1.2)])
def test_the_policy_gradient_flows_through_density_and_action(mean, log_std, xi):
    """Without the path through the density, the gradient is unbiased, but noisy."""
    alpha, slope = 0.3, 0.7
    params = learner(head(mean, log_std), line(slope), line(9.0, 50.0), alpha=alpha).params
    grads, _ = jax.grad(sac.actor_loss, has_aux=True)(params, draws(first=9.0, second=xi))
    spread = np.exp(log_std) * xi  # derivative of u by log std
    a = np.tanh(mean + spread)
    by_u = 2 * alpha * a - slope * (1 - a**2)
    found = grads.actor["params"]
    assert found["mean"] == pytest.approx(by_u, rel=1e-4)
    assert found["log_std"] == pytest.approx(by_u * spread - alpha, rel=1e-4)


def test_update_steps_critics_then_policy_then_targets():
    # The critics' weight must fall below zero first. Only then does the policy's mean move down.
    state = learner(head(0.0, -20.0), line(0.05), line(0.05), gamma=0.0, lr=0.1, alpha=0.0)
    new, info = sac.update(state, draws(act=2.0, rew=-1.0))
    for tree in new.params.critic:
        assert tree["params"]["w"] == pytest.approx(0.05 - 0.1, abs=1e-5)
    assert new.params.actor["params"]["mean"] == pytest.approx(-0.1, abs=1e-4)
    assert info["loss_pi"] == pytest.approx(0.1, abs=1e-5)  # -Q of the new critics at action 0
    for tree in new.params.target_critic:
        assert tree["params"]["w"] == pytest.approx(0.05 - 0.005 * 0.1, abs=1e-6)


def test_the_temperature_loss_uses_the_density_from_before_the_policy_step():
    state = learner(head(0.0, 0.0), line(0), line(0), alpha="auto", lr=0.5, alpha_init=0.5)
    before = sac.alpha_loss(state.params, draws())[0]
    _, info = sac.update(state, draws())
    assert info["loss_alpha"] == pytest.approx(float(before), rel=1e-6)


def test_the_policy_loss_uses_the_temperature_from_before_its_step():
    state = learner(head(0.2, 0.0), line(0), line(0), alpha="auto", lr=0.5, alpha_init=0.5)
    new, info = sac.update(state, draws(second=0.7))
    assert abs(float(new.params.log_alpha - state.params.log_alpha)) > 0.4
    judged = dataclasses.replace(state.params, critic=new.params.critic)
    assert info["loss_pi"] == pytest.approx(float(sac.actor_loss(judged, draws(second=0.7))[0]))


@pytest.mark.parametrize(("updates", "expected"), [(1, 0.005), (100, 0.394230), (1000, 0.993346)])
def test_targets_keep_a_fraction_polyak_of_their_old_parameters(updates, expected):
    zero, one = line(0.0, 0.0), line(1.0, 1.0)
    state = learner(head(0, 0), one, one, zero, zero, lr=1e-30)
    run = jax.jit(lambda s: jax.lax.scan(lambda s, _: sac.update(s, draws()), s, length=updates)[0])
    for tree in run(state).params.target_critic:
        assert tree["params"]["w"] == pytest.approx(expected, abs=2e-5)


class Reward(nn.Module):
    """Q(a) = alpha * log-density of a known squashed Gaussian; parameters have no effect."""

    @nn.compact
    def __call__(self, obs, act):
        unused = self.param("unused", lambda key: jnp.zeros(()))
        u = jnp.arctanh(act.clip(-0.999999, 0.999999))
        wanted = jnp.full_like(u, 0.4), jnp.full_like(u, -1.0)
        return 0.5 * squashed.log_prob(wanted, u) + 0.0 * unused


def test_the_policy_of_a_soft_bandit_becomes_the_exponential_of_the_critic():
    """pi is proportional to exp(Q / alpha), which for this Q is the known squashed Gaussian."""
    spec = sac.Spec(ONE, actor=Head(), critic=Reward(), alpha=0.5, lr=5e-3)
    state = sac.init(jax.random.key(0), spec)
    rows = batch(rows=256)._replace(noise=None)

    def step(state, key):
        state, _ = sac.update(state, rows._replace(key=key))
        return state, state.params.actor["params"]

    _, path = jax.lax.scan(step, state, jax.random.split(jax.random.key(1), 1500))
    assert path["mean"][-500:].mean() == pytest.approx(0.4, abs=0.02)
    assert path["log_std"][-500:].mean() == pytest.approx(-1.0, abs=0.03)


def test_act_samples_and_policy_is_the_squashed_mean():
    params = learner(head(0.3, -1.0), line(0), line(0)).params
    obs = np.zeros((20_000, 1), np.float32)
    act = np.asarray(sac.act(params, obs, jax.random.key(0)))
    u = np.arctanh(act / 2.0)
    assert u.mean() == pytest.approx(0.3, abs=0.01)
    assert u.std() == pytest.approx(np.exp(-1.0), rel=0.02)
    assert sac.policy(params, obs[:1])[0, 0] == pytest.approx(2.0 * np.tanh(0.3), rel=1e-6)


def test_bad_temperatures_are_refused():
    for alpha, message in (("atuo", "or 'auto', got 'atuo'"), (-0.1, "alpha must be a number in")):
        with pytest.raises(ValueError, match=message):
            sac.Spec(ONE, alpha=alpha)
    with pytest.raises(ValueError, match="^target_entropy must be a number, got nan"):
        sac.Spec(ONE, target_entropy=float("nan"))
    for name in ("target_entropy", "alpha_init"):
        sac.Spec(ONE, alpha="auto", **{name: 0.5})
        message = f"^{name} needs a learned temperature, but alpha is fixed at 0.2. Set alpha="
        with pytest.raises(ValueError, match=message):
            sac.Spec(ONE, **{name: 0.5})


def test_defaults_are_those_of_spinning_up():
    spec = sac.Spec(ONE)
    assert (spec.hidden, spec.activation) == ((256, 256), "relu")
    assert (spec.gamma, spec.polyak, spec.lr, spec.alpha) == (0.99, 0.995, 1e-3, 0.2)
    assert (spec.alpha_init, spec.target_entropy) == (1.0, None)
    schedule = sac.SCHEDULE.settle()
    assert (schedule.start_steps, schedule.batch_size) == (10_000, 100)


def test_the_temperature_loss_moves_only_the_temperature():
    """alpha_init is not 1, because log(1) = 0 would hide a missing stop-gradient."""
    state = learner(head(0.1, -0.3), line(0), line(0), alpha="auto", alpha_init=0.3)
    grads, _ = jax.grad(sac.alpha_loss, has_aux=True)(state.params, draws(second=0.7))
    assert grads.log_alpha != 0
    assert all(bool((x == 0).all()) for x in jax.tree.leaves((grads.actor, grads.critic)))


def test_every_dimension_of_a_box_has_its_own_bounds():
    """Spinning Up used high[0] as every upper bound and -high[0] as every lower bound."""
    case = CASES["sac"]
    params = sac.init(jax.random.key(0), case.spec()).params
    steep = dataclasses.replace(params, actor=jax.tree.map(lambda x: 1e4 * x, params.actor))
    obs = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    act = np.asarray(sac.policy(steep, obs))
    assert [set(column) for column in act.T.tolist()] == [{-2.0, 2.0}, {0.0, 1.0}]


def test_densities_do_not_depend_on_the_bounds_of_the_box():
    """Spinning Up scaled the action but not its density, so alpha weighted another entropy."""
    found = []
    for low, high in ((-1.0, 1.0), (-2.0, 2.0), (0.0, 50.0)):
        spec = sac.Spec(EnvSpec((1,), Box((low,), (high,))), Head(), Line(critic=True))
        params = sac.init(jax.random.key(0), spec).params
        params = dataclasses.replace(params, actor=head(0.5, -0.5))
        b = draws(second=0.5 * np.exp(0.5), act=(low + high) / 2)
        found.append(float(sac.actor_loss(params, b)[1]["logp"]))
    assert found == pytest.approx([0.108837899] * 3, rel=1e-5)  # density of the normalised action


def test_loss_is_a_mean_over_rows_and_does_not_broadcast():
    params = learner(head(0.0, 0.0), line(0.0), line(0.0), gamma=0.0).params
    rows = draws(rows=3)._replace(rew=jnp.array([1.0, 2.0, 3.0]))
    assert sac.critic_loss(params, rows)[0] == pytest.approx(2 * (1 + 4 + 9) / 3)


@both
def test_q_value_takes_actions_in_the_environments_units(wrap):
    params = learner(head(0.0, 0.0), line(3.0, 1.0), line(2.0), line(9.0), line(9.0)).params
    act = jnp.float32([[[-2.0], [0.0]], [[1.0], [2.0]]])
    values = wrap(sac.q_value)(params, jnp.zeros((2, 2, 1)), act)
    chex.assert_trees_all_close(
        values, jnp.float32([[[-2.0, 1.0], [2.5, 4.0]], [[-2.0, 0.0], [1.0, 2.0]]])
    )
    with pytest.raises(ValueError, match=r"^act must have shape \(2, 2, 1\), got shape \(2, 1\)"):
        sac.q_value(params, jnp.zeros((2, 2, 1)), act[0])


@both
def test_values_of_the_default_networks_have_any_leading_axes(wrap):
    params = sac.init(jax.random.key(0), CASES["sac"].spec()).params
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(4, 2, 3)).astype(np.float32)
    act = rng.uniform([-2.0, 0.0], [2.0, 1.0], (4, 2, 2)).astype(np.float32)
    unit = (act - np.array([[[0.0, 0.5]]])) / np.array([[[2.0, 0.5]]])
    wanted = np.stack([mlp(tree, obs, unit)[..., 0] for tree in params.critic])
    np.testing.assert_allclose(wrap(sac.q_value)(params, obs, act), wanted, rtol=1e-4, atol=1e-6)


def test_networks_are_the_modules_of_the_spec():
    own = sac.Spec(ONE, Head(), Line(critic=True))
    assert sac.networks(own) == (Head(), Line(critic=True))
    assert sac.networks(sac.Spec(ONE, hidden=(8,))).critic.hidden == (8,)


@both
def test_clipped_targets_include_the_entropy_bonus(wrap):
    """y = 0 + .98 * (-0.1 + .2 * 1.2) is above 0; without its bonus it would be -0.098."""
    log_std = 1.2 - 0.5 * np.log(2 * np.pi)  # log-density -1.2 at the mean
    for rew, value, clipped in ((0.0, -0.1, 0.0), (-1.0, -80.0, -50.0), (-1.0, -9.0, -9.5848)):
        for on in (True, False):
            targets = (line(0.0, value), line(0.0, value + 1))
            spec = {"gamma": 0.98, "clip_targets": on}
            params = learner(head(0.0, log_std), line(0.0), line(0.0), *targets, **spec).params
            loss, info = wrap(sac.critic_loss)(params, draws(rew=rew))
            wanted = clipped if on else rew + 0.98 * (value + 0.24)
            assert info["target"] == pytest.approx(wanted, rel=1e-4, abs=1e-6)
            assert loss == pytest.approx(2 * wanted**2, rel=1e-4, abs=1e-6)
