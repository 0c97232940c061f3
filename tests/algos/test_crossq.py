"""CrossQ compared with a float64 program in NumPy, and with numbers computed by hand."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn

from purerl import algos, mpi, nets
from purerl.algos import crossq
from purerl.errors import ConfigError
from purerl.loops import gym as loop
from purerl.runs.settings import config as configs
from purerl.schedules import OffPolicySchedule
from tests.algos.hand import ONE
from tests.cases import BOX, CASES
from tests.contract.shared import evaluate
from tests.contract.shared import learner as init

CASE = CASES["crossq"]
MIDDLE, HALF = np.array([0.0, 0.5]), np.array([2.0, 0.5])  # of the box of the case
WARMUP = 10
SETTINGS = CASE.settings | {"renorm_warmup": WARMUP}


@functools.cache
def learner(batches=0, seed=0):
    """Return a state whose arrays all differ, after a number of batches."""
    state = init(CASE._replace(settings=SETTINGS), seed)
    rng = np.random.default_rng(seed)

    def shake(path, x):
        name = jax.tree_util.keystr(path)
        if "batches" in name:
            return jnp.float32(batches)
        low, high = (0.5, 2.0) if "var" in name or "scale" in name else (-0.4, 0.4)
        size = 0.3 if "Dense_2" in name else 1.0
        moved = x * 0.7 * ("var" not in name) + rng.uniform(low, high, x.shape)
        return size * moved.astype(jnp.float32)

    params = jax.tree_util.tree_map_with_path(shake, state.params)
    return dataclasses.replace(state, params=params)


def forward(tree, stats, x, train, fixed=None):
    """Evaluate a network in float64.

    Args:
        tree: Parameters.
        stats: Running statistics.
        x: Inputs `[B, I]`.
        train: Whether the batch normalises.
        fixed: r and d of each layer, instead of those of this batch.

    Returns:
        Outputs, new running statistics by layer, and r and d of each layer.
    """
    layers, old = tree["params"]["MLP_0"], stats["running"]["MLP_0"]
    number, new, used = len(old), {}, []
    array = lambda y: np.asarray(y, np.float64)
    for i in range(number):
        norm, dense = layers[f"BatchRenorm_{i}"], layers[f"Dense_{i}"]
        running = {name: array(y) for name, y in old[f"BatchRenorm_{i}"].items()}
        m, v = running["mean"], running["var"]
        if train:
            m, v = x.mean(axis=0), x.var(axis=0)
            new[f"BatchRenorm_{i}"] = {
                "mean": 0.99 * running["mean"] + 0.01 * m,
                "var": 0.99 * running["var"] + 0.01 * v,
                "batches": running["batches"] + 1,
            }
            r, d = np.ones_like(m), np.zeros_like(m)
            if running["batches"] >= WARMUP:
                std = np.sqrt(running["var"] + 1e-3)
                r = np.clip(np.sqrt(v + 1e-3) / std, 1 / 3, 3)
                d = np.clip((m - running["mean"]) / std, -5, 5)
            used.append((r, d) if fixed is None else fixed[i])
        x = (x - m) / np.sqrt(v + 1e-3)
        x = x * used[i][0] + used[i][1] if train else x
        x = x * array(norm["scale"]) + array(norm["bias"])
        x = x @ array(dense["kernel"]) + array(dense["bias"])
        x = np.maximum(x, 0) if i + 1 < number else x
    return x, new, used


def log_cosh(u):
    return np.logaddexp(u, -u) - np.log(2)


def draw_actions(params, obs, xi, train):
    """Return actions in [-1, 1], log-densities, and new statistics of the policy."""
    out, new, _ = forward(params.actor, params.actor_stats, obs, train)
    mean, log_std = np.split(out, 2, axis=-1)
    log_std = np.clip(log_std, -20, 2)
    u = mean + np.exp(log_std) * xi
    logp = -0.5 * xi**2 - log_std - 0.5 * np.log(2 * np.pi) + 2 * log_cosh(u)
    return np.tanh(u), logp.sum(axis=1), new


def join(params, b):
    """Return the inputs of the joint pass, and the log-densities of the next actions."""
    next_act, next_logp, _ = draw_actions(params, b.next_obs, b.noise[:, 0], False)
    pairs = [np.concatenate([b.obs, (b.act - MIDDLE) / HALF], axis=1)]
    pairs.append(np.concatenate([b.next_obs, next_act], axis=1))
    return np.concatenate(pairs), next_logp


def compute_critics(params, b):
    """Return the numbers of the critics' loss, and new statistics of both critics."""
    rows, next_logp = join(params, b)
    passes = [
        forward(*one, rows, True) for one in zip(params.critic, params.critic_stats, strict=True)
    ]
    q, next_q = np.split(np.stack([out[:, 0] for out, _, _ in passes]), 2, axis=1)
    alpha = np.exp(np.float64(params.log_alpha))
    y = b.rew + 0.99 * np.where(b.terminated, 0.0, next_q.min(axis=0) - alpha * next_logp)
    loss = 0.5 * np.square(q - y).mean(axis=1).sum()
    info = {"loss_q": loss, "q1": q[0].mean(), "q2": q[1].mean(), "target": y.mean()}
    return info, [new for _, new, _ in passes]


def compute_policy(params, b):
    """Return the numbers of the other losses, and new statistics of the policy."""
    pi, logp, new = draw_actions(params, b.obs, b.noise[:, 1], True)
    rows = np.concatenate([b.obs, pi], axis=1)
    pairs = zip(params.critic, params.critic_stats, strict=True)
    q = np.minimum(*(forward(*one, rows, False)[0][:, 0] for one in pairs))
    alpha = np.exp(np.float64(params.log_alpha))
    info = {"loss_pi": np.mean(alpha * logp - q), "logp": logp.mean()}
    return info | {"loss_alpha": -alpha * (logp.mean() - 2.0), "alpha": alpha}, new


def numbers(info):
    return {name: float(x) for name, x in info.items() if not name.endswith("_count")}


def assert_statistics(found, expected):
    chex.assert_trees_all_close(found["running"]["MLP_0"], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("batches", [0, WARMUP])
def test_losses_equal_a_numpy_program_before_and_after_the_warm_up(batches):
    params, b = learner(batches).params, CASE.noisy(12)
    expected = compute_critics(params, b)[0] | compute_policy(params, b)[0]
    value, info, _ = evaluate(crossq.loss, params, b)
    assert numbers(info) == pytest.approx(expected, rel=1e-4, abs=1e-5)
    total = sum(expected[k] for k in ("loss_q", "loss_pi", "loss_alpha"))
    assert value == pytest.approx(total, rel=1e-4)


def test_the_log_deviation_is_bounded():
    params, b = learner().params, CASE.noisy(12)
    b = b._replace(noise=0.01 * b.noise)
    for bias, bound in ((30.0, 2.0), (-30.0, -20.0)):
        tree = jax.tree.map(jnp.copy, params.actor)
        tree["params"]["MLP_0"]["Dense_2"]["bias"] = jnp.float32([0, 0, bias, bias])
        wide = dataclasses.replace(params, actor=tree)
        np.testing.assert_array_equal(crossq.distribution(wide, b.obs)[1], np.full((12, 2), bound))
        logp = draw_actions(wide, b.obs, b.noise[:, 1], True)[1].mean()
        _, info, _ = evaluate(crossq.loss, wide, b)
        assert info["logp"] == pytest.approx(logp, rel=1e-4)


@pytest.mark.parametrize("batches", [0, WARMUP])
def test_the_gradient_of_the_critics_flows_through_the_statistics_of_both_halves(batches):
    """Differences of the float64 program, with the target and the correction held fixed."""
    params, b = learner(batches).params, CASE.noisy(12)
    rows, next_logp = join(params, b)
    _, _, grads = evaluate(crossq.loss, params, b)
    pairs = list(zip(params.critic, params.critic_stats, strict=True))
    passes = [forward(*one, rows, True) for one in pairs]
    next_q = np.minimum(*(out[12:, 0] for out, _, _ in passes))
    soft = next_q - np.exp(np.float64(params.log_alpha)) * next_logp
    y = b.rew + 0.99 * np.where(b.terminated, 0.0, soft)
    rng = np.random.default_rng(3)
    for (tree, stats), (_, _, used), grad in zip(pairs, passes, grads.critic, strict=True):
        way = jax.tree.map(lambda x: rng.normal(size=x.shape), tree)

        def program(h, tree=tree, stats=stats, used=used, way=way):
            moved = jax.tree.map(lambda x, w: np.float64(x) + h * w, tree, way)
            q = forward(moved, stats, rows, True, fixed=used)[0][:12, 0]
            return 0.5 * np.square(q - y).mean()

        slope = (program(1e-6) - program(-1e-6)) / 2e-6
        terms = jax.tree.map(lambda g, w: float((np.float64(g) * w).sum()), grad, way)
        assert sum(jax.tree.leaves(terms)) == pytest.approx(slope, rel=1e-3, abs=1e-4)


def test_the_gradient_of_the_policy_flows_through_its_normalisation_and_no_other_loss():
    """Differences of the float64 program of the policy's loss, for the gradient of all losses."""
    params, b = learner().params, CASE.noisy(12)
    _, _, grads = evaluate(crossq.loss, params, b)
    rng = np.random.default_rng(4)
    way = jax.tree.map(lambda x: rng.normal(size=x.shape), params.actor)

    def program(h):
        moved = jax.tree.map(lambda x, w: np.float64(x) + h * w, params.actor, way)
        return compute_policy(dataclasses.replace(params, actor=moved), b)[0]["loss_pi"]

    slope = (program(1e-6) - program(-1e-6)) / 2e-6
    terms = jax.tree.map(lambda g, w: float((np.float64(g) * w).sum()), grads.actor, way)
    assert sum(jax.tree.leaves(terms)) == pytest.approx(slope, rel=1e-3, abs=1e-4)


def test_next_pairs_change_the_values_of_stored_pairs():
    params, b = learner().params, CASE.noisy(12)
    other = b._replace(next_obs=b.next_obs * 3.0 + 1.0)
    first, second = (evaluate(crossq.loss, params, one)[1] for one in (b, other))
    assert abs(first["q1"] - second["q1"]) > 1e-3


def test_an_update_keeps_the_statistics_of_the_pass_that_made_its_gradient():
    b = CASE.noisy(12)
    state = dataclasses.replace(learner(), step=jnp.int32(2))  # the policy is due
    new, info = crossq.update(state, b)
    expected, critics = compute_critics(state.params, b)
    for found, one in zip(new.params.critic_stats, critics, strict=True):
        assert_statistics(found, one)
    after = dataclasses.replace(
        state.params, critic=new.params.critic, critic_stats=new.params.critic_stats
    )
    later, policy = compute_policy(after, b)  # with the new critics, and the old policy
    assert_statistics(new.params.actor_stats, policy)
    assert numbers(info) == pytest.approx(expected | later, rel=2e-4, abs=2e-5)


def test_the_policy_and_the_temperature_move_at_every_third_update():
    state, b = learner(), CASE.noisy(12)
    for number in range(1, 10):
        before, (state, info) = state, crossq.update(state, b)
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
        assert not any(frozen) if due else all(frozen)
        assert {float(info[f"{name}_count"]) for name in crossq.DELAYED} == {float(due)}
        assert all((info[name] != 0) == due for name in crossq.DELAYED)
    counts = {name: int(opt[0].count) for name, opt in state.opt_state.items()}
    assert counts == {"actor": 3, "critic": 9, "log_alpha": 3}
    batches = [
        stats["running"]["MLP_0"]["BatchRenorm_1"]["batches"]
        for stats in (state.params.actor_stats, *state.params.critic_stats)
    ]
    assert batches == [3, 9, 9]


@pytest.mark.complete
def test_statistics_move_where_no_parameter_does():
    state = init(CASE, policy_delay=1, optimizer=optax.set_to_zero())
    new, _ = crossq.update(state, CASE.noisy())
    still = lambda x: (x.actor, x.critic, x.log_alpha)
    chex.assert_trees_all_equal(still(new.params), still(state.params))
    for x, y in zip(
        jax.tree.leaves((new.params.actor_stats, new.params.critic_stats)),
        jax.tree.leaves((state.params.actor_stats, state.params.critic_stats)),
        strict=True,
    ):
        assert bool((x != y).any())


def test_the_gradient_of_the_temperature_is_the_entropy_above_its_target():
    params, b = learner().params, CASE.noisy(12)
    _, info, grads = evaluate(crossq.loss, params, b)
    above = -float(info["logp"]) + 2.0  # entropy above its target, minus two dimensions
    assert abs(above) > 0.1
    assert grads.log_alpha == pytest.approx(float(info["alpha"]) * above, rel=1e-5)


@pytest.mark.complete
def test_the_target_entropy_can_be_given():
    params, b = learner().params, CASE.noisy(12)
    given = dataclasses.replace(params, spec=CASE.spec(target_entropy=-3.0, renorm_warmup=WARMUP))
    change = crossq.alpha_loss(given, b)[0] - crossq.alpha_loss(params, b)[0]
    assert change == pytest.approx(float(crossq.temperature(params)), rel=1e-4)


def test_the_temperature_starts_at_alpha_init():
    params = crossq.init(jax.random.key(0), CASE.spec(alpha_init=0.3)).params
    assert crossq.temperature(params) == pytest.approx(0.3, rel=1e-6)


@pytest.mark.complete
@pytest.mark.parametrize(("group", "b1"), [("actor", 0.5), ("critic", 0.5), ("log_alpha", 0.9)])
def test_adam_of_the_networks_forgets_faster(group, b1):
    tx = crossq.optimizers(CASE.spec())[group]
    wanted = optax.adam(1e-3, b1=b1)
    gradients = jnp.float32([1.0, -3.0, 0.5])
    state, other = tx.init(gradients[0]), wanted.init(gradients[0])
    for gradient in gradients:
        step, state = tx.update(gradient, state)
        expected, other = wanted.update(gradient, other)
        assert step == expected
    changed = crossq.optimizers(CASE.spec(adam_b1=0.25))[group]
    step, _ = changed.update(gradients[1], changed.update(gradients[0], changed.init(0.0))[1])
    first, _ = tx.update(gradients[1], tx.update(gradients[0], tx.init(0.0))[1])
    assert (step == first) == (group == "log_alpha")


def test_values_use_running_statistics_and_the_environments_units():
    params = learner().params
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(4, 2, 3)).astype(np.float32)
    act = rng.uniform([-2.0, 0.0], [2.0, 1.0], (4, 2, 2)).astype(np.float32)
    rows = np.concatenate([obs, (act - MIDDLE[None, None]) / HALF[None, None]], axis=-1)
    pairs = zip(params.critic, params.critic_stats, strict=True)
    wanted = [forward(*one, rows.reshape(8, 5), False)[0].reshape(4, 2) for one in pairs]
    np.testing.assert_allclose(
        jax.jit(crossq.q_value)(params, obs, act), wanted, rtol=1e-4, atol=1e-5
    )


def test_act_samples_and_policy_is_the_squashed_mean_by_running_statistics():
    params = learner().params
    obs = np.float32([[0.1, -0.3, 0.2]])
    out = forward(params.actor, params.actor_stats, obs.astype(np.float64), False)[0][0]
    mean, log_std = np.split(out, 2)
    wanted = MIDDLE + HALF * np.tanh(mean)
    np.testing.assert_allclose(crossq.policy(params, obs[0]), wanted, rtol=1e-4)
    many = np.repeat(obs, 20_000, axis=0)
    act = np.asarray(crossq.act(params, many, jax.random.key(0)), np.float64)
    u = np.arctanh(((act - MIDDLE[None]) / HALF[None]).clip(-0.9999999, 0.9999999))
    np.testing.assert_allclose((np.median(u, axis=0) - mean) / np.exp(log_std), 0, atol=0.04)
    spread = np.diff(np.quantile(u, [0.1587, 0.8413], axis=0), axis=0)[0] / 2
    np.testing.assert_allclose(spread, np.exp(log_std), rtol=0.04)


@pytest.mark.complete
def test_ranks_normalise_by_their_own_rows_and_average_their_statistics():
    state = dataclasses.replace(learner(), step=jnp.int32(2))
    whole = CASE.noisy(8)
    parts = jax.tree.map(lambda x: x.reshape(2, 4, *x.shape[1:]), whole)
    new, _ = jax.vmap(crossq.update, (None, 0), axis_name=mpi.AXIS)(state, parts)
    chex.assert_trees_all_equal(*(jax.tree.map(lambda x, i=i: x[i], new) for i in range(2)))
    halves = [jax.tree.map(lambda x, i=i: x[i], parts) for i in range(2)]
    found = [compute_critics(state.params, one)[1][1] for one in halves]
    mean = jax.tree.map(lambda x, y: (x + y) / 2, *found)
    assert_statistics(jax.tree.map(lambda x: x[0], new.params.critic_stats[1]), mean)
    critics = {"critic": new.params.critic, "critic_stats": new.params.critic_stats}
    later = dataclasses.replace(state.params, **jax.tree.map(lambda x: x[0], critics))
    found = [compute_policy(later, one)[1] for one in halves]
    mean = jax.tree.map(lambda x, y: (x + y) / 2, *found)
    assert_statistics(jax.tree.map(lambda x: x[0], new.params.actor_stats), mean)


def test_more_devices_are_refused_at_the_start():
    algo, schedule = algos.load("crossq"), OffPolicySchedule(devices=2)
    text = r"^devices must be 1 for crossq, .* got 2\. Set devices=1\..*--num-cpu"
    with pytest.raises(ValueError, match=text):
        loop.start(algo, crossq.Spec(ONE), lambda: pytest.fail("made"), schedule, 0)
    content = {"algo": "crossq", "env": "Pendulum-v1", "schedule": {"devices": 2}}
    with pytest.raises(ConfigError, match=text):  # before the folder of a run is made
        configs.from_json(content, spaces=ONE)


class Critic(nn.Module):
    """A custom critic with one normalised layer."""

    @nn.compact
    def __call__(self, obs, act):
        x = nets.BatchRenorm()(jnp.concatenate([obs, act], axis=-1))
        return nn.Dense(1)(x)[:, 0]


@pytest.mark.complete
def test_custom_networks_may_normalise():
    spec = CASE.spec(critic=Critic())
    assert crossq.networks(spec).critic == Critic()
    state = crossq.init(jax.random.key(0), spec)
    assert [*state.params.critic_stats[0]["running"]] == ["BatchRenorm_0"]
    new, _ = crossq.update(state, CASE.noisy())
    assert new.params.critic_stats[0]["running"]["BatchRenorm_0"]["batches"] == 1
    assert jax.tree.structure(new) == jax.tree.structure(state)


class Frozen(nn.Module):
    """A critic with Flax's own batch normalisation, whose mode nobody can choose."""

    @nn.compact
    def __call__(self, obs, act):
        x = nn.BatchNorm(use_running_average=True)(jnp.concatenate([obs, act], axis=-1))
        return nn.Dense(1)(x)[:, 0]


@pytest.mark.complete
def test_the_batch_normalisation_of_flax_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"^critic must .*Use purerl\.nets\.BatchRenorm instead"):
        crossq.init(jax.random.key(0), CASE.spec(critic=Frozen()))


def test_the_critics_can_be_wider_than_the_policy():
    params = jax.eval_shape(
        lambda key: crossq.init(key, CASE.spec(critic_hidden=(16,))), jax.random.key(0)
    ).params
    widths = lambda tree: [x.shape[1] for x in jax.tree.leaves(tree) if x.ndim == 2]
    assert widths(params.critic[0]) == [16, 1]
    assert widths(params.actor) == [8, 8, 4]
    with pytest.raises(ValueError, match=r"^critic_hidden\[0\] must be an integer of at least 1"):
        CASE.spec(critic_hidden=(0,))


def test_defaults_are_those_of_the_authors_but_for_the_width():
    spec = crossq.Spec(BOX)
    assert (spec.hidden, spec.critic_hidden, spec.activation) == ((256, 256), None, "relu")
    assert (spec.lr, spec.adam_b1, spec.gamma, spec.policy_delay) == (1e-3, 0.5, 0.99, 3)
    assert (spec.alpha_init, spec.target_entropy, spec.renorm_warmup) == (1.0, None, 100_000)
    assert spec.initializer == "lecun_normal"
    schedule = crossq.SCHEDULE.settle()
    assert (schedule.batch_size, schedule.replay_size) == (256, 1_000_000)
    assert schedule.updates_per_burst == schedule.update_every
