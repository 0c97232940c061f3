"""Act: one compiled program from NumPy to NumPy, with keys derived from counters."""

import functools
import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl import rng
from purerl.loops.carry import Carry
from purerl.loops.devices import COMPILE_QUICKLY


def act(carry: Carry, params: Any, obs: np.ndarray, calls: int) -> np.ndarray:
    """Act with the key `stream(seed, rank, "act", calls)`: one program from NumPy to NumPy.

    Args:
        carry: whose algorithm, seed and rank count.
        params: the learner's, as `local` returns them.
        obs: `[N, ...]`.
        calls: of the environments' step before this one.
    """
    key = _act_keys(carry.seed, carry.rank, calls - calls % _KEYS)[calls % _KEYS]
    return np.asarray(_act(carry.algo, params, obs, key))


_KEYS = 256  # derived at once: one by one, a key costs a third of an acting call


@functools.lru_cache(maxsize=8)
def _act_keys(seed: int, rank: int, first: int) -> np.ndarray:
    """Return the data of the keys of `_KEYS` calls from `first` on."""
    words = np.array([seed, rank, first >> 32, first & 0xFFFFFFFF], np.uint32)
    return np.asarray(_derive(words))


@functools.partial(jax.jit, compiler_options=COMPILE_QUICKLY)
def _derive(words: jax.Array) -> jax.Array:
    def one(low: jax.Array) -> jax.Array:
        key = rng.stream(words[0], words[1], "act", jnp.stack([words[2], low]))
        return jax.random.key_data(key)

    return jax.vmap(one)(words[3] + jnp.arange(_KEYS, dtype=jnp.uint32))


@functools.partial(jax.jit, static_argnums=0)
def _act(algo: ModuleType, params: Any, obs: Any, key: Any) -> jax.Array:
    return algo.act(params, obs, jax.random.wrap_key_data(key))


def pack_key_words(carry: Carry, counter: int) -> np.ndarray:
    """Pack what derives a key: one small array into a jitted call."""
    high, low = counter >> 32, counter & 0xFFFFFFFF
    return np.array([carry.seed, carry.rank, high, low], np.uint32)


def make_test_policy(
    algo: ModuleType, params: Any, explore: tuple[int, int, int] | None
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function that acts: deterministic, or exploring by seed, rank and epoch."""
    if explore is None:
        return lambda obs: np.asarray(algo.policy(params, obs))
    seed, rank, epoch = explore
    calls = itertools.count()

    def act(obs: np.ndarray) -> np.ndarray:
        words = np.array([seed, rank, *rng.words(epoch), *rng.words(next(calls))], np.uint32)
        return np.asarray(_explore(algo, params, obs, words))

    return act


@functools.partial(jax.jit, static_argnums=0)
def _explore(algo: ModuleType, params: Any, obs: Any, words: jax.Array) -> jax.Array:
    """Act with the key `stream(seed, rank, "eval", epoch, call)`, derived in the program."""
    key = rng.stream(words[0], words[1], "eval", words[2:4], words[4:6])
    return algo.act(params, obs, key)
