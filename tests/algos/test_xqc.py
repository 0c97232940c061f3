"""XQC compared with a float64 program in NumPy, and with numbers computed by hand."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from purerl import nets
from purerl.algos import xqc
from purerl.loops import gym as loop
from purerl.schedules import choose_her
from tests.algos.hand import ONE
from tests.algos.test_crossq import log_cosh, numbers
from tests.cases import BOX, CASES
from tests.contract.shared import evaluate
from tests.contract.shared import learner as init

CASE = CASES["xqc"]
MIDDLE, HALF = np.array([0.0, 0.5]), np.array([2.0, 0.5])  # of the box of the case
Z = np.linspace(-5, 5, 7)


@functools.cache
def learner(seed=0):
    """Return a state whose arrays all differ, also those of critics and their targets."""
    state, rng = init(CASE, seed), np.random.default_rng(seed)

    def shake(path, x):
        name = jax.tree_util.keystr(path)
        low, high = (0.5, 2.0) if "var" in name or "scale" in name else (-0.4, 0.4)
        return (0.7 * x * ("var" not in name) + rng.uniform(low, high, x.shape)).astype(x.dtype)

    params = jax.tree_util.tree_map_with_path(shake, state.params)
    return dataclasses.replace(state, params=params)


def forward(tree, stats, x, train):
    """Evaluate a network in float64; return its outputs and new running statistics by layer."""
    layers, old, new = tree["params"]["MLP_0"], stats["running"]["MLP_0"], {}
    array = lambda y: np.asarray(y, np.float64)

    def normalise(x, name):
        running = {k: array(y) for k, y in old[name].items()}
        m, v = running["mean"], running["var"]
        if train:
            m, v = x.mean(axis=0), x.var(axis=0)
            mean, var = 0.99 * running["mean"] + 0.01 * m, 0.99 * running["var"] + 0.01 * v
            new[name] = {"mean": mean, "var": var, "batches": running["batches"] + 1}
        assert ("bias" in layers[name]) == (name != "BatchRenorm_0")
        scale, bias = array(layers[name]["scale"]), array(layers[name].get("bias", 0.0))
        return (x - m) / np.sqrt(v + 1e-3) * scale + bias

    x = normalise(x, "BatchRenorm_0")
    for i in range(2):
        assert "bias" not in layers[f"Dense_{i}"]
        x = normalise(x @ array(layers[f"Dense_{i}"]["kernel"]), f"BatchRenorm_{i + 1}")
        x = np.maximum(x, 0)
    last = layers["Dense_2"]
    return x @ array(last["kernel"]) + array(last["bias"]), new


def softmax(x):
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


def draw_actions(params, obs, xi, train):
    """Return actions in [-1, 1], log-densities, and new statistics of the policy."""
    out, new = forward(params.actor, params.actor_stats, obs, train)
    mean, log_std = np.split(out, 2, axis=-1)
    log_std = np.clip(log_std, -10, 2)
    u = mean + np.exp(log_std) * xi
    logp = -0.5 * xi**2 - log_std - 0.5 * np.log(2 * np.pi) + 2 * log_cosh(u)
    return np.tanh(u), logp.sum(axis=1), new


def compute_critics(params, b):
    """Return the numbers of the critics' loss, new statistics, and which critic is the target."""
    next_act, next_logp, _ = draw_actions(params, b.next_obs, b.noise[:, 0], False)
    rows = [np.concatenate([b.obs, (b.act - MIDDLE) / HALF], axis=1)]
    rows = np.concatenate([*rows, np.concatenate([b.next_obs, next_act], axis=1)])
    number, alpha = len(b.rew), np.exp(np.float64(params.log_alpha))
    stats = params.critic_stats
    passes = [forward(*one, rows, True)[0] for one in zip(params.target_critic, stats, strict=True)]
    prob = softmax(np.stack(passes)[:, number:])
    chosen = (prob @ Z).argmin(axis=0)
    target, outside = np.zeros((number, 7)), 0.0
    for row in range(number):
        for p, z in zip(prob[chosen[row], row], Z, strict=True):
            value = z - alpha * next_logp[row]
            value = b.rew[row] + 0.99 * (0.0 if b.terminated[row] else 1.0) * value
            outside += p / number * (abs(value) > 5)
            near = np.maximum(1 - np.abs(np.clip(value, -5, 5) - Z) / (Z[1] - Z[0]), 0)
            target[row] += p * near
    both = [forward(*one, rows, True) for one in zip(params.critic, stats, strict=True)]
    own = softmax(np.stack([out[:number] for out, _ in both]))
    loss = -(target * np.log(own)).sum(axis=-1).mean(axis=1).sum()
    q = (own @ Z).mean(axis=1)
    info = {"loss_q": loss, "q1": q[0], "q2": q[1], "target": (target @ Z).mean()}
    return info | {"clipped": outside}, [new for _, new in both], chosen


def compute_policy(params, b):
    """Return the numbers of the other losses, and new statistics of the policy."""
    pi, logp, new = draw_actions(params, b.obs, b.noise[:, 1], True)
    rows = np.concatenate([b.obs, pi], axis=1)
    pairs = zip(params.critic, params.critic_stats, strict=True)
    q = np.minimum(*(softmax(forward(*one, rows, False)[0]) @ Z for one in pairs))
    alpha = np.exp(np.float64(params.log_alpha))
    info = {"loss_pi": np.mean(alpha * logp - q), "logp": logp.mean()}
    return info | {"loss_alpha": -alpha * (logp.mean() - 1.0), "alpha": alpha}, new


def assert_statistics(found, expected):
    chex.assert_trees_all_close(found["running"]["MLP_0"], expected, rtol=1e-4, atol=1e-6)


def make_batch():
    """Return rows with some ends, and with rewards that move atoms beyond the last one."""
    b = CASE.noisy(12)
    return b._replace(rew=3 * b.rew, terminated=np.arange(12) % 4 == 0)


def test_losses_equal_a_numpy_program():
    params, b = learner().params, make_batch()
    expected, _, chosen = compute_critics(params, b)
    assert set(chosen) == {0, 1}
    assert expected["clipped"] > 0.01
    expected |= compute_policy(params, b)[0]
    value, info, _ = evaluate(xqc.loss, params, b)
    assert numbers(info) == pytest.approx(expected, rel=1e-4, abs=1e-5)
    total = sum(expected[k] for k in ("loss_q", "loss_pi", "loss_alpha"))
    assert value == pytest.approx(total, rel=1e-4)


@pytest.mark.complete
def test_the_log_deviation_is_bounded():
    params, obs = learner().params, make_batch().obs
    for bias, bound in ((30.0, 2.0), (-30.0, -10.0)):
        tree = jax.tree.map(jnp.copy, params.actor)
        tree["params"]["MLP_0"]["Dense_2"]["bias"] = jnp.float32([0, 0, bias, bias])
        wide = dataclasses.replace(params, actor=tree)
        np.testing.assert_array_equal(xqc.distribution(wide, obs)[1], np.full((12, 2), bound))


def slope(program, tree, grad):
    """Return a difference of a float64 program along a random direction, and that of a gradient."""
    rng = np.random.default_rng(3)
    way = jax.tree.map(lambda x: rng.normal(size=x.shape), tree)
    moved = [jax.tree.map(lambda x, w, h=h: x + h * w, tree, way) for h in (1e-6, -1e-6)]
    terms = jax.tree.map(lambda g, w: float((np.float64(g) * w).sum()), grad, way)
    return (program(moved[0]) - program(moved[1])) / 2e-6, sum(jax.tree.leaves(terms))


def test_gradients_flow_through_the_normalisation_of_each_networks_own_loss_only():
    params, b = jax.tree.map(np.float64, learner().params), make_batch()
    _, _, grads = evaluate(xqc.loss, learner().params, b)

    def of_critic(tree):
        return compute_critics(dataclasses.replace(params, critic=tree), b)[0]["loss_q"]

    def of_policy(tree):
        return compute_policy(dataclasses.replace(params, actor=tree), b)[0]["loss_pi"]

    for program, name in ((of_critic, "critic"), (of_policy, "actor")):
        wanted, found = slope(program, getattr(params, name), getattr(grads, name))
        assert found == pytest.approx(wanted, rel=1e-3, abs=1e-4), name
    assert not any(x.any() for x in jax.tree.leaves((grads.target_critic, grads.critic_stats)))


def test_running_statistics_do_not_change_the_target():
    params, b = learner().params, make_batch()
    other = dataclasses.replace(
        params, critic_stats=jax.tree.map(lambda x: 5 * x + 1, params.critic_stats)
    )
    first, second = (evaluate(xqc.loss, one, b)[1] for one in (params, other))
    for name in ("loss_q", "q1", "target", "clipped"):
        assert first[name] == second[name]
    assert first["loss_pi"] != second["loss_pi"]


def test_an_update_steps_normalises_moves_the_targets_and_then_the_policy():
    b, state = make_batch(), dataclasses.replace(learner(), step=jnp.int32(2))  # policy is due
    state = dataclasses.replace(state, params=project(state.params))
    old = state.params
    new, info = xqc.update(state, b)
    expected, stats, _ = compute_critics(old, b)
    for found, one in zip(new.params.critic_stats, stats, strict=True):
        assert_statistics(found, one)
    grads = evaluate(xqc.loss, old, b)[2]
    step, _ = optax.adam(3e-4).update(grads.critic, optax.adam(3e-4).init(old.critic))
    critic = optax.apply_updates(old.critic, step)
    moved = max(abs(column_norms(critic) - 1))
    assert moved > 1e-5
    chex.assert_trees_all_close(
        new.params.critic, nets.normalise_kernels(critic), rtol=1e-4, atol=1e-6
    )
    target = jax.tree.map(lambda x, y: 0.995 * x + 0.005 * y, old.target_critic, new.params.critic)
    chex.assert_trees_all_close(new.params.target_critic, target, rtol=1e-5, atol=1e-7)
    critics = {"critic": new.params.critic, "critic_stats": new.params.critic_stats}
    later, policy = compute_policy(dataclasses.replace(old, **critics), b)
    assert_statistics(new.params.actor_stats, policy)
    assert numbers(info) == pytest.approx(expected | later, rel=2e-4, abs=2e-5)
    for tree in (new.params.actor, new.params.critic):
        np.testing.assert_allclose(column_norms(tree), 1.0, rtol=2e-6)


def project(params):
    return dataclasses.replace(
        params,
        actor=nets.normalise_kernels(params.actor),
        critic=nets.normalise_kernels(params.critic),
    )


def column_norms(tree):
    leaves = [np.float64(x) for x in jax.tree.leaves(tree) if x.ndim == 2]
    return np.concatenate([np.sqrt(np.square(x).sum(axis=0)) for x in leaves])


def test_a_learner_starts_with_normalised_kernels_and_targets_that_are_copies():
    params = init(CASE).params
    for tree in (params.actor, params.critic, params.target_critic):
        np.testing.assert_allclose(column_norms(tree), 1.0, rtol=2e-6)
    chex.assert_trees_all_equal(params.critic, params.target_critic)
    assert float(xqc.temperature(params)) == pytest.approx(0.01)


@pytest.mark.complete
def test_the_policy_and_the_temperature_move_at_every_third_update():
    state, b = learner(), make_batch()
    for number in range(1, 10):
        before, (state, info) = state, xqc.update(state, b)
        frozen = [
            (x == y).all()
            for name in ("actor", "actor_stats", "log_alpha")
            for x, y in zip(
                jax.tree.leaves(getattr(before.params, name)),
                jax.tree.leaves(getattr(state.params, name)),
                strict=True,
            )
        ]
        due = number % 3 == 0
        assert not all(frozen) if due else all(frozen)
        assert {float(info[f"{name}_count"]) for name in xqc.DELAYED} == {float(due)}
    counts = {name: int(opt[0].count) for name, opt in state.opt_state.items()}
    assert counts == {"actor": 3, "critic": 9, "log_alpha": 3}
    batches = [
        stats["running"]["MLP_0"]["BatchRenorm_1"]["batches"] - old["running"]["MLP_0"][
            "BatchRenorm_1"]["batches"]
        for stats, old in zip(
            (state.params.actor_stats, *state.params.critic_stats),
            (learner().params.actor_stats, *learner().params.critic_stats),
            strict=True,
        )
    ]  # fmt: skip
    np.testing.assert_allclose(batches, [3, 9, 9], rtol=1e-5)


@pytest.mark.complete
def test_the_gradient_of_the_temperature_is_the_entropy_above_its_target():
    params, b = learner().params, make_batch()
    _, info, grads = evaluate(xqc.loss, params, b)
    above = -float(info["logp"]) + 1.0  # entropy above its target, minus half of two dimensions
    assert grads.log_alpha == pytest.approx(float(info["alpha"]) * above, rel=1e-5)


@pytest.mark.complete
def test_the_target_entropy_and_the_first_temperature_can_be_given():
    params, b = learner().params, make_batch()
    given = dataclasses.replace(params, spec=CASE.spec(target_entropy=-3.0))
    change = xqc.alpha_loss(given, b)[0] - xqc.alpha_loss(params, b)[0]
    assert change == pytest.approx(2 * float(xqc.temperature(params)), rel=1e-4)
    assert xqc.temperature(init(CASE, alpha_init=0.3).params) == pytest.approx(0.3, rel=1e-6)


@pytest.mark.complete
def test_values_use_running_statistics_and_the_environments_units():
    params, rng = learner().params, np.random.default_rng(0)
    obs = rng.normal(size=(4, 2, 3)).astype(np.float32)
    act = rng.uniform([-2.0, 0.0], [2.0, 1.0], (4, 2, 2)).astype(np.float32)
    rows = np.concatenate([obs, (act - MIDDLE[None, None]) / HALF[None, None]], axis=-1)
    pairs = zip(params.critic, params.critic_stats, strict=True)
    wanted = [softmax(forward(*one, rows.reshape(8, 5), False)[0]) @ Z for one in pairs]
    found = jax.jit(xqc.q_value)(params, obs, act)
    np.testing.assert_allclose(found, np.reshape(wanted, (2, 4, 2)), rtol=1e-4, atol=1e-5)


@pytest.mark.complete
def test_act_samples_and_policy_is_the_squashed_mean_by_running_statistics():
    params = learner().params
    obs = np.float32([[0.1, -0.3, 0.2]])
    out = forward(params.actor, params.actor_stats, obs.astype(np.float64), False)[0][0]
    mean, log_std = np.split(out, 2)
    np.testing.assert_allclose(xqc.policy(params, obs[0]), MIDDLE + HALF * np.tanh(mean), rtol=1e-4)
    act = np.asarray(xqc.act(params, np.repeat(obs, 20_000, axis=0), jax.random.key(0)))
    u = np.arctanh((np.float64(act) - MIDDLE[None]) / HALF[None] * (1 - 1e-9))
    np.testing.assert_allclose((np.median(u, axis=0) - mean) / np.exp(log_std), 0, atol=0.04)


def test_goals_are_not_replayed_with_scaled_rewards():
    text = r"^scale_rewards must be False .* \(--no-scale-rewards\), or her=False \(--no-her\)"
    with pytest.raises(ValueError, match=text):
        choose_her(xqc.SCHEDULE, 2)
    assert choose_her(dataclasses.replace(xqc.SCHEDULE, scale_rewards=False), 2).her


def test_more_devices_are_refused_at_the_start():
    schedule = dataclasses.replace(xqc.SCHEDULE, devices=2)
    with pytest.raises(ValueError, match=r"^devices must be 1 for xqc, .* got 2\."):
        loop.start(xqc, xqc.Spec(ONE), lambda: pytest.fail("made"), schedule, 0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"atoms": 1}, "atoms must be an integer of at least 2"),
        ({"v_max": 0.0}, "v_max must be a number above 0"),
        ({"critic_hidden": (0,)}, r"critic_hidden\[0\] must be an integer of at least 1"),
        ({"polyak": 1.5}, "polyak must be a number in"),
    ],
)
def test_wrong_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=f"^{words}"):
        CASE.spec(**settings)


def test_defaults_are_those_of_the_authors_but_for_the_width():
    spec = xqc.Spec(BOX)
    assert (spec.hidden, spec.critic_hidden, spec.activation) == ((256,) * 4, None, "relu")
    assert (spec.lr, spec.gamma, spec.policy_delay, spec.polyak) == (3e-4, 0.99, 3, 0.995)
    assert (spec.alpha_init, spec.target_entropy) == (0.01, None)
    assert (spec.atoms, spec.v_max, spec.initializer) == (101, 5.0, "orthogonal")
    schedule = xqc.SCHEDULE.settle()
    assert (schedule.batch_size, schedule.replay_size) == (256, 1_000_000)
    assert (schedule.updates_per_burst, schedule.update_every) == (100, 50)
    assert (schedule.scale_rewards, schedule.n_step) == (True, 1)
    wide = jax.eval_shape(
        lambda key: xqc.init(key, CASE.spec(critic_hidden=(16,))), jax.random.key(0)
    ).params
    widths = lambda tree: [x.shape[1] for x in jax.tree.leaves(tree) if x.ndim == 2]
    assert (widths(wide.critic[0]), widths(wide.actor)) == ([16, 7], [8, 8, 4])
