"""Stochastic policies for each kind of action space, with actions in the environment's units.

`dist` is the output of the policy network: logits `[..., n]` for Discrete and MultiDiscrete
actions, mean and log standard deviation `[..., A]` in normalised units for a Box. Densities,
entropies and divergences use normalised units too, so that they do not depend on the scale of a
Box.
"""

from typing import Any

import jax
import jax.numpy as jnp

from purerl.nets import categorical, gaussian, multi_categorical
from purerl.nets.mlp import CategoricalPolicy, GaussianPolicy, ValueFunction
from purerl.spaces import Box, Discrete, EnvSpec


def policy_network(spec: Any, head_scale: float = 1.0) -> Any:
    """Return the custom policy network of a Spec, or an MLP for its action space."""
    if spec.actor is not None:
        return spec.actor
    style = (spec.hidden, spec.activation, spec.initializer, head_scale)
    if isinstance(spec.env.action, Box):
        return GaussianPolicy(spec.env.act_dim, *style, spec.log_std_init, spec.torso)
    return CategoricalPolicy(spec.env.act_dim, *style, torso=spec.torso)


def value_network(spec: Any) -> Any:
    """Return the custom value function of a Spec, or an MLP."""
    style = (spec.hidden, spec.activation, spec.initializer, spec.torso)
    return spec.critic or ValueFunction(*style)


def policy_shape(env: EnvSpec) -> Any:
    """Return the shape of one output row of a policy network, for `init_params`."""
    row = (env.act_dim,)
    return [row, row] if isinstance(env.action, Box) else row


def sample(env: EnvSpec, dist: Any, key: jax.Array) -> jax.Array:
    """Sample actions. Box actions may exceed the bounds; the environment gets a clipped copy."""
    action = env.action
    if isinstance(action, Box):
        return env.denormalise(gaussian.sample(dist, key))
    if isinstance(action, Discrete):
        return action.start + categorical.sample(dist, key)
    return _count_from(action.start, multi_categorical.sample(dist, key, action.sizes))


def mode(env: EnvSpec, dist: Any) -> jax.Array:
    """Return the most likely actions, inside the bounds of a Box."""
    action = env.action
    if isinstance(action, Box):
        return env.from_unit(gaussian.mode(dist))
    if isinstance(action, Discrete):
        return action.start + categorical.mode(dist)
    return _count_from(action.start, multi_categorical.mode(dist, action.sizes))


def log_prob(env: EnvSpec, dist: Any, act: Any) -> jax.Array:
    """Return the log-probabilities, or log-densities, of stored actions."""
    action = env.action
    if isinstance(action, Box):
        return gaussian.log_prob(dist, env.normalise(act))
    if isinstance(action, Discrete):
        return categorical.log_prob(dist, act - action.start)
    first = tuple(-x for x in action.start)
    return multi_categorical.log_prob(dist, _count_from(first, act), action.sizes)


def entropy(env: EnvSpec, dist: Any) -> jax.Array:
    """Return the entropies of whole actions, which sum over action dimensions."""
    if isinstance(env.action, Box):
        return gaussian.entropy(dist)
    if isinstance(env.action, Discrete):
        return categorical.entropy(dist)
    return multi_categorical.entropy(dist, env.action.sizes)


def kl(env: EnvSpec, old: Any, new: Any) -> jax.Array:
    """Return the divergences KL(old || new)."""
    if isinstance(env.action, Box):
        return gaussian.kl(old, new)
    if isinstance(env.action, Discrete):
        return categorical.kl(old, new)
    return multi_categorical.kl(old, new, env.action.sizes)


def _count_from(start: Any, act: Any) -> jax.Array:
    """Add a number of its own to each part of actions `[..., D]`."""
    return act + jnp.array(start, jnp.int32).reshape((1,) * (act.ndim - 1) + (-1,))
