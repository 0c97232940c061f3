"""Programs compiled once for all tests of the contract, and comparisons of trees."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from tests.cases import Case


def equal(a: Any, b: Any) -> None:
    """Assert equal structure, dtypes and bits."""
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            x, y = jax.random.key_data(x), jax.random.key_data(y)
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


def close(a: Any, b: Any, **tolerance: float) -> None:
    """Assert equal structure and nearly equal values."""
    assert jax.tree.structure(a) == jax.tree.structure(b)
    options = {"rtol": 1e-5, "atol": 1e-6} | tolerance
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, **options), a, b)


def host(tree: Any) -> Any:
    """Copy to NumPy what a later call might change."""
    return jax.tree.map(lambda x: np.array(x, copy=True), tree)


@functools.cache
def compile_once(function: Any) -> Any:
    """Compile a function once for all tests."""
    return jax.jit(function)


@functools.cache
def _compile_gradient(loss: Any) -> Any:
    return jax.jit(jax.value_and_grad(loss, has_aux=True))


def evaluate(loss: Any, params: Any, batch: Any) -> Any:
    """Return a loss, its metrics and its gradient, from one program for all tests."""
    (value, info), grads = _compile_gradient(loss)(params, batch)
    return value, info, grads


@functools.cache
def _init(algo: Any) -> Any:
    return jax.jit(algo.init, static_argnums=1)


def learner(case: Case, seed: int = 0, **changes: Any) -> Any:
    """Return a new state; `init` is compiled for the settings that many tests share."""
    init = case.algo.init if changes else _init(case.algo)
    return init(jax.random.key(seed), case.spec(**changes))


def traced_learner(case: Case, **changes: Any) -> Any:
    """Return shapes and dtypes of a new state, without compiling `init`."""
    init = functools.partial(case.algo.init, spec=case.spec(**changes))
    return jax.eval_shape(init, jax.random.key(0))


class CustomNetwork(nn.Module):
    """A network for any of the fields: dense on all inputs, or broken on purpose."""

    kind: str
    dim: int
    broken: str = ""
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, obs, *act):
        flat = obs.reshape(obs.shape[0], -1).astype(jnp.float32) / 255.0
        if self.broken == "batch statistics":
            flat = nn.BatchNorm(use_running_average=True)(flat)
        if self.broken == "dropout":
            flat = nn.Dropout(0.1, deterministic=False)(flat)
        if self.broken == "integer parameter":
            flat = flat + self.param("n", lambda key: jnp.zeros((), jnp.int32))
        width = self.dim + (self.broken == "width")
        low = jnp.bfloat16 if self.broken == "low precision" else jnp.float32
        dense = functools.partial(nn.Dense, dtype=self.dtype, param_dtype=low)
        x = jnp.concatenate([flat, *act], axis=-1)
        x = dense(1 if self.kind == "scalar" else width)(x)
        if self.kind == "gaussian":
            return x, dense(width)(flat)
        if self.kind == "scalar" and self.broken != "width":
            return x[:, 0]
        return jnp.tanh(x) if self.kind == "unit" else x


def custom_networks(case: Case, broken: str = "", dtype: Any = jnp.float32) -> dict[str, nn.Module]:
    """Return a custom network for each field of the settings that takes one."""
    dims = {"atoms": case.settings.get("atoms")}
    return {
        name: CustomNetwork(kind, dims.get(kind, case.env.act_dim), broken, dtype)
        for name, kind in case.networks.items()
    }
