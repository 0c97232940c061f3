"""VPG: its losses and whole updates, and bugs of Spinning Up and TorchingUp."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from purerl.algos import vpg
from purerl.spaces import Discrete, EnvSpec
from tests.algos import pg
from tests.algos.hand import both, mlp
from tests.cases import BOX, make_rollout

TWO = EnvSpec((1,), Discrete(2))


def learner(**settings):
    spec = vpg.Spec(TWO, actor=pg.Bandit((0.0, np.log(3.0))), critic=pg.Level(), **settings)
    return vpg.init(jax.random.key(0), spec)


@both
def test_losses_equal_known_numbers(wrap):
    batch = pg.rows([0, 1], [1.0, -2.0], ret=[1.0, 5.0])._replace(weight=jnp.array([2.0, 1.0]))
    params = learner().params
    value, info = wrap(vpg.actor_loss)(params, batch)
    assert float(value) == pytest.approx(-(2 * np.log(0.25) - 2 * np.log(0.75)) / 2, rel=1e-5)
    assert set(info) == {"loss_pi", "entropy"}
    value, info = wrap(vpg.critic_loss)(params, batch)
    assert float(value) == pytest.approx((2 * 1 + 9) / 2)  # the value is 2
    assert float(info["val"]) == 2.0


def test_advantages_and_targets_equal_known_numbers():
    """V is 2 everywhere, so deltas are 1 + 0.5 * 2 - 2 = 0, but -1 at the terminal step."""
    rollout = pg.rollout([1.0, 1.0, 1.0], [0, 1, 0], [0, 0, 0])
    state = learner(gamma=0.5, lam=0.5)
    batch = vpg.prepare(state.params, rollout)
    raw = np.array([0.25 * -1.0, -1.0, 0.0])
    np.testing.assert_allclose(batch.adv, (raw - raw.mean()) / raw.std(), rtol=1e-5)
    np.testing.assert_allclose(batch.ret, [1.5, 1.0, 2.0])  # the cut at the end bootstraps
    np.testing.assert_array_equal(batch.val, [2, 2, 2])
    np.testing.assert_allclose(batch.logp, np.log([0.25] * 3), rtol=1e-5)
    mixed = vpg.prepare(learner(gamma=0.5, lam=0.5, value_target="lambda").params, rollout)
    np.testing.assert_allclose(mixed.ret, raw + 2.0)


def test_a_terminal_at_the_last_step_of_an_epoch_does_not_bootstrap():
    """Spinning Up's torch code used V(s) there, and TorchingUp used the last reward."""
    state = learner(gamma=0.5, value_target="mc")
    end = vpg.prepare(state.params, pg.rollout([1.0, 1.0], [0, 1], [0, 0]))
    np.testing.assert_allclose(end.ret, [1.5, 1.0])
    for truncated in ([0, 0], [0, 1]):
        cut = vpg.prepare(state.params, pg.rollout([1.0, 1.0], [0, 0], truncated))
        np.testing.assert_allclose(cut.ret, [1 + 0.5 * 2, 2.0])
    limit = vpg.prepare(state.params, pg.rollout([1.0, 1.0], [0, 1], [0, 1]))
    np.testing.assert_allclose(limit.ret, [1.5, 1.0])  # terminal at the time limit: no bootstrap


def test_next_values_are_those_of_the_true_successors():
    rollout = make_rollout(BOX)
    spec = vpg.Spec(BOX, hidden=(8,), activation="relu", lam=0.0, gamma=0.7)
    params = vpg.init(jax.random.key(0), spec).params
    batch = vpg.prepare(params, rollout)
    v, after = (mlp(params.critic, x.reshape(10, 3))[:, 0] for x in (rollout.obs, rollout.next_obs))
    delta = rollout.rew.ravel() + 0.7 * (1 - rollout.terminated.ravel()) * after - v
    np.testing.assert_allclose(batch.adv, (delta - delta.mean()) / delta.std(), atol=1e-4)


def test_an_update_is_one_policy_step_and_many_value_steps():
    state = learner(train_v_iters=3, pi_lr=0.01, vf_lr=0.1)
    batch = pg.rows([0, 1], [1.0, -1.0], ret=[0.0, 1.0])
    new, info = vpg.update(state, batch)
    tx = optax.adam(0.01)
    grad = jax.grad(lambda a: -((jax.nn.log_softmax(a) * jnp.array([1.0, -1.0])).mean()))
    logits = jnp.float32([0.0, np.log(3.0)])
    step, _ = tx.update(grad(logits), tx.init(logits))
    np.testing.assert_allclose(pg.theta(new.params.actor), logits + step, rtol=1e-5)
    tx, v = optax.adam(0.1), jnp.float32(2.0)
    opt = tx.init(v)
    for _ in range(3):
        step, opt = tx.update(2 * (v - 0.5), opt)
        v = v + step
    assert float(pg.theta(new.params.critic)) == pytest.approx(float(v), rel=1e-5)
    for name, fn in (("loss_pi", vpg.actor_loss), ("loss_v", vpg.critic_loss)):
        before, after = (float(fn(p, batch)[0]) for p in (state.params, new.params))
        assert float(info[name]) == pytest.approx(before, rel=1e-5)
        assert float(info[f"delta_{name}"]) == pytest.approx(after - before, rel=1e-3)


def test_divergence_and_change_of_the_loss_are_measured_after_the_step():
    """Spinning Up's torch code measured them before the step, so they were always zero."""
    new, info = vpg.update(learner(pi_lr=0.1), pg.rows([0, 1], [1.0, -1.0]))
    p = np.array([0.25, 0.75])
    q = np.exp(jax.nn.log_softmax(pg.theta(new.params.actor)))
    assert float(info["kl"]) == pytest.approx(float((p * np.log(p / q)).sum()), rel=1e-3)
    assert float(info["kl"]) > 1e-3
    assert float(info["delta_loss_pi"]) < -1e-2


def test_without_value_steps_the_value_function_does_not_change():
    """Spinning Up's torch code crashed without value steps."""
    state = learner(train_v_iters=0)
    new, info = vpg.update(state, pg.rows([0, 1], [1.0, -1.0]))
    chex.assert_trees_all_equal(new.params.critic, state.params.critic)
    assert float(info["delta_loss_v"]) == 0.0


def test_constant_advantages_give_no_step_and_no_nan():
    """Spinning Up divided by their standard deviation, which is zero."""
    state = learner(gamma=0.0)
    batch = vpg.prepare(state.params, pg.rollout([1.0] * 4, [1] * 4, [0] * 4))
    np.testing.assert_array_equal(batch.adv, np.zeros(4))
    inexact = pg.rollout([1.1] * 4_000, [1] * 4_000, [0] * 4_000)
    np.testing.assert_array_equal(vpg.prepare(state.params, inexact).adv, np.zeros(4_000))
    new, _ = vpg.update(state, batch)
    chex.assert_trees_all_equal(new.params.actor, state.params.actor)


def test_the_actor_loss_gives_the_critic_no_gradient():
    batch = pg.rows([0, 1], [1.0, -1.0])
    grads = jax.grad(lambda p: vpg.actor_loss(p, batch)[0])(learner().params)
    assert not np.any(pg.theta(grads.critic))


def test_defaults_are_those_of_spinning_up():
    spec, schedule = vpg.Spec(TWO), vpg.SCHEDULE
    assert (spec.hidden, spec.activation, spec.initializer) == ((64, 64), "tanh", "torch_uniform")
    assert (spec.gamma, spec.lam, spec.value_target) == (0.99, 0.97, "mc")
    assert (spec.vf_lr, spec.train_v_iters, spec.log_std_init) == (1e-3, 80, -0.5)
    assert spec.pi_lr == 3e-4
    assert (schedule.steps, schedule.settle().steps_per_epoch) == (200_000, 4_000)


@both
def test_values_have_the_leading_axes_of_the_observations(wrap):
    params = vpg.init(jax.random.key(0), vpg.Spec(BOX, hidden=(8,), activation="relu")).params
    obs = np.random.default_rng(0).normal(size=(4, 2, 3)).astype(np.float32)
    values = wrap(vpg.value)(params, obs)
    np.testing.assert_allclose(values, mlp(params.critic, obs)[..., 0], rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match=r"^obs must have shape .*\(3,\)\], got \(4, 2\)"):
        vpg.value(params, obs[..., 0])


def test_networks_are_the_modules_of_the_spec():
    own = vpg.Spec(BOX, actor=pg.Mean(), critic=pg.Level())
    assert vpg.networks(own) == (pg.Mean(), pg.Level())
    assert vpg.networks(vpg.Spec(BOX, hidden=(8,))).critic.hidden == (8,)
