"""TRPO and NPG: steps of known length, and the steps that the line search must refuse."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos import trpo
from tests.algos import pg
from tests.algos.hand import both, mlp
from tests.cases import BOX

THREE = ((0.5, 0.3, 0.2), (0.3, -0.1, -0.2))  # probabilities, a gradient


def normal(**settings):
    """Return a Gaussian with mean 0 and deviation 0.5, so F = 4, and the loss gradient is 2."""
    spec = trpo.Spec(pg.UNIT, actor=pg.Mean(), critic=pg.Level(), **settings)
    logp = -0.5 - np.log(0.5) - 0.5 * np.log(2 * np.pi)  # of action 0.5
    batch = pg.rows([[0.5]], [-1.0], logp=logp)
    return trpo.init(jax.random.key(0), spec), batch


def softmax(**settings):
    actor = pg.Bandit(tuple(float(np.log(p)) for p in THREE[0]))
    spec = trpo.Spec(pg.THREE, actor=actor, critic=pg.Level(), **settings)
    batch = pg.rows([0, 1, 2], [0.0, 0.0, 0.0], logp=np.log(THREE[0]))
    return trpo.init(jax.random.key(0), spec), batch


def grad_of(state, batch):
    return jax.grad(lambda p: trpo.actor_loss(p, batch)[0])(state.params).actor


@both
def test_the_surrogate_is_weighted_by_the_ratio(wrap):
    state, _ = softmax()
    batch = pg.rows([0, 1], [2.0, -1.0], logp=np.log([0.25, 0.6]))
    value, _ = wrap(trpo.actor_loss)(state.params, batch)
    assert float(value) == pytest.approx(-(2.0 * 2.0 - 1.0 * 0.5) / 2, rel=1e-5)


@pytest.mark.parametrize(
    ("damping", "step", "kl"), [(0.0, 0.0707107, 0.01), (0.1, 0.069843, 0.0097561)]
)
def test_the_step_of_a_gaussian_has_the_length_of_the_quadratic_model(damping, step, kl):
    state, batch = normal(damping_coeff=damping)
    grad = grad_of(state, batch)
    assert float(pg.theta(grad)[0]) == pytest.approx(2.0, rel=1e-5)
    full = trpo.natural_step(state.params, batch, grad)
    assert float(pg.theta(full)[0]) == pytest.approx(step, rel=1e-4)
    moved, _ = trpo.update(state, batch)
    assert float(trpo.divergence(moved.params, state.params, batch)) == pytest.approx(kl, rel=1e-3)


def test_the_fisher_product_of_a_softmax_equals_known_numbers():
    state, batch = softmax(damping_coeff=0.1)
    vector = {"params": {"theta": jnp.float32([1, -2, 0.5])}}

    def kl(actor):
        return trpo.divergence(state.params.replace(actor=actor), state.params, batch)

    product = jax.jvp(jax.grad(kl), (state.params.actor,), (vector,))[1]
    np.testing.assert_allclose(pg.theta(product), [0.5, -0.6, 0.1], atol=1e-6)


def test_the_step_of_a_softmax_equals_known_numbers():
    state, batch = softmax(damping_coeff=0.1, delta=0.01)
    step = trpo.natural_step(state.params, batch, {"params": {"theta": jnp.float32(THREE[1])}})
    np.testing.assert_allclose(pg.theta(step), [0.164599, -0.027951, -0.136649], rtol=1e-4)
    for sign, kl in ((1.0, 0.00756871), (-1.0, 0.00774534)):
        actor = jax.tree.map(lambda a, s, sign=sign: a + sign * s, state.params.actor, step)
        new = state.params.replace(actor=actor)
        assert float(trpo.divergence(new, state.params, batch)) == pytest.approx(kl, rel=1e-4)


def test_the_divergence_is_kl_from_the_old_policy_to_the_new():
    state, batch = softmax()
    other = state.params.replace(actor={"params": {"theta": jnp.log(jnp.float32([0.2, 0.2, 0.6]))}})
    p, q = np.array(THREE[0]), np.array([0.2, 0.2, 0.6])
    got = float(trpo.divergence(other, state.params, batch))
    assert got == pytest.approx(float((p * np.log(p / q)).sum()), rel=1e-5)


def test_conjugate_gradients_solve_a_system_in_as_many_steps_as_dimensions():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(10, 10))
    a = a @ a.T / 10 + np.eye(10)
    b = rng.normal(size=10)
    matrix = jnp.float32(a)
    for iters in (10, 40):  # more steps stay at the solution
        x = trpo.conjugate_gradient(lambda v: matrix @ v, jnp.float32(b), iters)
        np.testing.assert_allclose(x, np.linalg.solve(a, b), atol=2e-6 * 10)
    one = trpo.conjugate_gradient(lambda v: 4.0 * v, jnp.float32(b), 1)  # a single eigenvalue
    np.testing.assert_allclose(one, b / 4, rtol=1e-6)
    zero = trpo.conjugate_gradient(lambda v: matrix @ v, jnp.zeros(10), 10)
    np.testing.assert_array_equal(zero, np.zeros(10))


@pytest.mark.parametrize("step", [-1.0, float("nan"), 1e30])
def test_a_step_that_never_helps_leaves_the_policy_bit_for_bit_identical(step):
    state, batch = normal(backtrack_iters=7)
    params, info = trpo.line_search(state.params, batch, {"params": {"theta": jnp.full(1, step)}})
    chex.assert_trees_all_equal(params, state.params)
    assert float(info["accepted"]) == 0.0
    assert float(info["backtrack_iters"]) == 7.0


def test_a_step_that_is_too_long_is_shortened_to_the_first_accepted():
    state, batch = normal(backtrack_coeff=0.8, delta=0.01)
    step = 3 * 0.0707107  # KL 0.09: j = 5 is the first with 0.8^(2 j) * 0.09 < 0.01
    params, info = trpo.line_search(state.params, batch, {"params": {"theta": jnp.full(1, step)}})
    assert float(info["backtrack_iters"]) == 5.0
    assert float(pg.theta(params.actor)[0]) == pytest.approx(-(0.8**5) * step, rel=1e-5)
    params, info = trpo.line_search(state.params, batch, {"params": {"theta": jnp.full(1, 0.0707)}})
    assert (float(info["backtrack_iters"]), float(info["accepted"])) == (0.0, 1.0)


def test_a_step_within_the_bound_that_raises_the_loss_is_shortened():
    """The line search refuses a step that raises the loss, whatever its divergence."""
    state, _ = normal(delta=10.0)
    logp = float(jax.scipy.stats.norm.logpdf(0.5, 0.0, 0.5))
    batch = pg.rows([[0.5]], [1.0], logp=logp)  # the loss is lowest with the mean at 0.5
    params, info = trpo.line_search(state.params, batch, {"params": {"theta": jnp.full(1, -2.0)}})
    assert float(info["backtrack_iters"]) == 4.0  # 2, 1.6, 1.28, 1.02, 0.82 < 1
    assert float(pg.theta(params.actor)[0]) == pytest.approx(2 * 0.8**4, rel=1e-5)


def test_npg_takes_the_full_step_without_a_line_search():
    state, batch = normal(method="npg", damping_coeff=0.0, delta=4.0)
    new, info = trpo.update(state, batch)
    assert float(pg.theta(new.params.actor)[0]) == pytest.approx(-(4.0**0.5) * 0.707107, rel=1e-4)
    assert "backtrack_iters" not in info
    assert float(info["kl"]) == pytest.approx(4.0, rel=1e-3)


def test_an_update_reports_the_losses_before_it_and_their_changes():
    state, batch = normal(train_v_iters=5, vf_lr=0.1)
    batch = batch._replace(ret=jnp.array([0.0]))
    new, info = trpo.update(state, batch)
    for name, fn in (("loss_pi", trpo.actor_loss), ("loss_v", trpo.critic_loss)):
        before, after = (float(fn(p, batch)[0]) for p in (state.params, new.params))
        assert float(info[name]) == pytest.approx(before, rel=1e-5)
        assert float(info[f"delta_{name}"]) == pytest.approx(after - before, rel=1e-3)
        assert after < before
    assert float(info["kl"]) == pytest.approx(0.0097561, rel=1e-3)
    assert (float(info["backtrack_iters"]), float(info["accepted"])) == (0.0, 1.0)


@pytest.mark.parametrize("method", ["trpo", "npg"])
def test_zero_advantages_without_value_steps_change_nothing(method):
    state, batch = normal(train_v_iters=0, method=method)
    new, info = trpo.update(state, batch._replace(adv=jnp.zeros(1)))
    chex.assert_trees_all_equal(new.params, state.params)
    assert all(np.isfinite(x) for x in info.values())


def test_a_terminal_at_the_last_step_does_not_bootstrap():
    spec = trpo.Spec(pg.THREE, actor=pg.Bandit((0.0,) * 3), critic=pg.Level(), gamma=0.5)
    params = trpo.init(jax.random.key(0), spec).params
    end = trpo.prepare(params, pg.rollout([1.0, 1.0], [0, 1], [0, 0]))
    cut = trpo.prepare(params, pg.rollout([1.0, 1.0], [0, 0], [0, 1]))
    np.testing.assert_allclose(end.ret, [1.5, 1.0])
    np.testing.assert_allclose(cut.ret, [2.0, 2.0])
    raw = 1.0 + 0.5 * 2 * np.array([1, 0]) - 2.0
    raw[0] += 0.5 * 0.97 * raw[1]
    np.testing.assert_allclose(end.adv, (raw - raw.mean()) / raw.std(), rtol=1e-5)
    mixed = params.replace(spec=dataclasses.replace(params.spec, value_target="lambda"))
    batch = trpo.prepare(mixed, pg.rollout([1.0, 1.0], [0, 1], [0, 0]))
    np.testing.assert_allclose(batch.ret, raw + 2.0, rtol=1e-6)


def test_the_error_of_the_values_is_squared_and_weighted():
    state, batch = softmax()
    batch = batch._replace(ret=jnp.array([1.0, 5.0, 2.0]), weight=jnp.array([1.0, 0.5, 1.0]))
    value, info = trpo.critic_loss(state.params, batch)
    assert float(value) == pytest.approx((1 + 0.5 * 9) / 3)  # the value is 2
    assert float(info["val"]) == 2.0


def test_advantages_use_the_setting_lam():
    """V is 2 everywhere, so deltas are 1 + 0.5 * 2 - 2 = 0, but -1 at the terminal step."""
    state, _ = softmax(gamma=0.5, lam=0.25)
    batch = trpo.prepare(state.params, pg.rollout([1.0, 1.0, 1.0], [0, 1, 0], [0, 0, 0]))
    raw = np.array([0.5 * 0.25 * -1.0, -1.0, 0.0])
    np.testing.assert_allclose(batch.adv, (raw - raw.mean()) / raw.std(), rtol=1e-5)


def test_each_value_step_continues_adam_from_the_step_before():
    state, batch = normal(train_v_iters=5, vf_lr=0.1)
    new, _ = trpo.update(state, batch._replace(ret=jnp.array([1.85])))
    v, m, n = 2.0, 0.0, 0.0
    for step in range(1, 6):  # the second step overshoots the target
        grad = 2 * (v - 1.85)
        m, n = 0.9 * m + 0.1 * grad, 0.999 * n + 0.001 * grad**2
        v -= 0.1 * m / (1 - 0.9**step) / (np.sqrt(n / (1 - 0.999**step)) + 1e-8)
    assert float(pg.theta(new.params.critic)) == pytest.approx(v, rel=1e-4)


def test_the_reported_divergence_is_kl_from_the_old_policy_to_the_new():
    state, batch = softmax(method="npg", delta=0.5, damping_coeff=0.0)
    new, info = trpo.update(state, batch._replace(adv=jnp.array([1.0, -1.0, 0.5])))
    p, q = np.array(THREE[0]), np.exp(np.float64(pg.theta(new.params.actor)))
    q /= q.sum()
    right, wrong = (p * np.log(p / q)).sum(), (q * np.log(q / p)).sum()
    assert abs(right / wrong - 1) > 0.1
    assert float(info["kl"]) == pytest.approx(right, rel=1e-4)


def test_the_conjugate_gradient_takes_cg_iters_steps():
    """One step follows the gradient itself, with the length that the quadratic model gives."""
    state, batch = softmax(cg_iters=1, damping_coeff=0.0, delta=0.01)
    p, g = np.array(THREE[0]), np.array(THREE[1])
    step = trpo.natural_step(state.params, batch, {"params": {"theta": jnp.float32(g)}})
    fisher = np.diag(p) - np.outer(p, p)
    np.testing.assert_allclose(pg.theta(step), g * np.sqrt(0.02 / (g @ fisher @ g)), rtol=1e-4)


def test_defaults_are_those_of_spinning_up():
    spec, schedule = trpo.Spec(pg.THREE), trpo.SCHEDULE
    assert (spec.hidden, spec.activation, spec.initializer) == ((64, 64), "tanh", "torch_uniform")
    assert (spec.gamma, spec.lam, spec.value_target) == (0.99, 0.97, "mc")
    assert (spec.vf_lr, spec.train_v_iters, spec.log_std_init) == (1e-3, 80, -0.5)
    assert (spec.method, spec.delta, spec.damping_coeff) == ("trpo", 0.01, 0.1)
    assert (spec.cg_iters, spec.backtrack_iters, spec.backtrack_coeff) == (10, 10, 0.8)
    assert (schedule.steps, schedule.settle().steps_per_epoch) == (200_000, 4_000)


@both
def test_values_have_the_leading_axes_of_the_observations(wrap):
    params = trpo.init(jax.random.key(0), trpo.Spec(BOX, hidden=(8,), activation="relu")).params
    obs = np.random.default_rng(0).normal(size=(4, 2, 3)).astype(np.float32)
    values = wrap(trpo.value)(params, obs)
    np.testing.assert_allclose(values, mlp(params.critic, obs)[..., 0], rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match=r"^obs must have shape .*\(3,\)\], got \(4, 2\)"):
        trpo.value(params, obs[..., 0])


def test_networks_are_the_modules_of_the_spec():
    own = trpo.Spec(BOX, actor=pg.Mean(), critic=pg.Level())
    assert trpo.networks(own) == (pg.Mean(), pg.Level())
    assert trpo.networks(trpo.Spec(BOX, hidden=(8,))).critic.hidden == (8,)
