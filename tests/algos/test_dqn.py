"""DQN compared with published numbers and a NumPy program, with and without jit."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from purerl.algos import dqn
from purerl.spaces import Discrete, EnvSpec
from purerl.types import Batch
from tests.algos.hand import both, mlp
from tests.cases import CASES

THREE = EnvSpec(obs_shape=(2,), action=Discrete(3))


class Table(nn.Module):
    """Values of three actions in two one-hot states."""

    @nn.compact
    def __call__(self, obs):
        return obs @ self.param("table", lambda key: jnp.zeros((2, 3)))


def table(*rows):
    return {"params": {"table": jnp.float32(rows)}}


def learner(q, target, env=THREE, double=False, **spec):
    spec = dqn.Spec(env, Table(), double=double, **spec)
    state = dqn.init(jax.random.key(0), spec)
    params = dataclasses.replace(state.params, critic=table(*q), target_critic=table(*target))
    return dataclasses.replace(state, params=params)


def pair(act=(0, 1), rew=(1.0, 1.0), terminated=(True, False), swap=False):
    """Return a batch of states 0 and 1. The successor is the same state, or with swap the other."""
    obs = np.eye(2, dtype=np.float32)
    flags = np.zeros(2, bool)
    next_obs = obs[::-1] if swap else obs
    return Batch(obs, np.int32(act), np.float32(rew), next_obs, np.array(terminated), flags)


@both
def test_the_loss_of_a_published_example(wrap):
    # rlax: q [[1,1,0],[1,2,0]], a [0,1], r 1, discounts [0,1], next q [[0,1,0],[1,2,0]] -> [0,1]
    q, target = ([1, 1, 0], [1, 2, 0]), ([0, 1, 0], [1, 2, 0])
    params = learner(q, target, gamma=1.0, huber=False).params
    value, info = wrap(dqn.critic_loss)(params, pair())
    assert value == pytest.approx((0.5 * 0**2 + 0.5 * 1**2) / 2)
    assert (info["q"], info["target"]) == (1.5, 2.0)


@both
def test_double_q_chooses_with_the_online_and_values_with_the_target_network(wrap):
    # rlax: values [[99,1,98],[91,2,66]], selector [[2,10,1],[11,20,1]] -> errors [0,1] again.
    # The online network is also the selector here, so its values of the actions taken are 2 and 20.
    selector, values = ([2, 10, 1], [11, 20, 1]), ([99, 1, 98], [91, 2, 66])
    for double, targets in ((True, (1 + 1.0, 1 + 2.0)), (False, (1 + 99.0, 1 + 91.0))):
        params = learner(selector, values, gamma=1.0, double=double, huber=False).params
        value, info = wrap(dqn.critic_loss)(params, pair(terminated=(False, False)))
        assert info["target"] == np.mean(targets)
        errors = np.array([2 - targets[0], 20 - targets[1]])
        assert value == pytest.approx(np.mean(0.5 * errors**2))


@both
def test_the_target_network_values_only_the_next_state(wrap):
    q, target = ([5, 6, 7], [8, 9, 10]), ([1, 2, 3], [40, 50, 60])
    params = learner(q, target, gamma=0.5).params
    _, info = wrap(dqn.critic_loss)(params, pair(terminated=(False, False), swap=True))
    assert info["target"] == pytest.approx(1 + 0.5 * (60 + 3) / 2)
    assert info["q"] == (5 + 9) / 2


@both
def test_only_termination_stops_bootstrapping(wrap):
    params = learner(([0, 0, 0],) * 2, ([9, 9, 9],) * 2).params
    b = pair(terminated=(True, False))._replace(truncated=np.array([True, True]))
    assert wrap(dqn.critic_loss)(params, b)[1]["target"] == pytest.approx((1 + 1 + 0.99 * 9) / 2)


@pytest.mark.parametrize(("huber", "value", "slope"), [(True, 2.5, 1.0), (False, 4.5, 3.0)])
def test_huber_has_slope_one_beyond_an_error_of_one(huber, value, slope):
    params = learner(([3, 0, 0],) * 2, ([0, 0, 0],) * 2, huber=huber).params
    one = jax.tree.map(lambda x: x[:1], pair(rew=(0.0, 0.0)))
    assert dqn.critic_loss(params, one)[0] == pytest.approx(value)
    grads, _ = jax.grad(dqn.critic_loss, has_aux=True)(params, one)
    np.testing.assert_allclose(grads.critic["params"]["table"], [[slope, 0, 0], [0, 0, 0]])
    inside = learner(([0.5, 0, 0],) * 2, ([0, 0, 0],) * 2, huber=huber).params
    assert dqn.critic_loss(inside, one)[0] == pytest.approx(0.125)


@both
@pytest.mark.parametrize("name", ["dqn", "dqn-double"])
def test_the_loss_of_the_default_network_equals_a_numpy_program(wrap, name):
    case = CASES[name]
    learners = [dqn.init(jax.random.key(k), case.spec()).params for k in (0, 1)]
    params = dataclasses.replace(learners[0], target_critic=learners[1].critic)
    b = case.batch()
    next_q = mlp(params.target_critic, b.next_obs)
    chooser = mlp(params.critic, b.next_obs) if name == "dqn-double" else next_q
    rows = np.arange(6)
    y = b.rew + 0.99 * np.where(b.terminated, 0.0, next_q[rows, chooser.argmax(axis=1)])
    q = mlp(params.critic, b.obs)[rows, b.act - 1]  # the space starts at 1
    error = np.abs(q - y)
    huber = np.where(error <= 1, 0.5 * error**2, error - 0.5)
    value, info = wrap(dqn.loss)(params, b)
    expected = np.mean(0.5 * error**2 if name == "dqn-double" else huber)
    assert value == info["loss_q"] == pytest.approx(expected, rel=1e-4)
    assert info["q"] == pytest.approx(q.mean(), rel=1e-4)
    assert info["target"] == pytest.approx(y.mean(), rel=1e-4)


def test_the_target_network_is_copied_at_the_set_interval():
    state = learner(([1, 2, 3],) * 2, ([0, 0, 0],) * 2, target_every=3)
    copied = []
    for _ in range(7):
        before = state.params.target_critic
        state, _ = dqn.update(state, pair())
        after = state.params.target_critic
        copied.append(not np.array_equal(*(t["params"]["table"] for t in (before, after))))
        if copied[-1]:
            np.testing.assert_array_equal(
                after["params"]["table"], state.params.critic["params"]["table"]
            )
    assert copied == [False, False, True, False, False, True, False]


def test_epsilon_falls_linearly_over_updates_and_then_stays_constant():
    state = learner(([0, 0, 0],) * 2, ([0, 0, 0],) * 2, eps_start=0.9, eps_end=0.1, eps_decay=4)
    seen = [float(state.params.epsilon)]
    for _ in range(6):
        state, info = dqn.update(state, pair())
        assert info["epsilon"] == state.params.epsilon
        seen.append(float(state.params.epsilon))
    assert seen == pytest.approx([0.9, 0.7, 0.5, 0.3, 0.1, 0.1, 0.1])


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_acting_is_random_with_probability_epsilon(epsilon):
    env = EnvSpec((2,), Discrete(3, start=5))
    state = learner(([1, 3, 2], [1, 2, 3]), ([0, 0, 0],) * 2, env=env, eps_start=epsilon)
    obs = np.tile(np.eye(2, dtype=np.float32), (10_000, 1))
    act = np.asarray(dqn.act(state.params, obs, jax.random.key(0)))
    assert sorted(set(act.tolist())) == ([6, 7] if epsilon == 0 else [5, 6, 7])
    greedy = np.asarray(dqn.policy(state.params, obs))
    assert greedy[:4].tolist() == [6, 7, 6, 7]
    assert (act == greedy).mean() == pytest.approx(1 - epsilon * 2 / 3, abs=0.01)
    assert (act == 5).mean() == pytest.approx(epsilon / 3, abs=0.01)


def test_defaults_are_those_that_solve_cartpole():
    """Spinning Up has no DQN. The docstring of the module describes how they were found."""
    spec, schedule = dqn.Spec(THREE), dqn.SCHEDULE.settle()
    assert (spec.hidden, spec.activation) == ((256, 256), "relu")
    assert (spec.gamma, spec.lr, spec.target_every) == (0.99, 3e-4, 100)
    assert (spec.double, spec.huber) == (True, True)
    assert (spec.eps_start, spec.eps_end, spec.eps_decay) == (1.0, 0.04, 4_000)
    assert (schedule.start_steps, schedule.update_after, schedule.batch_size) == (1_000, 1_000, 64)
    assert (schedule.steps, schedule.steps_per_epoch, schedule.replay_size) == (
        50_000,
        2_500,
        100_000,
    )
    assert schedule.resolve(1).update_every == schedule.resolve(1).updates_per_burst == 50


@pytest.mark.parametrize("act", [(0, -1), (0, 3)])
def test_an_action_outside_the_space_makes_the_loss_nan(act):
    params = learner(([1, 2, 3],) * 2, ([0, 0, 0],) * 2).params
    assert np.isnan(dqn.critic_loss(params, pair(act=act))[0])


def test_the_first_update_is_an_adam_step():
    state = learner(([0, 0, 0],) * 2, ([0, 0, 0],) * 2, lr=0.1)
    new, _ = dqn.update(state, pair(rew=(1.0, -1.0), terminated=(True, True)))
    expected = [[0.1, 0, 0], [0, -0.1, 0]]
    np.testing.assert_allclose(new.params.critic["params"]["table"], expected, atol=1e-5)


def test_values_do_not_broadcast_against_targets():
    """A value `[B, 1]` minus a target `[B]` is `[B, B]`, and its mean would hide the error."""
    params = learner(([1, 2, 3], [4, 5, 6]), ([0, 0, 0],) * 2, huber=False).params
    value, _ = dqn.critic_loss(params, pair(act=(0, 2), rew=(0.0, 5.0), terminated=(True, True)))
    assert value == pytest.approx(0.5 * ((1 - 0) ** 2 + (6 - 5) ** 2) / 2)


@both
def test_values_are_of_all_actions_under_the_online_network(wrap):
    params = learner(([1, 2, 3], [4, 5, 6]), ([9, 9, 9],) * 2).params
    obs = np.float32([[[1, 0], [0, 1]], [[1, 1], [0, 0]]])
    wanted = [[[1, 2, 3], [4, 5, 6]], [[5, 7, 9], [0, 0, 0]]]
    np.testing.assert_array_equal(wrap(dqn.q_value)(params, obs), np.float32(wanted))
    with pytest.raises(ValueError, match=r"^obs must have shape .*\(2,\)\], got \(2, 1\)"):
        dqn.q_value(params, obs[0, :, :1])


def test_networks_are_a_critic_without_a_policy():
    assert dqn.networks(dqn.Spec(THREE, Table())) == (None, Table())


@both
def test_clipped_targets_stay_between_the_values_of_never_and_always_at_the_goal(wrap):
    """y = -1 - .98 * 80 is below -1 / (1 - .98) = -50, and y = 0 + .98 * 3 is above 0."""
    cases = ((-1.0, -80.0, -50.0), (0.0, 3.0, 0.0), (-1.0, -9.0, -9.82))
    for rew, value, clipped in cases:
        for on, wanted in ((True, clipped), (False, rew + 0.98 * value)):
            values = ([value] * 3,) * 2
            spec = {"gamma": 0.98, "clip_targets": on, "huber": False}
            params = learner(([0, 0, 0],) * 2, values, **spec).params
            steps = pair(rew=(rew, rew), terminated=(False, False))
            loss, info = wrap(dqn.critic_loss)(params, steps)
            assert info["target"] == pytest.approx(wanted, rel=1e-5)
            assert loss == pytest.approx(0.5 * wanted**2, rel=1e-5)


def test_clipped_targets_need_a_discount():
    with pytest.raises(ValueError, match=r"^clip_targets needs gamma below 1, .*got gamma 1\.0"):
        dqn.Spec(THREE, gamma=1.0, clip_targets=True)
    with pytest.raises(ValueError, match="^clip_targets must be True or False, got 1"):
        dqn.Spec(THREE, clip_targets=1)
    assert dqn.Spec(THREE, gamma=1.0).clip_targets is False
