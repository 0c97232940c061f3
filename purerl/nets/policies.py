"""A stochastic policy on either kind of action space, in the environment's units.

`dist` is what the policy network returns: logits `[..., n]` for Discrete actions, mean and log
standard deviation `[..., A]` in normalised units for a Box. Densities, entropies and divergences
are in those units too, so that they do not depend on how a Box is scaled.
"""

from typing import Any

import jax

from purerl.nets import categorical, gaussian
from purerl.nets.mlp import CategoricalPolicy, GaussianPolicy
from purerl.spaces import Discrete, EnvSpec


def policy_network(spec: Any, head_scale: float = 1.0) -> Any:
    """Return the custom policy network of a Spec, or an MLP that fits the action space."""
    if spec.actor is not None:
        return spec.actor
    style = (spec.hidden, spec.activation, spec.initializer, head_scale)
    if isinstance(spec.env.action, Discrete):
        return CategoricalPolicy(spec.env.act_dim, *style)
    return GaussianPolicy(spec.env.act_dim, *style, spec.log_std_init)


def policy_shape(env: EnvSpec) -> Any:
    """Return the shape of one row of a policy network's output, as `init_params` takes it."""
    row = (env.act_dim,)
    return row if isinstance(env.action, Discrete) else [row, row]


def sample(env: EnvSpec, dist: Any, key: jax.Array) -> jax.Array:
    """Draw actions; those of a Box may exceed its bounds, and the loop clips a copy."""
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
    """Return the entropies, joint over the dimensions of an action."""
    return (categorical if isinstance(env.action, Discrete) else gaussian).entropy(dist)


def kl(env: EnvSpec, old: Any, new: Any) -> jax.Array:
    """Return the divergences KL(old || new)."""
    return (categorical if isinstance(env.action, Discrete) else gaussian).kl(old, new)
