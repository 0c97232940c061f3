"""Random streams: keys computed from counters, without a generator state.

Every key is a function of (seed, rank, name, counters). Therefore a run is a function of its
config, a resumed run needs counters instead of generator states, and two ranks never share a stream
by accident. These streams are in use:

| name | used for | counters |
|---|---|---|
| `init` | initial parameters, the same on every rank | none |
| `act` | exploring actions | calls of the environments' `step` |
| `start` | uniformly random actions | calls of the environments' `step` |
| `sample` | batches of a burst, replayed sequences | updates done before the burst or rollout |
| `update` | minibatches of an on-policy update | updates done before it |
| `replays` | number of replayed updates, the same on every rank | updates done before them |
| `env` | seeds of episodes, in JAX their keys | environment, episode |
| `eval` | seeds of test episodes | epoch, environment, episode |
| `eval` | keys of exploring test episodes | epoch, call |
"""

import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl import checks
from purerl.types import Batch

_SHARED = ("init", "replays")  # streams that are the same on every rank


def words(counter: int) -> np.ndarray:
    """Split a counter into two 32-bit words, high then low, which a jitted function accepts.

    Example:
        >>> words(2**32 + 7).tolist()
        [1, 7]
    """
    if not isinstance(counter, int) or not 0 <= counter < 2**64:
        raise ValueError(f"counter must be an integer in 0 .. 2**64 - 1, got {counter!r}.")
    return np.array([counter >> 32, counter & 0xFFFFFFFF], np.uint32)


def stream(seed: Any, rank: Any, name: str, *counters: Any) -> jax.Array:
    """Derive a typed JAX key.

    Args:
        seed: Python integer in 0 .. 2**32 - 1, or a uint32, which is traced unless jit is off.
        rank: Rank of the process, which the streams `init` and `replays` ignore.
        name: Name of the stream.
        *counters: Python integers, or traced `words` (uint32 [2]).

    Example:
        >>> a, b = stream(0, 0, "act", 3), stream(0, 0, "act", words(3))
        >>> bool(a == b)
        True
    """
    if not isinstance(seed, jax.Array | np.uint32):
        checks.seed(seed)
        checks.integer("rank", rank, 0)
    key = jax.random.key(jnp.asarray(seed, jnp.uint32))
    key = jax.random.fold_in(key, _hash_name(name))
    key = jax.random.fold_in(key, jnp.uint32(0 if name in _SHARED else rank))
    for counter in counters:
        traced = getattr(counter, "shape", ()) == (2,)
        high, low = counter if traced else words(counter)
        key = jax.random.fold_in(jax.random.fold_in(key, high), low)
    return key


def host_seed(seed: int, rank: int, name: str, *counters: int) -> int:
    """Derive a Python integer in 0 .. 2**32 - 1, for code that takes seeds instead of JAX keys.

    Example:
        >>> host_seed(0, 0, "env", 0, 1) != host_seed(0, 0, "env", 0, 2)
        True
    """
    checks.seed(seed)
    checks.integer("rank", rank, 0)
    spawn = [_hash_name(name), 0 if name in _SHARED else rank]
    for counter in counters:
        spawn += words(counter).tolist()
    return int(np.random.SeedSequence(seed, spawn_key=spawn).generate_state(1)[0])


def noise(batch: Batch, draws: int, dim: int) -> jax.Array:
    """Return standard normals `[B, draws, dim]`: the noise of a batch, or numbers from its key."""
    shape = (batch.rew.shape[0], draws, dim)
    if batch.noise is not None:
        checks.shape("batch.noise", batch.noise, shape)
        return jnp.asarray(batch.noise)
    if batch.key is None:
        raise ValueError(
            "this loss draws noise and needs batch.key or batch.noise, got None for both. Sample "
            "with replay.sample, which sets the key, or use "
            "batch._replace(key=jax.random.key(0))."
        )
    checks.key("batch.key", batch.key)
    return jax.random.normal(batch.key, shape, jnp.float32)


def _hash_name(name: str) -> int:
    """Hash a name. Unlike Python's `hash`, the result is the same in every process and version."""
    return zlib.crc32(name.encode())
