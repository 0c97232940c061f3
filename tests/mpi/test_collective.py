"""Averages on one process: the identity, or the axis over devices; `tests/mpi` has more ranks."""

import collections
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from purerl import mpi
from tests.cases import CASES, make_rollout

TREE = {"a": np.float32([[1.0, 2.0]]), "b": (np.float32(3.0), np.int32([4, 5]))}


@pytest.mark.parametrize("name", ["pmean", "psum", "pmin", "pmax", "broadcast"])
def test_on_one_process_a_tree_comes_back_itself(name):
    fn = getattr(mpi, name)
    assert fn(TREE) is TREE
    assert not jax.make_jaxpr(lambda x: fn(x))(1.0).eqns
    assert (mpi.proc_id(), mpi.num_procs(), mpi.is_root()) == (0, 1, True)


@pytest.mark.parametrize(
    ("name", "reduce"), [("pmean", np.mean), ("psum", np.sum), ("pmin", np.min), ("pmax", np.max)]
)
def test_over_a_bound_axis_each_dtype_travels_as_one_vector(name, reduce):
    rng = np.random.default_rng(0)
    tree = {
        "a": rng.normal(size=(4, 2, 3)).astype(np.float32),
        "b": [rng.normal(size=4).astype(np.float32), rng.integers(0, 9, (4, 2)).astype(np.float32)],
    }
    fn = jax.vmap(getattr(mpi, name), axis_name=mpi.AXIS)
    out = fn(tree)
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(
            y, np.broadcast_to(reduce(x, axis=0), y.shape), rtol=1e-5
        ),
        tree,
        out,
    )
    inner = jax.make_jaxpr(getattr(mpi, name), axis_env=[(mpi.AXIS, 4)])(
        {
            "a": np.zeros(3, np.float32),
            "b": np.zeros((2, 2), np.float32),
            "i": np.zeros(2, np.int32),
        }
    )
    collectives = [
        e for e in inner.eqns if e.primitive.name in ("psum", "pmin", "pmax", "psum_invariant")
    ]
    assert len(collectives) == 2  # one of floats, one of integers


def test_other_axes_are_left_alone():
    out = jax.vmap(mpi.pmean, axis_name="seeds")(np.float32([1.0, 3.0]))
    assert out.tolist() == [1.0, 3.0]


def test_statistics_are_those_of_the_population():
    assert mpi.statistics(np.arange(1, 11)) == pytest.approx((5.5, 8.25**0.5))
    assert mpi.statistics([3.0], min_max=True) == (3.0, 0.0, 3.0, 3.0)
    with pytest.raises(ValueError, match="at least one number"):
        mpi.statistics([])


def test_pmean_grads_averages_before_what_follows_in_the_chain():
    tx = optax.chain(mpi.pmean_grads(), optax.clip(1.0), optax.sgd(1.0))
    step = lambda g: tx.update(g, tx.init(jnp.zeros(())))[0]  # noqa: E731
    out = jax.vmap(step, axis_name=mpi.AXIS)(jnp.array([10.0, -8.4]))
    np.testing.assert_allclose(out, [-0.8, -0.8], rtol=1e-5)  # clipping first would give -0.0
    assert float(step(jnp.float32(0.5))) == -0.5


# --- a batch over two devices ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["td3", "sac-auto", "dqn", "ppo-box", "trpo-discrete"])
def test_two_devices_agree_on_the_update_of_the_whole_batch(name):
    case = CASES[name]
    state, batch = case.algo.init(jax.random.key(0), case.spec()), case.noisy()
    new, info = case.algo.update(state, batch)
    split, found = mpi.shard_update(case.algo.update)(state, batch)
    close = functools.partial(np.testing.assert_allclose, rtol=2e-4, atol=3e-5)
    jax.tree.map(close, (new, info), (split, found))
    for leaf in jax.tree.leaves((split, found)):
        assert len(leaf.devices()) == 2
        np.testing.assert_array_equal(*(np.asarray(part.data) for part in leaf.addressable_shards))


def test_devices_draw_noise_of_their_own_from_the_key_of_the_batch():
    case = CASES["sac"]
    state, batch = case.algo.init(jax.random.key(0), case.spec()), case.batch()
    keys = [jax.random.fold_in(batch.key, device) for device in range(2)]
    shape = (3, case.algo.NOISE_DRAWS, case.env.act_dim)
    noise = jnp.concatenate([jax.random.normal(key, shape) for key in keys])
    new, _ = case.algo.update(state, batch._replace(key=None, noise=noise))
    split, _ = mpi.shard_update(case.algo.update)(state, batch)
    close = functools.partial(np.testing.assert_allclose, rtol=2e-4, atol=3e-5)
    jax.tree.map(close, new.params, split.params)


def test_a_batch_over_devices_must_divide_and_a_mesh_have_the_axis():
    case = CASES["td3"]
    state = case.algo.init(jax.random.key(0), case.spec())
    with pytest.raises(ValueError, match=r"must divide over 2 devices, got .* \(5, "):
        mpi.shard_update(case.algo.update)(state, case.noisy(5))
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("rows",))
    with pytest.raises(ValueError, match=r"one axis 'device', got \('rows',\)"):
        mpi.shard_update(case.algo.update, mesh)


def test_options_that_read_the_rollout_cannot_be_split_and_say_so():
    case = CASES["ppo-box"]
    state = case.algo.init(jax.random.key(0), case.spec(recompute_advantages=True))
    batch = case.algo.prepare(state.params, make_rollout(case.env, 6))._replace(key=None)
    with pytest.raises(ValueError, match=r"recompute_advantages .* need .* batch\.rollout"):
        mpi.shard_update(case.algo.update)(state, batch)


def test_each_device_has_its_rows_and_its_key():
    rows = {"x": np.arange(6), "key": jax.random.key(3)}
    batch = collections.namedtuple("Rows", rows)(**rows)
    mesh = jax.sharding.Mesh(np.array(jax.devices()), (mpi.AXIS,))
    whole, split = jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec(mpi.AXIS)

    def body(batch):
        return jax.tree.map(jnp.atleast_1d, mpi.own_rows(batch))

    out = jax.shard_map(body, mesh=mesh, in_specs=whole, out_specs=split)(batch)
    assert out.x.tolist() == [0, 1, 2, 3, 4, 5]
    keys = [jax.random.fold_in(batch.key, device) for device in range(2)]
    assert (out.key == jnp.stack(keys)).all()
