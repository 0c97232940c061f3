"""Updates with the rows of a batch split over two devices."""

import collections
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import mpi
from tests.cases import CASES, make_rollout


@pytest.mark.parametrize("name", ["td3", "sac-auto", "dqn", "ppo-box", "trpo-discrete"])
def test_two_devices_compute_the_update_of_the_whole_batch(name):
    case = CASES[name]
    state, batch = case.algo.init(jax.random.key(0), case.spec()), case.noisy()
    new, info = case.algo.update(state, batch)
    split, found = mpi.shard_update(case.algo.update)(state, batch)
    close = functools.partial(np.testing.assert_allclose, rtol=2e-4, atol=3e-5)
    jax.tree.map(close, (new, info), (split, found))
    for leaf in jax.tree.leaves((split, found)):
        assert len(leaf.devices()) == 2
        np.testing.assert_array_equal(*(np.asarray(part.data) for part in leaf.addressable_shards))


def test_each_device_draws_its_own_noise_from_the_key_of_the_batch():
    case = CASES["sac"]
    state, batch = case.algo.init(jax.random.key(0), case.spec()), case.batch()
    keys = [jax.random.fold_in(batch.key, device) for device in range(2)]
    shape = (3, case.algo.NOISE_DRAWS, case.env.act_dim)
    noise = jnp.concatenate([jax.random.normal(key, shape) for key in keys])
    new, _ = case.algo.update(state, batch._replace(key=None, noise=noise))
    split, _ = mpi.shard_update(case.algo.update)(state, batch)
    close = functools.partial(np.testing.assert_allclose, rtol=2e-4, atol=3e-5)
    jax.tree.map(close, new.params, split.params)


def test_shard_update_refuses_rows_that_do_not_divide_and_a_mesh_with_another_axis():
    case = CASES["td3"]
    state = case.algo.init(jax.random.key(0), case.spec())
    with pytest.raises(ValueError, match=r"must be a multiple of 2 devices, got .* \(5, "):
        mpi.shard_update(case.algo.update)(state, case.noisy(5))
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("rows",))
    with pytest.raises(ValueError, match=r"one axis 'device', got \('rows',\)"):
        mpi.shard_update(case.algo.update, mesh)


def test_options_that_read_the_rollout_are_refused_with_a_split_batch():
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


def test_devices_join_their_parts_in_order():
    mesh = jax.sharding.Mesh(np.array(jax.devices()), (mpi.AXIS,))
    whole, split = jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec(mpi.AXIS)
    x = np.arange(12).reshape(4, 3)

    def body(x):
        part = mpi.own_part(x)
        return part, mpi.all_parts(part), mpi.all_parts({"x": part}, axis=1)["x"]

    out = jax.shard_map(
        body, mesh=mesh, in_specs=whole, out_specs=(split, whole, whole), check_vma=False
    )
    part, joined, beside = out(x)
    np.testing.assert_array_equal(part, x)
    np.testing.assert_array_equal(joined, x)
    np.testing.assert_array_equal(beside, np.concatenate([x[:2], x[2:]], axis=1))
