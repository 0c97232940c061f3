r"""Categorical distribution over the actions 0, ..., n - 1, as pure functions of its logits.

All functions broadcast over leading axes. The last axis of `logits` has one entry per action.
"""

import jax
import jax.numpy as jnp


def sample(logits: jax.Array, key: jax.Array) -> jax.Array:
    """Sample actions `[...]` from `softmax(logits)`."""
    return jax.random.categorical(key, logits).astype(jnp.int32)


def chosen(values: jax.Array, act: jax.Array) -> jax.Array:
    """Return `values[..., a]` for actions `[...]`, or NaN for an action outside 0, ..., n - 1.

    Example:
        >>> chosen(jnp.array([[1.0, 2.0]] * 4), jnp.array([1, 0, -1, 2])).tolist()
        [2.0, 1.0, nan, nan]
    """
    act = jnp.where(act < 0, values.shape[-1], act)  # negative indices would count from the end
    return jnp.take_along_axis(values, act[..., None], axis=-1, mode="fill")[..., 0]


def mode(logits: jax.Array) -> jax.Array:
    """Return the most likely actions `[...]`."""
    return logits.argmax(axis=-1).astype(jnp.int32)


def log_prob(logits: jax.Array, act: jax.Array) -> jax.Array:
    r"""Return the log-probabilities :math:`l_a - \log \sum_b e^{l_b}` of actions `[...]`."""
    return chosen(jax.nn.log_softmax(logits), act)


def entropy(logits: jax.Array) -> jax.Array:
    r"""Return the entropy :math:`-\sum_a \pi(a) \log \pi(a)`."""
    logp = jax.nn.log_softmax(logits)
    return -(jnp.exp(logp) * _finite(logp, logp)).sum(axis=-1)


def kl(old: jax.Array, new: jax.Array) -> jax.Array:
    r"""Return :math:`KL(old \| new) = \sum_a \pi_{old}(a) \log(\pi_{old}(a) / \pi_{new}(a))`."""
    logp, logq = jax.nn.log_softmax(old), jax.nn.log_softmax(new)
    return (jnp.exp(logp) * _finite(logp, logp - _finite(logp, logq))).sum(axis=-1)


def _finite(logp: jax.Array, term: jax.Array) -> jax.Array:
    """Replace the terms of actions with probability 0, such as masked actions, by 0."""
    return jnp.where(jnp.isneginf(logp), 0.0, term)
