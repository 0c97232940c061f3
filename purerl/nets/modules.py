"""Checks, initialisation and application of the networks of an algorithm."""

from typing import Any, NamedTuple, Protocol

import flax.errors
import jax
import jax.numpy as jnp
from flax import linen as nn

from purerl import checks
from purerl.nets.batch_renorm import STATISTICS
from purerl.nets.cnn import TORSOS, check_torso
from purerl.nets.initializers import INITIALIZERS
from purerl.nets.mlp import ACTIVATIONS
from purerl.nets.optimizers import check_optimizer
from purerl.spaces import MIN_SIDE, EnvSpec

CHUNK = 256  # most images that a network reads at once


class Network(Protocol):
    """A network: a Flax linen module, or any hashable object with these two functions.

    The functions are pure. Equal objects share one compiled program.
    """

    def init(self, key: Any, /, *inputs: Any) -> Any:
        """Return the parameters, a tree of float arrays, for inputs `[B, ...]`."""

    def apply(self, params: Any, /, *inputs: Any) -> Any:
        """Return the outputs `[B, ...]` for inputs `[B, ...]`."""


class Networks(NamedTuple):
    """Networks of a learner, as `networks(spec)` of every algorithm returns them."""

    actor: Any  # None in dqn and pqn, which choose actions with their critic
    critic: Any  # None in reinforce; if there are several critics, the module of all of them


def check_networks(spec: Any, optimized: tuple[str, ...]) -> None:
    """Check the fields of a Spec that describe its networks. A Spec may lack some of them.

    `optimized` are the groups of parameters that have an optimizer.
    """
    checks.integers("hidden", spec.hidden, 1)
    checks.member("activation", spec.activation, ACTIVATIONS)
    checks.member("initializer", spec.initializer, INITIALIZERS)
    torso = getattr(spec, "torso", None)
    check_torso(torso, spec.env.obs_shape, getattr(spec, "normalise_obs", False))
    if hasattr(spec, "log_std_init"):
        checks.real("log_std_init", spec.log_std_init, -20.0, 2.0)
    if hasattr(spec, "head_scale"):
        checks.positive("head_scale", spec.head_scale)
    for name in ("actor", "critic"):
        if hasattr(spec, name):
            _check_module(name, getattr(spec, name), spec.env, torso)
    check_optimizer(spec.optimizer, optimized)


def _check_module(name: str, module: Any, env: EnvSpec, torso: str | None) -> None:
    """Refuse anything but a network, or None for observations that the default network reads.

    Default networks read flat observations; with a torso, images.
    """
    if module is None and torso is None and len(env.obs_shape) != 1:
        raise ValueError(
            f"the default {name} takes flat observations [O], got shape {env.obs_shape}. Wrap the "
            f"environment in gymnasium.wrappers.FlattenObservation, set torso={min(TORSOS)!r} for "
            f"images of at least {MIN_SIDE} pixels a side, or set a custom {name}."
        )
    functions = [getattr(module, function, None) for function in ("init", "apply")]
    if module is not None and (isinstance(module, type) or not all(map(callable, functions))):
        raise ValueError(
            f"{name} must be None, an instance of a flax.linen module, or another object with "
            f"init(key, *inputs) and apply(params, *inputs), got {checks.shorten(module)}."
        )


def init_params(
    name: str,
    module: Network,
    key: jax.Array,
    inputs: tuple[Any, ...],
    trailing: Any,
    has_statistics: bool = False,
) -> Any:
    """Initialise a module and check that it maps `[B, ...]` inputs to `[B, *trailing]`.

    Args:
        name: Name of the field of the Spec, used in error messages.
        module: Network with the inputs and outputs that `purerl.nets` documents.
        key: PRNG key used for the parameters.
        inputs: One example for each argument, without the leading axis.
        trailing: Shape of one row of the output, or a list of shapes for several outputs.
        has_statistics: Whether the module may have running statistics, as `BatchRenorm` has.
    """
    rows = tuple(jnp.zeros((3, *jnp.shape(x)), jnp.result_type(x)) for x in inputs)
    checks.key("key", key)
    try:
        variables = module.init(key, *rows)
        if not (wrong := _describe_wrong_leaf(variables)):
            out = jax.eval_shape(module.apply, variables, *rows)
    except flax.errors.InvalidRngError as error:
        raise ValueError(
            f"{name} must draw no random numbers, but {error}. All randomness of a loss is in its "
            f"batch. Remove Dropout, or make it deterministic."
        ) from error
    except Exception as error:  # the advice is the same whatever a custom module raises
        shapes = ", ".join(str(row.shape) for row in rows)
        raise ValueError(
            f"{name} must accept inputs of shapes {shapes} and no others (see help(purerl.nets)), "
            f"but raised {type(error).__name__}: {error}"
        ) from error
    allowed = {"params", *([STATISTICS] if has_statistics else [])}
    if isinstance(module, nn.Module) and not {"params"} <= set(variables) <= allowed:
        where, instead = "collection 'params'", "LayerNorm"
        if has_statistics:
            where, instead = f"collections 'params' and {STATISTICS!r}", "purerl.nets.BatchRenorm"
        raise ValueError(
            f"{name} must use the {where} only, got {sorted(variables)}. A pure loss cannot "
            f"update batch statistics or other state. Use {instead} instead of BatchNorm."
        )
    if wrong:
        raise ValueError(f"{name} must have float parameters only, got {wrong}.")
    got = jax.tree.map(jnp.shape, list(out) if isinstance(out, tuple) else out)
    several = trailing if isinstance(trailing, list) else [trailing]
    want = [(3, *shape) for shape in several]
    if got != (want if isinstance(trailing, list) else want[0]):
        shown = ", ".join(f"[{', '.join(['B', *map(str, shape)])}]" for shape in several)
        raise ValueError(f"{name} must return {shown}, got {got} for B = 3.")
    return jax.tree.map(jnp.asarray, variables)


def _describe_wrong_leaf(variables: Any) -> str:
    """Return type and place of the first leaf that is not a float array; empty without one."""
    for path, leaf in jax.tree.leaves_with_path(variables):
        kind = getattr(leaf, "dtype", type(leaf).__name__)
        if isinstance(kind, str) or not jnp.issubdtype(kind, jnp.floating):
            return f"{kind} at {jax.tree_util.keystr(path)}"
    return ""


def init_ensemble(
    name: str,
    module: Network,
    key: jax.Array,
    inputs: tuple[Any, ...],
    trailing: Any,
    number: int,
    has_statistics: bool = False,
) -> tuple[Any, ...]:
    """Initialise `number` independent parameter trees of one module, with one compilation."""
    stacked = init_stack(name, module, key, inputs, trailing, number, has_statistics)
    return tuple(jax.tree.map(lambda x, i=i: x[i], stacked) for i in range(number))


def init_stack(
    name: str,
    module: Network,
    key: jax.Array,
    inputs: tuple[Any, ...],
    trailing: Any,
    number: int,
    has_statistics: bool = False,
) -> Any:
    """Initialise `number` independent modules as one tree, whose arrays have a leading axis."""
    keys = jax.random.split(key, number)
    args = (inputs, trailing, has_statistics)
    return jax.vmap(lambda k: init_params(name, module, k, *args))(keys)


def apply(module: Network, variables: Any, *inputs: Any) -> Any:
    """Apply a module and convert its outputs to float32."""
    return jax.tree.map(lambda x: x.astype(jnp.float32), module.apply(variables, *inputs))


def apply_train(module: Network, variables: Any, *inputs: Any) -> tuple[Any, Any]:
    """Apply a module that normalises by its batch; return its outputs and new running statistics.

    `apply` normalises by the running statistics instead, and does not change them. The statistics
    are {} if the network is not a Flax module.
    """
    if not isinstance(module, nn.Module):
        return apply(module, variables, *inputs), {}
    out, statistics = module.apply(variables, *inputs, mutable=[STATISTICS])
    return jax.tree.map(lambda x: x.astype(jnp.float32), out), statistics


def split_statistics(module: Network, variables: Any) -> tuple[Any, Any]:
    """Split what `init_params` returned into parameters and running statistics.

    The statistics are {} if the network has none. Only a Flax module can have some.
    """
    if not isinstance(module, nn.Module) or STATISTICS not in variables:
        return variables, {}
    return {"params": variables["params"]}, {STATISTICS: variables[STATISTICS]}


def join_statistics(params: Any, statistics: Any) -> Any:
    """Return what `split_statistics` split."""
    return params | statistics if statistics else params


def apply_rows(
    module: Network, variables: Any, obs: Any, obs_shape: tuple[int, ...], *act: Any
) -> Any:
    """Apply a module to inputs with any leading axes, by flattening these axes to one axis `[B]`.

    Args:
        module: The network.
        variables: Parameters of the module.
        obs: Observations `[..., *obs_shape]`.
        obs_shape: Shape of one observation.
        act: Actions `[..., A]` in [-1, 1], if the module takes actions.
    """
    obs = jnp.asarray(obs)
    leading = obs.shape[: obs.ndim - len(obs_shape)]
    rows = [x.reshape(-1, *x.shape[len(leading) :]) for x in (obs, *act)]
    number, torso = rows[0].shape[0], getattr(module, "torso", None)
    large = isinstance(number, int) and number > CHUNK  # an exported policy has no fixed number
    out = (_apply_in_chunks if torso and large else apply)(module, variables, *rows)
    return jax.tree.map(lambda x: x.reshape(*leading, *x.shape[1:]), out)


def _apply_in_chunks(module: Network, variables: Any, *rows: jax.Array) -> Any:
    """Apply a module to `CHUNK` rows at a time, and keep no activations for the gradient.

    A rollout of 4,000 images would need many gigabytes at once.
    """
    number = rows[0].shape[0]

    def split(x: jax.Array) -> jax.Array:
        full = jnp.pad(x, ((0, -number % CHUNK), *[(0, 0)] * (x.ndim - 1)))
        return full.reshape(-1, CHUNK, *x.shape[1:])

    one = jax.checkpoint(lambda chunk: apply(module, variables, *chunk))
    out = jax.lax.map(one, tuple(split(x) for x in rows))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:number], out)


def q_values(critic: Network, params: Any, obs: Any, act: Any) -> jax.Array:
    """Return the outputs of several critics of one architecture: values `[E, B]`, or `[E, B, M]`.

    On a CPU, separate parameter trees are 2-3 % faster than one batched ensemble.
    """
    return jnp.stack([apply(critic, variables, obs, act) for variables in params])


def stacked_q_values(
    critic: Network, params: Any, obs: Any, act: Any, keys: jax.Array | None = None
) -> jax.Array:
    """Return the values `[E, B]` of an ensemble, whose parameters have a leading axis.

    Keys `[E, B]` choose the units that a `QFunction` drops. Without keys, it drops none.
    """
    if keys is None:
        return jax.vmap(lambda tree: apply(critic, tree, obs, act))(params)
    return jax.vmap(lambda tree, own: apply(critic, tree, obs, act, own))(params, keys)
