"""REINFORCE: its loss and row weights, and bugs of Spinning Up and TorchingUp."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import mpi
from purerl.algos import reinforce
from purerl.spaces import Box, Discrete, EnvSpec
from tests.algos import pg
from tests.algos.hand import both

TWO = EnvSpec((1,), Discrete(2))


def learner(env=TWO, actor=None, **settings):
    spec = reinforce.Spec(env, actor=actor or pg.Bandit((0.0,) * env.act_dim), **settings)
    return reinforce.init(jax.random.key(0), spec)


@both
def test_the_loss_is_minus_the_mean_of_weighted_log_probabilities(wrap):
    params = learner(actor=pg.Bandit((0.0, np.log(3.0)))).params  # probabilities 1/4 and 3/4
    batch = pg.rows([0, 1, 1], [1.0, 2.0, -4.0])._replace(weight=jnp.array([1.0, 1.0, 0.5]))
    value, info = wrap(reinforce.actor_loss)(params, batch)
    wanted = -(np.log(0.25) + 2 * np.log(0.75) - 2 * np.log(0.75)) / 3
    assert float(value) == pytest.approx(wanted, rel=1e-5)
    entropy = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75)) * 2.5 / 3  # weighted too
    assert float(info["entropy"]) == pytest.approx(entropy, rel=1e-5)


def test_the_gradient_equals_that_of_a_bandits_expected_reward():
    """It is p (1 - p) (r1 - r0) for the second logit if actions occur in proportion to p."""
    p, r0, r1 = 0.75, 1.0, 3.0
    params = learner(actor=pg.Bandit((0.0, np.log(3.0)))).params
    batch = pg.rows([0, 1, 1, 1], [r0, r1, r1, r1])
    grad = pg.theta(jax.grad(lambda q: reinforce.loss(q, batch)[0])(params).actor)
    assert -float(grad[1]) == pytest.approx(p * (1 - p) * (r1 - r0), rel=1e-5)
    assert -float(grad[0]) == pytest.approx(-p * (1 - p) * (r1 - r0), rel=1e-5)


def test_a_constant_return_has_no_gradient_over_the_exact_policy():
    params = learner(actor=pg.Bandit((0.0, np.log(3.0)))).params
    batch = pg.rows([0, 1, 1, 1], [5.0] * 4)
    grad = jax.grad(lambda q: reinforce.loss(q, batch)[0])(params)
    np.testing.assert_allclose(pg.theta(grad.actor), 0.0, atol=1e-6)


def test_log_probabilities_add_up_over_action_dimensions():
    """TorchingUp flattened actions into one column."""
    env = EnvSpec((1,), Box((-1.0, -1.0), (1.0, 1.0)))
    params = reinforce.init(jax.random.key(0), reinforce.Spec(env, hidden=(4,))).params
    act = jnp.array([[0.3, -0.2], [1.5, 0.0]])
    mean, log_std = reinforce.distribution(params, jnp.zeros((2, 1)))
    density = jax.scipy.stats.norm.logpdf(act, mean, jnp.exp(log_std)).sum(axis=1)
    value, _ = reinforce.actor_loss(params, pg.rows(act, [1.0, 1.0]))
    assert float(value) == pytest.approx(-float(density.mean()), rel=1e-5)


@pytest.mark.parametrize(
    ("to_go", "expected"),
    [(True, (5.23, 4.7, 3.0, 4.9, 1.0)), (False, (5.23, 5.23, 5.23, 4.9, 4.9))],
)
def test_reward_to_go_selects_between_the_two_kinds_of_return(to_go, expected):
    end = [0, 0, 1, 0, 1]
    state = learner(reward_to_go=to_go, gamma=0.9, standardise=False)
    batch = reinforce.prepare(state.params, pg.rollout([1, 2, 3, 4, 1], end, [0] * 5))
    np.testing.assert_allclose(batch.adv, expected, rtol=1e-6)
    np.testing.assert_allclose(batch.ret, expected, rtol=1e-6)


def test_steps_of_an_episode_that_the_rollout_cuts_do_not_count():
    state = learner(gamma=1.0)
    rollout = pg.rollout([1, 3, 100, 100], [0, 1, 0, 0], [0] * 4)
    batch = reinforce.prepare(state.params, rollout)
    np.testing.assert_allclose(batch.weight, [2, 2, 0, 0])
    np.testing.assert_allclose(batch.adv[:2], [1, -1], rtol=1e-5)  # from 4 and 3
    for terminated in (rollout.terminated, 0 * rollout.terminated):
        ends = {"terminated": terminated, "truncated": rollout.terminated}
        limited = reinforce.prepare(state.params, rollout._replace(**ends))
        np.testing.assert_allclose(limited.weight, [2, 2, 0, 0])  # a time limit counts as an end


def test_an_end_counts_only_in_its_own_environment():
    two = [pg.rollout([1, 3, 5], end, [0] * 3) for end in ([0, 1, 0], [1, 0, 0])]
    rollout = jax.tree.map(lambda *x: jnp.concatenate(x, axis=1), *two)
    batch = reinforce.prepare(learner(gamma=1.0).params, rollout)
    np.testing.assert_allclose(batch.weight.reshape(3, 2), [[2, 2], [2, 0], [0, 0]])


def test_a_rollout_without_a_finished_episode_changes_nothing():
    """Adam's momentum from earlier updates does not move the policy either."""
    state, _ = reinforce.update(learner(), pg.rows([0, 1], [-1.0, 1.0]))
    batch = reinforce.prepare(state.params, pg.rollout([1, 2, 3], [0] * 3, [0] * 3))
    np.testing.assert_array_equal(batch.weight, [0, 0, 0])
    new, info = reinforce.update(state, batch)
    chex.assert_trees_all_equal(new.params, state.params)
    chex.assert_trees_all_equal(new.opt_state, state.opt_state)
    assert {name: float(x) for name, x in info.items()} == dict.fromkeys(
        f"{name}{end}"
        for name in ("loss_pi", "entropy", "kl", "delta_loss_pi")
        for end in ("", "_count")
    ) | dict.fromkeys(info, 0.0)
    assert float(reinforce.update(state, pg.rows([0, 1], [-1.0, 1.0]))[1]["kl_count"]) == 1.0


def test_equal_returns_of_long_episodes_give_zero_advantages():
    """In a solved task returns differ only by rounding, which must not be scaled up to ±1."""
    state = learner(reward_to_go=False)
    end = np.arange(4_000) % 500 == 499
    batch = reinforce.prepare(state.params, pg.rollout(np.ones(4_000), 0 * end, end))
    np.testing.assert_array_equal(batch.adv, np.zeros(4_000))


def test_equal_returns_are_standardised_to_zero():
    """Standardising must not divide by a standard deviation of zero."""
    state = learner(gamma=0.0)
    batch = reinforce.prepare(state.params, pg.rollout([1] * 4, [1] * 4, [0] * 4))
    np.testing.assert_array_equal(batch.adv, np.zeros(4))


def test_an_update_follows_the_gradient_and_reports_the_changes():
    state = learner(pi_lr=0.1)
    batch = pg.rows([0, 1], [-1.0, 1.0])
    new, info = reinforce.update(state, batch)
    np.testing.assert_allclose(pg.theta(new.params.actor), [-0.1, 0.1], rtol=1e-4)  # by Adam
    q = np.exp(0.2) / (1 + np.exp(0.2))
    assert float(info["kl"]) == pytest.approx(-0.5 * np.log(4 * q * (1 - q)), rel=1e-3)
    before, after = (float(reinforce.loss(p, batch)[0]) for p in (state.params, new.params))
    assert float(info["delta_loss_pi"]) == pytest.approx(after - before, rel=1e-4)
    assert after < before


def test_a_rank_whose_rows_all_have_weight_zero_takes_the_same_step():
    """Otherwise the parameters of the ranks would differ from then on."""
    state = learner(pi_lr=0.1)
    part = pg.rows([0, 1], [-1.0, 1.0])
    parts = jax.tree.map(lambda x: jnp.stack([x, x]), part)
    parts = parts._replace(weight=jnp.array([[0.0, 0.0], [2.0, 2.0]]))
    split = jax.vmap(reinforce.update, in_axes=(None, 0), axis_name=mpi.AXIS)
    new, _ = split(state, parts)
    np.testing.assert_allclose(pg.theta(new.params.actor), [[-0.1, 0.1]] * 2, rtol=1e-4)
    for leaf in jax.tree.leaves(new.opt_state):
        np.testing.assert_array_equal(leaf[0], leaf[1])


def test_defaults_are_those_of_spinning_up():
    """Its two example scripts set the rates, its other algorithms the networks and schedule."""
    spec, schedule = reinforce.Spec(TWO), reinforce.SCHEDULE
    assert (spec.hidden, spec.activation, spec.initializer) == ((64, 64), "tanh", "torch_uniform")
    assert (spec.gamma, spec.pi_lr, spec.log_std_init) == (0.99, 1e-2, -0.5)
    assert spec.reward_to_go
    assert spec.standardise  # instead of a baseline
    assert (schedule.steps, schedule.settle().steps_per_epoch) == (200_000, 4_000)
    assert not schedule.continue_episodes


def test_networks_are_a_policy_without_a_critic():
    own = reinforce.Spec(TWO, actor=pg.Bandit((0.0, 1.0)))
    assert reinforce.networks(own) == (pg.Bandit((0.0, 1.0)), None)


def test_the_distribution_has_the_leading_axes_of_the_observations():
    params = learner(actor=pg.Bandit((1.0, 2.0))).params
    logits = reinforce.distribution(params, jnp.zeros((4, 2, 1)))
    np.testing.assert_array_equal(logits, np.tile([1.0, 2.0], (4, 2, 1)))
