"""DDPG compared with numbers computed by hand, with and without jit."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from purerl.algos import ddpg
from tests.algos.hand import ONE, Line, batch, both, line, mlp
from tests.cases import CASES


def learner(actor, critic, target_actor=None, target_critic=None, **spec):
    state = ddpg.init(jax.random.key(0), ddpg.Spec(ONE, Line(), Line(critic=True), **spec))
    params = dataclasses.replace(
        state.params,
        actor=actor,
        critic=critic,
        target_actor=jax.tree.map(jnp.copy, target_actor or actor),
        target_critic=jax.tree.map(jnp.copy, target_critic or critic),
    )
    return dataclasses.replace(state, params=params)


@both
def test_target_uses_both_target_networks(wrap):
    params = learner(line(9.0), line(9.0, 9.0), line(0.0, 0.5), line(2.0, 10.0)).params
    value, info = wrap(ddpg.critic_loss)(params, batch(rew=1.0))
    assert info["target"] == pytest.approx(1 + 0.99 * 11.0)
    assert info["q"] == 9.0
    assert value == info["loss_q"] == pytest.approx((9 - 11.89) ** 2, rel=1e-5)


@both
def test_only_termination_stops_bootstrapping(wrap):
    params = learner(line(0.0), line(0.0, 3.0)).params
    ends = batch(rew=1.0, rows=2)._replace(terminated=jnp.array([True, False]))
    ends = ends._replace(truncated=jnp.array([True, True]))
    assert wrap(ddpg.critic_loss)(params, ends)[1]["target"] == pytest.approx((1 + 3.97) / 2)


@both
def test_losses_of_the_default_networks_equal_a_numpy_program(wrap):
    case = CASES["ddpg"]
    learners = [ddpg.init(jax.random.key(k), case.spec()).params for k in (0, 1)]
    params = dataclasses.replace(
        learners[0], target_actor=learners[1].actor, target_critic=learners[1].critic
    )
    b = case.batch()
    middle, half = np.array([0.0, 0.5]), np.array([2.0, 0.5])
    next_act = np.tanh(mlp(params.target_actor, b.next_obs))
    next_q = mlp(params.target_critic, b.next_obs, next_act)[:, 0]
    y = b.rew + 0.99 * np.where(b.terminated, 0.0, next_q)
    q = mlp(params.critic, b.obs, (b.act - middle) / half)[:, 0]
    loss_pi = -np.mean(mlp(params.critic, b.obs, np.tanh(mlp(params.actor, b.obs))))
    value, info = wrap(ddpg.loss)(params, b)
    expected = {"loss_q": np.mean((q - y) ** 2), "loss_pi": loss_pi, "q": q.mean()}
    expected |= {"target": y.mean()}
    assert {k: float(v) for k, v in info.items()} == pytest.approx(expected, rel=1e-4)
    assert value == pytest.approx(expected["loss_q"] + loss_pi, rel=1e-4)


def test_update_steps_the_critic_then_the_policy_against_it_then_all_targets():
    # The critic's weight must fall below zero first. Only then does the policy move down.
    state = learner(line(0.0), line(0.05), gamma=0.0, q_lr=0.1, pi_lr=0.01)
    new, info = ddpg.update(state, batch(act=2.0, rew=-1.0, obs=1.0))
    assert new.params.critic["params"]["w"] == pytest.approx(0.05 - 0.1, abs=1e-5)
    assert new.params.actor["params"]["w"] == pytest.approx(-0.01, abs=1e-5)
    assert info["loss_pi"] == pytest.approx(0.1, abs=1e-5)  # -Q of the new critic at action 0
    assert new.params.target_critic["params"]["w"] == pytest.approx(0.05 - 0.0005, abs=1e-6)
    assert new.params.target_actor["params"]["w"] == pytest.approx(-0.00005, abs=1e-7)


@pytest.mark.parametrize(("updates", "expected"), [(1, 0.005), (100, 0.394230), (1000, 0.993346)])
def test_targets_keep_a_fraction_polyak_of_their_old_parameters(updates, expected):
    zero, one = line(0.0, 0.0), line(1.0, 1.0)
    state = learner(one, one, zero, zero, pi_lr=1e-30, q_lr=1e-30)
    run = jax.jit(
        lambda s: jax.lax.scan(lambda s, _: ddpg.update(s, batch()), s, length=updates)[0]
    )
    params = run(state).params
    for tree in (params.target_actor, params.target_critic):
        assert tree["params"]["w"] == pytest.approx(expected, abs=2e-5)


class Peak(nn.Module):
    """Q = -(a - 0.3)^2, whatever the parameters."""

    @nn.compact
    def __call__(self, obs, act):
        unused = self.param("unused", lambda key: jnp.zeros(()))
        return -jnp.square(act[:, 0] - 0.3) + 0.0 * unused


def test_the_policy_climbs_to_the_peak_of_the_critic():
    spec = ddpg.Spec(ONE, critic=Peak(), hidden=(8,), pi_lr=1e-2)
    state = ddpg.init(jax.random.key(0), spec)
    state, _ = jax.lax.scan(lambda s, _: ddpg.update(s, batch(obs=0.5)), state, length=300)
    act = ddpg.policy(state.params, np.float32([0.5]))
    assert ONE.normalise(act)[0] == pytest.approx(0.3, abs=0.01)


def test_exploration_noise_is_in_units_of_the_action_range():
    params = learner(line(1.0), line(0.0), act_noise=0.1).params
    act = np.asarray(ddpg.act(params, np.zeros((20_000, 1), np.float32), jax.random.key(0)))
    assert act.std() == pytest.approx(0.1 * 2.0, rel=0.02)


def test_defaults_are_those_of_spinning_up():
    spec = ddpg.Spec(ONE)
    assert (spec.hidden, spec.activation) == ((256, 256), "relu")
    assert (spec.gamma, spec.polyak, spec.pi_lr, spec.q_lr) == (0.99, 0.995, 1e-3, 1e-3)
    assert spec.act_noise == 0.1
    schedule = ddpg.SCHEDULE.settle()
    assert (schedule.start_steps, schedule.batch_size) == (10_000, 100)


def test_every_dimension_of_a_box_has_its_own_bounds():
    """Spinning Up used high[0] as every upper bound and -high[0] as every lower bound."""
    case = CASES["ddpg"]
    params = ddpg.init(jax.random.key(0), case.spec()).params
    steep = dataclasses.replace(params, actor=jax.tree.map(lambda x: 1e4 * x, params.actor))
    obs = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    act = np.asarray(ddpg.policy(steep, obs))
    assert [set(column) for column in act.T.tolist()] == [{-2.0, 2.0}, {0.0, 1.0}]


def test_loss_is_a_mean_over_rows_and_does_not_broadcast():
    params = learner(line(0.0), line(0.0), gamma=0.0).params
    rows = batch(rows=3)._replace(rew=jnp.array([1.0, 2.0, 3.0]))
    assert ddpg.critic_loss(params, rows)[0] == pytest.approx((1 + 4 + 9) / 3)


@both
def test_q_value_takes_actions_in_the_environments_units(wrap):
    params = learner(line(0.0), line(3.0, 1.0), target_critic=line(9.0)).params
    act = jnp.float32([[[-2.0], [0.0]], [[1.0], [2.0]]])
    values = wrap(ddpg.q_value)(params, jnp.zeros((2, 2, 1)), act)
    chex.assert_trees_all_close(values, jnp.float32([[-2.0, 1.0], [2.5, 4.0]]))
    with pytest.raises(ValueError, match=r"^act must have shape \(2, 2, 1\), got shape \(2, 1\)"):
        ddpg.q_value(params, jnp.zeros((2, 2, 1)), act[0])


@both
def test_values_of_the_default_networks_have_any_leading_axes(wrap):
    params = ddpg.init(jax.random.key(0), CASES["ddpg"].spec()).params
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(4, 2, 3)).astype(np.float32)
    act = rng.uniform([-2.0, 0.0], [2.0, 1.0], (4, 2, 2)).astype(np.float32)
    unit = (act - np.array([[[0.0, 0.5]]])) / np.array([[[2.0, 0.5]]])
    wanted = mlp(params.critic, obs, unit)[..., 0]
    np.testing.assert_allclose(wrap(ddpg.q_value)(params, obs, act), wanted, rtol=1e-4, atol=1e-6)


def test_networks_are_the_modules_of_the_spec():
    own = ddpg.Spec(ONE, Line(), Line(critic=True))
    assert ddpg.networks(own) == (Line(), Line(critic=True))
    assert ddpg.networks(ddpg.Spec(ONE, hidden=(8,))).critic.hidden == (8,)


@both
def test_clipped_targets_stay_between_the_values_of_never_and_always_at_the_goal(wrap):
    """y = -1 - .98 * 80 is below -1 / (1 - .98) = -50, and y = 0 + .98 * 3 is above 0."""
    for rew, value, clipped in ((-1.0, -80.0, -50.0), (0.0, 3.0, 0.0), (-1.0, -9.0, -9.82)):
        params = [
            learner(line(0.0), line(0.0), target_critic=line(0.0, value), gamma=0.98, **on).params
            for on in ({"clip_targets": True}, {})
        ]
        loss, info = wrap(ddpg.critic_loss)(params[0], batch(rew=rew))
        assert info["target"] == pytest.approx(clipped, rel=1e-5)
        assert loss == pytest.approx(clipped**2, rel=1e-5)
        plain = wrap(ddpg.critic_loss)(params[1], batch(rew=rew))[1]["target"]
        assert plain == pytest.approx(rew + 0.98 * value, rel=1e-5)


@both
def test_action_l2_adds_the_mean_square_of_actions_in_unit_range(wrap):
    params = learner(line(2.0), line(3.0), action_l2=0.5).params
    rows = batch(rows=2)._replace(obs=jnp.float32([[0.25], [-0.4]]))
    # Actions 0.5 and -0.8, in [-1, 1]; Q = 3 a; mean square 0.445.
    assert wrap(ddpg.actor_loss)(params, rows)[0] == pytest.approx(0.45 + 0.5 * 0.445, rel=1e-5)


def test_random_actions_replace_all_dimensions_of_an_action_with_their_probability():
    case = CASES["ddpg"]
    spec = case.spec(random_action=0.3, act_noise=0.0)
    params = ddpg.init(jax.random.key(0), spec).params
    obs = np.zeros((20_000, 3), np.float32)
    unit = np.asarray(case.env.normalise(ddpg.act(params, obs, jax.random.key(0))))
    own = np.asarray(case.env.normalise(ddpg.policy(params, obs)))
    replaced = ~np.isclose(unit, own, atol=1e-5)
    assert (replaced[:, 0] == replaced[:, 1]).all()
    assert abs(replaced[:, 0].mean() - 0.3) < 4 * np.sqrt(0.21 / 20_000)
    random = unit[replaced[:, 0]]
    np.testing.assert_allclose(random.mean(axis=0), 0.0, atol=0.04)
    np.testing.assert_allclose(random.var(axis=0), 1 / 3, atol=0.02)
    assert abs(np.corrcoef(random.T)[0, 1]) < 0.06
    noisy = dataclasses.replace(params, spec=case.spec(random_action=0.3, act_noise=0.01))
    unit = np.asarray(case.env.normalise(ddpg.act(noisy, obs, jax.random.key(0))))
    rest = (unit - own)[np.abs(unit - own).max(axis=1) < 0.06]
    assert rest.std() == pytest.approx(0.01, rel=0.1)


def test_without_random_actions_the_noise_has_the_bits_of_the_key():
    params = learner(line(1.0), line(0.0), act_noise=0.1).params
    key, obs = jax.random.key(5), np.zeros((9, 1), np.float32)
    noise = jnp.float32(0.1) * jax.random.normal(key, (9, 1), jnp.float32)
    np.testing.assert_allclose(ddpg.act(params, obs, key), 2.0 * noise, rtol=1e-6)
