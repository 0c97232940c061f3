"""REDQ and DroQ compared with a float64 program in NumPy, and with numbers computed by hand."""

import dataclasses
import functools
import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import nets
from purerl.algos import redq
from purerl.moments import Moments
from tests.algos.hand import Line, mlp
from tests.cases import BOX, CASES
from tests.contract.shared import evaluate
from tests.contract.shared import learner as init

CASE = CASES["redq"]  # four critics, subsets of two, a policy step at every third update
MIDDLE, HALF = np.array([0.0, 0.5]), np.array([2.0, 0.5])  # of the box of the case
PAIRS = list(itertools.combinations(range(4), 2))
ROWS = 12


@functools.cache
def learner():
    """Return a state whose targets are unlike its critics."""
    state, other = init(CASE, 0), init(CASE, 1)
    params = dataclasses.replace(
        state.params, target_critic=other.params.critic, log_alpha=jnp.log(jnp.float32(0.3))
    )
    return dataclasses.replace(state, params=params)


def compute_values(critics, obs, act):
    """Return the values `[4, B]`."""
    trees = [jax.tree.map(lambda x, i=i: x[i], critics) for i in range(4)]
    return np.stack([mlp(tree, obs, act)[:, 0] for tree in trees])


def draw_actions(params, obs, xi):
    """Return actions in [-1, 1], and their log-densities."""
    mean, log_std = np.split(mlp(params.actor, obs), 2, axis=-1)
    log_std = np.clip(log_std, -20, 2)
    u = mean + np.exp(log_std) * xi
    logp = -0.5 * xi**2 - log_std - 0.5 * np.log(2 * np.pi) - np.log(1 - np.tanh(u) ** 2)
    return np.tanh(u), logp.sum(axis=1)


def compute_target(params, b, chosen):
    next_act, next_logp = draw_actions(params, b.next_obs, b.noise[:, 0])
    next_q = compute_values(params.target_critic, b.next_obs, next_act)
    least = np.array([min(next_q[i, row] for i in own) for row, own in enumerate(chosen)])
    soft = least - np.exp(np.float64(params.log_alpha)) * next_logp
    return b.rew + 0.99 * np.where(b.terminated, 0.0, soft)


def compute_critics(params, b, chosen):
    """Return the metrics of the critics' loss, and their values minus the target `[4, B]`."""
    y = compute_target(params, b, chosen)
    q = compute_values(params.critic, b.obs, (b.act - MIDDLE) / HALF)
    loss = np.square(q - y).mean(axis=1).sum()
    spread = np.sqrt(np.square(q - q.mean(axis=0)).mean(axis=0)).mean()
    return {"loss_q": loss, "q": q.mean(), "q_spread": spread, "target": y.mean()}, q - y


def compute_policy(params, b):
    """Return the metrics of the losses of policy and temperature."""
    pi, logp = draw_actions(params, b.obs, b.noise[:, 1])
    q = compute_values(params.critic, b.obs, pi).sum(axis=0) / 4
    alpha = np.exp(np.float64(params.log_alpha))
    info = {"loss_pi": np.mean(alpha * logp - q), "logp": logp.mean(), "alpha": alpha}
    return info | {"loss_alpha": -np.log(alpha) * (logp.mean() - 2.0)}


def numbers(info):
    return {name: float(x) for name, x in info.items() if not name.endswith("_count")}


choose, compute = jax.jit(redq.choose), jax.jit(redq.target)


@pytest.mark.parametrize("chosen", [[PAIRS[i % 6] for i in range(ROWS)], [(3,)] * ROWS])
def test_the_target_is_the_minimum_of_the_given_target_critics(chosen):
    params, b = learner().params, CASE.noisy(ROWS)
    found, expected = compute(params, b, np.array(chosen)), compute_target(params, b, chosen)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert b.terminated.any()
    np.testing.assert_array_equal(found[b.terminated], b.rew[b.terminated])


def test_each_row_has_a_random_subset_of_its_own():
    params, number = learner().params, 6_000
    noise = np.random.default_rng(2).normal(size=(number, 3, 2)).astype(np.float32)
    b = CASE.batch(number, key=None)._replace(noise=noise)
    chosen = np.sort(choose(params, b), axis=1)
    kinds = np.array([PAIRS.index(tuple(pair)) for pair in chosen.tolist()])  # no pair twice
    within = 5 * np.sqrt(number * 1 / 6 * 5 / 6)
    np.testing.assert_allclose(np.bincount(kinds, minlength=6), number / 6, atol=within)
    assert (kinds[1:] == kinds[:-1]).mean() == pytest.approx(1 / 6, abs=0.03)
    other = noise + np.float32([[1, 1], [1, 1], [0, 1]])  # all but the seed of the row
    np.testing.assert_array_equal(choose(params, b._replace(noise=other)), choose(params, b))
    backwards = choose(params, b._replace(noise=noise[::-1]))
    np.testing.assert_array_equal(backwards[::-1], choose(params, b))


def test_an_update_equals_a_numpy_program():
    b = CASE.noisy(ROWS)
    state = dataclasses.replace(learner(), step=jnp.int32(2))  # the policy is due
    new, info = redq.update(state, b)
    expected, errors = compute_critics(state.params, b, np.asarray(choose(state.params, b)))
    later = dataclasses.replace(state.params, critic=new.params.critic)  # and the old policy
    expected |= compute_policy(later, b)
    assert numbers(info) == pytest.approx(expected, rel=2e-4, abs=2e-5)
    bias = lambda params: params.critic["params"]["MLP_0"]["Dense_2"]["bias"][:, 0]
    moved = bias(new.params) - bias(state.params)
    np.testing.assert_allclose(moved, -3e-4 * np.sign(errors.mean(axis=1)), rtol=1e-2)
    targets = jax.tree.map(
        lambda old, q: 0.995 * np.float64(old) + 0.005 * np.float64(q),
        state.params.target_critic,
        new.params.critic,
    )
    chex.assert_trees_all_close(new.params.target_critic, targets, rtol=1e-5, atol=1e-7)


def test_critics_and_targets_move_always_and_the_policy_at_every_third_update():
    state, b = learner(), CASE.noisy(ROWS)
    for number in range(1, 7):
        before, (state, info) = state, redq.update(state, b)
        moved = {
            name: any(
                (x != y).any()
                for x, y in zip(
                    jax.tree.leaves(getattr(before.params, name)),
                    jax.tree.leaves(getattr(state.params, name)),
                    strict=True,
                )
            )
            for name in ("critic", "target_critic", "actor", "log_alpha")
        }
        due = number % 3 == 0
        assert moved == {"critic": True, "target_critic": True, "actor": due, "log_alpha": due}
        assert {float(info[f"{name}_count"]) for name in redq.DELAYED} == {float(due)}
        assert all((info[name] != 0) == due for name in redq.DELAYED)
    counts = {name: int(opt[0].count) for name, opt in state.opt_state.items()}
    assert counts == {"actor": 2, "critic": 6, "log_alpha": 2}


@pytest.mark.complete
def test_losses_and_gradients_equal_a_numpy_program():
    params, b = learner().params, CASE.noisy(ROWS)
    value, info, grads = evaluate(redq.loss, params, b)
    expected, errors = compute_critics(params, b, np.asarray(choose(params, b)))
    expected |= compute_policy(params, b)
    assert numbers(info) == pytest.approx(expected, rel=1e-4, abs=1e-5)
    total = sum(expected[name] for name in ("loss_q", "loss_pi", "loss_alpha"))
    assert value == pytest.approx(total, rel=1e-4)
    bias = grads.critic["params"]["MLP_0"]["Dense_2"]["bias"][:, 0]
    np.testing.assert_allclose(bias, 2 * errors.mean(axis=1), rtol=1e-4)
    assert grads.log_alpha == pytest.approx(2.0 - expected["logp"], rel=1e-4)
    rng = np.random.default_rng(4)
    way = jax.tree.map(lambda x: rng.normal(size=x.shape), params.actor)

    def program(h):
        moved = jax.tree.map(lambda x, w: np.float64(x) + h * w, params.actor, way)
        return compute_policy(dataclasses.replace(params, actor=moved), b)["loss_pi"]

    slope = (program(1e-6) - program(-1e-6)) / 2e-6
    terms = jax.tree.map(lambda g, w: float((np.float64(g) * w).sum()), grads.actor, way)
    assert sum(jax.tree.leaves(terms)) == pytest.approx(slope, rel=1e-3, abs=1e-4)


BITS = 6  # hidden units of each critic
DROP = 0.25


def make_critics(offset):
    """Return two critics whose values contain, in binary, which hidden units they kept."""
    powers = np.float32([2.0 ** np.arange(BITS), 2.0 ** np.arange(BITS, 2 * BITS)])[..., None]
    ones = {"kernel": jnp.zeros((2, 5, BITS)), "bias": jnp.ones((2, BITS))}
    last = {"kernel": jnp.asarray(powers), "bias": jnp.float32([[0.0], [offset]])}
    return {"params": {"MLP_0": {"Dense_0": ones, "Dense_1": last}}}


@functools.cache
def droq():
    """Return parameters of two such critics, and the compiled metrics of batches with one row."""
    spec = redq.Spec(
        BOX, hidden=(BITS,), ensemble=2, dropout=DROP, gamma=1.0, alpha_init=1e-4, policy_delay=1
    )
    shapes = jax.eval_shape(functools.partial(redq.init, spec=spec), jax.random.key(0)).params
    # The first target critic has the smaller value, so that the target contains its units.
    params = dataclasses.replace(
        jax.tree.map(lambda x: jnp.zeros(x.shape), shapes),
        critic=make_critics(0.0),
        target_critic=make_critics(1_000.0),
        log_alpha=jnp.log(1e-4),
    )
    row = CASE.batch(1, key=None)
    row = row._replace(rew=np.zeros(1, np.float32), terminated=np.zeros(1, bool))
    metrics = lambda noise: redq.loss(params, row._replace(noise=noise[None]))[1]
    return params, jax.jit(jax.vmap(metrics))


def read_units(noise):
    """Return which units each row kept in each use: 12 in the two losses, 6 in the target."""
    info = jax.tree.map(lambda x: np.asarray(x, np.float64), droq()[1](noise))
    sums = {
        "stored": 2 * info["q"],
        "policy": 2 * (info["alpha"] * info["logp"] - info["loss_pi"]),
        "next": info["target"],  # whose bonus is far below the smallest power
    }
    units = {}
    for use, total in sums.items():
        code = np.rint((1.0 - DROP) * total)
        np.testing.assert_allclose((1.0 - DROP) * total, code, atol=0.02)  # others are scaled up
        number = BITS if use == "next" else 2 * BITS
        assert code.max() < 2**number
        units[use] = (code.astype(int)[:, None] >> np.arange(number)) & 1
    return units


def test_dropout_draws_other_units_for_each_row_critic_and_use():
    noise = np.random.default_rng(3).normal(size=(400, 3, 2)).astype(np.float32)
    units = read_units(noise)
    everything = np.concatenate([*units.values()], axis=1)  # 30 draws for each row
    np.testing.assert_allclose(everything.mean(axis=0), 1.0 - DROP, atol=0.11)
    assert everything.mean() == pytest.approx(1.0 - DROP, abs=0.02)
    likeness = np.corrcoef(everything, rowvar=False) - np.eye(30)
    assert np.abs(likeness).max() < 0.25
    again = read_units(noise + np.float32([[1, 1], [1, 1], [0, 1]]))  # all but the seed of the row
    chex.assert_trees_all_equal(again, units)
    other = read_units(noise + np.float32([[0, 0], [0, 0], [1, 0]]))
    for use in units:
        assert (other[use] != units[use]).any(axis=1).mean() > 0.8


def test_values_are_those_of_all_units():
    params, _ = droq()
    obs, act = np.zeros((2, 5, 3), np.float32), np.zeros((2, 5, 2), np.float32)
    q = redq.q_value(params, obs, act)
    np.testing.assert_array_equal(q, np.broadcast_to([[[63.0]], [[64.0 * 63.0]]], (2, 2, 5)))


@pytest.mark.complete
def test_values_use_the_environments_units():
    params, rng = learner().params, np.random.default_rng(0)
    obs = rng.normal(size=(4, 2, 3)).astype(np.float32)
    act = rng.uniform([-2.0, 0.0], [2.0, 1.0], (4, 2, 2)).astype(np.float32)
    rows = (act.reshape(8, 2) - MIDDLE) / HALF
    wanted = compute_values(params.critic, obs.reshape(8, 3), rows).reshape(4, 4, 2)
    np.testing.assert_allclose(jax.jit(redq.q_value)(params, obs, act), wanted, rtol=1e-4)


@pytest.mark.complete
def test_layer_normalisation_and_dropout_are_those_of_the_critics():
    spec = CASE.spec(layer_norm=True, dropout=0.2)
    assert redq.networks(spec).critic == nets.QFunction(
        (8, 8), "relu", "torch_uniform", None, layer_norm=True, dropout=0.2
    )
    made = jax.eval_shape(functools.partial(redq.init, spec=spec), jax.random.key(0)).params
    for tree in (made.critic, made.target_critic):
        assert tree["params"]["MLP_0"]["LayerNorm_1"]["scale"].shape == (4, 8)
    assert "LayerNorm_0" not in made.actor["params"]["MLP_0"]


@pytest.mark.complete
def test_observations_are_normalised_in_all_losses_and_values():
    plain, b = learner().params, CASE.noisy(ROWS)
    mean, var = np.float32([1.0, -2.0, 0.5]), np.float32([0.5, 4.0, 2.0])
    seen = Moments(jnp.asarray(mean), jnp.asarray(var), jnp.float32(50))
    spec = CASE.spec(normalise_obs=True)
    params = dataclasses.replace(plain, spec=spec, obs_stats=seen)
    raw = {name: getattr(b, name) * np.sqrt(var) + mean for name in ("obs", "next_obs")}
    raw = b._replace(**raw)
    found, expected = evaluate(redq.loss, params, raw), evaluate(redq.loss, plain, b)
    assert numbers(found[1]) == pytest.approx(numbers(expected[1]), rel=1e-3)
    for function in (redq.q_value, lambda params, obs, _: redq.policy(params, obs)):
        np.testing.assert_allclose(
            function(params, raw.obs, b.act), function(plain, b.obs, b.act), rtol=1e-3, atol=1e-5
        )
    state = init(CASE, normalise_obs=True)
    new, _ = redq.update(dataclasses.replace(state, params=params), raw)
    rows = raw.obs.astype(np.float64)
    wanted = (50 * mean.astype(np.float64) + rows.sum(axis=0)) / (50 + ROWS)
    np.testing.assert_allclose(new.params.obs_stats.mean, wanted, rtol=1e-5)


@pytest.mark.complete
def test_act_samples_and_policy_is_the_squashed_mean():
    params, obs = learner().params, np.float32([[0.1, -0.3, 0.2]])
    mean, log_std = np.split(mlp(params.actor, obs)[0], 2)
    np.testing.assert_allclose(
        redq.policy(params, obs[0]), MIDDLE + HALF * np.tanh(mean), rtol=1e-4
    )
    act = redq.act(params, np.repeat(obs, 20_000, axis=0), jax.random.key(0))
    u = np.arctanh(((np.asarray(act, np.float64) - MIDDLE) / HALF).clip(-0.9999999, 0.9999999))
    np.testing.assert_allclose((np.median(u, axis=0) - mean) / np.exp(log_std), 0, atol=0.04)
    spread = np.diff(np.quantile(u, [0.1587, 0.8413], axis=0), axis=0)[0] / 2
    np.testing.assert_allclose(spread, np.exp(log_std), rtol=0.04)


@pytest.mark.complete
def test_the_log_deviation_is_bounded():
    params, obs = learner().params, np.zeros((5, 3), np.float32)
    for bias, bound in ((30.0, 2.0), (-30.0, -20.0)):
        tree = jax.tree.map(jnp.copy, params.actor)
        tree["params"]["MLP_0"]["Dense_2"]["bias"] = jnp.float32([0, 0, bias, bias])
        wide = dataclasses.replace(params, actor=tree)
        np.testing.assert_array_equal(redq.distribution(wide, obs)[1], np.full((5, 2), bound))


@pytest.mark.complete
def test_the_target_entropy_can_be_given():
    params, b = learner().params, CASE.noisy(ROWS)
    given = dataclasses.replace(params, spec=CASE.spec(target_entropy=-3.0))
    change = redq.alpha_loss(given, b)[0] - redq.alpha_loss(params, b)[0]
    assert change == pytest.approx(np.log(0.3), rel=1e-4)


@pytest.mark.complete
def test_critics_start_unlike_each_other_and_targets_as_copies():
    params = init(CASE).params
    kernel = np.asarray(params.critic["params"]["MLP_0"]["Dense_0"]["kernel"])
    assert kernel.shape == (4, 5, 8)
    assert len({one.tobytes() for one in kernel}) == 4
    chex.assert_trees_all_equal(params.critic, params.target_critic)
    assert redq.temperature(params) == 1.0
    assert redq.temperature(init(CASE, alpha_init=0.3).params) == pytest.approx(0.3, rel=1e-6)


def test_settings_that_do_not_go_together_are_refused():
    text = r"^subset must be at most ensemble, the number of critics, got 3 > 2\. Lower subset"
    with pytest.raises(ValueError, match=text):
        redq.Spec(BOX, ensemble=2, subset=3)
    text = r"^dropout must be 0 with a custom critic.* Got 0\.1\. Set dropout=0, or leave critic"
    with pytest.raises(ValueError, match=text):
        redq.Spec(BOX, critic=Line(critic=True), dropout=0.1)
    for wrong in (1.0, -0.1, True):
        with pytest.raises(ValueError, match=r"^dropout must be a number in \[0\.0, 0\.99\], got"):
            redq.Spec(BOX, dropout=wrong)
    for name in ("layer_norm", "normalise_obs"):
        with pytest.raises(ValueError, match=f"^{name} must be True or False, got 1"):
            redq.Spec(BOX, **{name: 1})


def test_defaults_are_those_of_the_authors():
    spec = redq.Spec(BOX)
    assert (spec.ensemble, spec.subset, spec.policy_delay) == (10, 2, 20)
    assert (spec.hidden, spec.activation, spec.initializer) == ((256, 256), "relu", "torch_uniform")
    assert (spec.lr, spec.gamma, spec.polyak) == (3e-4, 0.99, 0.995)
    assert (spec.alpha_init, spec.target_entropy) == (1.0, None)
    assert (spec.layer_norm, spec.dropout, spec.normalise_obs) == (False, 0.0, False)
    schedule = redq.SCHEDULE.settle()
    assert (schedule.batch_size, schedule.replay_size) == (256, 1_000_000)
    assert (schedule.update_every, schedule.updates_per_burst) == (1, 20)
