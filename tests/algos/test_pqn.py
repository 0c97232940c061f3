"""PQN compared with numbers by hand and NumPy programs, with and without jit."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn

from purerl.algos import pqn
from purerl.spaces import Discrete, EnvSpec
from purerl.types import PolicyBatch, Rollout
from tests.algos.hand import both

STATES = 7
ENV = EnvSpec((STATES,), Discrete(3, start=2))
ONE_HOT = np.eye(STATES, dtype=np.float32)


class Table(nn.Module):
    """Values of three actions in one-hot states."""

    @nn.compact
    def __call__(self, obs):
        return obs @ self.param("table", lambda key: jnp.zeros((STATES, 3)))


def learner(best=(), **settings):
    """Return a learner whose best values of the states are given; action 3 has them."""
    spec = pqn.Spec(ENV, Table(), **{"minibatch_size": None, "max_grad_norm": None} | settings)
    state = pqn.init(jax.random.key(0), spec)
    q = np.zeros((STATES, 3), np.float32)
    q[: len(best)] = np.array(best, np.float32)[:, None] - np.float32([1, 0, 2])
    return with_table(state, q)


def with_table(state, q):
    params = dataclasses.replace(state.params, critic={"params": {"table": jnp.float32(q)}})
    return dataclasses.replace(state, params=params)


def table(state):
    return np.asarray(state.params.critic["params"]["table"])


def rows(act, ret, weight=1.0, obs=ONE_HOT[:1]):
    """Return a batch of rows in the first state."""
    ret = np.float32(ret)
    full = np.full(ret.shape, weight, np.float32)
    obs = np.broadcast_to(obs, (len(ret), STATES))
    return PolicyBatch(obs, np.int32(act), ret, ret, ret, ret, full)


REW, BEST, AFTER = (1, 0, 2, -1), (3, 1, 4, 2, 5, 7), 5  # the state after a time limit is worth 7


def rollout(terminated=None, truncated=None):
    """Return four steps through states 0 to 4; a time limit is followed by state `AFTER`."""
    next_obs = ONE_HOT[1:5].copy()
    flags = np.zeros((2, 4), bool)
    for flag, t in zip(flags, (terminated, truncated), strict=True):
        if t is not None:
            flag[t] = True
    if truncated is not None:
        next_obs[truncated] = ONE_HOT[AFTER]
    steps = (ONE_HOT[:4], np.int32([2, 3, 4, 2]), np.float32(REW), next_obs, *flags)
    return Rollout(*(x[:, None] for x in steps))


@both
@pytest.mark.parametrize(
    ("ends", "lam", "wanted"),
    [
        ({}, 0.65, (3.65285744, 3.9963375, 4.6775, 3.5)),
        ({"terminated": 1}, 0.65, (1.315, 0.0, 4.6775, 3.5)),
        ({"terminated": 3}, 0.65, (2.75195013, 2.456325, 2.045, -1.0)),
        ({"truncated": 1}, 0.65, (5.0005, 6.3, 4.6775, 3.5)),  # 0 + .9 * 7, from its own successor
        ({"truncated": 3}, 0.65, (4.01322036, 4.6123425, 5.7305, 5.3)),
        ({"terminated": 1, "truncated": 1}, 0.65, (1.315, 0.0, 4.6775, 3.5)),
        ({}, 0.0, (1 + 0.9 * 1, 0 + 0.9 * 4, 2 + 0.9 * 2, -1 + 0.9 * 5)),
        ({}, 1.0, (5.1715, 4.635, 5.15, 3.5)),  # 1 + .81 * 2 - .729 + .6561 * 5
        ({"truncated": 1}, 1.0, (6.67, 6.3, 5.15, 3.5)),
    ],
)
def test_targets_equal_numbers_by_hand(wrap, ends, lam, wanted):
    params = learner(BEST, gamma=0.9, lam=lam).params
    np.testing.assert_allclose(wrap(pqn.prepare)(params, rollout(**ends)).ret, wanted, rtol=1e-6)


def test_targets_of_many_environments_equal_a_numpy_program():
    """It follows the definition forwards: a mean of n-step returns for all n."""
    draw = np.random.default_rng(0)
    shape, gamma, lam = (6, 5), 0.9, 0.7
    now, after = draw.integers(STATES, size=(2, *shape))
    act, rew = draw.integers(2, 5, shape, dtype=np.int32), draw.normal(size=shape)
    terminated, truncated = draw.random((2, *shape)) < 0.2
    q = draw.normal(size=(STATES, 3))
    state = with_table(learner(gamma=gamma, lam=lam, reward_scale=0.5), q)
    steps = Rollout(ONE_HOT[now], act, np.float32(rew), ONE_HOT[after], terminated, truncated)
    batch = pqn.prepare(state.params, steps)
    for i in range(shape[1]):
        for t in range(shape[0]):
            total, left, discount, paid = 0.0, 1.0, 1.0, 0.0
            for u in range(t, shape[0]):
                paid += discount * 0.5 * rew[u, i]
                discount *= gamma
                value = 0.0 if terminated[u, i] else q[after[u, i]].max()
                ends = terminated[u, i] or truncated[u, i] or u + 1 == shape[0]
                weight = left if ends else left * (1 - lam)
                total, left = total + weight * (paid + discount * value), left * lam
                if ends:
                    break
            assert batch.ret.reshape(shape)[t, i] == pytest.approx(total, rel=1e-4, abs=1e-5)
    taken = q[now, act - 2]
    np.testing.assert_allclose(batch.val.reshape(shape), q[now].max(axis=-1), rtol=1e-5)
    np.testing.assert_allclose(batch.adv, batch.ret - taken.reshape(-1), rtol=1e-3, atol=1e-5)


def test_rewards_are_scaled_in_the_targets_alone():
    params = learner(BEST, gamma=0.9, lam=0.65, reward_scale=0.1).params
    scaled = rollout()._replace(rew=10 * rollout().rew)
    wanted = (3.65285744, 3.9963375, 4.6775, 3.5)
    np.testing.assert_allclose(pqn.prepare(params, scaled).ret, wanted, rtol=1e-6)


@both
def test_the_loss_is_half_the_weighted_squared_error_of_the_actions_taken(wrap):
    params = learner((3, 1)).params  # values 2, 3, 1 of actions 2, 3, 4 in the first state
    batch = rows((2, 4), (5.0, -1.0))._replace(weight=np.float32([0.5, 1.5]))
    value, info = wrap(pqn.loss)(params, batch)
    assert value == info["loss_q"] == pytest.approx(0.5 * (0.5 * 3**2 + 1.5 * 2**2) / 2)
    assert info["q"] == pytest.approx((0.5 * 2 + 1.5 * 1) / 2)
    assert info["target"] == pytest.approx((0.5 * 5 - 1.5 * 1) / 2)
    grad = wrap(jax.grad(pqn.critic_loss, has_aux=True))(params, batch)[0].critic
    wanted = np.zeros((STATES, 3))
    wanted[0] = (0.5 * (2 - 5) / 2, 0, 1.5 * (1 + 1) / 2)
    np.testing.assert_allclose(grad["params"]["table"], wanted, rtol=1e-6)


@pytest.mark.parametrize("act", [1, 5])
def test_an_action_outside_the_space_makes_the_loss_nan(act):
    assert np.isnan(pqn.critic_loss(learner().params, rows((2, act), (0, 0)))[0])


@both
def test_values_of_the_default_network_equal_a_numpy_program(wrap):
    """Dense, layer normalisation, ReLU, twice, and then Dense, in float64."""
    params = pqn.init(jax.random.key(1), pqn.Spec(ENV, hidden=(8, 5))).params
    layers = params.critic["params"]["MLP_0"]
    draw = np.random.default_rng(0)
    for name in ("LayerNorm_0", "LayerNorm_1"):  # which start at 1 and 0
        layers[name] = {k: jnp.float32(draw.normal(size=x.shape)) for k, x in layers[name].items()}
    obs = np.float32(draw.normal(size=(4, STATES)))
    x = obs.astype(np.float64)
    for i in range(3):
        dense = {k: np.asarray(v, np.float64) for k, v in layers[f"Dense_{i}"].items()}
        x = x @ dense["kernel"] + dense["bias"]
        if i < 2:
            norm = layers[f"LayerNorm_{i}"]
            x = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-6)
            x = np.maximum(x * np.asarray(norm["scale"]) + np.asarray(norm["bias"]), 0.0)
    np.testing.assert_allclose(wrap(pqn.q_value)(params, obs), x, rtol=1e-4, atol=1e-5)


def test_without_layer_norm_the_network_is_that_of_dqn():
    layers = pqn.init(jax.random.key(1), pqn.Spec(ENV, hidden=(8,), layer_norm=False)).params.critic
    assert sorted(layers["params"]["MLP_0"]) == ["Dense_0", "Dense_1"]


def radam(theta, target, steps, lr):
    """Return a number after steps of RAdam on half its squared distance to a target."""
    m = v = 0.0
    limit = 2 / (1 - 0.999) - 1
    for t in range(1, steps + 1):
        grad = theta - target
        m, v = 0.9 * m + 0.1 * grad, 0.999 * v + 0.001 * grad**2
        first, second = m / (1 - 0.9**t), v / (1 - 0.999**t)
        rho = limit - 2 * t * 0.999**t / (1 - 0.999**t)
        if rho < 5:
            theta -= lr * first
            continue
        scale = (rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho)
        theta -= lr * np.sqrt(scale) * first / (np.sqrt(second) + 1e-8)
    return theta


@pytest.mark.parametrize("passes", [1, 5, 9])
def test_each_pass_is_a_step_of_radam(passes):
    """RAdam adapts its steps from the sixth on. Its scale is off by 1e-4 in float32."""
    state, info = pqn.update(learner((3,), lr=0.1, train_q_iters=passes), rows((3,), (1.0,)))
    assert table(state)[0] == pytest.approx([2.0, radam(3.0, 1.0, passes, 0.1), 1.0], rel=2e-4)
    assert info["loss_q"] == 2.0  # before the update
    after = 0.5 * (radam(3.0, 1.0, passes, 0.1) - 1.0) ** 2
    assert info["delta_loss_q"] == pytest.approx(after - 2.0, rel=1e-3)
    state, info = pqn.update(state, rows((3,), (1.0,)))  # the optimizer keeps its state
    assert table(state)[0, 1] == pytest.approx(radam(3.0, 1.0, 2 * passes, 0.1), rel=2e-4)


def test_the_gradient_norm_is_limited():
    far, settings = rows((3,), (500.0,)), {"lr": 0.1, "train_q_iters": 1}
    state, _ = pqn.update(learner((3,), max_grad_norm=10.0, **settings), far)
    assert table(state)[0, 1] == pytest.approx(3 + 0.1 * 10)
    state, _ = pqn.update(learner((3,), **settings), far)
    assert table(state)[0, 1] == pytest.approx(3 + 0.1 * 497)


@pytest.mark.parametrize("optimizer", [None, optax.sgd])
def test_the_learning_rate_falls_linearly_over_updates(optimizer):
    start = learner((3,), lr=0.1, train_q_iters=1, lr_decay_updates=4, optimizer=optimizer)
    for step, rate in ((0, 1.0), (1, 0.75), (3, 0.25), (4, 0.0), (9, 0.0)):
        state = dataclasses.replace(start, step=jnp.int32(step))
        state, _ = pqn.update(state, rows((3,), (5.0,)))
        assert table(state)[0, 1] == pytest.approx(3 + 0.1 * rate * 2)


def test_epsilon_falls_linearly_over_updates_and_then_stays_constant():
    state = learner(eps_start=0.9, eps_end=0.1, eps_decay=4)
    seen = [float(state.params.epsilon)]
    for _ in range(6):
        state, info = pqn.update(state, rows((2,), (0.0,)))
        assert info["epsilon"] == state.params.epsilon
        seen.append(float(state.params.epsilon))
    assert seen == pytest.approx([0.9, 0.7, 0.5, 0.3, 0.1, 0.1, 0.1])


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_acting_is_random_with_probability_epsilon(epsilon):
    params = learner(BEST, eps_start=epsilon).params
    obs = np.tile(ONE_HOT[:1], (10_000, 1))
    act = np.asarray(pqn.act(params, obs, jax.random.key(0)))
    assert sorted(set(act.tolist())) == ([3] if epsilon == 0 else [2, 3, 4])
    assert (act == 3).mean() == pytest.approx(1 - epsilon + epsilon / 3, abs=0.015)
    assert (act == 2).mean() == pytest.approx(epsilon / 3, abs=0.015)
    assert (np.asarray(pqn.policy(params, obs)) == 3).all()
    wanted = epsilon / 3 + np.array([0, 1 - epsilon, 0])
    np.testing.assert_allclose(np.exp(pqn.distribution(params, obs[0])), wanted, atol=1e-6)
    assert np.isfinite(pqn.distribution(params, obs[0])).all()


def follow(passes, key):
    """Return the value after passes over two rows. Each row replaces the value by its target."""
    settings = {"minibatch_size": 1, "train_q_iters": passes, "lr": 1.0, "optimizer": optax.sgd}
    batch = rows((3, 3), (1.0, 2.0))._replace(key=jax.random.key(key))
    return float(table(pqn.update(learner((3,), **settings), batch)[0])[0, 1])


def test_each_pass_shuffles_the_rows_anew():
    assert {follow(1, key) for key in range(6)} == {1.0, 2.0}
    assert any(follow(1, key) != follow(2, key) for key in range(6))


def test_minibatches_make_a_step_for_each_part_of_each_pass():
    start = learner((3,), minibatch_size=2, train_q_iters=3)
    batch = rows((3,) * 8, (1.0,) * 8)._replace(key=jax.random.key(0))
    opt = pqn.update(start, batch)[0].opt_state["critic"]
    counts = [int(x) for x in jax.tree.leaves(opt) if jnp.issubdtype(x.dtype, jnp.integer)]
    assert counts == [3 * 4]
    with pytest.raises(ValueError, match=r"^batch\.key is None but the minibatches need a key"):
        pqn.update(start, batch._replace(key=None))
    with pytest.raises(ValueError, match="^minibatch_size must divide the 3 rows .*got 2"):
        pqn.update(start, rows((3,) * 3, (1.0,) * 3))


def test_running_statistics_change_after_the_steps_of_an_update():
    obs = np.float32([[1, 2, 3, 4, 5, 6, 7], [3, 2, 1, 0, 0, 0, 1]])
    batch = rows((3, 3), (1.0, 2.0), obs=obs)
    plain, _ = pqn.update(learner((3,), lr=0.1), batch)
    state, _ = pqn.update(learner((3,), lr=0.1, normalise_obs=True), batch)
    np.testing.assert_allclose(table(state), table(plain), rtol=1e-6)
    stats = state.params.obs_stats
    np.testing.assert_allclose(stats.mean, obs.mean(axis=0), rtol=1e-6)
    scaled = (obs - obs.mean(axis=0)) / np.sqrt(obs.var(axis=0) + 1e-8)
    wanted = np.asarray(scaled.clip(-10, 10) @ table(state))
    np.testing.assert_allclose(pqn.q_value(state.params, obs), wanted, rtol=1e-4, atol=1e-5)


def test_networks_are_a_critic_without_a_policy():
    assert pqn.networks(pqn.Spec(ENV, Table())) == (None, Table())


def test_defaults_are_those_of_the_page():
    """The schedule is that of the authors for CartPole: 32 environments with 64 steps each."""
    spec, schedule = pqn.Spec(ENV), pqn.SCHEDULE.resolve(1)
    assert (spec.hidden, spec.activation, spec.layer_norm) == ((128, 128), "relu", True)
    assert (spec.gamma, spec.lam, spec.lr, spec.lr_decay_updates) == (0.99, 0.95, 2.5e-4, None)
    assert (spec.train_q_iters, spec.minibatch_size, spec.max_grad_norm) == (4, 128, 10.0)
    assert (spec.eps_start, spec.eps_end, spec.eps_decay) == (1.0, 0.05, 50)
    assert (spec.reward_scale, spec.normalise_obs) == (1.0, False)
    assert (schedule.num_envs, schedule.rollout_steps, schedule.rollout_length) == (32, 2_048, 64)
    assert schedule.num_test_episodes == 10
