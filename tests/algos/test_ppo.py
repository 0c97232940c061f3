"""PPO: clipped losses, the early stop, all options, and bugs of Spinning Up and TorchingUp."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn

from purerl import moments
from purerl.algos import ppo, vpg
from purerl.spaces import Discrete, EnvSpec
from tests.algos import pg
from tests.algos.hand import both, mlp
from tests.cases import BOX, DISCRETE, make_rollout

PROBABILITIES = (0.5, 0.3, 0.2)


def learner(actor=None, **settings):
    """Return a learner with three known probabilities and a value of 2 everywhere."""
    actor = actor or pg.Bandit(tuple(float(np.log(p)) for p in PROBABILITIES))
    return ppo.init(
        jax.random.key(0), ppo.Spec(pg.THREE, actor=actor, critic=pg.Level(), **settings)
    )


def with_ratios(ratios, adv, **fields):
    """Return rows in which the policy of `learner` has these ratios to the old policy."""
    logp = np.log(PROBABILITIES[: len(ratios)]) - np.log(ratios)
    return pg.rows(range(len(ratios)), adv, logp=logp, **fields)


# --- the policy's loss --------------------------------------------------------------------------


@both
@pytest.mark.parametrize(("sign", "expected"), [(1.0, -0.1711778), (-1.0, 0.1933333)])
def test_the_clipped_surrogate_equals_known_numbers(wrap, sign, expected):
    adv = sign * np.array([0.3, 0.2, 0.1])
    value, info = wrap(ppo.actor_loss)(learner().params, with_ratios([1, 1, 0.135335], adv))
    assert float(value) == pytest.approx(expected, abs=1e-6)
    assert float(info["clip_frac"]) == pytest.approx(1 / 3)


@pytest.mark.parametrize(("ratio", "outside"), [(1.19, 0), (1.21, 1), (0.81, 0), (0.79, 1)])
def test_ratios_outside_of_the_clip_range_are_counted(ratio, outside):
    _, info = ppo.actor_loss(learner().params, with_ratios([1.0, ratio], [1.0, 1.0]))
    assert float(info["clip_frac"]) == outside / 2


@pytest.mark.parametrize(
    ("ratio", "adv", "flat"),
    [(1.5, 1.0, True), (1.5, -1.0, False), (0.5, -1.0, True), (0.5, 1.0, False), (1.1, 1.0, False)],
)
def test_the_gradient_vanishes_only_if_clipping_limits_an_improvement(ratio, adv, flat):
    """TorchingUp's clipped branch lacked the advantage."""
    batch = with_ratios([ratio], [adv])
    grad = jax.grad(lambda p: ppo.actor_loss(p, batch)[0])(learner().params)
    assert bool((pg.theta(grad.actor) == 0).all()) == flat


def test_at_ratio_one_the_gradient_is_the_policy_gradient():
    rollout = make_rollout(DISCRETE, 20)
    settings = {"hidden": (8,), "gamma": 0.9}
    ours = ppo.init(jax.random.key(0), ppo.Spec(DISCRETE, **settings)).params
    plain = vpg.init(jax.random.key(0), vpg.Spec(DISCRETE, **settings)).params
    batch = jax.jit(ppo.prepare)(ours, rollout)
    _, info = ppo.actor_loss(ours, batch)
    assert float(info["clip_frac"]) == 0.0
    assert float(info["kl"]) == pytest.approx(0.0, abs=1e-9)
    got = jax.jit(jax.grad(lambda p: ppo.actor_loss(p, batch)[0]))(ours).actor
    plain_batch = jax.jit(vpg.prepare)(plain, rollout)
    wanted = jax.jit(jax.grad(lambda p: vpg.actor_loss(p, plain_batch)[0]))(plain).actor
    chex.assert_trees_all_close(got, wanted, rtol=1e-4, atol=1e-7)


def test_the_estimated_divergence_is_never_negative():
    """Spinning Up's mean log-ratio can be negative, and then it never stops the policy."""
    batch = with_ratios(np.exp([0.1, -0.2, 0.05]), [0.0, 0.0, 0.0])
    _, info = ppo.actor_loss(learner().params, batch)
    assert float(info["kl"]) == pytest.approx(0.0083909, rel=1e-4)
    for ratios in ([2.0, 2.0], [0.5, 0.5]):
        assert float(ppo.actor_loss(learner().params, with_ratios(ratios, [0.0, 0.0]))[1]["kl"]) > 0


def test_the_entropy_bonus_is_subtracted():
    batch = with_ratios([1.0], [0.0])
    entropy = -float(np.sum(np.array(PROBABILITIES) * np.log(PROBABILITIES)))
    value, info = ppo.actor_loss(learner(ent_coef=0.5).params, batch)
    assert float(value) == pytest.approx(-0.5 * entropy, rel=1e-5)
    assert float(info["entropy"]) == pytest.approx(entropy, rel=1e-5)


def test_rows_count_by_their_weight():
    batch = with_ratios([1.0, 1.0], [1.0, 5.0])._replace(weight=jnp.array([2.0, 0.0]))
    value, _ = ppo.actor_loss(learner().params, batch)
    assert float(value) == pytest.approx(-1.0, rel=1e-5)
    value, _ = ppo.critic_loss(learner().params, batch._replace(ret=jnp.array([1.0, 50.0])))
    assert float(value) == pytest.approx(1.0)


# --- the values' loss ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "ret", "clipped", "plain"),
    [(1.0, 3.0, 3.24, 1.0), (1.0, 0.0, 4.0, 4.0), (2.1, 3.0, 1.0, 1.0)],
)
def test_value_clipping_takes_the_larger_of_two_errors(old, ret, clipped, plain):
    batch = with_ratios([1.0], [0.0], ret=ret, val=old)  # the value is 2
    value, _ = ppo.critic_loss(learner(vf_clip=0.2).params, batch)
    assert float(value) == pytest.approx(clipped, rel=1e-5)
    value, info = ppo.critic_loss(learner().params, batch)
    assert (float(value), float(info["val"])) == (pytest.approx(plain), 2.0)


def test_value_targets_are_in_units_of_the_rewards_and_bootstrap_only_at_cuts():
    """TorchingUp fitted values to standardised returns and mixed them with raw rewards."""
    state = learner(gamma=0.5, lam=0.5)
    end = ppo.prepare(state.params, pg.rollout([1.0, 1.0, 1.0], [0, 1, 0], [0, 0, 0]))
    np.testing.assert_allclose(end.ret, [1.5, 1.0, 2.0])
    raw = np.array([-0.25, -1.0, 0.0])
    np.testing.assert_allclose(end.adv, (raw - raw.mean()) / raw.std(), rtol=1e-5)
    last = ppo.prepare(state.params, pg.rollout([1.0, 1.0], [0, 1], [0, 1]))
    np.testing.assert_allclose(last.ret, [1.5, 1.0])
    mixed = learner(gamma=0.5, lam=0.5, value_target="lambda")
    batch = ppo.prepare(mixed.params, pg.rollout([1.0, 1.0, 1.0], [0, 1, 0], [0, 0, 0]))
    np.testing.assert_allclose(batch.ret, raw + 2.0)


@both
def test_values_have_the_leading_axes_of_the_observations(wrap):
    params = ppo.init(jax.random.key(0), ppo.Spec(BOX, hidden=(8,), activation="relu")).params
    obs = np.random.default_rng(0).normal(size=(4, 2, 3)).astype(np.float32)
    values = wrap(ppo.value)(params, obs)
    np.testing.assert_allclose(values, mlp(params.critic, obs)[..., 0], rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match=r"^obs must have shape .*\(3,\)\], got \(4, 2\)"):
        ppo.value(params, obs[..., 0])


def test_networks_are_the_modules_of_the_spec():
    assert ppo.networks(learner().params.spec).critic == pg.Level()
    actor, _ = ppo.networks(learner(pg.Bandit((1.0, 2.0, 3.0))).params.spec)
    assert actor == pg.Bandit((1.0, 2.0, 3.0))


# --- the update ---------------------------------------------------------------------------------


def by_hand(state, batch, passes):
    """Alternate passes of policy and value function in a Python loop, without an early stop."""
    spec, params = state.params.spec, state.params
    opt = {name: optax.adam(rate) for name, rate in (("actor", spec.pi_lr), ("critic", spec.vf_lr))}
    kept = {name: tx.init(getattr(params, name)) for name, tx in opt.items()}
    grads = {fn: jax.jit(jax.grad(fn, has_aux=True)) for fn in (ppo.actor_loss, ppo.critic_loss)}
    for number in range(passes):
        rows = batch
        if spec.recompute_advantages:
            again = ppo.prepare(params, batch.rollout)
            rows = batch._replace(adv=again.adv, ret=again.ret)
        for name, fn in (("actor", ppo.actor_loss), ("critic", ppo.critic_loss)):
            for part in minibatches(rows, spec.minibatch_size, 2 * number + (name == "critic")):
                grad = getattr(grads[fn](params, part)[0], name)
                step, kept[name] = jax.jit(opt[name].update)(grad, kept[name])
                params = params.replace(**{name: optax.apply_updates(getattr(params, name), step)})
    return params


def minibatches(rows, size, number):
    """Return all rows as one batch, or the minibatches of pass `number`."""
    if size is None:
        return [rows]
    order = jax.random.permutation(jax.random.fold_in(rows.key, number), len(rows.adv))
    rows = rows._replace(key=None, rollout=None)
    parts = [order[i : i + size] for i in range(0, len(order), size)]
    return [jax.tree.map(lambda x, p=part: jnp.asarray(x)[p], rows) for part in parts]


@pytest.mark.parametrize(
    ("recompute", "size", "keep"),
    [(False, None, False), (True, None, False), (True, 8, False), (True, None, True)],
)
def test_an_update_alternates_passes_of_policy_and_value_function(recompute, size, keep):
    """Running statistics change after the passes, so the passes use those of before (`keep`)."""
    spec = ppo.Spec(
        BOX, hidden=(8,), train_pi_iters=3, train_v_iters=3, target_kl=None, pi_lr=3e-3, vf_lr=0.05,
        recompute_advantages=recompute, minibatch_size=size, normalise_obs=keep, scale_rewards=keep,
    )  # fmt: skip
    state = ppo.init(jax.random.key(0), spec)
    batch = ppo.prepare(state.params, make_rollout(BOX, 20))._replace(key=jax.random.key(5))
    new, info = ppo.update(state, batch)
    wanted = by_hand(state, batch, 3)
    assert float(new.params.obs_stats.rows) == float(new.params.ret_stats.rows) == 40 * keep
    changed = {"obs_stats": new.params.obs_stats, "ret_stats": new.params.ret_stats}
    new = new.replace(params=new.params.replace(**{k: getattr(wanted, k) for k in changed}))
    chex.assert_trees_all_close(new.params, wanted, rtol=1e-3, atol=1e-5)
    assert float(info["stop_iter"]) == 3.0 * (1 if size is None else 5)
    for name, fn in (("loss_pi", ppo.actor_loss), ("loss_v", ppo.critic_loss)):
        before, after = (float(fn(p, batch)[0]) for p in (state.params, new.params))
        assert float(info[name]) == pytest.approx(before, rel=1e-4, abs=1e-6)
        assert float(info[f"delta_{name}"]) == pytest.approx(after - before, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize(("pi", "v"), [(0, 3), (3, 0), (2, 5), (5, 2), (0, 0)])
def test_passes_of_policy_and_value_function_are_counted_separately(pi, v):
    """Spinning Up's torch code crashed without value steps."""
    rates = {"pi_lr": 1e-3, "vf_lr": 1e-3, "target_kl": None}
    state = learner(train_pi_iters=pi, train_v_iters=v, **rates)
    new, info = ppo.update(state, with_ratios([1.0, 1.0], [1.0, -1.0], ret=9.0))
    moved = pg.theta(new.params.actor) - pg.theta(state.params.actor)
    assert float(info["stop_iter"]) == pi
    assert float(jnp.abs(moved).max()) == pytest.approx(pi * 1e-3, rel=0.05)
    assert float(pg.theta(new.params.critic)) == pytest.approx(2 + v * 1e-3, rel=1e-4)


def test_the_policy_stops_at_the_kl_limit_and_the_value_function_continues():
    """Spinning Up's TensorFlow code took one step too many."""
    batch = with_ratios([1.0, 1.0, 1.0], [1.0, 0.0, -1.0], ret=9.0)
    settings = {"pi_lr": 0.02, "vf_lr": 0.1, "train_v_iters": 30, "clip_ratio": 10.0}
    stopped, info = ppo.update(learner(target_kl=0.002, train_pi_iters=30, **settings), batch)
    steps = int(info["stop_iter"])
    assert 1 < steps < 30
    free, _ = ppo.update(learner(target_kl=None, train_pi_iters=steps, **settings), batch)
    chex.assert_trees_all_equal(stopped.params.actor, free.params.actor)
    chex.assert_trees_all_equal(stopped.params.critic, free.params.critic)
    reached = float(ppo.actor_loss(stopped.params, batch)[1]["kl"])
    assert reached > 1.5 * 0.002
    assert float(info["kl"]) == pytest.approx(reached, rel=1e-4)
    entropy = float(ppo.actor_loss(learner().params, batch)[1]["entropy"])
    assert float(info["entropy"]) == pytest.approx(entropy, rel=1e-5)  # before the update
    before, _ = ppo.update(learner(target_kl=None, train_pi_iters=steps - 1, **settings), batch)
    assert float(ppo.actor_loss(before.params, batch)[1]["kl"]) <= 1.5 * 0.002


def test_a_policy_that_starts_beyond_the_kl_limit_takes_no_step():
    state = learner(target_kl=1e-4)
    new, info = ppo.update(state, with_ratios([2.0], [1.0]))
    assert float(info["stop_iter"]) == 0.0
    chex.assert_trees_all_equal(new.params.actor, state.params.actor)
    chex.assert_trees_all_equal(new.opt_state["actor"], state.opt_state["actor"])


def test_a_stopped_policy_takes_no_step_on_any_later_minibatch():
    """The first action alone is beyond the limit, and the others are far below it."""
    settings = {"minibatch_size": 1, "train_pi_iters": 3, "train_v_iters": 0, "pi_lr": 1e-6}
    batch = with_ratios([3.0, 1.0, 1.0], [1.0, 1.0, 1.0])
    steps = set()
    for seed in range(6):
        key = jax.random.key(seed)
        order = jax.random.permutation(jax.random.fold_in(key, 0), 3).tolist()
        _, info = ppo.update(learner(**settings), batch._replace(key=key))
        assert float(info["stop_iter"]) == order.index(0)
        assert float(info["kl"]) == pytest.approx(2 - np.log(3), rel=1e-3)
        steps.add(order.index(0))
    assert steps == {0, 1, 2}


def test_constant_advantages_give_no_step_and_no_nan():
    state = learner(gamma=0.0)
    batch = ppo.prepare(state.params, pg.rollout([1.0] * 4, [1] * 4, [0] * 4))
    np.testing.assert_array_equal(batch.adv, np.zeros(4))
    inexact = pg.rollout([1.1] * 4_000, [1] * 4_000, [0] * 4_000)
    np.testing.assert_array_equal(ppo.prepare(state.params, inexact).adv, np.zeros(4_000))
    new, _ = ppo.update(state, batch)
    chex.assert_trees_all_equal(new.params.actor, state.params.actor)


# --- options ------------------------------------------------------------------------------------


def test_minibatch_updates_count_steps_and_depend_only_on_the_key():
    state = learner(minibatch_size=2, train_pi_iters=3, train_v_iters=2, target_kl=None, vf_lr=0.1)
    batch = with_ratios([1.0, 1.0, 1.0], [1.0, 0.0, -1.0], ret=[5.0, 1.0, -9.0])
    batch = jax.tree.map(lambda x: jnp.concatenate([x, x]), batch)  # six rows
    first, info = ppo.update(state, batch._replace(key=jax.random.key(0)))
    again, _ = ppo.update(state, batch._replace(key=jax.random.key(0)))
    other, _ = ppo.update(state, batch._replace(key=jax.random.key(1)))
    assert float(info["stop_iter"]) == 9.0
    assert int(first.opt_state["critic"][1].count) == 6
    chex.assert_trees_all_equal(first.params, again.params)
    assert float(pg.theta(first.params.critic)) != float(pg.theta(other.params.critic))


def test_the_reported_divergence_is_the_one_that_stopped_the_policy():
    settings = {"pi_lr": 0.05, "target_kl": 0.005, "clip_ratio": 10.0, "minibatch_size": 2}
    batch = with_ratios([1.0, 1.0, 1.0], [1.0, 0.0, -1.0], ret=0.0)
    batch = jax.tree.map(lambda x: jnp.concatenate([x, x]), batch)
    for seed in range(8):
        _, info = ppo.update(learner(**settings), batch._replace(key=jax.random.key(seed)))
        assert float(info["stop_iter"]) < 80
        assert float(info["kl"]) > 1.5 * 0.005


def test_clip_frac_is_that_of_the_policy_last_tested():
    """Steps of 0.2 move the ratios of the first and third action outside of 1 ± 0.05."""
    batch = with_ratios([1.0, 1.0, 1.0], [1.0, 0.0, -1.0])
    settings = {"pi_lr": 0.2, "clip_ratio": 0.05, "train_v_iters": 5}
    stopped, info = ppo.update(learner(target_kl=1e-3, train_pi_iters=9, **settings), batch)
    assert float(info["stop_iter"]) == 1.0
    outside = float(ppo.actor_loss(stopped.params, batch)[1]["clip_frac"])
    assert outside > 0.5
    assert float(info["clip_frac"]) == outside
    _, info = ppo.update(learner(target_kl=None, train_pi_iters=1, **settings), batch)
    assert float(info["clip_frac"]) == 0.0  # before its only step, all ratios are 1


def test_a_minibatch_of_all_rows_equals_the_full_batch():
    batch = with_ratios([1.0, 1.0, 1.0], [1.0, 0.0, -1.0], ret=[5.0, 1.0, -9.0])
    batch = batch._replace(key=jax.random.key(0))
    full, _ = ppo.update(learner(), batch)
    one, _ = ppo.update(learner(minibatch_size=3), batch)
    np.testing.assert_allclose(pg.theta(one.params.actor), pg.theta(full.params.actor), rtol=1e-3)
    assert float(pg.theta(one.params.critic)) == pytest.approx(
        float(pg.theta(full.params.critic)), rel=1e-4
    )


@pytest.mark.parametrize(("ret", "gradient"), [(-1.0, 0.5), (1.95, 0.1)])
def test_gradients_are_clipped_before_adam(ret, gradient):
    """The value is 2, so its gradient is 6 at a return of -1, and 0.1 at 1.95."""
    settings = {"max_grad_norm": 0.5, "adam_eps": 0.25, "vf_lr": 0.1, "train_v_iters": 1}
    new, _ = ppo.update(learner(**settings), with_ratios([1.0], [0.0], ret=ret))
    step = 0.1 * gradient / (gradient + 0.25)
    assert float(pg.theta(new.params.critic)) == pytest.approx(2.0 - step, rel=1e-4)


def test_gradients_are_clipped_by_the_norm_of_the_whole_network():
    """With two equal logits and one action, the gradient is proportional to (-1, 1)."""
    settings = {"max_grad_norm": 0.1, "adam_eps": 0.25, "pi_lr": 0.1, "train_pi_iters": 1}
    actor = pg.Bandit((0.0, 0.0))
    spec = ppo.Spec(EnvSpec((1,), Discrete(2)), actor=actor, critic=pg.Level(), **settings)
    state = ppo.init(jax.random.key(0), spec)
    new, _ = ppo.update(state, pg.rows([0], [1.0], logp=np.log(0.5)))
    part = 0.1 / np.sqrt(2)
    step = 0.1 * part / (part + 0.25)
    np.testing.assert_allclose(pg.theta(new.params.actor), [step, -step], rtol=1e-4)


def test_learning_rates_fall_to_zero():
    one_pass = {"train_pi_iters": 1, "train_v_iters": 1, "lr_decay_updates": 4}
    state = learner(pi_lr=0.1, vf_lr=0.1, target_kl=None, clip_ratio=50.0, **one_pass)
    batch = with_ratios([1.0], [1.0], ret=100.0)
    sizes = []
    for _ in range(6):
        new, _ = ppo.update(state, batch)
        moved = (pg.theta(new.params.actor) - pg.theta(state.params.actor))[0]
        sizes.append((moved, pg.theta(new.params.critic) - pg.theta(state.params.critic)))
        state = new
    policy, value = np.array(sizes).T
    np.testing.assert_allclose(value, [0.1, 0.075, 0.05, 0.025, 0, 0], rtol=0.02, atol=1e-7)
    np.testing.assert_allclose(policy, [0.1, 0.075, 0.05, 0.025, 0, 0], rtol=0.2, atol=1e-7)
    assert int(state.step) == 6


def test_observations_are_normalised_by_all_rows_of_earlier_rollouts():
    spec = ppo.Spec(BOX, hidden=(8,), normalise_obs=True, train_pi_iters=1, train_v_iters=1)
    state = ppo.init(jax.random.key(0), spec)
    plain = ppo.init(jax.random.key(0), ppo.Spec(BOX, hidden=(8,)))
    obs = jnp.float32(np.random.default_rng(0).normal(5, 3, (4, 3)))
    np.testing.assert_array_equal(ppo.policy(state.params, obs), ppo.policy(plain.params, obs))
    seen = []
    for seed in range(3):
        rollout = make_rollout(BOX, 20, seed=seed)
        rollout = rollout._replace(obs=5 + 3 * rollout.obs, next_obs=5 + 3 * rollout.next_obs)
        batch = ppo.prepare(state.params, rollout)
        np.testing.assert_array_equal(batch.obs, rollout.obs.reshape(-1, 3))  # stored unchanged
        state, _ = ppo.update(state, batch)
        seen.append(rollout.obs.reshape(-1, 3))
        rows = np.concatenate(seen)
        np.testing.assert_allclose(state.params.obs_stats.mean, rows.mean(axis=0), rtol=1e-5)
        np.testing.assert_allclose(state.params.obs_stats.var, rows.var(axis=0), rtol=1e-4)
    scaled = (obs - rows.mean(axis=0)[None]) / rows.std(axis=0)[None]
    same = plain.params.replace(actor=state.params.actor, critic=state.params.critic)
    got, wanted = ppo.policy(state.params, obs), ppo.policy(same, scaled)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ppo.value(state.params, obs), ppo.value(same, scaled), rtol=1e-4)


class Picky(nn.Module):
    """A dense layer that accepts observations of only one dtype."""

    width: int
    dtype: str

    @nn.compact
    def __call__(self, obs):
        assert obs.dtype.name == self.dtype
        out = nn.Dense(max(self.width, 1))(obs)
        return out if self.width else out[:, 0]


@pytest.mark.parametrize(("normalise", "dtype"), [(True, "float32"), (False, "uint8")])
def test_networks_get_integer_observations_unless_they_are_normalised(normalise, dtype):
    env = EnvSpec((3,), Discrete(3), "uint8")
    nets = {"actor": Picky(3, dtype), "critic": Picky(0, dtype)}
    spec = ppo.Spec(env, **nets, normalise_obs=normalise, train_pi_iters=1, train_v_iters=1)
    state = ppo.init(jax.random.key(0), spec)
    rows, after = np.random.default_rng(0).integers(256, size=(2, 20, 3), dtype=np.uint8)
    seen = rows
    if normalise:
        rollout = make_rollout(env, 20, 1)._replace(obs=rows[:, None], next_obs=after[:, None])
        state, _ = ppo.update(state, ppo.prepare(state.params, rollout))
        seen = (rows - rows.mean(axis=0)[None]) / rows.std(axis=0)[None]
    dense = state.params.actor["params"]["Dense_0"]
    logits = seen @ np.asarray(dense["kernel"]) + np.asarray(dense["bias"])[None]
    np.testing.assert_array_equal(ppo.policy(state.params, rows), logits.argmax(axis=1))


def test_rewards_are_scaled_by_the_deviation_of_earlier_discounted_sums():
    options = {"scale_rewards": True, "gamma": 0.5, "train_v_iters": 0, "train_pi_iters": 0}
    state = learner(**options)
    rollout = pg.rollout([1.0, 2.0, 4.0, 8.0], [0, 0, 1, 0], [0, 0, 0, 0])
    first = ppo.prepare(state.params, rollout)
    np.testing.assert_allclose(first.ret, [3.0, 4.0, 4.0, 9.0])  # unscaled before the first update
    state, _ = ppo.update(state, first)
    sums = np.array([1.0, 2.5, 5.25, 8.0])  # restart after the terminal step
    np.testing.assert_allclose(state.params.ret_stats.var, sums.var(), rtol=1e-5)
    second = ppo.prepare(state.params, rollout)
    scaled = np.array([1.0, 2.0, 4.0, 8.0]) / sums.std()
    np.testing.assert_allclose(second.ret[2:], [scaled[2], scaled[3] + 1.0], rtol=1e-4)
    assert float(state.params.obs_stats.rows) == 0.0
    other = pg.rollout([10.0, 20.0], [0, 0], [0, 0])
    state, _ = ppo.update(state, ppo.prepare(state.params, other))
    both = np.concatenate([sums, [10.0, 25.0]])  # the sums of all rollouts so far
    np.testing.assert_allclose(state.params.ret_stats.var, both.var(), rtol=1e-5)


def test_running_statistics_do_not_change_by_default():
    state = learner()
    new, _ = ppo.update(state, ppo.prepare(state.params, pg.rollout([1.0], [0], [0])))
    for stats in (new.params.obs_stats, new.params.ret_stats):
        chex.assert_trees_all_equal(stats, moments.init_moments(stats.mean.shape))


def test_a_batch_that_lacks_what_an_option_needs_is_refused():
    batch = pg.rows([0, 0, 0], [1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="^minibatch_size must divide the 3 rows .*, got 2"):
        ppo.update(learner(minibatch_size=2), batch._replace(key=jax.random.key(0)))
    with pytest.raises(ValueError, match=r"^batch\.key is None but the minibatches need a key"):
        ppo.update(learner(minibatch_size=3), batch)
    with pytest.raises(ValueError, match=r"^batch\.key must be one typed key"):
        ppo.update(learner(minibatch_size=3), batch._replace(key=jnp.zeros(2, jnp.uint32)))
    for option in ("recompute_advantages", "scale_rewards"):
        with pytest.raises(ValueError, match=r"need the transitions in batch\.rollout"):
            ppo.update(learner(**{option: True}), batch)


def test_defaults_are_those_of_spinning_up():
    spec, schedule = ppo.Spec(pg.THREE), ppo.SCHEDULE
    assert (spec.hidden, spec.activation, spec.initializer) == ((64, 64), "tanh", "torch_uniform")
    assert (spec.gamma, spec.lam, spec.value_target) == (0.99, 0.97, "mc")
    assert (spec.vf_lr, spec.train_v_iters, spec.log_std_init) == (1e-3, 80, -0.5)
    assert (spec.clip_ratio, spec.target_kl) == (0.2, 0.01)
    assert (spec.pi_lr, spec.train_pi_iters, spec.adam_eps, spec.head_scale) == (3e-4, 80, 1e-8, 1)
    off = (spec.minibatch_size, spec.vf_clip, spec.max_grad_norm, spec.lr_decay_updates)
    assert off == (None,) * 4
    assert spec.ent_coef == 0.0
    flags = (spec.recompute_advantages, spec.normalise_obs, spec.scale_rewards)
    assert flags == (False,) * 3
    assert (schedule.steps, schedule.settle().steps_per_epoch) == (200_000, 4_000)
