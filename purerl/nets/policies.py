"""Stochastic policies for Discrete and Box actions, with actions in the environment's units.

`dist` is the output of the policy network: logits `[..., n]` for Discrete actions, mean and log
standard deviation `[..., A]` in normalised units for a Box. Densities, entropies and divergences
use normalised units too, so that they do not depend on the scale of a Box.
"""

from typing import Any

import jax

from purerl.nets import categorical, gaussian
from purerl.nets.mlp import CategoricalPolicy, GaussianPolicy, ValueFunction
from purerl.spaces import Discrete, EnvSpec


def policy_network(spec: Any, head_scale: float = 1.0) -> Any:
    """Return the custom policy network of a Spec, or an MLP for its action space."""
    if spec.actor is not None:
        return spec.actor
    style = (spec.hidden, spec.activation, spec.initializer, head_scale)
    if isinstance(spec.env.action, Discrete):
        return CategoricalPolicy(spec.env.act_dim, *style, torso=spec.torso)
    return GaussianPolicy(spec.env.act_dim, *style, spec.log_std_init, spec.torso)


def value_network(spec: Any) -> Any:
    """Return the custom value function of a Spec, or an MLP."""
    style = (spec.hidden, spec.activation, spec.initializer, spec.torso)
    return spec.critic or ValueFunction(*style)


def policy_shape(env: EnvSpec) -> Any:
    """Return the shape of one output row of a policy network, for `init_params`."""
    row = (env.act_dim,)
    return row if isinstance(env.action, Discrete) else [row, row]


def sample(env: EnvSpec, dist: Any, key: jax.Array) -> jax.Array:
    """Sample actions. Box actions may exceed the bounds; the environment gets a clipped copy."""
    if isinstance(env.action, Discrete):
        return env.action.start + categorical.sample(dist, key)
    return env.denormalise(gaussian.sample(dist, key))


def mode(env: EnvSpec, dist: Any) -> jax.Array:
    """Return the most likely actions, inside the bounds of a Box."""
    if isinstance(env.action, Discrete):
        return env.action.start + categorical.mode(dist)
    return env.from_unit(gaussian.mode(dist))


def log_prob(env: EnvSpec, dist: Any, act: Any) -> jax.Array:
    """Return the log-probabilities, or log-densities, of stored actions."""
    if isinstance(env.action, Discrete):
        return categorical.log_prob(dist, act - env.action.start)
    return gaussian.log_prob(dist, env.normalise(act))


def entropy(env: EnvSpec, dist: Any) -> jax.Array:
    """Return the entropies of whole actions, which sum over action dimensions."""
    return (categorical if isinstance(env.action, Discrete) else gaussian).entropy(dist)


def kl(env: EnvSpec, old: Any, new: Any) -> jax.Array:
    """Return the divergences KL(old || new)."""
    return (categorical if isinstance(env.action, Discrete) else gaussian).kl(old, new)
