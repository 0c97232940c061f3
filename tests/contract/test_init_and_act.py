"""`init`, `act` and `policy`."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.spaces import Box
from tests.contract.shared import close, equal, learner


def test_init_is_pure_and_makes_float_parameters(case):
    state = case.algo.init(jax.random.key(0), case.spec())
    equal(state, case.algo.init(jax.random.key(0), case.spec()))
    close(state, learner(case))
    for leaf in jax.tree.leaves(state.params):
        assert leaf.dtype == jnp.float32
    a, b = learner(case, 0).params, learner(case, 1).params
    for (path, x), y in zip(jax.tree.leaves_with_path(a), jax.tree.leaves(b), strict=True):
        assert "kernel" not in str(path) or bool((x != y).any()), path


def test_no_two_networks_start_equal_and_targets_are_copies(case):
    params = case.algo.init(jax.random.key(0), case.spec()).params
    fields = {f.name: getattr(params, f.name) for f in dataclasses.fields(params)}
    for name, tree in fields.items():
        if name.startswith("target_"):
            equal(tree, fields[name.removeprefix("target_")])
    if isinstance(fields.get("critic"), tuple):
        kernels = [jax.tree.leaves(tree)[-1] for tree in fields["critic"]]
        assert all(bool((a != b).any()) for a, b in itertools.combinations(kernels, 2))
    buffers = [leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(params)]
    assert len(set(buffers)) == len(buffers)


@pytest.mark.parametrize("leading", [(), (4,), (2, 3)])
def test_act_takes_any_leading_axes_numpy_or_jax(case, leading, key):
    params = learner(case).params
    obs = np.random.default_rng(0).normal(size=(*leading, *case.env.obs_shape)).astype(np.float32)
    for fn in (case.algo.policy, lambda p, o: case.algo.act(p, o, key)):
        out = fn(params, obs)
        assert out.shape == (*leading, *case.env.action.shape)
        assert out.dtype == case.env.action.dtype
        equal(out, fn(params, jnp.asarray(obs)))
    rows = obs.reshape(-1, *case.env.obs_shape)
    one_by_one = np.stack([case.algo.policy(params, row) for row in rows])
    np.testing.assert_allclose(
        one_by_one, np.reshape(case.algo.policy(params, obs), one_by_one.shape), atol=1e-6
    )


def test_act_explores_by_its_key_and_stays_inside_the_box(case):
    params = learner(case, **case.explore).params
    obs = np.zeros((500, *case.env.obs_shape), np.float32)
    first, again, other = (case.algo.act(params, obs, jax.random.key(k)) for k in (0, 0, 1))
    equal(first, again)
    assert bool((first != other).any())
    first = np.asarray(first)
    if not isinstance(case.env.action, Box):
        start = case.env.action.start
        assert sorted(set(first.tolist())) == list(range(start, start + case.env.act_dim))
        return
    low, high = np.float32(case.env.action.low), np.float32(case.env.action.high)
    if not case.on_policy:  # a Gaussian policy may leave the box: the loop clips a copy
        assert (first >= low).all()
        assert (first <= high).all()
    assert (np.ptp(first, axis=0) > 0.97 * (high - low)).all()  # and both ends are reached
    assert abs(np.corrcoef(first.T)[0, 1]) < 0.2  # each dimension has noise of its own


def test_policy_stays_inside_the_box(case):
    if not isinstance(case.env.action, Box):
        pytest.skip("no box")
    params = learner(case).params
    far = 1e3 * np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    big = dataclasses.replace(params, actor=jax.tree.map(lambda x: 10 * x, params.actor))
    out = np.asarray(case.algo.policy(big, far))
    assert (out >= np.float32(case.env.action.low)).all()
    assert (out <= np.float32(case.env.action.high)).all()


def test_act_refuses_observations_of_the_wrong_shape(case, key):
    params = learner(case).params
    wrong = np.zeros((5, case.env.obs_shape[0] + 1), np.float32)
    for fn in (case.algo.policy, lambda p, o: case.algo.act(p, o, key)):
        with pytest.raises(
            ValueError, match=r"^obs must have shape \[\.\.\., \*\(3,\)\], got \(5, 4\)"
        ):
            fn(params, wrong)
