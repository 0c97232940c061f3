"""`Spec(optimizer=...)`: which optimizer each group of parameters gets, and what is refused."""

import dataclasses
import functools

import jax
import numpy as np
import optax
import pytest

from purerl.algos import acer, pqn, td3
from tests.cases import BOX, CASES, Case

ONE_EACH = (
    *("td3", "ppo-options", "trpo-box", "sac-auto", "acer"),
    *("crossq-often", "ddpg", "dqn", "vpg-box", "reinforce-box", "pqn", "tqc", "sac_discrete"),
    "xqc-often",
    "redq-dropout",
)
each_algorithm = pytest.mark.parametrize(
    "case",
    [
        pytest.param(CASES[name], id=name, marks=[pytest.mark.complete] if i > 2 else [])
        for i, name in enumerate(ONE_EACH)
    ],
)


def test_every_algorithm_is_tested():
    assert {CASES[name].algo for name in ONE_EACH} == {case.algo for case in CASES.values()}


def move(case: Case, **settings):
    """Return the change of each group of parameters in one update, and the state before it."""
    state = case.algo.init(jax.random.key(0), case.spec(**settings))
    new, _ = case.algo.update(state, case.batch())
    groups = case.algo.optimizers(state.params.spec)
    return {
        name: jax.tree.map(
            lambda a, b: np.asarray(a - b), getattr(new.params, name), getattr(state.params, name)
        )
        for name in groups
    }, state


def size(tree) -> float:
    return sum(float(np.abs(x).sum()) for x in jax.tree.leaves(tree))


@each_algorithm
def test_each_group_has_the_optimizer_given_for_it(case):
    plain, state = move(case)
    names = [name for name in plain if size(plain[name]) > 0]
    assert set(names) >= {name for name in state.opt_state if name != "log_alpha"}
    for frozen in names:
        moved, _ = move(case, optimizer=((frozen, optax.set_to_zero()),))
        assert size(moved[frozen]) == 0, frozen
        for other in names:
            assert other == frozen or size(moved[other]) > 0, (frozen, other)


@each_algorithm
def test_a_function_is_called_with_the_learning_rate_of_its_group(case):
    seen = []

    def record(lr):
        seen.append(lr)
        return optax.adam(lr)

    spec = case.spec()
    rates = {name for name in ("lr", "pi_lr", "q_lr", "vf_lr") if hasattr(spec, name)}
    rates = {name: 1e-3 * (i + 1) for i, name in enumerate(sorted(rates))}
    if case.algo.__name__.endswith("trpo"):
        rates = {"vf_lr": 1e-3}  # the policy of TRPO has no optimizer
    case.algo.optimizers(case.spec(optimizer=record, **rates))
    assert set(seen) == set(rates.values())


@each_algorithm
def test_the_default_is_adam_but_rmsprop_for_acer_and_radam_for_pqn(case):
    rates = {name: 1e-3 for name in ("lr", "pi_lr", "q_lr", "vf_lr") if hasattr(case.spec(), name)}
    if hasattr(case.spec(), "adam_eps"):
        rates |= {"max_grad_norm": None, "adam_eps": 1e-8}
    default = optax.adam
    if case.algo is acer:  # as in Baselines, with an average that starts at 1
        default = functools.partial(optax.rmsprop, decay=0.99, eps=1e-5, initial_scale=1.0)
    default = optax.radam if case.algo is pqn else default
    plain, _ = move(case, **rates)
    named, _ = move(case, optimizer=default, **rates)
    for name in plain:
        for a, b in zip(*map(jax.tree.leaves, (plain[name], named[name])), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-8, err_msg=name)


def test_plain_gradient_descent_moves_along_the_gradient_of_the_loss():
    case = CASES["td3"]
    moved, state = move(case, optimizer=(("critic", optax.sgd(0.5)),))
    grads = jax.grad(td3.critic_loss, has_aux=True)(state.params, case.batch())[0].critic
    for step, grad in zip(*map(jax.tree.leaves, (moved["critic"], grads)), strict=True):
        np.testing.assert_allclose(step, -0.5 * np.asarray(grad), rtol=1e-4, atol=1e-7)


@each_algorithm
def test_weight_decay_gets_the_parameters(case):
    decay = functools.partial(optax.adamw, weight_decay=10.0)
    plain, _ = move(case)
    decayed, _ = move(case, optimizer=decay)
    assert any(size(decayed[name]) != size(plain[name]) for name in plain)


def test_a_schedule_of_the_learning_rate_counts_gradient_steps():
    case = CASES["td3"]

    def one_step(lr):
        return optax.sgd(optax.piecewise_constant_schedule(lr, {1: 0.0}))

    state = case.algo.init(jax.random.key(0), case.spec(optimizer=(("critic", one_step),)))
    first, _ = case.algo.update(state, case.batch())
    second, _ = case.algo.update(first, case.batch())
    for a, b in zip(*(jax.tree.leaves(s.params.critic) for s in (first, second)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert int(second.step) == 2


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        ({"critic": optax.sgd}, r"optimizer must be hashable: give pairs, \(\('critic'"),
        ((("q", optax.sgd),), "optimizer has a group 'q'; the groups are actor, critic"),
        ("adam", "optimizer must be an Optax transformation or a function .*, got 'adam'"),
        ((("critic", 3),), "optimizer must be an Optax transformation .* got 3"),
        ((("critic", None),), "optimizer must be an Optax transformation .* got None"),
        ((), "optimizer must have one pair for each group it changes"),
        ((("critic", optax.sgd),) * 2, "optimizer must have one pair for each group"),
        ((("", optax.sgd),), "optimizer has a group ''"),
    ],
)
def test_other_optimizers_are_refused(optimizer, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        td3.Spec(BOX, optimizer=optimizer)


def test_a_function_must_return_a_transformation():
    spec = td3.Spec(BOX, hidden=(4,), optimizer=lambda lr: lr)
    with pytest.raises(ValueError, match=r"optimizer must return an optax\.Gradient.*, got 0\.001"):
        td3.init(jax.random.key(0), spec)


def test_equal_optimizers_are_equal_settings():
    spec = td3.Spec(BOX, optimizer=optax.sgd)
    assert spec == td3.Spec(BOX, optimizer=optax.sgd) != td3.Spec(BOX)
    assert hash(spec) == hash(dataclasses.replace(spec))
