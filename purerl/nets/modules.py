"""What every algorithm does with a network: check it, initialise it, apply it."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from purerl.types import EnvSpec


def check_module(name: str, module: Any, env: EnvSpec) -> None:
    """Refuse a network field that is neither a Flax module nor None with a flat observation."""
    if module is None and len(env.obs_shape) != 1:
        raise ValueError(
            f"the default {name} takes flat observations [O], got shape {env.obs_shape}. Wrap the "
            f"environment in gymnasium.wrappers.FlattenObservation, or give your own {name}."
        )
    if module is not None and not isinstance(module, nn.Module):
        raise ValueError(
            f"{name} must be an instance of a flax.linen module or None, got {module!r}."
        )


def init_params(
    name: str, module: nn.Module, key: jax.Array, inputs: tuple[Any, ...], trailing: tuple[int, ...]
) -> Any:
    """Initialise a module and check that it maps `[B, ...]` inputs to `[B, *trailing]`.

    Args:
        name: the field of the Spec, for messages.
        module: Flax module of inputs and outputs as `purerl.nets` documents them.
        key: of the parameters.
        inputs: one example per argument, without the leading axis.
        trailing: shape of one row of the output.
    """
    rows = tuple(jnp.zeros((3, *jnp.shape(x)), jnp.result_type(x)) for x in inputs)
    variables = module.init(key, *rows)
    if set(variables) != {"params"}:
        raise ValueError(
            f"{name} must use the collection 'params' only, got {sorted(variables)}. Batch "
            f"statistics and other mutable state have no place in a pure loss: use LayerNorm."
        )
    out = jax.eval_shape(module.apply, variables, *rows)
    if getattr(out, "shape", None) != (3, *trailing):
        want = ", ".join(["B", *map(str, trailing)])
        got = getattr(out, "shape", out)
        raise ValueError(f"{name} must return [{want}], got {got} for B = 3.")
    for path, leaf in jax.tree.leaves_with_path(variables):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            where = jax.tree_util.keystr(path)
            raise ValueError(
                f"{name} must have float parameters only, got {leaf.dtype} at {where}."
            )
    return variables


def init_ensemble(
    name: str,
    module: nn.Module,
    key: jax.Array,
    inputs: tuple[Any, ...],
    trailing: tuple[int, ...],
    number: int,
) -> tuple[Any, ...]:
    """Initialise `number` independent parameter trees of one module: one compilation for all."""
    keys = jax.random.split(key, number)
    stacked = jax.vmap(lambda k: init_params(name, module, k, inputs, trailing))(keys)
    return tuple(jax.tree.map(lambda x, i=i: x[i], stacked) for i in range(number))


def apply_rows(
    module: nn.Module, variables: Any, obs: Any, obs_shape: tuple[int, ...]
) -> jax.Array:
    """Apply a module to observations with any leading axes: it always sees exactly one, `[B]`."""
    obs = jnp.asarray(obs)
    leading = obs.shape[: obs.ndim - len(obs_shape)]
    out: Any = module.apply(variables, obs.reshape(-1, *obs_shape))
    return out.reshape(*leading, *out.shape[1:])


def q_values(critic: nn.Module, params: Any, obs: Any, act: Any) -> jax.Array:
    """Stack the values of several critics of one architecture to `[E, B]`.

    Separate parameter trees run 2-3 % faster on a CPU than one batched ensemble.
    """
    values: list[Any] = [critic.apply(variables, obs, act) for variables in params]
    return jnp.stack(values)
