r"""Independent categorical distributions, one for each part of a MultiDiscrete action.

`logits` `[..., n_1 + ... + n_D]` holds the logits of all parts one after the other, `sizes` is
`(n_1, ..., n_D)`, and actions `[..., D]` have one entry per part, counted from 0. Probabilities of
the parts multiply, so log-probabilities, entropies and divergences are sums over the parts.
"""

import itertools

import jax
import jax.numpy as jnp

from purerl.nets import categorical


def split(logits: jax.Array, sizes: tuple[int, ...]) -> list[jax.Array]:
    """Split logits into those of each part.

    Example:
        >>> [part.tolist() for part in split(jnp.arange(5), (2, 3))]
        [[0, 1], [2, 3, 4]]
    """
    return jnp.split(logits, list(itertools.accumulate(sizes))[:-1], axis=-1)


def sample(logits: jax.Array, key: jax.Array, sizes: tuple[int, ...]) -> jax.Array:
    """Sample actions `[..., D]`, each part with a key of its own."""
    parts = zip(split(logits, sizes), jax.random.split(key, len(sizes)), strict=True)
    return jnp.stack([categorical.sample(part, one) for part, one in parts], axis=-1)


def mode(logits: jax.Array, sizes: tuple[int, ...]) -> jax.Array:
    """Return the most likely actions `[..., D]`."""
    return jnp.stack([categorical.mode(part) for part in split(logits, sizes)], axis=-1)


def log_prob(logits: jax.Array, act: jax.Array, sizes: tuple[int, ...]) -> jax.Array:
    r"""Return the log-probabilities :math:`\sum_i \log \pi_i(a_i)` of actions `[..., D]`."""
    parts = enumerate(split(logits, sizes))
    return _sum([categorical.log_prob(part, act[..., i]) for i, part in parts])


def entropy(logits: jax.Array, sizes: tuple[int, ...]) -> jax.Array:
    r"""Return the entropy :math:`\sum_i H(\pi_i)`."""
    return _sum([categorical.entropy(part) for part in split(logits, sizes)])


def kl(old: jax.Array, new: jax.Array, sizes: tuple[int, ...]) -> jax.Array:
    r"""Return :math:`\sum_i KL(\pi_{old,i} \| \pi_{new,i})`."""
    parts = zip(split(old, sizes), split(new, sizes), strict=True)
    return _sum([categorical.kl(*pair) for pair in parts])


def _sum(parts: list[jax.Array]) -> jax.Array:
    return jnp.stack(parts).sum(axis=0)
