"""TD3 compared with numbers computed by hand, with and without jit."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos import td3
from tests.algos.hand import ONE, Line, batch, both, line, mlp
from tests.cases import CASES


def learner(actor, first, second, target_actor=None, target_first=None, target_second=None, **spec):
    """Return a state with these lines as networks. Targets default to the online networks."""
    state = td3.init(jax.random.key(0), td3.Spec(ONE, Line(), Line(critic=True), **spec))
    params = dataclasses.replace(
        state.params,
        actor=actor,
        critic=(first, second),
        target_actor=target_actor or jax.tree.map(jnp.copy, actor),
        target_critic=jax.tree.map(jnp.copy, (target_first or first, target_second or second)),
    )
    return dataclasses.replace(state, params=params)


@both
@pytest.mark.parametrize(
    ("mu", "xi", "expected"),  # in units of an environment with bound 2
    [
        (1.2, 3.0, 2.0),  # std 0.2 * 2, clipped at 0.5 * 2, then at the bound; unscaled: 1.7
        (-0.4, 1.0, 0.0),  # unscaled: -0.2
        (0.0, 9.0, 1.0),  # only the noise is clipped
        (0.0, -9.0, -1.0),
        (-1.2, -3.0, -2.0),
    ],
)
def test_smoothing_noise_is_scaled_and_clipped_and_so_is_the_action(wrap, mu, xi, expected):
    params = learner(line(0.0), line(0.0), line(0.0), target_actor=line(1.0)).params
    act = wrap(td3.target_action)(params, batch(next_obs=mu / 2, noise=xi))
    np.testing.assert_allclose(ONE.denormalise(act), [[expected]], atol=1e-6)


def test_smoothing_uses_its_settings():
    params = learner(line(1.0), line(0.0), line(0.0), target_noise=0.1, noise_clip=0.25).params
    for xi, expected in ((1.0, 0.1), (9.0, 0.25)):
        assert td3.target_action(params, batch(noise=xi))[0, 0] == pytest.approx(expected)


def test_smoothing_without_noise_in_the_batch_is_clipped_standard_normal():
    params = learner(line(1.0), line(0.0), line(0.0)).params
    drawn = batch(rows=20_000)._replace(noise=None, key=jax.random.key(0))
    noise = np.asarray(td3.target_action(params, drawn))[:, 0]
    # A normal of std 0.2 clipped at 2.5 std: variance 0.04 * 0.97889, by numerical integration.
    assert noise.std() == pytest.approx(0.2 * np.sqrt(0.97889), rel=0.02)
    assert noise.max() == pytest.approx(0.5)
    assert (noise == noise.max()).mean() == pytest.approx(0.00621, abs=0.002)


@both
def test_target_is_reward_plus_discounted_minimum_of_the_target_critics(wrap):
    # The online critics are far away, because only target networks may enter the target.
    first, second = line(0.0, 100.0), line(0.0, -100.0)
    params = learner(
        line(50.0), first, second, line(0.0, 0.5), line(2.0, 10.0), line(1.0, 9.5)
    ).params
    # target action 0.5; target critics 2*.5+10 = 11 and 1*.5+9.5 = 10; y = 1 + .99*10 = 10.9
    value, info = wrap(td3.critic_loss)(params, batch(rew=1.0))
    assert info["target"] == pytest.approx(10.9)
    assert value == pytest.approx((100 - 10.9) ** 2 + (-100 - 10.9) ** 2, rel=1e-6)
    assert info["loss_q"] == value
    assert (info["q1"], info["q2"]) == (100.0, -100.0)


@both
def test_target_is_the_reward_when_terminated_and_bootstraps_otherwise(wrap):
    params = learner(line(0.0), line(0.0, 3.0), line(0.0, 3.0)).params
    ends = batch(rew=1.0, rows=2)._replace(terminated=jnp.array([True, False]))
    ends = ends._replace(truncated=jnp.array([True, True]))  # a time limit changes nothing
    value, info = wrap(td3.critic_loss)(params, ends)
    assert info["target"] == pytest.approx((1.0 + 1.0 + 0.99 * 3.0) / 2)
    assert value == pytest.approx(2 * ((3 - 1) ** 2 + (3 - 3.97) ** 2) / 2, rel=1e-5)


@both
def test_the_critic_gets_normalised_actions(wrap):
    params = learner(line(0.0), line(1.0), line(3.0)).params
    value, info = wrap(td3.critic_loss)(params, batch(act=1.0))  # 1 of bound 2 is 0.5
    assert (info["q1"], info["q2"]) == (0.5, 1.5)
    assert value == pytest.approx(0.5**2 + 1.5**2)


def test_critic_gradient_flows_through_the_prediction_only():
    params = learner(line(0.0), line(0.0, 2.0), line(0.0, 5.0)).params
    grads, _ = jax.grad(td3.critic_loss, has_aux=True)(params, batch(rew=1.0))
    target = 1.0 + 0.99 * 2.0
    for grad, q in zip(grads.critic, (2.0, 5.0), strict=True):
        assert grad["params"]["b"] == pytest.approx(2 * (q - target), rel=1e-6)
    assert all(bool((x == 0).all()) for x in jax.tree.leaves((grads.target_critic, grads.actor)))


def test_loss_is_a_mean_over_rows_and_does_not_broadcast():
    params = learner(line(0.0), line(0.0), line(0.0), gamma=0.0).params
    rows = batch(rows=3)._replace(rew=jnp.array([1.0, 2.0, 3.0]))
    assert td3.critic_loss(params, rows)[0] == pytest.approx(2 * (1 + 4 + 9) / 3)


@both
def test_actor_loss_is_minus_the_first_critic_at_the_policy(wrap):
    params = learner(line(1.0), line(3.0, 1.0), line(-7.0, 5.0)).params
    value, info = wrap(td3.actor_loss)(params, batch(obs=0.25, act=2.0))
    assert value == pytest.approx(-(3.0 * 0.25 + 1.0))
    assert info["loss_pi"] == value


def test_actor_gradient_goes_through_the_action_and_leaves_the_critic():
    params = learner(line(1.0), line(3.0), line(-7.0)).params
    grads, _ = jax.grad(td3.actor_loss, has_aux=True)(params, batch(obs=0.25))
    assert grads.actor["params"]["w"] == pytest.approx(-3.0 * 0.25)
    assert all(bool((x == 0).all()) for x in jax.tree.leaves(grads.critic))


def test_ten_updates_move_the_actor_five_times():
    state = learner(line(0.1), line(1.0), line(1.0))
    moved = []
    for _ in range(10):
        before = state
        state, info = td3.update(state, batch(obs=1.0, rew=1.0))
        changed = state.params.actor["params"]["w"] != before.params.actor["params"]["w"]
        targets = jax.tree.leaves((before.params.target_critic, before.params.target_actor))
        new = jax.tree.leaves((state.params.target_critic, state.params.target_actor))
        assert bool(changed) == any(bool(a != b) for a, b in zip(targets, new, strict=True))
        assert bool(changed) == bool(info["loss_pi_count"])
        moved.append(bool(changed))
    assert moved == [True, False] * 5


def test_the_delay_counts_updates_across_bursts_of_one():
    """Spinning Up restarted the count in each burst, so bursts of one update had no delay."""
    state = learner(line(0.1), line(1.0), line(1.0), policy_delay=3)
    one = jax.jit(lambda s, b: jax.lax.scan(td3.update, s, jax.tree.map(lambda x: x[None], b)))
    counts = []
    for _ in range(7):
        state, info = one(state, batch(obs=1.0))
        counts.append(float(info["loss_pi_count"][0]))
    assert counts == [1, 0, 0, 1, 0, 0, 1]


def test_the_first_update_is_adam_in_the_order_of_the_paper():
    # q = 0.05 a, with reward -1 at a = +1. The critic's weight must fall below zero first (Adam's
    # first step is lr * sign). Only then does the actor move down.
    state = learner(line(0.0), line(0.05), line(0.05), gamma=0.0, q_lr=0.1, pi_lr=0.01)
    new, info = td3.update(state, batch(act=2.0, rew=-1.0, obs=1.0))
    for q in new.params.critic:
        assert q["params"]["w"] == pytest.approx(0.05 - 0.1, abs=1e-5)
        assert q["params"]["b"] == pytest.approx(-0.1, abs=1e-5)
    assert new.params.actor["params"]["w"] == pytest.approx(-0.01, abs=1e-5)
    # loss_pi is -Q of the updated critic at the old policy's action 0.
    assert info["loss_pi"] == pytest.approx(0.1, abs=1e-5)
    # Targets move last, half a per cent of the way.
    assert new.params.target_critic[0]["params"]["w"] == pytest.approx(0.05 - 0.005 * 0.1, abs=1e-6)
    assert new.params.target_actor["params"]["w"] == pytest.approx(-0.005 * 0.01, abs=1e-7)


def test_second_adam_step_uses_its_moments():
    state = learner(line(0.0), line(0.0), line(0.0), gamma=0.0, q_lr=0.1)
    for rew in (1.0, 3.0):
        state, _ = td3.update(state, batch(rew=rew))
    # Gradients of b: -2 * 1 = -2, then 2 * (0.1 - 3) = -5.8.
    m, v = 0.9 * 0.1 * -2 + 0.1 * -5.8, 0.999 * 0.001 * 4 + 0.001 * 5.8**2
    step = 0.1 * (m / (1 - 0.9**2)) / (np.sqrt(v / (1 - 0.999**2)) + 1e-8)
    assert state.params.critic[0]["params"]["b"] == pytest.approx(0.1 - step, rel=1e-5)


@pytest.mark.parametrize(("updates", "expected"), [(1, 0.005), (100, 0.394230), (1000, 0.993346)])
def test_targets_keep_a_fraction_polyak_of_their_old_parameters(updates, expected):
    still = {"pi_lr": 1e-30, "q_lr": 1e-30, "policy_delay": 1}
    zero, one = line(0.0, 0.0), line(1.0, 1.0)
    state = learner(one, one, one, zero, zero, zero, **still)
    run = jax.jit(lambda s: jax.lax.scan(lambda s, _: td3.update(s, batch()), s, length=updates)[0])
    params = run(state).params
    for tree in (params.target_actor, *params.target_critic):
        assert tree["params"]["w"] == pytest.approx(expected, abs=2e-5)


def test_policy_is_the_actor_in_the_units_of_the_environment():
    params = learner(line(1.0), line(0.0), line(0.0), act_noise=0.0).params
    for obs, expected in ((0.3, 0.6), (-0.5, -1.0), (7.0, 2.0)):
        assert td3.policy(params, np.float32([obs]))[0] == pytest.approx(expected)
        assert td3.act(params, np.float32([obs]), jax.random.key(0))[0] == pytest.approx(expected)


def test_exploration_noise_is_in_units_of_the_action_range():
    params = learner(line(1.0), line(0.0), line(0.0), act_noise=0.1).params
    act = np.asarray(td3.act(params, np.zeros((20_000, 1), np.float32), jax.random.key(0)))
    assert act.mean() == pytest.approx(0.0, abs=0.01)
    assert act.std() == pytest.approx(0.1 * 2.0, rel=0.02)


def test_defaults_are_those_of_spinning_up():
    spec = td3.Spec(ONE)
    assert (spec.hidden, spec.activation, spec.initializer) == ((256, 256), "relu", "torch_uniform")
    assert (spec.gamma, spec.polyak, spec.pi_lr, spec.q_lr) == (0.99, 0.995, 1e-3, 1e-3)
    assert (spec.act_noise, spec.target_noise, spec.noise_clip, spec.policy_delay) == (
        0.1,
        0.2,
        0.5,
        2,
    )
    schedule = td3.SCHEDULE.settle()
    assert (schedule.steps, schedule.steps_per_epoch, schedule.replay_size) == (
        400_000,
        4_000,
        10**6,
    )
    assert (schedule.batch_size, schedule.start_steps, schedule.update_after) == (
        100,
        10_000,
        1_000,
    )
    assert schedule.resolve(1).update_every == schedule.resolve(1).updates_per_burst == 50
    assert schedule.num_test_episodes == 10


@both
def test_losses_of_the_default_networks_equal_a_numpy_program(wrap):
    """All terms at once. All networks and all fields of the batch have different numbers."""
    case = CASES["td3"]
    learners = [td3.init(jax.random.key(k), case.spec()).params for k in (0, 1)]
    params = dataclasses.replace(
        learners[0], target_actor=learners[1].actor, target_critic=learners[1].critic
    )
    b = case.batch(key=None)
    b = b._replace(noise=4 * np.random.default_rng(5).normal(size=(6, 1, 2)).astype(np.float32))
    middle, half = np.array([0.0, 0.5]), np.array([2.0, 0.5])
    smoothing = np.clip(0.2 * b.noise[:, 0], -0.5, 0.5)
    next_act = np.clip(np.tanh(mlp(params.target_actor, b.next_obs)) + smoothing, -1, 1)
    next_q = [mlp(tree, b.next_obs, next_act)[:, 0] for tree in params.target_critic]
    y = b.rew + 0.99 * np.where(b.terminated, 0.0, np.minimum(*next_q))
    q = [mlp(tree, b.obs, (b.act - middle) / half)[:, 0] for tree in params.critic]
    loss_q = sum(np.mean((one - y) ** 2) for one in q)
    loss_pi = -np.mean(mlp(params.critic[0], b.obs, np.tanh(mlp(params.actor, b.obs))))
    value, info = wrap(td3.loss)(params, b)
    assert value == pytest.approx(loss_q + loss_pi, rel=1e-4)
    expected = {"loss_q": loss_q, "loss_pi": loss_pi, "target": y.mean()}
    expected |= {"q1": q[0].mean(), "q2": q[1].mean()}
    assert {k: float(v) for k, v in info.items()} == pytest.approx(expected, rel=1e-4)


def test_every_dimension_of_a_box_has_its_own_bounds():
    """Spinning Up used high[0] as every upper bound and -high[0] as every lower bound."""
    case = CASES["td3"]
    params = td3.init(jax.random.key(0), case.spec()).params
    steep = dataclasses.replace(params, actor=jax.tree.map(lambda x: 1e4 * x, params.actor))
    obs = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    act = np.asarray(td3.policy(steep, obs))
    assert [set(column) for column in act.T.tolist()] == [{-2.0, 2.0}, {0.0, 1.0}]


@both
def test_q_value_takes_actions_in_the_environments_units(wrap):
    params = learner(line(0.0), line(3.0, 1.0), line(2.0), None, line(9.0), line(9.0)).params
    act = jnp.float32([[[-2.0], [0.0]], [[1.0], [2.0]]])
    values = wrap(td3.q_value)(params, jnp.zeros((2, 2, 1)), act)
    chex.assert_trees_all_close(
        values, jnp.float32([[[-2.0, 1.0], [2.5, 4.0]], [[-2.0, 0.0], [1.0, 2.0]]])
    )
    with pytest.raises(ValueError, match=r"^act must have shape \(2, 2, 1\), got shape \(2, 1\)"):
        td3.q_value(params, jnp.zeros((2, 2, 1)), act[0])


@both
def test_values_of_the_default_networks_have_any_leading_axes(wrap):
    params = td3.init(jax.random.key(0), CASES["td3"].spec()).params
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(4, 2, 3)).astype(np.float32)
    act = rng.uniform([-2.0, 0.0], [2.0, 1.0], (4, 2, 2)).astype(np.float32)
    unit = (act - np.array([[[0.0, 0.5]]])) / np.array([[[2.0, 0.5]]])
    wanted = np.stack([mlp(tree, obs, unit)[..., 0] for tree in params.critic])
    np.testing.assert_allclose(wrap(td3.q_value)(params, obs, act), wanted, rtol=1e-4, atol=1e-6)


def test_networks_are_the_modules_of_the_spec():
    own = td3.Spec(ONE, Line(), Line(critic=True))
    assert td3.networks(own) == (Line(), Line(critic=True))
    assert td3.networks(td3.Spec(ONE, hidden=(8,))).critic.hidden == (8,)


@both
def test_clipped_targets_stay_between_the_values_of_never_and_always_at_the_goal(wrap):
    """y = -1 - .98 * 80 is below -1 / (1 - .98) = -50, and y = 0 + .98 * 3 is above 0."""
    for rew, value, clipped in ((-1.0, -80.0, -50.0), (0.0, 3.0, 0.0), (-1.0, -9.0, -9.82)):
        for on, wanted in ((True, clipped), (False, rew + 0.98 * value)):
            targets = {"target_first": line(0.0, value), "target_second": line(0.0, value + 1)}
            spec = {"gamma": 0.98, "clip_targets": on}
            params = learner(line(0.0), line(0.0), line(0.0), **targets, **spec).params
            loss, info = wrap(td3.critic_loss)(params, batch(rew=rew))
            assert info["target"] == pytest.approx(wanted, rel=1e-5)
            assert loss == pytest.approx(2 * wanted**2, rel=1e-5)
