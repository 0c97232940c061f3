"""ACER: published numbers, identities, and a NumPy program, with and without jit."""

import dataclasses
import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn

from purerl.algos import acer
from purerl.nets import categorical
from purerl.spaces import Discrete, EnvSpec, MultiDiscrete
from purerl.types import Rollout, SequenceBatch
from tests.algos import pg
from tests.algos.hand import both

STATES = np.eye(4, dtype=np.float32)
PI, MU = np.array([0.6, 0.3, 0.1]), np.array([0.05, 0.45, 0.5])
Q, AVERAGE = np.array([1.0, 2.0, -1.0]), np.array([0.2, 0.5, 0.3])


class Table(nn.Module):
    """One row of numbers for each of four one-hot states."""

    rows: tuple[tuple[float, ...], ...]

    @nn.compact
    def __call__(self, obs):
        return obs @ self.param("table", lambda key: jnp.float32(self.rows))


def table(params):
    return params["params"]["table"]


def fill(rows):
    """Return numbers for all states as a tuple; one row is used for each state."""
    rows = np.broadcast_to(np.asarray(rows, np.float64), (4, np.shape(rows)[-1]))
    return tuple(map(tuple, rows.tolist()))


def learner(pi=PI, q=Q, average=None, start=0, **settings):
    """Return a learner with these probabilities and values, in each state or for all states."""
    env = EnvSpec((4,), Discrete(np.shape(q)[-1], start))
    networks = {"actor": Table(fill(np.log(pi))), "critic": Table(fill(q))}
    state = acer.init(jax.random.key(0), acer.Spec(env, **networks, **settings))
    if average is None:
        return state
    held = {"params": {"table": jnp.float32(fill(np.log(average)))}}
    return dataclasses.replace(state, params=dataclasses.replace(state.params, average=held))


def sequence(act, rew, mu, terminated=(), truncated=(), states=None, following=None, start=0):
    """Return one sequence; the flags are the steps that have them."""
    length = len(act)
    states = range(length) if states is None else states
    following = range(1, length + 1) if following is None else following
    flags = [[[t in which for t in range(length)]] for which in (terminated, truncated)]
    with np.errstate(divide="ignore"):
        behaviour = np.log(np.broadcast_to(mu, (length, np.shape(mu)[-1])))
    return SequenceBatch(
        STATES[None, list(states)],
        np.int32([act]) + np.int32(start),
        np.float32([rew]),
        STATES[None, list(following)],
        *(np.array(x) for x in flags),
        np.float32(behaviour[None]),
    )


# --- numbers and identities of the parts ----------------------------------------

RETRACE = {"pi": [0.4, 0.6], "gamma": 0.9}
# The values of the actions taken are .5, .4, .3, those of the states .6, .5, .2, and 1 at the end.
RETRACE["q"] = [[q, (v - 0.4 * q) / 0.6] for q, v in ((0.5, 0.6), (0.4, 0.5), (0.3, 0.2), (1, 1))]
BEHAVED = [[0.2, 0.8], [0.8, 0.2], [0.4, 0.6]]  # ratios 2, .5 and 1


@both
@pytest.mark.parametrize(
    ("ends", "wanted"),
    [
        ({}, (2.404, 2.52, 2.9)),
        ({"terminated": [2]}, (2.0395, 1.71, 2.0)),
        ({"terminated": [1]}, (1.27, 0.0, 2.9)),
        ({"terminated": [1], "truncated": [1]}, (1.27, 0.0, 2.9)),
        ({"truncated": [2]}, (2.404, 2.52, 2.9)),
        # The true successor is state 3 of value 1, and the next episode starts in state 2.
        ({"truncated": [1], "following": [1, 3, 3]}, (1.675, 0.9, 2.9)),
    ],
)
def test_targets_equal_known_numbers(wrap, ends, wanted):
    for start in (0, 5):
        params = learner(**RETRACE, start=start).params
        batch = sequence([0, 0, 0], [1.0, 0.0, 2.0], BEHAVED, start=start, **ends)
        np.testing.assert_allclose(wrap(acer.targets)(params, batch), [wanted], rtol=1e-5)


def gain_gradient(logits, mu, act, q, ret, c):
    def gain(logits):
        return acer.policy_gain(logits, jnp.log(mu), jnp.array(act), jnp.float32(q), ret, c)

    return jax.grad(gain)(jnp.asarray(logits, jnp.float32))


@both
def test_gradient_of_the_gain_and_its_projections_equal_known_numbers(wrap):
    """With probabilities or log-probabilities in place of logits, no limit would apply."""
    k = jnp.float32(PI - AVERAGE)
    g = wrap(lambda logits: gain_gradient(logits, MU, 0, Q, 2.5, 10.0))(np.log(PI))
    np.testing.assert_allclose(g, [5.596, -4.197, -1.399], rtol=1e-4)
    assert float(k @ g) == pytest.approx(3.3576, rel=1e-4)
    wide, narrow = (wrap(lambda g, d=d: acer.project(g, k, d))(g) for d in (1.0, 0.1))
    np.testing.assert_allclose(wide, [1.666667, -2.232333, 0.565667], rtol=1e-4)
    np.testing.assert_allclose(narrow, [0.166667, -1.482333, 1.315667], rtol=1e-4)


@both
def test_the_correction_counts_only_ratios_above_the_limit(wrap):
    """At c = 10 the ratios are (12, 2/3, .2), so the weights are (1/6, 0, 0)."""
    v = float(PI @ Q)
    gain = wrap(lambda x: acer.policy_gain(x, jnp.log(MU), jnp.array(1), jnp.float32(Q), v, 10.0))
    got = gain(jnp.float32(np.log(PI)))  # the first term is 0, because the target equals V
    assert float(got) == pytest.approx(0.6 / 6 * (1.0 - v) * np.log(0.6), rel=1e-4)


@both
@pytest.mark.parametrize("c", [0.0, 0.5, 1.0, 2.0, 10.0, 1e30])
def test_the_expected_gradient_is_the_same_for_any_limit(wrap, c):
    """If the targets equal the values, the correction replaces exactly what the limit removes."""
    grad = wrap(lambda x, a: gain_gradient(x, MU, a, Q, jnp.float32(Q)[a], c))
    expected = sum(MU[a] * np.float64(grad(np.log(PI), a)) for a in range(3))
    advantage = Q - PI @ Q
    np.testing.assert_allclose(expected, PI * advantage, rtol=1e-4, atol=1e-6)


@both
def test_projections_stay_in_the_trust_region(wrap):
    rng, project = np.random.default_rng(0), wrap(lambda g, k: acer.project(g, k, 0.5))
    g = np.float32(3 * rng.normal(size=(500, 4)))
    k = np.float32(rng.dirichlet(np.ones(4), 500) - rng.dirichlet(np.ones(4), 500))
    z, before = np.asarray(project(g, k)), (k * g).sum(axis=-1)
    assert ((k * z).sum(axis=-1) <= 0.5 + 1e-5).all()
    inside = before <= 0.5 - 1e-5
    assert 0.2 < inside.mean() < 0.9
    np.testing.assert_array_equal(z[inside], g[inside])
    assert (z[before > 0.5 + 1e-5] != g[before > 0.5 + 1e-5]).any(axis=-1).all()
    np.testing.assert_array_equal(project(g, 0 * k), g)  # both policies are equal


@pytest.mark.parametrize("c", [0.0, 1.0, 10.0, 1e30])
def test_deterministic_policies_give_no_nan(c):
    """Policy and behaviour choose one action only, the same or another one, or any action."""
    spec = learner(max_ratio=c, ent_coef=0.01).params.spec
    spec = dataclasses.replace(spec, actor=pg.Bandit((0.0, 0.0, 0.0)))
    params = acer.init(jax.random.key(0), spec).params
    evaluate = jax.jit(jax.value_and_grad(acer.loss, has_aux=True))
    for far, pair in itertools.product((-1e4, -np.inf), [(0, 0), (0, 1), (0, None), (None, 0)]):
        logits = [np.where(np.arange(3) == (x or 0), 0.0, 0.0 if x is None else far) for x in pair]
        theta, behaviour = map(np.float32, logits)
        held = {"params": {"theta": jnp.asarray(theta)}}
        batch = sequence([pair[1] or 0] * 3, [1.0, 0.0, 2.0], np.ones(3) / 3)
        batch = batch._replace(behaviour=np.broadcast_to(behaviour, (1, 3, 3)))
        found = evaluate(dataclasses.replace(params, actor=held, average=held), batch)
        assert all(np.isfinite(x).all() for x in jax.tree.leaves(found)), (far, pair)


# --- the losses ----------------------------------------


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def compute_by_hand(pi, mu, average, q, act, rew, next_v, spec):
    """Return the targets and the limited gradient for the logits, of one sequence in float64."""
    rows = np.arange(len(act))
    v, taken = (pi * q).sum(axis=-1), q[rows, act]
    rho = pi / mu
    ret, later = np.zeros(len(act)), next_v
    for t in rows[::-1]:
        ret[t] = rew[t] + spec.gamma * later
        later = min(1.0, rho[t, act[t]]) * (ret[t] - taken[t]) + v[t]
    weight = np.maximum(0.0, 1 - spec.max_ratio / rho) * pi * (q - v[:, None])
    weight[rows, act] += np.minimum(spec.max_ratio, rho[rows, act]) * (ret - v)
    entropy = -(pi * np.log(pi)).sum(axis=-1, keepdims=True)
    g = weight - weight.sum(axis=-1, keepdims=True) * pi
    g -= spec.ent_coef * pi * (np.log(pi) + entropy)
    k = pi - average
    excess = np.maximum(0.0, (k * g).sum(axis=-1) - spec.delta)
    return ret, g - (excess / (k * k).sum(axis=-1))[:, None] * k


@both
@pytest.mark.parametrize("settings", [{}, {"ent_coef": 0.3, "max_ratio": 0.7, "delta": 0.02}])
def test_gradients_equal_a_numpy_program(wrap, settings):
    rng = np.random.default_rng(1)
    pi, mu, average = (rng.dirichlet(np.ones(3), 4) for _ in range(3))
    q, act, rew = rng.normal(size=(4, 3)), np.array([2, 0, 1]), rng.normal(size=3)
    params = learner(pi, q, average, start=1, **settings).params
    batch = sequence(act, rew, mu[:3], start=1)
    args = (pi[:3], mu[:3], average[:3], q[:3], act, rew, pi[3] @ q[3])
    ret, z = compute_by_hand(*args, params.spec)
    (_, info), grads = wrap(jax.value_and_grad(acer.loss, has_aux=True))(params, batch)
    np.testing.assert_allclose(table(grads.actor)[:3], -z / 3, rtol=1e-4, atol=1e-6)
    error = ret - q[range(3), act]
    wanted = np.zeros((4, 3))
    wanted[range(3), act] = -0.5 * error / 3
    np.testing.assert_allclose(table(grads.critic), wanted, rtol=1e-4, atol=1e-6)
    assert float(info["loss_q"]) == pytest.approx(0.5 * (error**2).mean(), rel=1e-4)
    assert not np.any(table(grads.average))
    assert bool(info["limited"] > 0) == bool(settings)


@both
def test_metrics_are_means_over_all_steps(wrap):
    params = learner(average=AVERAGE).params
    batch = sequence([0, 1], [1.0, 2.0], PI)
    value, info = wrap(acer.loss)(params, batch)
    assert set(info) == {"gain", "entropy", "kl", "limited", "loss_q", "q"}
    assert float(info["kl"]) == pytest.approx((AVERAGE * np.log(AVERAGE / PI)).sum(), rel=1e-4)
    assert float(info["entropy"]) == pytest.approx(-(PI * np.log(PI)).sum(), rel=1e-4)
    assert float(info["q"]) == pytest.approx(1.5)
    ret = np.asarray(acer.targets(params, batch))[0]
    gain = (np.log(PI[:2]) * (ret - PI @ Q)).mean()
    assert float(info["gain"]) == pytest.approx(gain, rel=1e-4)
    assert float(acer.critic_loss(params, batch)[0]) == pytest.approx(0.5 * float(info["loss_q"]))
    assert np.isfinite(value)


@both
def test_on_policy_and_without_limit_it_is_the_advantage_actor_critic(wrap):
    params = learner().params  # the average policy is the policy, so nothing is limited
    batch = sequence([0, 1, 2], [1.0, -1.0, 0.5], PI, terminated=[1])

    def actor_critic(params):
        logp = categorical.log_prob(acer.distribution(params, batch.obs), batch.act)
        v = jax.lax.stop_gradient(acer.value(params, batch.obs))
        return -(logp * (acer.targets(params, batch) - v)).mean()

    wanted = jax.grad(actor_critic)(params).actor
    got = wrap(jax.grad(lambda p: acer.actor_loss(p, batch)[0]))(params)
    chex.assert_trees_all_close(got.actor, wanted, rtol=1e-4, atol=1e-6)
    assert not np.any(table(got.critic))


def test_the_entropy_bonus_has_a_gradient():
    """In Stable-Baselines 2 it had none, because the gradient was that of the probabilities."""
    params = learner(q=[1.0, 1.0, 1.0], ent_coef=0.5).params
    batch = sequence([0, 1, 2], [1.0, 1.0, 1.0], PI, terminated=[0, 1, 2])
    grad = jax.grad(lambda p: acer.actor_loss(p, batch)[0])(params).actor
    slope = PI * (np.log(PI) - (PI * np.log(PI)).sum())  # minus the gradient of the entropy
    np.testing.assert_allclose(table(grad)[0], 0.5 * slope / 3, rtol=1e-4)


@pytest.mark.parametrize("act", [-1, 3])
def test_an_action_outside_the_space_makes_the_loss_nan(act):
    assert np.isnan(jax.jit(acer.loss)(learner().params, sequence([act], [1.0], PI))[0])


# --- updates, rollouts and settings ----------------------------------------


def test_the_average_policy_follows_slowly():
    weights = [1.0]
    state = learner(lr=1e-30, average=AVERAGE)
    first, pi = table(state.params.average), table(state.params.actor)
    for _ in range(100):
        state, _ = acer.update(state, sequence([0], [1.0], MU))
        weights.append(float(((table(state.params.average) - pi) / (first - pi)).mean()))
    wanted = [0.99, 0.90438208, 0.36603234]
    np.testing.assert_allclose([weights[n] for n in (1, 10, 100)], wanted, rtol=1e-4)


def test_the_average_policy_gets_the_updated_policy():
    state = learner(lr=0.1)
    new, _ = acer.update(state, sequence([0], [1.0], MU))
    old = table(state.params.actor)
    wanted = old + 0.01 * (table(new.params.actor) - old)
    np.testing.assert_allclose(table(new.params.average), wanted, rtol=1e-6)
    assert np.any(table(new.params.average) != old)


@pytest.mark.parametrize(("rms_init", "step"), [(1.0, 7.035e-6), (0.0, 2.11e-3)])
def test_the_first_step_depends_on_the_first_average_of_rmsprop(rms_init, step):
    tx = acer.optimizers(learner(rms_init=rms_init).params.spec)["actor"]
    grad = jnp.float32([0.01])
    got, _ = tx.update(grad, tx.init(jnp.zeros(1)))
    assert float(got[0]) == pytest.approx(-step, rel=2e-3)


def test_the_gradient_norm_is_limited_over_both_networks():
    batch = sequence([0, 1], [300.0, -200.0], PI)
    for limit in (None, 1e9, 0.5):
        settings = {"max_grad_norm": limit, "optimizer": optax.sgd(1.0)}
        state = learner(**settings)
        new, _ = acer.update(state, batch)
        grads, _ = jax.jit(jax.grad(acer.loss, has_aux=True))(state.params, batch)
        norm = np.sqrt(sum((table(x) ** 2).sum() for x in (grads.actor, grads.critic)))
        scale = 1.0 if limit is None else min(1.0, limit / norm)
        for name in ("actor", "critic"):
            moved = table(getattr(new.params, name)) - table(getattr(state.params, name))
            wanted = -scale * table(getattr(grads, name))
            np.testing.assert_allclose(moved, wanted, rtol=1e-3, atol=1e-4)


def make_rollout(start=0):
    rng = np.random.default_rng(3)
    obs, next_obs = (STATES[rng.integers(4, size=(5, 2))] for _ in range(2))
    act = np.int32(start + rng.integers(3, size=(5, 2)))
    rew = np.float32(rng.normal(size=(5, 2)))
    return Rollout(obs, act, rew, next_obs, *(rng.random((2, 5, 2)) < 0.3))


@both
def test_prepare_makes_a_sequence_of_each_environment(wrap):
    pi = np.random.default_rng(4).dirichlet(np.ones(3), 4)
    params, rollout = learner(pi).params, make_rollout()
    batch = wrap(acer.prepare)(params, rollout)
    assert isinstance(batch, SequenceBatch)
    for name in rollout._fields:
        np.testing.assert_array_equal(
            getattr(batch, name), np.swapaxes(getattr(rollout, name), 0, 1)
        )
    wanted = np.log(pi)[rollout.obs.argmax(axis=-1)]
    np.testing.assert_allclose(batch.behaviour, np.swapaxes(wanted, 0, 1), rtol=1e-5)
    assert (batch.key, batch.noise) == (None, None)
    with pytest.raises(ValueError, match=r"^rollout\.rew must have shape \[T, N\]"):
        acer.prepare(params, rollout._replace(rew=rollout.rew[0]))


def test_the_stored_behaviour_is_used_after_the_policy_has_changed():
    """A distribution computed again from the new parameters would make each ratio 1."""
    state = learner()
    batch = jax.jit(acer.prepare)(state.params, make_rollout())
    changed = learner(pi=AVERAGE).params
    again = batch._replace(behaviour=jax.jit(acer.distribution)(changed, batch.obs))
    grad = jax.jit(jax.grad(acer.actor_loss, has_aux=True))
    stored, recomputed = (grad(changed, rows)[0].actor for rows in (batch, again))
    assert np.any(np.abs(table(stored) - table(recomputed)) > 1e-3)


@both
def test_values_are_means_under_the_policy_and_have_the_axes_of_the_observations(wrap):
    params, obs = learner().params, STATES[np.int32([[0, 1, 2], [3, 2, 1]])]
    np.testing.assert_allclose(wrap(acer.value)(params, obs), np.full((2, 3), PI @ Q), rtol=1e-5)
    assert wrap(acer.q_value)(params, obs).shape == wrap(acer.distribution)(params, obs).shape
    for function in (acer.value, acer.q_value, acer.distribution):
        with pytest.raises(ValueError, match=r"^obs must have shape .*\(4,\)\], got \(2, 3\)"):
            function(params, obs[..., 0])


def test_actions_count_from_the_start_of_the_space():
    params = learner(start=5).params
    assert int(acer.policy(params, STATES[0])) == 5
    keys = jax.random.split(jax.random.key(0), 200)
    acts = [int(acer.act(params, STATES[0], key)) for key in keys[:40]]
    assert {*acts} <= {5, 6, 7}


def test_defaults_are_those_of_baselines_and_of_the_zoo_on_cartpole():
    spec, schedule = acer.Spec(EnvSpec((4,), Discrete(2))), acer.SCHEDULE.resolve(1)
    assert (spec.hidden, spec.activation, spec.gamma, spec.lr) == ((64, 64), "tanh", 0.99, 7e-4)
    assert (spec.max_ratio, spec.delta, spec.polyak, spec.max_grad_norm) == (10.0, 1.0, 0.99, 10.0)
    assert (spec.q_coef, spec.ent_coef) == (0.5, 0.0)
    assert (spec.rms_decay, spec.rms_eps, spec.rms_init) == (0.99, 1e-5, 1.0)
    assert (schedule.num_envs, schedule.rollout_length, schedule.replay_ratio) == (8, 20, 4.0)
    assert (schedule.replay_size, schedule.replay_start) == (40_000, 8_000)


def test_spaces_of_several_actions_are_refused():
    with pytest.raises(ValueError, match="^acer needs a Discrete action space.*ppo"):
        acer.Spec(EnvSpec((4,), MultiDiscrete((2, 3))))


def test_networks_are_the_modules_of_the_spec():
    spec = learner().params.spec
    assert acer.networks(spec) == (spec.actor, spec.critic)
    assert acer.networks(acer.Spec(EnvSpec((4,), Discrete(2)), hidden=(8,))).critic.hidden == (8,)
