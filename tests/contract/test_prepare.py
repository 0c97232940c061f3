"""`prepare`: from a rollout to the rows of the losses."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import mpi
from purerl.algos import pqn
from purerl.nets import policies
from purerl.spaces import Box, EnvSpec
from purerl.types import PolicyBatch
from tests.cases import Case, make_rollout
from tests.contract.shared import close, compile_once, equal, learner

ON_POLICY = True


def prepared(case: Case, rollout: Any = None, **changes: Any) -> PolicyBatch:
    rollout = make_rollout(case.env) if rollout is None else rollout
    return compile_once(case.algo.prepare)(learner(case, **changes).params, rollout)


def test_update_accepts_the_batch_of_prepare(case, key):
    batch = prepared(case)._replace(key=key)
    state, info = case.algo.update(learner(case), batch)
    assert np.isfinite(list(info.values())).all()
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(state.params))


def test_prepare_flattens_steps_of_all_environments(case):
    rollout = make_rollout(case.env)
    batch = prepared(case, rollout)
    np.testing.assert_array_equal(batch.obs, rollout.obs.reshape(10, 3))
    np.testing.assert_array_equal(batch.act, rollout.act.reshape(10, *case.env.action.shape))
    equal(batch.rollout, jax.tree.map(jnp.asarray, rollout))
    assert batch.key is None
    for field in batch[2:7]:
        assert field.shape == (10,)
        assert field.dtype == jnp.float32


def test_weights_have_mean_one_and_standardised_advantages_mean_zero(case):
    batch = prepared(case)
    assert float(batch.weight.mean()) == pytest.approx(1.0, abs=1e-6)
    if case.algo is pqn:
        pytest.skip("its losses read no advantages")
    mean = float((batch.weight * batch.adv).mean())
    assert mean == pytest.approx(0.0, abs=1e-6)
    assert float((batch.weight * batch.adv**2).mean()) == pytest.approx(1.0, abs=1e-5)


def test_old_log_probabilities_are_those_of_the_policy_that_acted(case):
    """They are those of the sampled actions, which may lie outside of the box."""
    rollout = make_rollout(case.env)
    if isinstance(case.env.action, Box):
        rollout = rollout._replace(act=3 * rollout.act)
    batch = prepared(case, rollout)
    params = learner(case).params
    dist = case.algo.distribution(params, batch.obs)
    close(batch.logp, policies.log_prob(case.env, dist, rollout.act.reshape(batch.act.shape)))


def test_rows_of_weight_zero_have_no_effect(case):
    """But for `val`, the mean of all values, and running statistics: of all observations."""
    batch, other = case.batch(), case.batch(seed=7)
    out = np.array([False, True, False, False, True, False])
    batch = batch._replace(weight=np.where(out, np.float32(0.0), batch.weight))
    garbage = {
        name: np.where(out.reshape(-1, *[1] * (x.ndim - 1)), getattr(other, name) * scale, x)
        for name, x, scale in zip(batch._fields, batch[:6], (9, 1, 9, 9, 1, 9), strict=False)
    }
    state, found = learner(case), []
    for rows in (batch, batch._replace(**garbage)):
        new, info = case.algo.update(state, rows)
        trained = {name: getattr(new.params, name) for name in case.networks}
        found.append((trained, new.opt_state, info | {"val": 0.0}))
    close(*found, rtol=1e-6, atol=1e-7)


def test_parallel_environments_do_not_mix(case):
    rollout = make_rollout(case.env)
    whole = prepared(case, rollout)
    for i in range(2):
        one = prepared(case, jax.tree.map(lambda x, i=i: x[:, i : i + 1], rollout))
        close(whole.ret.reshape(5, 2)[:, i], one.ret)
        close(whole.logp.reshape(5, 2)[:, i], one.logp)


def test_ranks_with_parts_of_a_rollout_compute_the_same_as_one(case):
    rollout = make_rollout(case.env, number=4)
    whole = prepared(case, rollout)
    params = learner(case).params
    parts = jax.tree.map(lambda x: jnp.stack([x[:, :2], x[:, 2:]]), rollout)
    split = jax.vmap(case.algo.prepare, in_axes=(None, 0), axis_name=mpi.AXIS)(params, parts)
    for field in ("adv", "ret", "logp", "val", "weight"):
        both = getattr(split, field).reshape(2, 5, 2)
        close(getattr(whole, field).reshape(5, 4), jnp.concatenate([*both], axis=1))


def test_prepare_refuses_wrong_shapes_by_name(case):
    params, rollout = learner(case).params, make_rollout(case.env)
    for field in rollout._fields:
        for wrong in (getattr(rollout, field)[..., None], getattr(rollout, field)[0], None):
            with pytest.raises(ValueError, match=r"^rollout\.\w+ must have shape"):
                case.algo.prepare(params, rollout._replace(**{field: wrong}))
    with pytest.raises(ValueError, match=r"^rollout must be a purerl\.types\.Rollout, got"):
        case.algo.prepare(learner(case).params, tuple(rollout))


def test_constant_rewards_give_no_nan(case):
    rollout = make_rollout(case.env)
    flat = rollout._replace(rew=0 * rollout.rew, terminated=rollout.terminated | True)
    batch = prepared(case, flat, gamma=0.0)
    state, info = case.algo.update(learner(case, gamma=0.0), batch._replace(adv=0 * batch.adv))
    assert np.isfinite(
        [float(x) for x in jax.tree.leaves((batch[2:7], info)) for x in x.ravel()]
    ).all()
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(state.params))


def test_results_do_not_depend_on_how_a_box_is_scaled(case):
    if not isinstance(case.env.action, Box):
        pytest.skip("no box")
    unit = EnvSpec(case.env.obs_shape, Box((-1.0, -1.0), (1.0, 1.0)))
    batch = case.batch()
    scaled, plain = learner(case), learner(case._replace(env=unit))
    same = batch._replace(act=case.env.normalise(batch.act))
    for _ in range(3):
        scaled, _ = case.algo.update(scaled, batch)
        plain, _ = case.algo.update(plain, same)
    found, wanted = (dataclasses.replace(s.params, spec=None) for s in (scaled, plain))
    close(found, wanted, rtol=1e-3, atol=1e-5)
