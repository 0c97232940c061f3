"""Averages on one process: the identity, or over the device axis; `checks.py` has several ranks."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from purerl import mpi

TREE = {"a": np.float32([[1.0, 2.0]]), "b": (np.float32(3.0), np.int32([4, 5]))}


@pytest.mark.parametrize("name", ["pmean", "psum", "pmin", "pmax", "broadcast"])
def test_on_one_process_a_reduction_returns_its_argument(name):
    fn = getattr(mpi, name)
    assert fn(TREE) is TREE
    assert not jax.make_jaxpr(lambda x: fn(x))(1.0).eqns
    assert (mpi.proc_id(), mpi.num_procs(), mpi.is_root()) == (0, 1, True)


@pytest.mark.parametrize(
    ("name", "reduce"), [("pmean", np.mean), ("psum", np.sum), ("pmin", np.min), ("pmax", np.max)]
)
def test_over_a_bound_axis_each_dtype_is_reduced_as_one_vector(name, reduce):
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


def test_reductions_ignore_other_axes():
    out = jax.vmap(mpi.pmean, axis_name="seeds")(np.float32([1.0, 3.0]))
    assert out.tolist() == [1.0, 3.0]


def test_pmean_grads_averages_before_the_next_link_of_the_chain():
    tx = optax.chain(mpi.pmean_grads(), optax.clip(1.0), optax.sgd(1.0))
    step = lambda g: tx.update(g, tx.init(jnp.zeros(())))[0]
    out = jax.vmap(step, axis_name=mpi.AXIS)(jnp.array([10.0, -8.4]))
    np.testing.assert_allclose(out, [-0.8, -0.8], rtol=1e-5)  # clipping first would give -0.0
    assert float(step(jnp.float32(0.5))) == -0.5
