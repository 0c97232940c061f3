"""Choose actions: one compiled program from NumPy to NumPy, with keys derived from counters."""

import contextlib
import functools
import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl import mpi, rng
from purerl.compiler import jit_quickly
from purerl.errors import AdvanceStopped
from purerl.loops.carry import Carry
from purerl.loops.devices import unreplicate
from purerl.spaces import Box, EnvSpec, MultiDiscrete

# A collection of rows, which steps environments: it yields observations, the number of calls of
# `step` so far and whether to act at random, is sent the actions, and returns its result.
Steps = Generator[tuple[np.ndarray, int, bool], np.ndarray, Any]


def act_alone(carry: Carry, steps: Steps, should_stop: Callable[[], bool] | None) -> Any:
    """Choose the actions of a collection; return its result.

    Raise `AdvanceStopped` if `should_stop` returns True before a step.
    """
    params, chosen = unreplicate(carry.learner.params), None
    env, number = params.spec.env, carry.schedule.num_envs
    while True:
        try:
            obs, calls, is_random = steps.send(chosen)  # type: ignore[arg-type] # None starts it
        except StopIteration as end:
            return end.value
        if should_stop and should_stop():
            raise AdvanceStopped
        if is_random:
            words = pack_key_words(carry, calls)
            chosen = np.asarray(draw_random_actions(env, number, words))
        else:
            chosen = act(carry, params, obs, calls)


def act(carry: Carry, params: Any, obs: np.ndarray, calls: int) -> np.ndarray:
    """Choose exploring actions with the key `stream(seed, rank, "act", calls)`.

    Args:
        carry: The carry, which has the algorithm, the seed and the rank.
        params: The learner's parameters on one device.
        obs: Observations `[N, ...]`.
        calls: Number of calls of the environments' `step` before this one.
    """
    return np.asarray(_act(carry.algo, params, obs, get_key(carry, calls)))


def get_key(carry: Carry, calls: int) -> Any:
    """Return the data of the key `stream(seed, rank, "act", calls)`."""
    return _act_keys(carry.seed, carry.rank, calls - calls % _KEYS)[calls % _KEYS]


_KEYS = 256  # keys derived at once; deriving one per call would take a third of the call


@functools.lru_cache(maxsize=8)
def _act_keys(seed: int, rank: int, first: int) -> np.ndarray:
    """Return the key data of `_KEYS` calls, starting at call `first`."""
    words = np.array([seed, rank, first >> 32, first & 0xFFFFFFFF], np.uint32)
    return np.asarray(_derive(words))


def act_together(
    carries: Sequence[Carry], params: Any, obs: np.ndarray, calls: Sequence[int]
) -> np.ndarray:
    """Choose the actions `[k, N, ...]` of k seeds in one program, with the keys of `act`.

    Args:
        carries: Carry of each seed.
        params: Parameters with a leading axis of seeds.
        obs: Observations `[k, N, ...]`.
        calls: Number of calls of `step` before this one, of each seed.
    """
    firsts = tuple(number - number % _KEYS for number in calls)
    blocks = _act_keys_together(tuple(one.seed for one in carries), firsts)
    keys = blocks[np.arange(len(calls)), np.array(calls) % _KEYS]
    return np.asarray(_act(carries[0].algo, params, obs, keys))


@functools.lru_cache(maxsize=8)
def _act_keys_together(seeds: tuple[int, ...], firsts: tuple[int, ...]) -> np.ndarray:
    """Return the key data `[k, _KEYS, ...]` of the calls of several seeds."""
    pairs = zip(seeds, firsts, strict=True)
    words = [[seed, 0, first >> 32, first & 0xFFFFFFFF] for seed, first in pairs]
    return np.asarray(jax.vmap(_derive)(np.array(words, np.uint32)))


@jit_quickly()
def _derive(words: jax.Array) -> jax.Array:
    def one(low: jax.Array) -> jax.Array:
        key = rng.stream(words[0], words[1], "act", jnp.stack([words[2], low]))
        return jax.random.key_data(key)

    return jax.vmap(one)(words[3] + jnp.arange(_KEYS, dtype=jnp.uint32))


@functools.partial(jax.jit, static_argnums=0)
def _act(algo: ModuleType, params: Any, obs: Any, key: Any) -> jax.Array:
    def choose(params: Any, obs: Any, key: Any) -> jax.Array:
        return algo.act(params, obs, jax.random.wrap_key_data(key))

    return (jax.vmap(choose) if key.ndim > 1 else choose)(params, obs, key)


def random_actions(env: EnvSpec, number: int, words: jax.Array) -> jax.Array:
    """Return uniform actions `[number, ...]` in the environment's units."""
    key = rng.stream(words[0], words[1], "start", words[2:])
    if isinstance(env.action, Box):
        shape = (number, *(env.action.shape or ()))
        return env.from_unit(jax.random.uniform(key, shape, jnp.float32, -1.0, 1.0))
    action = env.action
    if isinstance(action, MultiDiscrete):
        first, sizes = (jnp.array([x], jnp.int32) for x in (action.start, action.sizes))
        shape = (number, len(action.sizes))
        return first + jax.random.randint(key, shape, 0, sizes, jnp.int32)
    return action.start + jax.random.randint(key, (number,), 0, action.n, jnp.int32)


@jit_quickly(static_argnums=(0, 1))
def draw_random_actions(env: EnvSpec, number: int, words: jax.Array) -> jax.Array:
    """Draw random actions in one program; words `[k, 4]` give those of k seeds."""
    draw = functools.partial(random_actions, env, number)
    return jax.vmap(draw)(words) if words.ndim > 1 else draw(words)


@contextlib.contextmanager
def stop_together(carry: Carry, should_stop: Callable[[], bool] | None) -> Iterator[None]:
    """Raise `AdvanceStopped` on all ranks if the block raises it on any of them."""
    is_stopped = False
    try:
        yield
    except AdvanceStopped:
        is_stopped = True
    if should_stop:
        is_stopped = bool(mpi.pmax(int(is_stopped)))
    if is_stopped:
        raise AdvanceStopped


def pack_key_words(carry: Carry, counter: int) -> np.ndarray:
    """Pack seed, rank and counter into one array of words; a program derives its key from it."""
    high, low = counter >> 32, counter & 0xFFFFFFFF
    return np.array([carry.seed, carry.rank, high, low], np.uint32)


def make_test_policy(
    algo: ModuleType, params: Any, explore: tuple[int, int, int] | None
) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from observations to test actions.

    Args:
        algo: A module of `purerl.algos`.
        params: The learner's parameters on one device.
        explore: Seed, rank and epoch, from which the keys of `act` are derived. None means to act
            by `policy`.
    """
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
